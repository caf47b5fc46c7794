"""The lower bound of Lai and Robbins, as a yardstick."""

import math

from aftereffect.environments import StochasticBandit
from aftereffect.errors import ParameterError
from aftereffect.rewards import Bernoulli


def lai_robbins_slope(environment: StochasticBandit) -> float:
    """The least regret per unit of ln T that a consistent policy can have in the long run, were rewards seen at once.

    It is a slope as T goes to infinity: a curve at a finite horizon may lie below it.
    """
    if not isinstance(environment.reward, Bernoulli):
        raise ParameterError(f"the slope is known here for Bernoulli rewards, got {environment.reward}")
    best = max(environment.means)
    return math.fsum((best - mean) / _divergence(mean, best) for mean in environment.means if mean < best)


def _divergence(p: float, q: float) -> float:
    """Of Bernoulli laws, in nats, for p < q."""
    if q == 1:
        return math.inf
    return (p * math.log(p / q) if p > 0 else 0.0) + (1 - p) * math.log((1 - p) / (1 - q))
