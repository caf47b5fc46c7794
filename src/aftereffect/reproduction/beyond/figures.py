"""Where regrets are compared, what we claim of them, and the rules that judge the claims.

The settings are the paper's twelve stochastic ones and eleven others. Every setting that was tried
is listed, good or bad.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Matrix
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
from aftereffect.reproduction._claims import CaseVerdict, Cells, Claim, Judgement, judge_cases
from aftereffect.reproduction._report import format_digits
from aftereffect.reproduction.stochastic import MEANS
from aftereffect.rewards import Beta
from aftereffect.theory import lai_robbins_slope

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
FIGURE = RegretFigure((*PAPER_SETTINGS, *OTHER_SETTINGS))


MIN_RATIO, MIN_MEAN_RATIO, MIN_MEAN_RATIO_EARLY = 3, 4, 1.5
MIN_RATIO_BEYOND, MIN_RATIO_BEYOND_LATE = 1.5, 2
MAX_GROWTH, MAX_COST = 2, 3
#: At short horizons: how many times the regret of ARS-KL-UCB that of SettleUcb may be.
MAX_SHORT_RATIO = 1.1


@dataclass(frozen=True, eq=False)
class RegretEvidence:
    """What was found in one setting.

    ``regret`` is by run and horizon, for every policy that can play there. ``growth`` is p in
    regret = a + b (ln T)^p, with the mean regret of SettleUcb where the long runs begin and end;
    ``cost`` the processor seconds of a replication of SettleUcb and of ARS-UCB. They are None where
    they were not measured.
    """

    setting: Setting
    horizons: tuple[int, ...]
    regret: Mapping[Policy, Matrix]
    growth: tuple[float, float, float] | None = None
    cost: tuple[float, float] | None = None

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return len(self.regret[SETTLE])

    def mean(self, policy: Policy, horizon: int) -> float:
        """The mean regret; NaN if the policy cannot play here."""
        return self._measure(np.mean, policy, horizon)

    def p95(self, policy: Policy, horizon: int) -> float:
        """The 95th percentile of the regret; NaN if the policy cannot play here."""
        return self._measure(lambda regret: np.quantile(regret, 0.95), policy, horizon)

    def worst(self, policy: Policy, horizon: int) -> float:
        """The highest regret of any run; NaN if the policy cannot play here."""
        return self._measure(np.max, policy, horizon)

    def ratio(self, rival: Policy, policy: Policy, horizon: int) -> float:
        """The mean regret of the rival divided by that of the policy."""
        return divide_regrets(self.mean(rival, horizon), self.mean(policy, horizon))

    def floor_ratio(self, policy: Policy, horizon: int) -> float:
        """The mean regret divided by the Lai-Robbins slope times ln T; NaN where none is known."""
        try:
            slope = lai_robbins_slope(self.setting.bandit)
        except ParameterError:  # rewards that are not Bernoulli
            return math.nan
        return self.mean(policy, horizon) / (slope * math.log(horizon))

    def _measure(
        self, measure: Callable[[Matrix], np.floating], policy: Policy, horizon: int
    ) -> float:
        if policy not in self.regret:
            return math.nan
        return float(measure(self.regret[policy][:, self.horizons.index(horizon)]))


def divide_regrets(one: float, other: float) -> float:
    """A ratio of regrets; in a short run a policy may have none."""
    if other == 0:
        return math.inf if one > 0 else math.nan
    return one / other


#: A number of one setting; NaN where it was not measured, and then the claim is not about it.
Measure: TypeAlias = Callable[[RegretEvidence], float]


class Horizons(NamedTuple):
    """Where regrets are compared: at two short horizons and at three others."""

    shortest: int
    short: int
    early: int
    middle: int
    late: int


def list_claims(horizons: Horizons) -> list[Claim]:
    """The 15 claims, about regret at these horizons."""
    early, middle, late = horizons[2:]
    return [
        *_claims_on_paper_settings(middle),
        *_claims_on_other_horizons(early, middle, late),
        *_claims_beyond(early, middle, late),
        claim_everywhere(
            "Where the reach is finite, the mean regret of SettleUcb grows as a + b (ln T)^p with "
            f"p at most {MAX_GROWTH}.",
            "p, by least squares in the long runs,",
            lambda each: math.nan if each.growth is None else each.growth[2],
            at_most=MAX_GROWTH,
        ),
        claim_everywhere(
            f"A replication of SettleUcb takes at most {MAX_COST} times the processor time of one "
            "of ARS-UCB.",
            "the ratio of the shortest processor times of some repeats",
            lambda each: math.nan if each.cost is None else each.cost[0] / each.cost[1],
            at_most=MAX_COST,
        ),
        claim_everywhere(
            f"At T = {horizons.shortest:,} and {horizons.short:,}, in each setting, the mean "
            f"regret of SettleUcb is at most {MAX_SHORT_RATIO} times that of ARS-KL-UCB.",
            f"the higher of the two ratios of mean regrets, {NAMES[SETTLE]} / {NAMES[ARS_KL]},",
            lambda each: max(each.ratio(SETTLE, ARS_KL, horizon) for horizon in horizons[:2]),
            at_most=MAX_SHORT_RATIO,
        ),
    ]


def _claims_on_paper_settings(horizon: int) -> list[Claim]:
    where = f"At T = {horizon:,}, in each of the paper's settings,"
    return [
        claim_everywhere(
            f"{where} the mean regret of SettleUcb is at least {MIN_RATIO} times lower than that "
            "of ARS-UCB.",
            _RATIO,
            _in_paper(_mean_ratio(horizon)),
            at_least=MIN_RATIO,
        ),
        _claim_on_average(horizon, MIN_MEAN_RATIO),
        claim_everywhere(
            f"{where} the 95th percentile of the regret of SettleUcb is below that of ARS-UCB.",
            "the ratio of the 95th percentiles, ARS-UCB / SettleUcb,",
            _in_paper(
                lambda each: divide_regrets(each.p95(ARS, horizon), each.p95(SETTLE, horizon))
            ),
            above=1,
        ),
        claim_everywhere(
            f"{where} the worst run of SettleUcb is not worse than the worst of ARS-UCB.",
            "the ratio of the highest regrets, ARS-UCB / SettleUcb,",
            _in_paper(
                lambda each: divide_regrets(each.worst(ARS, horizon), each.worst(SETTLE, horizon))
            ),
            at_least=1,
        ),
    ]


def _claims_on_other_horizons(early: int, middle: int, late: int) -> list[Claim]:
    return [
        claim_everywhere(
            f"In each of the paper's settings, the ratio of mean regrets at T = {late:,} is not "
            f"below that at T = {middle:,}.",
            f"the ratio (ARS-UCB / SettleUcb) at T = {late:,}, divided by that at T = {middle:,},",
            _in_paper(
                lambda each: divide_regrets(_mean_ratio(late)(each), _mean_ratio(middle)(each))
            ),
            at_least=1,
        ),
        _claim_on_average(early, MIN_MEAN_RATIO_EARLY),
        claim_everywhere(
            f"At T = {early:,}, in each of the paper's settings, the mean regret of SettleUcb is "
            "not above that of ARS-UCB.",
            _RATIO,
            _in_paper(_mean_ratio(early)),
            at_least=1,
        ),
    ]


def _claims_beyond(early: int, middle: int, late: int) -> list[Claim]:
    finite = [
        claim_everywhere(
            f"At T = {horizon:,}, in each other setting with a finite mean lag, the mean regret of "
            f"SettleUcb is at least {least} times lower than that of ARS-UCB.",
            _RATIO,
            _beyond_paper(_mean_ratio(horizon), finite_lag=True),
            at_least=least,
        )
        for horizon, least in ((middle, MIN_RATIO_BEYOND), (late, MIN_RATIO_BEYOND_LATE))
    ]
    infinite = [
        claim_everywhere(
            f"At T = {horizon:,}, in each other setting with an infinite mean lag, the mean regret "
            "of SettleUcb is not above that of ARS-UCB.",
            _RATIO,
            _beyond_paper(_mean_ratio(horizon), finite_lag=False),
            at_least=1,
        )
        for horizon in (early, middle, late)
    ]
    return finite + infinite


_RATIO = f"the ratio of mean regrets, {NAMES[ARS]} / {NAMES[SETTLE]},"


def _mean_ratio(horizon: int) -> Measure:
    return lambda each: each.ratio(ARS, SETTLE, horizon)


def _in_paper(measure: Measure) -> Measure:
    return lambda each: measure(each) if each.setting.of_paper else math.nan


def _beyond_paper(measure: Measure, *, finite_lag: bool) -> Measure:
    def chosen(each: RegretEvidence) -> float:
        is_chosen = math.isfinite(each.setting.mean_lag) == finite_lag
        return measure(each) if is_chosen and not each.setting.of_paper else math.nan

    return chosen


def measure_all(evidence: Sequence[Any], measure: Callable[[Any], float]) -> dict[str, float]:
    """A number by setting, where it was measured."""
    numbers = {each.setting.name: measure(each) for each in evidence}
    return {name: number for name, number in numbers.items() if not math.isnan(number)}


def claim_everywhere(
    title: str,
    what: str,
    measure: Callable[[Any], float],
    *,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    above: float = -math.inf,
) -> Claim:
    """A claim that a number is within a limit in every setting where it was measured."""
    limit = (
        f"at most {at_most:g}"
        if math.isfinite(at_most)
        else f"above {above:g}"
        if math.isfinite(above)
        else f"at least {at_least:g}"
    )
    # The setting nearest to the limit.
    extreme = max if math.isfinite(at_most) else min

    def judge(evidence: Sequence[Any]) -> Judgement:
        numbers = measure_all(evidence, measure)
        cases: list[tuple[CaseVerdict, Cells]] = [
            (
                "holds" if at_least <= number <= at_most and number > above else "fails",
                (name, format_digits(number, 3)),
            )
            for name, number in numbers.items()
        ]
        note = ""
        if numbers:
            name = extreme(numbers, key=numbers.__getitem__)
            note = f"{extreme.__name__}imum {format_digits(numbers[name], 3)} ({name})"
        return judge_cases("settings", ("setting", "number"), cases, note)

    rule = (
        f"The claim holds in a setting if {what} is {limit}. Reproduced if it holds in every "
        "setting, not reproduced if it fails in more than half of them, otherwise partly."
    )
    return Claim(title, rule, judge)


def _claim_on_average(horizon: int, least: float) -> Claim:
    """A claim on the geometric mean of the ratios in the paper's settings."""

    def judge(evidence: Sequence[RegretEvidence]) -> Judgement:
        ratios = measure_all(evidence, _in_paper(_mean_ratio(horizon)))
        rows = [(name, format_digits(ratio, 3)) for name, ratio in ratios.items()]
        if not ratios:
            return Judgement("not judged", "the paper's settings were not played", (), [])
        with np.errstate(divide="ignore"):  # a ratio may be 0
            mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
        return Judgement(
            "reproduced" if mean >= least else "not reproduced",
            f"geometric mean {format_digits(mean, 3)} of {len(ratios)} settings",
            ("setting", "number"),
            rows,
        )

    title = (
        f"At T = {horizon:,}, the mean regret of SettleUcb is on average at least {least} times "
        "lower than that of ARS-UCB in the paper's settings."
    )
    rule = f"Reproduced if the geometric mean of {_RATIO} is at least {least}, otherwise not."
    return Claim(title, rule, judge)
