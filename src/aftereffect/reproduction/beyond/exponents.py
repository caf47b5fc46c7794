"""How the regret of adversarial policies grows with the horizon, beside what is proved.

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
    Bold,
    Clw,
    DelayedLeader,
    Dew,
    Dexp3,
    Exp3,
    LiDexp3,
    MiniBatch,
    Policy,
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
from aftereffect.reproduction.chapters import Findings, StoredStudy
from aftereffect.rewards import DrawnRewards, MultiScaleWalk
from aftereffect.simulation import PLAIN_NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
