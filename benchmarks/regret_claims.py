"""What is claimed of SettleUcb's regret and cost, each claim with the numbers that keep or miss it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import NamedTuple

from measure import verdict
from regret_runs import ARS, SETTLE, Cost, Growth, Played
from tables import rounded

EARLY, HERE, LATER = 10**4, 10**5, 10**6
LEAST, LEAST_ON_AVERAGE, LEAST_ON_AVERAGE_EARLY = 3, 4, 1.5
LEAST_BEYOND, LEAST_BEYOND_LATER = 1.5, 2
STEEPEST, COSTLIEST = 2, 3

Number = Callable[[Played], float]


class Verdict(NamedTuple):
    """A claim, what was found, and whether the one keeps the other."""

    claim: str
    found: str
    kept: bool

    def __str__(self) -> str:
        return f"{verdict(self.kept):<6}  {self.claim}: {self.found}"


def verdicts(results: Sequence[Played], growths: Mapping[str, Growth], costs: Mapping[str, Cost]) -> list[Verdict]:
    """All claims, judged."""
    paper = [played for played in results if played.setting.of_paper]
    beyond = [played for played in results if not played.setting.of_paper]
    return [*_in_the_paper(paper), *_early_and_later(paper), *_beyond(beyond), _growth(growths), _cost(costs)]


def below_ars(horizon: int) -> Number:
    """How many times below ARS-UCB's the mean regret is."""
    return lambda played: played.times_below(SETTLE, ARS, horizon)


def _in_the_paper(paper: Sequence[Played]) -> Iterator[Verdict]:
    each = f"T = {HERE:,}, each of the paper's settings"
    means = _by_setting(paper, below_ars(HERE))
    p95s = _by_setting(paper, lambda played: played.p95(ARS, HERE) / played.p95(SETTLE, HERE))
    worsts = _by_setting(paper, lambda played: played.worst(ARS, HERE) / played.worst(SETTLE, HERE))
    yield _at_least(f"{each}, mean regret at least {LEAST}x below ARS-UCB's", means, LEAST)
    yield _on_average(means, HERE, LEAST_ON_AVERAGE)
    yield _judged(f"{each}, 95th percentile below ARS-UCB's", p95s, lambda ratio: ratio > 1, "least")
    yield _at_least(f"{each}, worst run not above ARS-UCB's worst", worsts, 1)


def _early_and_later(paper: Sequence[Played]) -> Iterator[Verdict]:
    early = _by_setting(paper, below_ars(EARLY))
    change = _by_setting(paper, lambda played: below_ars(LATER)(played) / below_ars(HERE)(played))
    yield _at_least(f"ratio at T = {LATER:,} over that at {HERE:,}, each of the paper's settings, not below 1", change, 1)
    yield _on_average(early, EARLY, LEAST_ON_AVERAGE_EARLY)
    yield _at_least(f"T = {EARLY:,}, each of the paper's settings, mean regret not above ARS-UCB's", early, 1)


def _beyond(beyond: Sequence[Played]) -> Iterator[Verdict]:
    ending = [played for played in beyond if math.isfinite(played.setting.mean_lag)]
    endless = [played for played in beyond if math.isinf(played.setting.mean_lag)]
    for horizon, least in ((HERE, LEAST_BEYOND), (LATER, LEAST_BEYOND_LATER)):
        claim = f"T = {horizon:,}, each setting beyond with a finite mean lag, at least {least}x below"
        yield _at_least(claim, _by_setting(ending, below_ars(horizon)), least)
    for horizon in (EARLY, HERE, LATER):
        claim = f"T = {horizon:,}, each setting beyond with an infinite mean lag, not above ARS-UCB's"
        yield _at_least(claim, _by_setting(endless, below_ars(horizon)), 1)


def _growth(growths: Mapping[str, Growth]) -> Verdict:
    exponents = {name: growth.exponent for name, growth in growths.items()}
    return _at_most(f"where the reach is finite, regret grows as a + b (ln T)^p with p at most {STEEPEST}", exponents, STEEPEST)


def _cost(costs: Mapping[str, Cost]) -> Verdict:
    ratios = {name: cost.ratio for name, cost in costs.items()}
    return _at_most(f"a replication costs at most {COSTLIEST}x that of ARS-UCB", ratios, COSTLIEST)


def _by_setting(results: Sequence[Played], number: Number) -> dict[str, float]:
    return {played.setting.name: number(played) for played in results}


def _on_average(ratios: Mapping[str, float], horizon: int, least: float) -> Verdict:
    mean = geometric_mean(ratios.values())
    claim = f"T = {horizon:,}, the paper's settings, geometric mean of the ratios at least {least}"
    return Verdict(claim, rounded(mean, 3), mean >= least)


def _at_least(claim: str, numbers: Mapping[str, float], bound: float) -> Verdict:
    return _judged(claim, numbers, lambda number: number >= bound, "least")


def _at_most(claim: str, numbers: Mapping[str, float], bound: float) -> Verdict:
    return _judged(claim, numbers, lambda number: number <= bound, "most")


def _judged(claim: str, numbers: Mapping[str, float], keeps: Callable[[float], bool], extreme: str) -> Verdict:
    """Tells the number nearest to the bound, or all that are on its wrong side."""
    missed = {name: number for name, number in numbers.items() if not keeps(number)}
    if missed:
        found = f"not so for {len(missed)} of {len(numbers)}: {'; '.join(map(_told, missed.items()))}"
        return Verdict(claim, found, kept=False)
    pick = min if extreme == "least" else max
    return Verdict(claim, f"{extreme} {_told(pick(numbers.items(), key=lambda item: item[1]))}", kept=True)


def _told(item: tuple[str, float]) -> str:
    name, number = item
    return f"{rounded(number, 3)} ({name})"
