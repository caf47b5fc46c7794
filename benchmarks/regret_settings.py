"""Where regrets are compared: the paper's twelve stochastic settings, and others that it does not have.

All of them are listed, good or bad.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import aftereffect as ae
from aftereffect.paper.stochastic.figures import FIGURES, MEANS


@dataclass(frozen=True)
class Setting:
    """An environment, what it is called, and whether the paper has it."""

    name: str
    environment: ae.StochasticBandit
    of_paper: bool = False

    @property
    def reach(self) -> float:
        """The largest lag of any arm."""
        return max(spread.reach for spread in self.environment.spreads)

    @property
    def mean_lag(self) -> float:
        """The longest mean lag of any arm."""
        return self.environment.knowledge.mean_delay


def _of_paper() -> Iterator[Setting]:
    """Once each: some settings have two figures."""
    names = {figure.environment: figure.setting for figure in FIGURES.values()}
    for environment, name in names.items():
        yield Setting(name, environment, of_paper=True)


#: From the best arm to the worst.
_SPREADS = (
    ae.Interval(30, 40),
    ae.Interval(10, 20),
    ae.LinearDecay(100),
    ae.LinearDecay(50),
    ae.LinearRise(100),
    ae.LinearRise(50),
    ae.Interval(0, 5),
    ae.LinearDecay(10),
    ae.LinearRise(20),
)
_TWO_BUMPS = ae.Shape((0, 0.3, *[0] * 78, 0.7))
_TWENTY = tuple(round(0.9 - 0.04 * arm, 2) for arm in range(20))
_RARE = (0.05, 0.04, 0.03, 0.02)
_SILENT_FIRST = (0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)

PAPER = tuple(_of_paper())
BEYOND = (
    Setting("two arms, 0.5 and 0.45, delay uniform on 10 .. 30", ae.StochasticBandit((0.5, 0.45), ae.UniformDelay(10, 30))),
    Setting("twenty arms, lags 10 .. 19", ae.StochasticBandit(_TWENTY, ae.Interval(10, 20))),
    Setting("rare, 0.05 to 0.02, delay uniform on 10 .. 30", ae.StochasticBandit(_RARE, ae.UniformDelay(10, 30))),
    Setting("delay uniform on 0 .. 200", ae.StochasticBandit(MEANS, ae.UniformDelay(0, 200))),
    Setting("delay uniform on 0 .. 500", ae.StochasticBandit(MEANS, ae.UniformDelay(0, 500))),
    Setting("30 % at lag 1, 70 % at lag 80", ae.StochasticBandit(MEANS, _TWO_BUMPS)),
    Setting("another spread for each arm", ae.StochasticBandit(MEANS, ae.PerArm(_SPREADS))),
    Setting("Beta totals, delay uniform on 0 .. 60", ae.StochasticBandit(MEANS, ae.UniformDelay(0, 60), ae.Beta(4))),
    Setting("worst arm first, delay uniform on 0 .. 60", ae.StochasticBandit(MEANS[::-1], ae.UniformDelay(0, 60))),
    Setting("first arm pays nothing, lags 30 .. 39", ae.StochasticBandit(_SILENT_FIRST, ae.Interval(30, 40))),
    Setting("power law, gamma = 1.5", ae.StochasticBandit(MEANS, ae.PowerLaw(1.5))),
)
SETTINGS = (*PAPER, *BEYOND)
