"""What the paper claims about its stochastic experiments, and the rules that say whether it came out here."""

from collections.abc import Callable, Sequence

import numpy as np

from aftereffect.kernels import Matrix, Vector
from aftereffect.paper.bootstrap import resampled_means
from aftereffect.paper.judgement import LEVEL, Claim, Judgement, Verdict, outcome_of, tally, with_interval
from aftereffect.paper.settings import DECADES
from aftereffect.paper.stochastic.draw import LONG_RUNS
from aftereffect.paper.stochastic.evidence import Evidence
from aftereffect.paper.stochastic.figures import RECOMMENDED
from aftereffect.paper.stochastic.looks import LOOKS
from aftereffect.simulation import PolicyRuns

MOST_GROWTH, LARGEST_EXPONENT = 1.3, 0.2
STANDARD_ERRORS = 2


def growth_is_logarithmic(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting's long runs, a decade costs about as much as the one before."""
    findings = []
    for each in _settings(evidence):
        regret = each.long[RECOMMENDED].regret[:, DECADES]
        draws = resampled_means(regret)
        growth, exponent = _growth(draws), _exponent(draws)
        means = regret.mean(axis=0)
        cells = (
            each.figure.setting,
            *(f"{mean:,.0f}" for mean in means),
            with_interval(_growth(means[None])[0], growth, ".2f"),
            with_interval(_exponent(means[None])[0], exponent, ".2f"),
        )
        findings.append((outcome_of((growth <= MOST_GROWTH) & (exponent <= LARGEST_EXPONENT)), cells))
    slots = evidence[0].long.checkpoints[DECADES] if evidence else ()
    columns = ("setting", *(f"regret at {slot:,}" for slot in slots), "increment ratio", "local exponent")
    return tally("settings", columns, findings)


def below_every_rival(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting, every rival has a mean regret above that of the recommended ARS-UCB."""
    findings = []
    for each in _settings(evidence):
        ours = each.panel[RECOMMENDED]
        for rival in each.figure.rivals:
            theirs = each.panel[rival]
            excess = theirs.final - ours.final
            draws = resampled_means(excess[:, None])[:, 0]
            times = f"{theirs.mean[-1] / ours.mean[-1]:.1f}"
            name = LOOKS[rival].name
            cells = (each.figure.setting, name, _mean(ours), _mean(theirs), times, with_interval(excess.mean(), draws, ",.0f"))
            findings.append((outcome_of(draws > 0), cells))
    return tally("comparisons", ("setting", "rival", "ARS-UCB", "the rival", "times ours", "excess"), findings)


def recommended_is_best_in_most(evidence: Sequence[Evidence]) -> Judgement:
    """In most panels, the recommended ARS-UCB has the lowest mean of the variants compared, and the lowest deviation."""
    rows, best, best_alpha = [], np.zeros(2, dtype=int), 0
    for each in evidence:
        finals = np.column_stack([each.panel[policy].final for policy in each.figure.ours])
        names = [LOOKS[policy].name.removeprefix("ARS-UCB, ") for policy in each.figure.ours]
        mine = each.figure.ours.index(RECOMMENDED)
        by_mean, mean_cells = _compared(finals, mine, names, np.mean, _mean_error)
        by_deviation, deviation_cells = _compared(finals, mine, names, np.std, _deviation_error)
        best += by_mean, by_deviation
        best_alpha += by_mean and each.figure.varies_alpha
        rows.append((f"figure {each.figure.number}", each.figure.setting, *mean_cells, *deviation_cells))
    verdicts: dict[int, Verdict] = {2: "reproduced", 1: "partly", 0: "not reproduced"}
    verdict = verdicts[int((2 * best > len(rows)).sum())] if rows else "not judged"
    columns = ("panel", "setting", "mean", "above the lowest", "best", "deviation", "above the lowest", "best")
    varied = sum(each.figure.varies_alpha for each in evidence)
    count = (
        f"of {len(rows)} panels, mean best in {best[0]} ({best_alpha} of the {varied} that vary alpha), deviation in {best[1]}"
    )
    return Judgement(verdict, count, columns, rows)


_OPEN = (
    f"in at least {LEVEL:.1%} of the bootstrap's draws (replications drawn again from those played); it fails if this is so in "
    f"at most {1 - LEVEL:.1%} of them; else it is open."
)
_EVERYWHERE = "not reproduced if it fails in more than half of them, else partly."
CLAIMS = (
    Claim(
        "The regret of ARS-UCB is logarithmic in T in every setting.",
        f"ARS-UCB (alpha 4, rounds of k² slots) plays alone, for long. In a setting the claim holds if the regret added per "
        f"e-fold of time over the last decade is at most {MOST_GROWTH} times that of the decade before, and the local exponent "
        f"over the last decade (log10 of the ratio of regrets) at most {LARGEST_EXPONENT}, {_OPEN} Reproduced if it holds in "
        f"every setting, {_EVERYWHERE}",
        growth_is_logarithmic,
        LONG_RUNS,
    ),
    Claim(
        "ARS-UCB has less regret than ODAAF in every setting that has it as a benchmark.",
        f"ARS-UCB (alpha 4, rounds of k² slots) is compared with every rival of a setting, which is told the truth about the "
        f"delay. The claim holds in a comparison if the rival's mean regret at the horizon is higher {_OPEN} Reproduced if it "
        f"holds in every comparison, {_EVERYWHERE}",
        below_every_rival,
    ),
    Claim(
        "Alpha = 4 with rounds of k² slots is best in most settings, in regret and in its deviation.",
        f"In each panel the variants of ARS-UCB are compared at the horizon. This one counts as best if its mean is the lowest "
        f"or above the lowest by at most {STANDARD_ERRORS} standard errors of the difference; the standard deviation over "
        f"replications is counted apart, by the same rule (its error by bootstrap). Reproduced if it is best in more than half "
        f"of the panels by both, partly if by one of them, else not reproduced.",
        recommended_is_best_in_most,
    ),
)


def _settings(evidence: Sequence[Evidence]) -> list[Evidence]:
    """One for each environment: two panels may share it, and what is judged by it."""
    first: dict[object, Evidence] = {}
    for each in evidence:
        first.setdefault(each.panel.environment, each)
    return list(first.values())


def _growth(means: Matrix) -> Vector:
    """The increment over the last decade, in terms of that over the decade before."""
    before, last = means[:, 1] - means[:, 0], means[:, 2] - means[:, 1]
    # Where nothing was lost before, nothing lost now is no growth and anything else is growth without bound.
    return np.divide(last, before, out=np.where(last > 0, np.inf, 0.0), where=before > 0)


def _exponent(means: Matrix) -> Vector:
    exponent: Vector = np.log10(means[:, 2] / means[:, 1])
    return exponent


def _mean_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two means, of runs with the same seeds."""
    return float(np.std(samples[:, one] - samples[:, other], ddof=1) / np.sqrt(len(samples)))


def _deviation_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two deviations, by bootstrap."""
    pair = samples[:, [one, other]]
    means, squares = np.hsplit(resampled_means(np.hstack([pair, pair**2])), 2)
    deviations = np.sqrt(np.maximum(squares - means**2, 0))
    return float(np.std(deviations[:, 0] - deviations[:, 1], ddof=1))


def _compared(
    samples: Matrix,
    mine: int,
    names: Sequence[str],
    measure: Callable[..., Vector],
    error_of: Callable[[Matrix, int, int], float],
) -> tuple[bool, tuple[str, str, str]]:
    """Whether one column has the lowest measure, but for chance; and the cells that show it."""
    values = measure(samples, axis=0)
    lowest = int(np.argmin(values))
    above, error = float(values[mine] - values[lowest]), error_of(samples, mine, lowest)
    best = above <= STANDARD_ERRORS * error
    told = "0" if lowest == mine else f"{above:,.1f} ± {error:,.1f} ({names[lowest]})"
    return best, (f"{values[mine]:,.0f}", told, "yes" if best else "no")


def _mean(runs: PolicyRuns) -> str:
    error = "" if runs.sem is None else f" ± {runs.sem[-1]:,.0f}"
    return f"{runs.mean[-1]:,.0f}{error}"
