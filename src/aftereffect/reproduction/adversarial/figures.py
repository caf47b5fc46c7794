"""The adversarial figures as data: policies, rewards and delays; and the claims about them.

The paper gives clicks of Outbrain with rewards held back for 10 or 20 slots; coupons with delays
uniform on 5 .. 10 or 10 .. 20; and CLW with the true d, or a d that is 10 % off. It does not give
the number of arms, slots or runs. The results depend on these, so a figure may have several panels.

Rewards are read from the original files where a user has them. If not, stand-ins are drawn from
averages of the data set that were published.

Rules that look at the numbers alone judge what the paper claims.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from aftereffect.bandits import AdversarialBandit
from aftereffect.delays import Delay, HoldBack, UniformDelay
from aftereffect.errors import InputError
from aftereffect.policies import ArsClw, ArsExp3, Clw, Exp3, Policy
from aftereffect.reproduction.chapters import (
    LEVEL,
    CaseVerdict,
    Claim,
    Judgement,
    Settings,
    format_range,
    format_with_interval,
    judge_cases,
    judge_draws,
    require_both,
    resample_means,
)
from aftereffect.reproduction.coupon import load_coupon
from aftereffect.reproduction.outbrain import load_outbrain
from aftereffect.rewards import DrawnArm, DrawnRewards, Recorded, Rows, Schedule
from aftereffect.simulation import CurveStyle, Study

SEED = 20_160_614
#: The share of each parent category among Outbrain's categorised documents, by category id.
OUTBRAIN_PARENTS = {
    10: 0.0009,
    11: 0.0387,
    12: 0.0504,
    13: 0.0129,
    14: 0.1928,
    15: 0.1202,
    16: 0.1070,
    17: 0.1780,
    18: 0.0820,
    19: 0.1469,
    20: 0.0474,
    21: 0.0228,
}
#: The three largest of these, 14, 17 and 19, divided by their sum.
OUTBRAIN_THREE_LARGEST = (0.372, 0.344, 0.284)
#: The share of each of ten clusters of categories among the pages on which ads were clicked.
OUTBRAIN_PAGE_CLUSTERS = (0.007, 0.001, 0.093, 0.110, 0.002, 0.717, 0.023, 0.008, 0.010, 0.029)
#: Of the 4,537 coupons that are not usable every day, the share usable on each day from Monday on.
COUPON_WEEKDAYS = (0.776, 0.799, 0.911, 0.921, 0.861, 0.652, 0.638)


@dataclass(frozen=True)
class RewardsOfPanel:
    """The rewards of a panel: a name, a stand-in, and a reader of the original files, if any."""

    name: str
    stand_in: Schedule
    read: Callable[[Path, int], Schedule] | None = None

    def schedule(self, data: Path | None, slots: int) -> Schedule:
        """The rewards of that many slots."""
        return self.stand_in if data is None or self.read is None else self.read(data, slots)

    def describe(self, data: Path | None) -> str:
        """The name, with a note if it is a stand-in."""
        if data is not None and self.read is not None:
            return self.name
        return f"{self.name} (stand-in drawn from published shares)"


def _normalize(shares: Iterable[float]) -> tuple[float, ...]:
    """Scale shares, which were rounded for publication, so that they sum to one."""
    given = tuple(shares)
    return tuple(share / sum(given) for share in given)


def _clicks_reader(arms: Literal["parents"] | int) -> Callable[[Path, int], Schedule]:
    @lru_cache(maxsize=2)
    def read(data: Path, slots: int) -> Schedule:
        clicks = load_outbrain(_find_folder(data, "outbrain"), arms=arms)
        return Recorded(_take_rows(clicks.paying, slots), paying_arms=len(clicks.names))

    return read


@lru_cache(maxsize=2)
def _read_coupons(data: Path, slots: int) -> Schedule:
    """The coupons that are not usable every day."""
    coupons = load_coupon(_find_folder(data, "coupon"), only_choosy=True)
    return Recorded(_take_rows(coupons.flags, slots))


def _take_rows(rows: Rows, slots: int) -> Rows:
    """The first rows; or if there are too few, that many rows drawn from all."""
    if slots <= len(rows):
        return rows[:slots]
    return rows[np.random.default_rng(SEED).integers(len(rows), size=slots)]


def _find_folder(data: Path, name: str) -> Path:
    """The folder of one competition's files: of that name, or the one that holds all files."""
    if not data.is_dir():
        raise InputError(f"cannot read {data}: there is no such folder")
    return data / name if (data / name).is_dir() else data


THREE_CATEGORIES = RewardsOfPanel(
    "clicks among the three largest Outbrain categories",
    DrawnArm(OUTBRAIN_THREE_LARGEST, SEED),
    _clicks_reader(3),
)
TWELVE_CATEGORIES = RewardsOfPanel(
    "clicks among the twelve Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PARENTS.values()), SEED),
    _clicks_reader("parents"),
)
PAGE_CLUSTERS = RewardsOfPanel(
    "clicked pages by clusters of Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PAGE_CLUSTERS), SEED),
)
COUPONS = RewardsOfPanel(
    "weekdays of coupons not usable every day, resampled",
    DrawnRewards(COUPON_WEEKDAYS, SEED),
    _read_coupons,
)


