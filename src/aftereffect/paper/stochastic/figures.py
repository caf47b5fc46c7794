"""Each figure of the paper is data: an environment and the policies that play in it.

The paper says: nine arms with means .9, .8, ..., .1; the spread of each panel; panels that vary alpha at one growth, panels
that vary the growth at alpha = 4; and which rival, told the truth, plays along. What it does not say is ours; the report
lists it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aftereffect.environments import StochasticBandit
from aftereffect.growth import Exponential, Power
from aftereffect.policies import ArsUcb, GeneralizedOdaaf, Odaaf, Policy, Ucb1
from aftereffect.spreads import Geometric, Interval, LinearDecay, LinearRise, PowerLaw, Spread, UniformDelay

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)

Policies = tuple[Policy, ...]
#: What the paper recommends, and judges itself by.
RECOMMENDED = ArsUcb(4, Power(2))
ALPHAS: tuple[ArsUcb, ...] = tuple(ArsUcb(alpha, Power(2)) for alpha in (1, 2, 4, 8))
GROWTHS: tuple[ArsUcb, ...] = tuple(ArsUcb(4, growth) for growth in (Power(1), Power(2), Power(3), Exponential()))
ODAAF: Policies = (Odaaf("mean"), Odaaf("bounded"), Odaaf("variance"))
GENERALIZED: Policies = (GeneralizedOdaaf(),)
NO_RIVAL: Policies = ()


@dataclass(frozen=True)
class Figure:
    """One panel: the setting, the variants of ARS-UCB compared in it, and the paper's rivals for it."""

    number: int
    setting: str
    environment: StochasticBandit
    ours: Policies
    rivals: Policies

    @property
    def name(self) -> str:
        """The stem of its files."""
        return f"figure-{self.number}"

    @property
    def varies_alpha(self) -> bool:
        """Whether the variants differ in alpha, or in how rounds grow."""
        return self.ours is ALPHAS

    @property
    def caption(self) -> str:
        """What is shown."""
        return f"{self.setting}, varying {'alpha' if self.varies_alpha else 'the growth of rounds'}"

    @property
    def policies(self) -> Policies:
        """All that are drawn: naive UCB1, which the paper does not show, plays in every panel."""
        return (*self.ours, *self.rivals, Ucb1())


def _panel(number: int, setting: str, spread: Spread, ours: Policies, rivals: Policies) -> Figure:
    return Figure(number, setting, StochasticBandit(MEANS, spread), ours, rivals)


FIGURES: Mapping[int, Figure] = {
    figure.number: figure
    for figure in (
        _panel(2, "delay uniform on 10 .. 30", UniformDelay(10, 30), ALPHAS, ODAAF),
        _panel(3, "delay uniform on 10 .. 30", UniformDelay(10, 30), GROWTHS, ODAAF),
        _panel(4, "delay uniform on 0 .. 60", UniformDelay(0, 60), ALPHAS, ODAAF),
        _panel(5, "delay uniform on 0 .. 60", UniformDelay(0, 60), GROWTHS, ODAAF),
        _panel(10, "spread evenly over the lags 30 .. 39", Interval(30, 40), ALPHAS, GENERALIZED),
        _panel(11, "spread evenly over the lags 10 .. 19", Interval(10, 20), GROWTHS, GENERALIZED),
        _panel(12, "falling linearly over 100 lags", LinearDecay(100), ALPHAS, GENERALIZED),
        _panel(13, "falling linearly over 50 lags", LinearDecay(50), GROWTHS, GENERALIZED),
        _panel(14, "geometric, gamma = 0.8", Geometric(0.8), ALPHAS, NO_RIVAL),
        _panel(15, "geometric, gamma = 0.9", Geometric(0.9), GROWTHS, NO_RIVAL),
        _panel(16, "power law, gamma = 3", PowerLaw(3), ALPHAS, NO_RIVAL),
        _panel(17, "power law, gamma = 2", PowerLaw(2), GROWTHS, NO_RIVAL),
        _panel(18, "rising linearly over 100 lags", LinearRise(100), ALPHAS, GENERALIZED),
        _panel(19, "rising linearly over 50 lags", LinearRise(50), GROWTHS, GENERALIZED),
    )
}
