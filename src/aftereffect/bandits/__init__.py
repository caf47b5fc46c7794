"""Bandits: simulated worlds that turn pulls into totals, each with two engines of the same law."""

from aftereffect.bandits._demand import DemandBandit
from aftereffect.bandits.adversarial import AdversarialBandit
from aftereffect.bandits.base import ENGINES, Bandit, EngineName
from aftereffect.bandits.defects import Defects
from aftereffect.bandits.history import HistoryBandit
from aftereffect.bandits.options import bandit_from_options
from aftereffect.bandits.seasonal import SeasonalBandit
from aftereffect.bandits.stochastic import StochasticBandit

__all__ = [
    "ENGINES",
    "AdversarialBandit",
    "Bandit",
    "Defects",
    "DemandBandit",
    "EngineName",
    "HistoryBandit",
    "SeasonalBandit",
    "StochasticBandit",
    "bandit_from_options",
]
