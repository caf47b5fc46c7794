"""What oracles show: the price of anonymity, and exponents of adversarial regret.

Oracles learn from which pull each part of a total comes (see `aftereffect.policies`). What they
lose says what knowing that would bring; a policy's price is its mean regret divided by that of
attributed KL-UCB.

Where an adversary chose the rewards, exponents of regret are fitted beside those that are proved.
The worst that can happen to a policy depends on the horizon T: a gap between arms of the order of
1 / sqrt(T) is the smallest that can be found. So each horizon has bandits of its own, with several
gaps, and the worst of their mean regrets counts. In a second bandit arms differ by little and drift
together (`MultiScaleWalk`). Rewards arrive whole, at lags that do not depend on the play.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aftereffect._core import MAX_SEED, Matrix
from aftereffect.bandits import AdversarialBandit
from aftereffect.delays import UniformDelay
from aftereffect.policies import (
    ArsClw,
    ArsExp3,
    AttributedKlUcb,
    Bold,
    Clw,
    DelayedKlUcb,
    DelayedLeader,
    DelayedUcb,
    DelayedUcb1,
    Dew,
    Dexp3,
    DipUcb,
    Exp3,
    LiDexp3,
    MiniBatch,
    Policy,
    QpmD,
    Skipper,
)
from aftereffect.reproduction._claims import (
    CaseVerdict,
    Cells,
    Claim,
    Judgement,
    judge_cases,
    judge_claim,
)
from aftereffect.reproduction._pictures import add_legend, make_canvas, save_canvas
from aftereffect.reproduction._report import ABSENT, format_digits, markdown_table
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.beyond.figures import (
    ARS,
    ARS_KL,
    NAMES,
    OTHER_SETTINGS,
    PAPER_SETTINGS,
    SETTLE,
    RegretEvidence,
    Setting,
    claim_everywhere,
    measure_all,
)
from aftereffect.reproduction.chapters import Findings, StoredStudy
from aftereffect.rewards import DrawnRewards, MultiScaleWalk
from aftereffect.simulation import PLAIN_NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The oracle that prices are relative to, and the others.
BEST = AttributedKlUcb("first")
OTHER_ORACLES: Mapping[Policy, str] = {
    AttributedKlUcb(): "KL-UCB, complete pulls",
    DelayedUcb1(): "Delayed-UCB1",
    QpmD(): "QPM-D(UCB1)",
    DelayedUcb(): "DelayedUCB",
    DelayedKlUcb(): "DelayedKLUCB",
}
ORACLES: Mapping[Policy, str] = {BEST: "KL-UCB", **OTHER_ORACLES}
DIP = DipUcb()
OURS = (SETTLE, ARS_KL, ARS, DIP)
OUR_NAMES: Mapping[Policy, str] = {**NAMES, DIP: "DipUcb"}
#: Oracles play every slot, so more runs would take long.
MAX_PRICE_RUNS = 200
MAX_MEAN_PRICE = 4
#: How policies are marked in the picture: shape and colour.
MARKS: Mapping[Policy, tuple[str, str]] = {
    SETTLE: ("o", "#0072B2"),
    ARS_KL: ("D", "#009E73"),
    ARS: ("X", "#000000"),
    DelayedUcb1(): ("s", "#D55E00"),
    DelayedUcb(): ("^", "#CC79A7"),
    DelayedKlUcb(): ("v", "#E69F00"),
    DIP: ("P", "#56B4E9"),
}
WIDTH, ROW, MARGINS, LEGEND_COLUMNS = 10, 0.33, 2.1, 4


@dataclass(frozen=True)
class PriceFigure:
    """What policies lose beside attributed KL-UCB: the paper's settings, and two with long lags."""

    settings: tuple[Setting, ...]
    key: str = "price"
    title: str = "The price of anonymity"
    caption: str = "what our policies lose beside oracles that know which pull a reward is from"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return "price-of-anonymity"


PRICE = PriceFigure(
    (*PAPER_SETTINGS, *(each for each in OTHER_SETTINGS if each.name.endswith(("200", "500"))))
)


def find_horizon(settings: Settings) -> int:
    """The horizon at which prices are compared: a tenth of the chapter's."""
    return settings.beyond_horizon // 10


