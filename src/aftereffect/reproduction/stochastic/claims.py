"""The claims about the stochastic figures, each with the rule that judges it.

The rules look at the numbers alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.reproduction._claims import (
    LEVEL,
    Claim,
    Judgement,
    Verdict,
    format_range,
    format_with_interval,
    judge_cases,
    judge_draws,
    resample_means,
)
from aftereffect.reproduction._settings import DECADES
from aftereffect.reproduction.stochastic.figures import RECOMMENDED, STYLES, StochasticFigure
from aftereffect.simulation import PolicyRuns, Study

MAX_INCREMENT_RATIO, MAX_EXPONENT = 1.3, 0.2
STANDARD_ERRORS = 2
#: The picture of the long runs.
LONG_RUNS = "long-runs"


@dataclass(frozen=True)
class Evidence:
    """What was found in one figure's setting, with the arms in one order.

    Of the study that the figure shows, only the regret at the horizon is held in memory.
    """

    figure: StochasticFigure
    shown: Study
    long: Study

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return self.shown.replications


def judge_growth(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting's long runs, a decade costs about as much as the one before."""
    cases, rises = [], []
    for each in _distinct_settings(evidence):
        regret = each.long[RECOMMENDED].regret[:, DECADES]
        draws = resample_means(regret)
        ratios, exponents = _increment_ratio(draws), _local_exponent(draws)
        means = regret.mean(axis=0)
        cells = (
            each.figure.setting,
            *(f"{mean:,.0f}" for mean in means),
            format_with_interval(_increment_ratio(means[None])[0], ratios, ".2f"),
            format_with_interval(_local_exponent(means[None])[0], exponents, ".2f"),
        )
        rises.append(float(_increment_ratio(means[None])[0]))
        agrees = (ratios <= MAX_INCREMENT_RATIO) & (exponents <= MAX_EXPONENT)
        cases.append((judge_draws(agrees), cells))
    slots = evidence[0].long.checkpoints[DECADES] if evidence else ()
    columns = (
        "setting",
        *(f"regret at {slot:,}" for slot in slots),
        "increment ratio",
        "local exponent",
    )
    reason = format_range(
        "ten times the slots add {} times the regret that the tenfold before added, where a "
        "logarithm adds as much",
        rises,
        ".2f",
    )
    return judge_cases("settings", columns, cases, reason=reason)


