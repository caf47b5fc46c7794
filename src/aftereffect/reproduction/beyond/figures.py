"""Where regrets are compared.

The settings are the paper's twelve stochastic ones and eleven others. Every setting that was tried
is listed, good or bad.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from aftereffect.bandits import StochasticBandit
from aftereffect.delays import (
    Geometric,
    Interval,
    LagLaw,
    LinearDecay,
    LinearRise,
    PerArm,
    PowerLaw,
    Shape,
    UniformDelay,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import ArsKlUcb, Odaaf, Policy, SettleUcb, Ucb1
from aftereffect.reproduction import stochastic
from aftereffect.reproduction.stochastic import MEANS
from aftereffect.rewards import Beta

SETTLE, ARS_KL, ARS = SettleUcb(), ArsKlUcb(), stochastic.RECOMMENDED
ODAAF, NAIVE = Odaaf("mean"), Ucb1()
NAMES: Mapping[Policy, str] = {
    SETTLE: "SettleUcb",
    ARS_KL: "ARS-KL-UCB",
    ARS: "ARS-UCB",
    ODAAF: "ODAAF",
    NAIVE: "UCB1",
}
#: Where the processor time of SettleUcb and ARS-UCB is compared.
TIMED_DELAYS = (Interval(30, 39), UniformDelay(0, 60), Geometric(0.9))


@dataclass(frozen=True)
class Setting:
    """A bandit, what it is called, and whether the paper has it."""

    name: str
    bandit: StochasticBandit
    of_paper: bool = False

    @property
    def reach(self) -> float:
        """The largest lag of any arm."""
        return max(delay.reach for delay in self.bandit.delays)

    @property
    def mean_lag(self) -> float:
        """The longest mean lag of any arm."""
        return self.bandit.delay_facts.mean_lag

    @property
    def has_growth(self) -> bool:
        """Whether long runs show how regret grows: where the reach is finite."""
        return math.isfinite(self.reach)

    @property
    def is_timed(self) -> bool:
        """Whether processor time is compared here."""
        return self.of_paper and self.bandit.delay in TIMED_DELAYS

    @property
    def policies(self) -> list[Policy]:
        """The policies that can play; ODAAF cannot where the mean lag is infinite."""
        return [policy for policy in NAMES if self._can_play(policy)]

    def _can_play(self, policy: Policy) -> bool:
        try:
            policy.with_delay_facts(self.bandit.delay_facts)
        except ParameterError:  # a fact that it needs is infinite
            return False
        return True


@dataclass(frozen=True)
class RegretFigure:
    """The ratios of mean regrets in all settings."""

    settings: tuple[Setting, ...]
    key: str = "regret"
    title: str = "Regret of SettleUcb and its rivals"
    caption: str = "regret of SettleUcb and its rivals, in the paper's settings and beyond"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return self.key


def _beyond(name: str, delay: LagLaw | PerArm, means: tuple[float, ...] = MEANS) -> Setting:
    return Setting(name, StochasticBandit(means, delay))


#: From the best arm to the worst.
_DELAY_OF_ARM = (
    Interval(30, 39),
    Interval(10, 19),
    LinearDecay(100),
    LinearDecay(50),
    LinearRise(100),
    LinearRise(50),
    Interval(0, 4),
    LinearDecay(10),
    LinearRise(20),
)
_TWO_BUMPS = Shape((0, 0.3, *[0] * 78, 0.7))
_TWENTY = tuple(round(0.9 - 0.04 * arm, 2) for arm in range(20))
_RARE = (0.05, 0.04, 0.03, 0.02)
_SILENT_FIRST = (0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)

#: Two figures of the paper may share a setting, which is here once.
PAPER_SETTINGS = tuple(
    Setting(name, bandit, of_paper=True)
    for bandit, name in {
        figure.bandit: figure.setting for figure in stochastic.FIGURES.values()
    }.items()
)
OTHER_SETTINGS = (
    _beyond("two arms, 0.5 and 0.45, delay uniform on 10 .. 30", UniformDelay(10, 30), (0.5, 0.45)),
    _beyond("twenty arms, lags 10 .. 19", Interval(10, 19), _TWENTY),
    _beyond("rare, 0.05 to 0.02, delay uniform on 10 .. 30", UniformDelay(10, 30), _RARE),
    _beyond("delay uniform on 0 .. 200", UniformDelay(0, 200)),
    _beyond("delay uniform on 0 .. 500", UniformDelay(0, 500)),
    _beyond("30 % at lag 1, 70 % at lag 80", _TWO_BUMPS),
    _beyond("another delay for each arm", PerArm(_DELAY_OF_ARM)),
    Setting(
        "Beta rewards, delay uniform on 0 .. 60",
        StochasticBandit(MEANS, UniformDelay(0, 60), Beta(4)),
    ),
    _beyond("worst arm first, delay uniform on 0 .. 60", UniformDelay(0, 60), MEANS[::-1]),
    _beyond("first arm pays nothing, lags 30 .. 39", Interval(30, 39), _SILENT_FIRST),
    _beyond("power law, gamma = 1.5", PowerLaw(1.5)),
)
FIGURES: dict[str, RegretFigure] = {
    "regret": RegretFigure((*PAPER_SETTINGS, *OTHER_SETTINGS)),
}
