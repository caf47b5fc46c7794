"""The claims about the adversarial figures, each with the rule that judges it.

The rules look at the numbers alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aftereffect.reproduction._claims import (
    LEVEL,
    CaseVerdict,
    Claim,
    Judgement,
    format_range,
    format_with_interval,
    judge_cases,
    judge_draws,
    require_both,
    resample_means,
)
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.adversarial.figures import (
    OURS,
    STYLES,
    AdversarialFigure,
    Panel,
    make_clw,
)
from aftereffect.simulation import Study

MAX_EXPONENT, SHARE_OF_GAP = 0.9, 0.5
#: The share of runs with linear regret from which on the claim holds, and up to which it fails;
#: between them it is open.
MIN_LINEAR, MAX_NOT_LINEAR = 0.9, 0.1


@dataclass(frozen=True)
class AdversarialEvidence:
    """What was found in one panel.

    ``gap`` is the mean loss per pull of the second best arm. ``tenth_horizon`` is the same study
    for a tenth of the slots; only figures whose delays depend on the play have it.
    """

    figure: AdversarialFigure
    panel: Panel
    description: str
    gap: float
    study: Study
    tenth_horizon: Study | None

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return self.study.replications


def list_evidence(
    figure: AdversarialFigure, studies: Mapping[str, Study], settings: Settings
) -> list[AdversarialEvidence]:
    """The evidence of a figure, panel by panel."""
    slots = settings.adversarial_horizon
    return [
        AdversarialEvidence(
            figure,
            panel,
            panel.describe(settings),
            panel.bandit(settings, slots).second_gap(slots),
            studies[f"{figure.name}{panel.suffix}"],
            studies.get(f"{figure.name}{panel.suffix}-tenth-horizon"),
        )
        for panel in figure.panels
    ]


def list_long_evidence(
    figure: AdversarialFigure, studies: Mapping[str, Study], settings: Settings
) -> list[AdversarialEvidence]:
    """The evidence of the paper's panel with the long horizon, if it was asked for."""
    panel, slots = figure.panels[0], settings.adversarial_long_horizon
    name = f"{figure.name}{panel.suffix}-long-horizon"
    if name not in studies:
        return []
    description = f"{panel.describe(settings)}, {slots:,} slots"
    gap = panel.bandit(settings, slots).second_gap(slots)
    study, tenth = studies[name], studies[f"{name}-tenth"]
    return [AdversarialEvidence(figure, panel, description, gap, study, tenth)]


