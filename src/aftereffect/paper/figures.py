"""Each figure of the paper is data: an environment and the policies that play in it.

The paper says: nine arms with means .9, .8, ..., .1; panels that vary alpha at one growth, panels that vary the growth at
alpha = 4. It does not say the horizon, the number of replications, the lists of alphas and growths, or the law of the
rewards; those are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aftereffect.environments import StochasticBandit
from aftereffect.growth import Exponential, Power
from aftereffect.policies import ArsUcb, Policy, Ucb1
from aftereffect.spreads import Geometric, Spread

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
#: Horizon and replications.
DEFAULT_SIZE, QUICK_SIZE = (100_000, 200), (10_000, 50)
SEED = 7

VARY_ALPHA: tuple[Policy, ...] = tuple(ArsUcb(alpha, Power(2)) for alpha in (1, 2, 4, 8))
VARY_GROWTH: tuple[Policy, ...] = tuple(ArsUcb(4, growth) for growth in (Power(1), Power(2), Power(3), Exponential()))


@dataclass(frozen=True)
class Figure:
    """One panel: what is played in it, and by whom."""

    number: int
    caption: str
    environment: StochasticBandit
    policies: tuple[Policy, ...]


def _stochastic(number: int, caption: str, spread: Spread, policies: tuple[Policy, ...]) -> Figure:
    return Figure(number, caption, StochasticBandit(MEANS, spread), (*policies, Ucb1()))


FIGURES: Mapping[int, Figure] = {
    figure.number: figure
    for figure in (
        _stochastic(14, "geometric spread, gamma = 0.8, several alphas", Geometric(0.8), VARY_ALPHA),
        _stochastic(15, "geometric spread, gamma = 0.9, several growths", Geometric(0.9), VARY_GROWTH),
    )
}