def list_price_studies(figure: PriceFigure, settings: Settings) -> list[StoredStudy]:
    """Two studies per setting: of the oracles, which take long, and of ours."""
    return [
        StoredStudy(
            f"{figure.name}-{number:02}-{group}",
            tuple(policies),
            setting.bandit,
            (find_horizon(settings),),
            min(MAX_PRICE_RUNS, settings.beyond_replications),
            settings.beyond_seed,
            in_picture=True,
        )
        for number, setting in enumerate(figure.settings, 1)
        for group, policies in (("oracles", ORACLES), ("ours", OURS))
    ]


def load_prices(figure: PriceFigure, settings: Settings, folder: Path) -> list[RegretEvidence]:
    """The evidence of all settings; none if a study is not stored."""
    evidence = []
    studies = [each.load(folder) for each in list_price_studies(figure, settings)]
    for setting, oracles, ours in zip(figure.settings, studies[::2], studies[1::2], strict=True):
        if oracles is None or ours is None:
            return []
        regret = {policy: oracles[policy].regret for policy in ORACLES}
        regret |= {policy: ours[policy].regret for policy in OURS}
        evidence.append(RegretEvidence(setting, ours.checkpoints, regret))
    return evidence


def mean_price(evidence: Sequence[RegretEvidence], policy: Policy) -> float:
    """The geometric mean of the prices of a policy."""
    prices = [each.ratio(policy, BEST, each.horizons[-1]) for each in evidence]
    with np.errstate(divide="ignore"):  # a price may be 0
        return float(np.exp(np.mean(np.log(prices))))


def list_price_claims(horizon: int) -> list[Claim]:
    """What we claim of prices at this horizon."""

    def judge(evidence: Sequence[RegretEvidence]) -> Judgement:
        paper = [each for each in evidence if each.setting.of_paper]
        price = mean_price(paper, SETTLE)
        prices = measure_all(paper, lambda each: each.ratio(SETTLE, BEST, horizon))
        return Judgement(
            "reproduced" if price <= MAX_MEAN_PRICE else "not reproduced",
            f"geometric mean {format_digits(price, 3)} of {len(paper)} settings",
            ("setting", "number"),
            [(name, format_digits(number, 3)) for name, number in prices.items()],
        )

    return [
        claim_everywhere(
            f"At T = {horizon:,}, attributed KL-UCB loses less than SettleUcb in every setting.",
            "the ratio of mean regrets, SettleUcb / attributed KL-UCB,",
            lambda each: each.ratio(SETTLE, BEST, horizon),
            above=1,
        ),
        claim_everywhere(
            f"At T = {horizon:,}, DipUcb loses less than SettleUcb in every setting.",
            "the ratio of mean regrets, SettleUcb / DipUcb,",
            lambda each: each.ratio(SETTLE, DIP, horizon),
            above=1,
        ),
        Claim(
            f"At T = {horizon:,}, the price of anonymity of SettleUcb is on average at most "
            f"{MAX_MEAN_PRICE} in the paper's settings.",
            "Reproduced if the geometric mean of the ratios of mean regrets, SettleUcb / "
            f"attributed KL-UCB, is at most {MAX_MEAN_PRICE}, otherwise not.",
            judge,
        ),
    ]


def price_table(evidence: Sequence[RegretEvidence]) -> str:
    """The mean regret of the oracles and of ours, and the prices of ours."""
    columns = (
        "setting",
        *ORACLES.values(),
        *(OUR_NAMES[policy] for policy in OURS),
        *(f"price of {OUR_NAMES[policy]}" for policy in OURS),
    )
    rows = []
    for each in evidence:
        horizon = each.horizons[-1]
        means = [f"{each.mean(policy, horizon):,.0f}" for policy in (*ORACLES, *OURS)]
        prices = [format_digits(each.ratio(policy, BEST, horizon), 3) for policy in OURS]
        rows.append((each.setting.name, *means, *prices))
    paper = [each for each in evidence if each.setting.of_paper]
    for name, chosen in (("paper's settings", paper), ("all settings", evidence)):
        prices = [format_digits(mean_price(chosen, policy), 3) for policy in OURS]
        rows.append((f"geometric mean, {name}", *[""] * (len(ORACLES) + len(OURS)), *prices))
    return markdown_table(columns, rows)


