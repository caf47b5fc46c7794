"""Environments: worlds that turn plays into totals, each with a literal and a fast engine of the same law."""

from aftereffect.environments.adversarial import AdversarialBandit
from aftereffect.environments.base import ARM, ENGINES, GENERATED, OBSERVED, EngineName, Environment
from aftereffect.environments.described import described
from aftereffect.environments.stochastic import StochasticBandit
from aftereffect.environments.unnamed import Unnamed

__all__ = [
    "ARM",
    "ENGINES",
    "GENERATED",
    "OBSERVED",
    "AdversarialBandit",
    "EngineName",
    "Environment",
    "StochasticBandit",
    "Unnamed",
    "described",
]