def judge_linear_regret(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """Under the adversary, CLW loses a share of the gap forever, and ARS-EXP3 less and less."""
    cases, rises, powers = [], [], []
    for each in evidence:
        if each.tenth_horizon is None:
            continue
        regret = each.study[make_clw(each.panel.d)].regret
        middle = len(each.study.checkpoints) // 2 - 1
        slots = each.study.checkpoints[-1] - each.study.checkpoints[middle]
        slopes = (regret[:, -1] - regret[:, middle]) / (slots * each.gap)
        linear = float((slopes > SHARE_OF_GAP).mean())
        studies = (each.study, each.tenth_horizon)
        decades = np.log10(each.study.horizon / each.tenth_horizon.horizon)
        end, start = (resample_means(study[OURS].final[:, None])[:, 0] for study in studies)
        exponents = _count_decades(end, start) / decades
        means = [study[OURS].final.mean()[None] for study in studies]
        exponent = float(_count_decades(*means)[0] / decades)
        cells = (
            f"figure {each.figure.number}",
            each.description,
            f"{slopes.mean():.2f}",
            f"{linear:.0%}",
            format_with_interval(exponent, exponents, ".2f"),
        )
        rises.append(float(slopes.mean()))
        powers.append(exponent)
        verdicts = (_judge_linear_runs(linear), judge_draws(exponents < MAX_EXPONENT))
        cases.append((require_both(*verdicts), cells))
    columns = ("figure", "panel", "CLW: slope / gap", "runs above half", "ARS-EXP3: exponent")
    reason = ", and ".join(
        (
            format_range("in each slot the regret of CLW rises by {} of the gap", rises, ".2f"),
            format_range("that of ARS-EXP3 grows as T to the power of {}", powers, ".2f"),
        )
    )
    return judge_cases("panels", columns, cases, reason=reason if cases else "")


def judge_true_d(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """With oblivious delays and the true d, CLW has less regret than ARS-EXP3."""
    return _compare_with_ours(evidence, ("true d",), lower=True)


def judge_wrong_d(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """With a d that is 10 % off, CLW has more regret than ARS-EXP3."""
    return _compare_with_ours(evidence, ("less", "more"), lower=False)


def _compare_with_ours(
    evidence: Sequence[AdversarialEvidence], roles: Sequence[str], *, lower: bool
) -> Judgement:
    cases, ratios = [], []
    for each in evidence:
        if not each.figure.is_oblivious:
            continue
        ours = each.study[OURS].final
        for role in roles:
            theirs = each.study[each.panel.players[role]].final
            excess = theirs - ours
            draws = resample_means(excess[:, None])[:, 0]
            cells = (
                f"figure {each.figure.number}",
                each.description,
                STYLES[role].name,
                f"{theirs.mean():,.0f}",
                f"{ours.mean():,.0f}",
                format_with_interval(float(excess.mean()), draws, ",.0f"),
            )
            if ours.mean() > 0:
                ratios.append(float(theirs.mean() / ours.mean()))
            cases.append((judge_draws(draws < 0 if lower else draws > 0), cells))
    columns = ("figure", "setting", "rival", "the rival", "ARS-EXP3", "excess of the rival")
    reason = format_range("CLW loses {} times what ARS-EXP3 loses", ratios, ".2f")
    return judge_cases("comparisons", columns, cases, reason=reason)


_BY_DRAWS = (
    f"in at least {LEVEL:.1%} of the bootstrap draws; it fails if this is so in at most "
    f"{1 - LEVEL:.1%} of them"
)
_EVERYWHERE = (
    "Reproduced if it holds in every {0}, not reproduced if it fails in more than half of the {0}s,"
    " otherwise partly."
)
CLAIMS = (
    Claim(
        "Under delays that depend on the play, the regret of CLW is linear and that of ARS-EXP3 "
        "sublinear.",
        "CLW is linear in a run if, over the second half of the slots, its regret rises per slot by"
        f" more than {SHARE_OF_GAP:g} of the gap between the best arm and the second. It is linear "
        f"in a panel if it is so in at least {MIN_LINEAR:.0%} of the runs, and not if in at most "
        f"{MAX_NOT_LINEAR:.0%}. ARS-EXP3 is sublinear if its regret grows, from a tenth of the "
        f"slots to all of them and tuned to each, with an exponent below {MAX_EXPONENT:g} "
        f"{_BY_DRAWS}. The claim holds in a panel if both are so, fails if one fails, and is "
        f"otherwise open. {_EVERYWHERE.format('panel')}",
        judge_linear_regret,
    ),
    Claim(
        "Under delays that do not depend on the play, CLW is slightly better than ARS-EXP3 if it "
        "knows d.",
        "It holds in a setting if the mean regret of CLW with the true d is below that of ARS-EXP3 "
        f"{_BY_DRAWS}; otherwise it is open. {_EVERYWHERE.format('setting')}",
        judge_true_d,
    ),
    Claim(
        "With a d that is 10 % off, CLW is worse than ARS-EXP3.",
        "It holds in a comparison if the mean regret of CLW, with d 10 % too low or 10 % too high, "
        f"is above that of ARS-EXP3 {_BY_DRAWS}; otherwise it is open. "
        f"{_EVERYWHERE.format('comparison')}",
        judge_wrong_d,
    ),
)


def _judge_linear_runs(share: float) -> CaseVerdict:
    return "holds" if share >= MIN_LINEAR else "fails" if share <= MAX_NOT_LINEAR else "open"


def _count_decades(end: np.ndarray, start: np.ndarray) -> np.ndarray:
    """By how many powers of ten regret grew; minus infinity where it is not positive at the end."""
    positive = (end > 0) & (start > 0)
    ratio = np.where(positive, end, 1.0) / np.where(positive, start, 1.0)
    decades: np.ndarray = np.where(end <= 0, -np.inf, np.where(start <= 0, np.inf, np.log10(ratio)))
    return decades