def describe_prices(evidence: Sequence[RegretEvidence], settings: Settings) -> str:
    """The table of prices with its caption."""
    caption = (
        f"Mean regret at T = {find_horizon(settings):,}, over {evidence[0].replications:,} runs "
        f"with seed {settings.beyond_seed}. The first {len(ORACLES)} columns are oracles, which "
        "learn from which pull each part of a total comes. KL-UCB knows a whole reward from its "
        "first part, if all are cut into the same shares; the next three wait for the last part, "
        "and where rewards arrive without end until a hundredth is left; DelayedUCB and "
        "DelayedKLUCB know the "
        "law of the lags instead of waiting. A price is the mean regret "
        "of a policy, which sees totals only, divided by that of KL-UCB, the first column."
    )
    return f"{price_table(evidence)}\n\n{textwrap.fill(caption, width=100)}"


def draw_prices(figure: PriceFigure, settings: Settings, folder: Path) -> None:
    """Draw the prices: a row for each setting, a mark for each policy."""
    from matplotlib.figure import Figure as Canvas

    evidence = load_prices(figure, settings, folder)
    canvas = Canvas(figsize=(WIDTH, MARGINS + ROW * len(evidence)), layout="constrained")
    axes: Axes = canvas.subplots()
    horizon = evidence[0].horizons[-1]
    names = {**OUR_NAMES, **ORACLES}
    for policy, (shape, colour) in MARKS.items():
        prices = [each.ratio(policy, BEST, horizon) for each in evidence]
        rows = [row for row, price in enumerate(prices) if math.isfinite(price)]
        points = [prices[row] for row in rows]
        (marks,) = axes.plot(points, rows, shape, color=colour, markersize=7, label=names[policy])
        marks.set_markeredgecolor("white")  # separates marks that overlap
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(evidence)), [each.setting.name for each in evidence])
    axes.invert_yaxis()  # the first setting on top
    axes.set_xscale("log")
    axes.set_xticks((1, 2, 3, 5, 10, 20, 50), minor=False)
    axes.set_xticks((), minor=True)
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.grid(visible=True, alpha=0.3)
    axes.set_title(
        f"Mean regret divided by that of attributed KL-UCB, T = {horizon:,}, "
        f"{evidence[0].replications:,} runs",
        fontsize="medium",
    )
    add_legend(canvas, axes, LEGEND_COLUMNS)
    save_canvas(canvas, figure.name, folder)


DELAY, ARMS = UniformDelay(10, 30), 2
#: Gaps times sqrt(T), and the largest gap.
GAPS, MAX_GAP = (2, 8, 32, 128), 0.9
#: Each run has a table of rewards of its own.
MAX_TABLES = 4
#: From T = 1e5 to 1e7, the root of ln T grows as T^0.04.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Player:
    """A policy, what it is called, whether it is an oracle, and the exponent of its bound."""

    policy: Policy
    name: str
    is_oracle: bool
    proved: float


PLAYERS = (
    Player(Dexp3(), "DEXP3", True, 1 / 2),
    Player(LiDexp3(), "DEXP3 of Li et al.", True, 1 / 2),
    Player(Dew(), "DEW", True, 1 / 2),
    Player(Skipper(), "Skipper", True, 1 / 2),
    Player(DelayedLeader(), "leader, simple", True, 1 / 2),
    Player(DelayedLeader("advanced"), "leader, advanced", True, 1 / 2),
    Player(DelayedLeader("both"), "leader, both worlds", True, 1 / 2),
    Player(Bold(Exp3("loss")), "BOLD(Exp3)", True, 1 / 2),
    Player(Clw(), "CLW", False, 1 / 2),
    Player(ArsClw(), "ARS-CLW", False, 3 / 5),
    Player(ArsExp3(), "ARS-EXP3", False, 2 / 3),
    Player(MiniBatch(), "mini-batches", False, 2 / 3),
)


@dataclass(frozen=True)
class ExponentFigure:
    """The regrets of adversarial policies at three horizons."""

    players: tuple[Player, ...] = PLAYERS
    key: str = "exponents"
    title: str = "Exponents of adversarial regret"
    caption: str = (
        "how the regret of adversarial policies grows with the horizon, beside what is proved"
    )

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return "adversarial-exponents"


