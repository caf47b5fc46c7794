"""What the paper claims about its adversarial experiments, and the rules that say whether it came out here."""

from collections.abc import Sequence

import numpy as np

from aftereffect.paper.adversarial.evidence import AdversarialEvidence
from aftereffect.paper.adversarial.figures import LOOKS, OURS, clw
from aftereffect.paper.bootstrap import resampled_means
from aftereffect.paper.judgement import LEVEL, Claim, Judgement, Outcome, outcome_of, tally, with_interval

LARGEST_EXPONENT, SHARE_OF_GAP = 0.9, 0.5
#: Of the runs, how many must have linear regret, or may have it at most, for an outcome that is not open.
MOST_RUNS, FEWEST_RUNS = 0.9, 0.1


def linear_and_sublinear(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """Under the adversary, CLW loses a share of the gap for ever, and ARS-EXP3 less and less."""
    findings = []
    for each in evidence:
        if each.tenth is None:
            continue
        regret = each.panel[clw(each.of.d)].regret
        middle = len(each.panel.checkpoints) // 2 - 1
        slots = each.panel.checkpoints[-1] - each.panel.checkpoints[middle]
        slopes = (regret[:, -1] - regret[:, middle]) / (slots * each.gap)
        linear = float((slopes > SHARE_OF_GAP).mean())
        times = np.log10(each.panel.horizon / each.tenth.horizon)
        far, near = (resampled_means(study[OURS].final[:, None])[:, 0] for study in (each.panel, each.tenth))
        exponents = _exponent(far, near) / times
        exponent = float(_exponent(each.panel[OURS].final.mean()[None], each.tenth[OURS].final.mean()[None])[0] / times)
        outcomes = (_linear(linear), outcome_of(exponents < LARGEST_EXPONENT))
        cells = (
            f"figure {each.figure.number}",
            each.about,
            f"{slopes.mean():.2f}",
            f"{linear:.0%}",
            with_interval(exponent, exponents, ".2f"),
        )
        findings.append((_both(*outcomes), cells))
    columns = ("figure", "panel", "CLW: slope / gap", "runs above half", "ARS-EXP3: exponent")
    return tally("panels", columns, findings)


def rival_told_is_better(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """Where delays are oblivious and d is known, CLW loses less than ARS-EXP3."""
    return _against_ours(evidence, ("told",), better=True)


def rival_misinformed_is_worse(evidence: Sequence[AdversarialEvidence]) -> Judgement:
    """Told 10 % too little or too much, CLW loses more than ARS-EXP3."""
    return _against_ours(evidence, ("less", "more"), better=False)


def _against_ours(evidence: Sequence[AdversarialEvidence], players: Sequence[str], *, better: bool) -> Judgement:
    findings = []
    for each in evidence:
        if not each.figure.oblivious:
            continue
        ours = each.panel[OURS].final
        for player in players:
            theirs = each.panel[each.of.players[player]].final
            excess = theirs - ours
            draws = resampled_means(excess[:, None])[:, 0]
            cells = (
                f"figure {each.figure.number}",
                each.about,
                LOOKS[player].name,
                f"{theirs.mean():,.0f}",
                f"{ours.mean():,.0f}",
                with_interval(float(excess.mean()), draws, ",.0f"),
            )
            findings.append((outcome_of(draws < 0 if better else draws > 0), cells))
    columns = ("figure", "setting", "rival", "the rival", "ARS-EXP3", "excess of the rival")
    return tally("comparisons", columns, findings)


_DRAWS = f"in at least {LEVEL:.1%} of the bootstrap's draws; it fails if this is so in at most {1 - LEVEL:.1%} of them"
_EVERYWHERE = "Reproduced if it holds in every {}, not reproduced if it fails in more than half of them, else partly."
CLAIMS = (
    Claim(
        "Under delays that look at the play, the regret of CLW is linear and that of ARS-EXP3 sublinear.",
        f"CLW is linear in a run whose regret, over the second half of the slots, rises per slot by more than {SHARE_OF_GAP:g} "
        f"of the gap between the best arm and the second, and in a panel if it is so in at least {MOST_RUNS:.0%} of the runs "
        f"(not if in at most {FEWEST_RUNS:.0%}). ARS-EXP3 is sublinear if its regret grows, from a tenth of the slots to all "
        f"of them and tuned to each, with an exponent below {LARGEST_EXPONENT:g} {_DRAWS}. The claim holds in a panel if both "
        f"do, fails if one fails, else it is open. {_EVERYWHERE.format('panel')}",
        linear_and_sublinear,
    ),
    Claim(
        "Under delays that do not look at the play, CLW is slightly better than ARS-EXP3 if it knows d.",
        f"It holds in a setting if the mean regret of CLW, told d, is below that of ARS-EXP3 {_DRAWS}; else it is open. "
        f"{_EVERYWHERE.format('setting')}",
        rival_told_is_better,
    ),
    Claim(
        "Told a d that is 10 % off, CLW is worse than ARS-EXP3.",
        f"It holds in a comparison if the mean regret of CLW, told 10 % less or 10 % more, is above that of ARS-EXP3 {_DRAWS}; "
        f"else it is open. {_EVERYWHERE.format('comparison')}",
        rival_misinformed_is_worse,
    ),
)


def _linear(share: float) -> Outcome:
    return "holds" if share >= MOST_RUNS else "fails" if share <= FEWEST_RUNS else "open"


def _both(one: Outcome, other: Outcome) -> Outcome:
    if one == other == "holds":
        return "holds"
    return "fails" if "fails" in (one, other) else "open"


def _exponent(far: np.ndarray, near: np.ndarray) -> np.ndarray:
    """How many powers of ten regret grew; none where it was nothing, or less, at the end."""
    grown = np.where((far > 0) & (near > 0), far, 1.0) / np.where((far > 0) & (near > 0), near, 1.0)
    exponent: np.ndarray = np.where(far <= 0, -np.inf, np.where(near <= 0, np.inf, np.log10(grown)))
    return exponent
