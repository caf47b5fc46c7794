"""Bandits: simulated worlds that turn pulls into totals, each with two engines of the same law."""

from aftereffect.bandits.adversarial import AdversarialBandit
from aftereffect.bandits.base import ENGINES, Bandit, EngineName
from aftereffect.bandits.options import bandit_from_options
from aftereffect.bandits.stochastic import StochasticBandit

__all__ = [
    "ENGINES",
    "AdversarialBandit",
    "Bandit",
    "EngineName",
    "StochasticBandit",
    "bandit_from_options",
]