@dataclass(frozen=True, eq=False)
class ExponentEvidence:
    """The regrets of one policy: by horizon a matrix, by gap and table; and those of the walk."""

    player: Player
    gaps: Mapping[int, Matrix]
    walk: Mapping[int, Matrix]

    @property
    def replications(self) -> int:
        """Tables, and so runs, of each bandit."""
        return len(next(iter(self.gaps.values())).T)

    def worst(self, horizon: int) -> float:
        """The mean regret with the worst of gaps."""
        return float(self.gaps[horizon].mean(axis=1).max())

    def wandering(self, horizon: int) -> float:
        """The mean regret in the walk, divided by that of a policy that plays all arms equally."""
        blind = MultiScaleWalk(horizon, ARMS).gap * horizon * (1 - 1 / ARMS)
        return float(self.walk[horizon].mean()) / blind

    @property
    def exponent(self) -> float:
        """The slope of a line through the logarithms of the worst mean regrets, at least 1 each."""
        horizons = list(self.gaps)
        logs = np.log([max(self.worst(horizon), 1.0) for horizon in horizons])
        return float(np.polyfit(np.log(horizons), logs, 1)[0])

    @property
    def error(self) -> float:
        """Its standard error: the middle one of evenly spaced horizons does not matter.

        NaN if there is one run only.
        """
        if self.replications < 2:
            return math.nan
        first, *_, last = self.gaps
        squares = (self._relative_variance(horizon) for horizon in (first, last))
        return math.sqrt(sum(squares)) / math.log(last / first)

    def _relative_variance(self, horizon: int) -> float:
        runs = self.gaps[horizon][int(self.gaps[horizon].mean(axis=1).argmax())]
        return float(runs.var(ddof=1) / len(runs) / runs.mean() ** 2)


EXPONENTS = ExponentFigure()


def list_exponent_horizons(settings: Settings) -> tuple[int, int, int]:
    """The horizons: a tenth of the chapter's, that one, and ten times it."""
    horizon = settings.beyond_horizon
    return horizon // 10, horizon, 10 * horizon


def make_bandits(horizon: int, table: int) -> list[AdversarialBandit]:
    """The bandits of one run: one for each gap, and the walk."""
    gaps = (min(gap / math.sqrt(horizon), MAX_GAP) for gap in GAPS)
    schedules = [DrawnRewards((0.5 + gap / 2, 0.5 - gap / 2), table) for gap in gaps]
    walk = MultiScaleWalk(horizon, ARMS, seed=table)
    return [AdversarialBandit(schedule, DELAY) for schedule in (*schedules, walk)]


def list_exponent_studies(figure: ExponentFigure, settings: Settings) -> list[StoredStudy]:
    """One study of one run per horizon, table and bandit, of all policies."""
    policies = tuple(player.policy for player in figure.players)
    return [
        StoredStudy(
            f"{figure.name}-{horizon}-{table}-{number}",
            policies,
            bandit,
            (horizon,),
            1,
            (settings.beyond_seed + table) % (MAX_SEED + 1),
            in_picture=True,
        )
        for horizon in list_exponent_horizons(settings)
        for table in range(min(MAX_TABLES, settings.beyond_replications))
        for number, bandit in enumerate(make_bandits(horizon, table))
    ]


def load_exponents(
    figure: ExponentFigure, settings: Settings, folder: Path
) -> list[ExponentEvidence]:
    """The evidence on all policies; none if a study is not stored."""
    horizons, bandits = list_exponent_horizons(settings), len(GAPS) + 1
    studies = [each.load(folder) for each in list_exponent_studies(figure, settings)]
    finals: dict[Player, list[float]] = {player: [] for player in figure.players}
    for study in studies:
        if study is None:
            return []
        for player, found in finals.items():
            found.append(float(study[player.policy].final[0]))
    evidence = []
    for player, found in finals.items():
        by_bandit = np.reshape(found, (len(horizons), -1, bandits)).transpose(0, 2, 1)
        gaps = {horizon: each[:-1] for horizon, each in zip(horizons, by_bandit, strict=True)}
        walk = {horizon: each[-1:] for horizon, each in zip(horizons, by_bandit, strict=True)}
        evidence.append(ExponentEvidence(player, gaps, walk))
    return evidence


def _judge_exponents(evidence: Sequence[ExponentEvidence]) -> Judgement:
    cases: list[tuple[CaseVerdict, Cells]] = []
    for each in evidence:
        low, high = each.exponent - 2 * each.error, each.exponent + 2 * each.error
        proved = each.player.proved
        most = proved + TOLERANCE
        verdict: CaseVerdict = (
            "holds" if each.exponent <= most else "fails" if low > most else "open"
        )
        numbers = (f"{proved:.2f}", f"{each.exponent:.2f} ({low:.2f} .. {high:.2f})")
        cases.append((verdict, (each.player.name, *numbers)))
    return judge_cases("policies", ("policy", "proved", "fitted"), cases)


