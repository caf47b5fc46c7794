"""Environments: worlds that turn plays into totals, each with a literal and a fast engine of the same law."""

from aftereffect.environments.base import ENGINES, EngineName, Environment
from aftereffect.environments.stochastic import StochasticBandit

__all__ = ["ENGINES", "EngineName", "Environment", "StochasticBandit"]