OURS = ArsExp3()
#: By role, as in `Panel.players`.
STYLES: Mapping[str, CurveStyle] = {
    "ours": CurveStyle("ARS-EXP3", "#0072B2", "-"),
    "true d": CurveStyle("CLW with the true d", "#D55E00", (0, (9, 3))),
    "less": CurveStyle("CLW with d 10 % too low", "#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    "more": CurveStyle("CLW with d 10 % too high", "#CC79A7", (0, (6, 1, 6, 1, 1, 1))),
    "guesses d": CurveStyle("ARS-CLW", "#009E73", "-."),
    "naive": CurveStyle("Exp3, naive", "#000000", (0, (1, 4))),
}


def make_clw(d: int) -> Clw:
    """CLW with this d, in the variant that the paper names."""
    return Clw(d, variant="colt", base="exp3")


@dataclass(frozen=True)
class Panel:
    """One bandit of a figure: its rewards, its delays, and the d that CLW gets.

    With ``wrong_d``, CLW also plays with a d that is 10 % off.
    """

    suffix: str
    rewards: RewardsOfPanel
    delay: Delay
    d: int
    about: str
    wrong_d: bool = False

    @property
    def players(self) -> dict[str, Policy]:
        """The policies that play, by role."""
        wrong = {"less": make_clw(round(0.9 * self.d)), "more": make_clw(round(1.1 * self.d))}
        return {
            "ours": OURS,
            "true d": make_clw(self.d),
            **(wrong if self.wrong_d else {}),
            "guesses d": ArsClw(),
            "naive": Exp3(),
        }

    def bandit(self, settings: Settings, slots: int) -> AdversarialBandit:
        """The bandit for that many slots."""
        return AdversarialBandit(self.rewards.schedule(settings.data, slots), self.delay)

    def describe(self, settings: Settings) -> str:
        """What a caption says."""
        return f"{self.rewards.describe(settings.data)}, {self.about}"


@dataclass(frozen=True)
class AdversarialFigure:
    """A figure of the paper with one panel or several; the first is the paper's, as we read it."""

    number: int
    caption: str
    panels: tuple[Panel, ...]

    @property
    def key(self) -> str:
        """What ``--figure`` takes."""
        return str(self.number)

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return f"figure-{self.number}"

    @property
    def title(self) -> str:
        """The title of the picture, and the heading in the report."""
        return f"Figure {self.number}: {self.caption}"

    @property
    def is_oblivious(self) -> bool:
        """Whether the delays do not depend on which arms are pulled."""
        return not isinstance(self.panels[0].delay, HoldBack)


@dataclass(frozen=True)
class PriceFigure:
    """Not a figure of the paper: the regret of CLW against the d that it is given."""

    panels: tuple[Panel, ...]
    key: str = "price-of-not-knowing"
    title: str = "The price of not knowing d"
    caption: str = "regret of CLW given from a quarter of the true d to four times as much"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return self.key


def _hold_back(number: int, d: int) -> AdversarialFigure:
    about = f"held back {d} slots"
    within = f"{about}, pulls in a row counted within rounds"
    panels = (
        Panel("", THREE_CATEGORIES, HoldBack(d), d, about),
        Panel("-restarted", THREE_CATEGORIES, HoldBack(d, reset_on_round=True), d, within),
        Panel("-twelve", TWELVE_CATEGORIES, HoldBack(d), d, about),
        Panel("-clusters", PAGE_CLUSTERS, HoldBack(d), d, about),
    )
    caption = f"Outbrain, the best arm's rewards held back {d} slots"
    return AdversarialFigure(number, caption, panels)


def _uniform(number: int, a: int, b: int) -> AdversarialFigure:
    about = f"delay uniform on {a} .. {b}"
    panel = Panel("", COUPONS, UniformDelay(a, b), b, about, wrong_d=True)
    return AdversarialFigure(number, f"Coupon, {about}", (panel,))


_OBLIVIOUS = (_uniform(8, 5, 10), _uniform(9, 10, 20))
FIGURES: Mapping[str, AdversarialFigure | PriceFigure] = {
    figure.key: figure
    for figure in (
        _hold_back(6, 10),
        _hold_back(7, 20),
        *_OBLIVIOUS,
        PriceFigure(tuple(figure.panels[0] for figure in _OBLIVIOUS)),
    )
}


def list_choices(settings: Settings) -> list[tuple[str, str]]:
    """What the paper does not say about this chapter, and what we chose."""
    data = (
        "stand-ins drawn once from published shares: independent slots, and independent weekdays"
        if settings.data is None
        else "the original files, in order; if there are fewer rows than slots, that many rows "
        "drawn from all of them; clusters of pages are a stand-in drawn from published shares"
    )
    return [
        ("adversarial horizon", f"{settings.adversarial_horizon:,} slots"),
        ("adversarial replications", f"{settings.adversarial_replications:,} of each policy"),
        ("data", data),
        (
            "arms of Outbrain",
            "the three largest parent categories; also all twelve, and ten clusters of pages",
        ),
        (
            "coupons",
            "those that are not usable every day; a weekday pays if the coupon is usable on it",
        ),
        (
            "when a reward is held back",
            "from the 3d-th pull in a row on, counted across rounds; also counted within rounds",
        ),
        ("variant of CLW", "that of 2018 on Exp3, with losses; with d = 10 or 20, or 10 % off"),
        (
            "guess of ARS-CLW",
            "h(T) = T^0.2, rounded up; the square root would play almost at random up to 1e7 slots",
        ),
        ("rounds of ARS-EXP3", "k^(1/2) slots, rounded up; gamma by the exact number of rounds"),
        ("a policy that ignores delay", "Exp3, naive, in every adversarial figure"),
    ]


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