CLAIM = Claim(
    "Where an adversary chose rewards and lags beforehand, the worst regret of each policy grows "
    "with the horizon no faster than proved.",
    "The exponent is the slope of a line through the logarithms of the regrets at three horizons, "
    "each the worst of the mean regrets with several gaps. Bounds have logarithms too, so the "
    f"claim holds for a policy if it is at most the proved one and {TOLERANCE}, and fails if it is "
    "more than two standard errors above that. Reproduced if it holds for every policy, not "
    "reproduced if it fails for more than half of them, otherwise partly.",
    _judge_exponents,
)


def exponent_table(evidence: Sequence[ExponentEvidence]) -> str:
    """Proved and fitted exponents, and the regrets that they are fitted to."""
    horizons = list(evidence[0].gaps)
    columns = (
        *("policy", "oracle", "proved", "fitted", "±"),
        *(f"worst regret, T = {horizon:,}" for horizon in horizons),
        *(f"walk / blind, T = {horizon:,}" for horizon in horizons),
    )
    rows = [
        (
            each.player.name,
            "yes" if each.player.is_oracle else "no",
            *(f"{number:.2f}" for number in (each.player.proved, each.exponent)),
            f"{each.error:.2f}" if math.isfinite(each.error) else ABSENT,
            *(f"{each.worst(horizon):,.0f}" for horizon in horizons),
            *(format_digits(max(each.wandering(horizon), 0.0), 3) for horizon in horizons),
        )
        for each in evidence
    ]
    return markdown_table(columns, rows)


def describe_exponents(evidence: Sequence[ExponentEvidence], settings: Settings) -> str:
    """The table of exponents with its caption."""
    caption = (
        f"Two arms, {DELAY}, {evidence[0].replications} runs, each with its own table of rewards, "
        f"seeds from {settings.beyond_seed} on. A proved exponent is that of the bound on regret, "
        "without logarithms; the fitted one is the slope of the worst regrets, with its standard "
        f"error. These are mean regrets with the worst of {len(GAPS)} gaps, "
        f"{', '.join(map(str, GAPS))} / sqrt(T). The last columns are the mean regrets in the walk "
        "of Dekel et al., divided by that of a policy that plays both arms equally: about 1 where "
        "nobody finds the better arm in time. That regret grows as T^(2/3) / log T."
    )
    return f"{exponent_table(evidence)}\n\n{textwrap.fill(caption, width=100)}"


def find_exponents(figure: ExponentFigure, settings: Settings, folder: Path) -> Findings:
    """The claim, judged by what a folder holds, and the section of the report."""
    evidence = load_exponents(figure, settings, folder)
    if not evidence:
        return Findings([], [], [], [])
    sections = [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        describe_exponents(evidence, settings),
    ]
    case = f"{evidence[0].replications} runs"
    return Findings([figure], [(CLAIM, {case: judge_claim(CLAIM, evidence)})], sections, [])


def draw_exponents(figure: ExponentFigure, settings: Settings, folder: Path) -> None:
    """Draw the worst regrets, and those in the walk, against the horizon."""
    evidence = load_exponents(figure, settings, folder)
    canvas = make_canvas(len(evidence))
    left, right = canvas.subplots(1, 2)
    horizons = list(evidence[0].gaps)
    for number, each in enumerate(evidence):
        style = {
            "color": f"C{number % 10}",
            "marker": "os^vDPX*<>ph"[number % 12],
            "linestyle": "-" if each.player.is_oracle else "--",
            "label": each.player.name,
        }
        left.plot(horizons, [each.worst(horizon) for horizon in horizons], **style)
        right.plot(horizons, [each.wandering(horizon) for horizon in horizons], **style)
    _finish_axes(left, "worst mean regret")
    left.set_yscale("log")
    left.set_title("Independent rewards, the worst of gaps", fontsize="small")
    _finish_axes(right, "mean regret / that of a blind policy")
    right.set_title("The walk of Dekel et al.", fontsize="small")
    canvas.suptitle(f"{figure.title}, {evidence[0].replications} runs", fontsize="large")
    add_legend(canvas, left)
    save_canvas(canvas, figure.name, folder)


def _finish_axes(axes: "Axes", label: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.set_xlabel("horizon")
    axes.set_ylabel(label)
    axes.grid(visible=True, alpha=0.3)