def judge_rivals(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting, every rival has a higher mean regret than the recommended ARS-UCB."""
    cases, ratios = [], []
    for each in _distinct_settings(evidence):
        ours = each.shown[RECOMMENDED]
        for rival in each.figure.rivals:
            theirs = each.shown[rival]
            excess = theirs.final - ours.final
            draws = resample_means(excess[:, None])[:, 0]
            ratios.append(float(theirs.mean[-1] / ours.mean[-1]))
            cells = (
                each.figure.setting,
                STYLES[rival].name,
                _format_mean(ours),
                _format_mean(theirs),
                f"{ratios[-1]:.1f}",
                format_with_interval(excess.mean(), draws, ",.0f"),
            )
            cases.append((judge_draws(draws > 0), cells))
    columns = ("setting", "rival", "ARS-UCB", "the rival", "ratio", "excess of the rival")
    reason = format_range("ODAAF, told what the delay is, loses {} times as much", ratios, ".1f")
    return judge_cases("comparisons", columns, cases, reason=reason)


def judge_variants(evidence: Sequence[Evidence]) -> Judgement:
    """In most figures, the recommended ARS-UCB has the lowest mean and the lowest deviation."""
    rows, best, best_alpha = [], np.zeros(2, dtype=int), 0
    for each in evidence:
        figure = each.figure
        finals = np.column_stack([each.shown[policy].final for policy in figure.variants])
        names = [STYLES[policy].name.removeprefix("ARS-UCB, ") for policy in figure.variants]
        ours = figure.variants.index(RECOMMENDED)
        by_mean, mean_cells = _compare_with_lowest(finals, ours, names, np.mean, _mean_error)
        by_deviation, deviation_cells = _compare_with_lowest(
            finals, ours, names, np.std, _deviation_error
        )
        best += by_mean, by_deviation
        best_alpha += by_mean and figure.varies_alpha
        rows.append((f"figure {figure.number}", figure.setting, *mean_cells, *deviation_cells))
    verdicts: dict[int, Verdict] = {2: "reproduced", 1: "partly", 0: "not reproduced"}
    verdict = verdicts[int((2 * best > len(rows)).sum())] if rows else "not judged"
    columns = (
        *("figure", "setting", "mean", "above the lowest", "best"),
        *("deviation", "above the lowest", "best"),
    )
    varied = sum(each.figure.varies_alpha for each in evidence)
    count = (
        f"of {len(rows)} figures, the mean is best in {best[0]} ({best_alpha} of the {varied} that "
        f"vary alpha), the deviation in {best[1]}"
    )
    why = (
        f"Its mean regret is the lowest, up to chance, in {best[0]} of {len(rows)} figures, its "
        f"deviation in {best[1]}."
    )
    return Judgement(verdict, count, columns, rows, why)


_BY_DRAWS = (
    f"in at least {LEVEL:.1%} of the bootstrap draws (replications drawn again from those played). "
    f"It fails if this is so in at most {1 - LEVEL:.1%} of the draws; otherwise it is open."
)
_EVERYWHERE = "not reproduced if it fails in more than half of them, otherwise partly."
CLAIMS = (
    Claim(
        "The regret of ARS-UCB is logarithmic in T in every setting.",
        "ARS-UCB (alpha 4, rounds of k² slots) plays alone for a long time. The claim holds in a "
        "setting if the regret per e-fold of time over the last decade is at most "
        f"{MAX_INCREMENT_RATIO} times that over the decade before, and if the local exponent over "
        "the last decade (log10 of the ratio of the regrets) is at most "
        f"{MAX_EXPONENT}, {_BY_DRAWS} Reproduced if it holds in every setting, {_EVERYWHERE}",
        judge_growth,
        LONG_RUNS,
    ),
    Claim(
        "ARS-UCB has less regret than ODAAF in every setting that has it as a benchmark.",
        "ARS-UCB (alpha 4, rounds of k² slots) is compared with every rival of a setting; rivals "
        "know the true facts about the delay. The claim holds in a comparison if the rival's mean "
        f"regret at the horizon is higher {_BY_DRAWS} Reproduced if it holds in every comparison, "
        f"{_EVERYWHERE}",
        judge_rivals,
    ),
    Claim(
        "Alpha = 4 with rounds of k² slots is best in most settings, in regret and in its "
        "deviation.",
        "In each figure the variants of ARS-UCB are compared at the horizon. This variant counts "
        "as best if its mean is the lowest, or above the lowest by at most "
        f"{STANDARD_ERRORS} standard errors of the difference. The standard deviation over "
        "replications is compared by the same rule (its error by bootstrap). Reproduced if the "
        "variant is best in more than half of the figures by both, partly if by one of them, "
        "otherwise not reproduced.",
        judge_variants,
    ),
)


def _distinct_settings(evidence: Sequence[Evidence]) -> list[Evidence]:
    """One for each bandit: two figures may share it."""
    first: dict[object, Evidence] = {}
    for each in evidence:
        first.setdefault(each.shown.bandit, each)
    return list(first.values())


def _increment_ratio(means: Matrix) -> Vector:
    """The increment over the last decade, divided by that over the decade before."""
    before, last = means[:, 1] - means[:, 0], means[:, 2] - means[:, 1]
    # After a decade without regret, a decade without regret is no growth, and any regret is
    # infinite growth.
    return np.divide(last, before, out=np.where(last > 0, np.inf, 0.0), where=before > 0)


def _local_exponent(means: Matrix) -> Vector:
    exponent: Vector = np.log10(means[:, 2] / means[:, 1])
    return exponent


def _mean_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two means over runs with the same seeds."""
    return float(np.std(samples[:, one] - samples[:, other], ddof=1) / np.sqrt(len(samples)))


def _deviation_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two deviations, by bootstrap."""
    pair = samples[:, [one, other]]
    means, squares = np.hsplit(resample_means(np.hstack([pair, pair**2])), 2)
    deviations = np.sqrt(np.maximum(squares - means**2, 0))
    return float(np.std(deviations[:, 0] - deviations[:, 1], ddof=1))


def _compare_with_lowest(
    samples: Matrix,
    ours: int,
    names: Sequence[str],
    measure: Callable[..., Vector],
    error_of: Callable[[Matrix, int, int], float],
) -> tuple[bool, tuple[str, str, str]]:
    """Whether one column has the lowest measure, up to chance, and the cells that show it."""
    values = measure(samples, axis=0)
    lowest = int(np.argmin(values))
    above, error = float(values[ours] - values[lowest]), error_of(samples, ours, lowest)
    best = above <= STANDARD_ERRORS * error
    gap = "0" if lowest == ours else f"{above:,.1f} ± {error:,.1f} ({names[lowest]})"
    return best, (f"{values[ours]:,.0f}", gap, "yes" if best else "no")


def _format_mean(runs: PolicyRuns) -> str:
    error = "" if runs.sem is None else f" ± {runs.sem[-1]:,.0f}"
    return f"{runs.mean[-1]:,.0f}{error}"
