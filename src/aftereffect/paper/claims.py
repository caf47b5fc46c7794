"""What the paper claims about its stochastic experiments, and the rules that say whether it came out here."""

from collections.abc import Sequence

import numpy as np

from aftereffect.kernels import Matrix, Vector
from aftereffect.paper.bootstrap import resampled_means
from aftereffect.paper.draw import LONG_RUNS
from aftereffect.paper.evidence import Evidence
from aftereffect.paper.figures import RECOMMENDED
from aftereffect.paper.judgement import LEVEL, Claim, Judgement, Verdict, outcome_of, tally, with_interval
from aftereffect.paper.looks import LOOKS
from aftereffect.paper.settings import DECADES
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
    rows, best = [], np.zeros(2, dtype=int)
    for each in evidence:
        finals = np.column_stack([each.panel[policy].final for policy in each.figure.ours])
        means, squares = np.hsplit(resampled_means(np.hstack([finals, finals**2])), 2)
        deviations = np.sqrt(np.maximum(squares - means**2, 0))
        names = [LOOKS[policy].name.removeprefix("ARS-UCB, ") for policy in each.figure.ours]
        mine = each.figure.ours.index(RECOMMENDED)
        by_mean, mean_cells = _compared(finals.mean(axis=0), means, mine, names)
        by_deviation, deviation_cells = _compared(finals.std(axis=0), deviations, mine, names)
        best += by_mean, by_deviation
        rows.append((str(each.figure.number), *mean_cells, *deviation_cells))
    verdicts: dict[int, Verdict] = {2: "reproduced", 1: "partly", 0: "not reproduced"}
    verdict = verdicts[int((2 * best > len(rows)).sum())] if rows else "not judged"
    columns = ("figure", "mean", "lowest mean", "best", "deviation", "lowest deviation", "best")
    return Judgement(verdict, f"mean best in {best[0]}, deviation best in {best[1]} of {len(rows)} panels", columns, rows)


_OPEN = f"in {LEVEL:.1%} of the bootstrap's draws; it fails if in at most {1 - LEVEL:.1%}; else it is open."
_EVERYWHERE = "not reproduced if it fails in more than half, else partly."
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
        f"or within {STANDARD_ERRORS} standard errors (of the difference, by bootstrap) of the lowest; the standard deviation "
        f"over replications is counted apart, by the same rule. Reproduced if it is best in more than half of the panels by "
        f"both, partly if by one of them, else not reproduced.",
        recommended_is_best_in_most,
    ),
)


def _settings(evidence: Sequence[Evidence]) -> list[Evidence]:
    """One for each environment: two panels may share it."""
    return list({each.panel.environment: each for each in reversed(evidence)}.values())[::-1]


def _growth(means: Matrix) -> Vector:
    """The increment over the last decade, in terms of that over the decade before."""
    before, last = means[:, 1] - means[:, 0], means[:, 2] - means[:, 1]
    # Where nothing was lost before, nothing lost now is no growth and anything else is growth without bound.
    return np.divide(last, before, out=np.where(last > 0, np.inf, 0.0), where=before > 0)


def _exponent(means: Matrix) -> Vector:
    exponent: Vector = np.log10(means[:, 2] / means[:, 1])
    return exponent


def _compared(values: Vector, draws: Matrix, mine: int, names: Sequence[str]) -> tuple[bool, tuple[str, str, str]]:
    """Whether one value is the lowest, but for chance; and the cells that show it."""
    lowest = int(np.argmin(values))
    error = float(np.std(draws[:, mine] - draws[:, lowest], ddof=1))
    best = bool(values[mine] - values[lowest] <= STANDARD_ERRORS * error)
    return best, (f"{values[mine]:,.0f}", f"{values[lowest]:,.0f} ({names[lowest]})", "yes" if best else "no")


def _mean(runs: PolicyRuns) -> str:
    error = "" if runs.sem is None else f" ± {runs.sem[-1]:,.0f}"
    return f"{runs.mean[-1]:,.0f}{error}"
