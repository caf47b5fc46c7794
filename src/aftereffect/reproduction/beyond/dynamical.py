"""Dynamical linear bandits: ours, told nothing, beside DynLin-UCB, told how fast effects fade.

The system is that of Mussi, Metelli and Restelli (2023, configuration ``testcase_realdata`` of
their program): three platforms and six plans that spend a budget, with noise of 0.01 in each entry
of the state and in each of three outputs, which are added up. The best plan in the long run is only
the fifth best at once. Plans stand in the order of their program.

Their program scales rewards for EXP3 by a bound on their size, from -2 M to 2 M. What totals really
can be is a range a fifth as wide, and there gaps are five times as large. Further settings have a
state that changes more slowly, with the same long-run levels: I - A and B divided by a number, and
the noise of the state by its root.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aftereffect._core import Vector
from aftereffect.bandits import LinearBandit
from aftereffect.policies import DynLinUcb, Exp3, MiniBatch, Policy
from aftereffect.reproduction._claims import (
    CaseVerdict,
    Cells,
    Claim,
    Judgement,
    judge_cases,
    judge_claim,
    judge_draws,
    resample_means,
)
from aftereffect.reproduction._pictures import add_legend, make_canvas, save_canvas
from aftereffect.reproduction._report import format_digits, markdown_table
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.beyond.figures import ARS, ARS_KL, NAIVE, NAMES, SETTLE
from aftereffect.reproduction.chapters import Findings, StoredStudy
from aftereffect.simulation import PLAIN_NUMBERS, space_logarithmically

_A = ((0.38, 0.33, 0.6), (0.07, 0.76, -0.54), (0.18, 0.34, 0.05))
_B = ((0.14, 0.34, -0.05), (-0.17, 0.03, -0.01), (0.04, -0.09, 0.17))
_OMEGA, _THETA = (-0.61, -0.04, -0.13), (0.13, 0.41, 0.02)
_PLANS = ((0, 0.5, 1), (0, 1, 0.5), (0.5, 0, 1), (0.5, 1, 0), (1, 0, 0.5), (1, 0.5, 0))
_SIGMA, _OUTPUTS = 0.01, 3
#: M of their program, to three digits: (Theta + Omega B / (1 - rho)) U.
_BOUND = 1.29


def make_system(
    slower: float = 1.0, reward_range: tuple[float, float] | None = None
) -> LinearBandit:
    """The system, with a state that changes so many times as slowly."""
    same = np.eye(len(_A))
    return LinearBandit(
        np.round(same - (same - np.array(_A)) / slower, 12).tolist(),
        np.round(np.array(_B) / slower, 12).tolist(),
        _OMEGA,
        _THETA,
        _PLANS,
        _SIGMA / math.sqrt(slower),
        _SIGMA * math.sqrt(_OUTPUTS),
        reward_range,
    )


@dataclass(frozen=True)
class System:
    """A setting: what it is called, and its bandit."""

    name: str
    bandit: LinearBandit


AUTHORS = System("the authors' range", make_system(reward_range=(-2 * _BOUND, 2 * _BOUND)))
TIGHT = System("range of totals", make_system())
SYSTEMS = (
    AUTHORS,
    TIGHT,
    *(System(f"{slower} times slower", make_system(slower)) for slower in (5, 20)),
)

DYN_LIN, LIN, EXP3 = DynLinUcb(), DynLinUcb(radius=0, leak=0), Exp3()
#: Besides mini-batches, of which the size depends on the system.
POLICIES: Mapping[Policy, str] = {
    SETTLE: NAMES[SETTLE],
    ARS_KL: NAMES[ARS_KL],
    ARS: NAMES[ARS],
    DYN_LIN: "DynLin-UCB",
    LIN: "Lin-UCB",
    EXP3: "EXP3",
    NAIVE: NAMES[NAIVE],
}
BATCHES = "batch EXP3"
OURS = (SETTLE, ARS_KL, ARS)
MAX_RUNS, CHECKPOINTS, FIRST = 100, 25, 100
#: A tenth of the horizon has at most this share of the regret of a policy that goes on losing.
MAX_SHARE_OF_LINEAR = 1 / 8
MAX_RATIO = 0.5
#: Who loses less than whom in two runs of the authors' program, with their configuration and
#: T = 1,000,000: DynLin-UCB 75 and 76 thousand, batch EXP3 159 and 170, EXP3 216 and 218, Lin-UCB
#: 216. Its other rivals are not here: D-Lin-UCB, which lost 216, AR2, 178, and a constant expert.
ORDER = (("DynLin-UCB", BATCHES), (BATCHES, "EXP3"), (BATCHES, "Lin-UCB"))


@dataclass(frozen=True)
class DynamicalFigure:
    """The regrets of all policies in some systems."""

    systems: tuple[System, ...] = SYSTEMS
    key: str = "dynamical"
    title: str = "Dynamical linear bandits"
    caption: str = "signed, long effects: ours, told nothing, beside DynLin-UCB, told their radius"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return "dynamical-linear-bandits"


DYNAMICAL = DynamicalFigure()


@dataclass(frozen=True, eq=False)
class DynamicalEvidence:
    """What each policy lost in one system: by its name, a matrix by run and slot."""

    system: System
    slots: tuple[int, ...]
    regret: Mapping[str, np.ndarray]

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return len(next(iter(self.regret.values())))

    def final(self, name: str) -> Vector:
        """The regret of each run at the end."""
        last: Vector = self.regret[name][:, -1]
        return last

    def ratio(self, name: str) -> float:
        """The mean regret of a policy, divided by that of DynLin-UCB."""
        return float(self.final(name).mean() / self.final(POLICIES[DYN_LIN]).mean())

    def early_share(self, name: str) -> float:
        """The share of a policy's mean regret at a tenth of the horizon."""
        place = self.slots.index(self.slots[-1] // 10)
        return float(self.regret[name][:, place].mean() / self.final(name).mean())


def list_checkpoints(settings: Settings) -> tuple[int, ...]:
    """Where regrets are noted; a tenth of the horizon is one of these slots."""
    horizon = settings.beyond_horizon
    spaced = space_logarithmically(min(FIRST, horizon), horizon, CHECKPOINTS)
    return tuple(sorted({*spaced, horizon // 10}))


def count_batch(system: System, horizon: int) -> int:
    """The slots of a batch by the rule of the authors: the longest hold of DynLin-UCB, rounded up.

    >>> count_batch(TIGHT, 1_000_000)
    27
    """
    shrink = -math.log(system.bandit.system.radius)
    rounds = slots = 0
    while slots < horizon:
        rounds += 1
        slots += 1 + int(math.log(rounds) / shrink)
    return max(math.ceil(math.log(rounds) / shrink), 1)


def list_dynamical_studies(figure: DynamicalFigure, settings: Settings) -> list[StoredStudy]:
    """One study of all policies in each system."""
    return [
        StoredStudy(
            f"{figure.name}-{number:02}",
            (*POLICIES, MiniBatch(EXP3, count_batch(system, settings.beyond_horizon))),
            system.bandit,
            list_checkpoints(settings),
            min(MAX_RUNS, settings.beyond_replications),
            settings.beyond_seed,
            in_picture=True,
        )
        for number, system in enumerate(figure.systems, 1)
    ]


def load_dynamical(
    figure: DynamicalFigure, settings: Settings, folder: Path
) -> list[DynamicalEvidence]:
    """The evidence of all systems; none if a study is not stored."""
    names, evidence = [*POLICIES.values(), BATCHES], []
    stored = list_dynamical_studies(figure, settings)
    for system, each in zip(figure.systems, stored, strict=True):
        if (study := each.load(folder)) is None:
            return []
        regret = {name: runs.regret for name, runs in zip(names, study, strict=True)}
        evidence.append(DynamicalEvidence(system, study.checkpoints, regret))
    return evidence


def _judge_order(evidence: Sequence[DynamicalEvidence]) -> Judgement:
    """The order of the authors' program, in their system with their range."""
    cases: list[tuple[CaseVerdict, Cells]] = []
    for each in evidence:
        for better, worse in ORDER if each.system == AUTHORS else ():
            regrets = np.column_stack([each.final(better), each.final(worse)])
            draws = resample_means(regrets)
            numbers = (f"{mean:,.0f}" for mean in regrets.mean(axis=0))
            cases.append((judge_draws(draws[:, 0] < draws[:, 1]), (better, worse, *numbers)))
    columns = ("policy", "loses less than", "regret", "regret of the other")
    return judge_cases("pairs of policies", columns, cases)


def _judge_linear(evidence: Sequence[DynamicalEvidence]) -> Judgement:
    """Whether policies that ignore the dynamics go on losing."""
    cases: list[tuple[CaseVerdict, Cells]] = []
    for each in evidence:
        for name in (POLICIES[LIN], POLICIES[EXP3]) if each.system == AUTHORS else ():
            share = each.early_share(name)
            verdict: CaseVerdict = "holds" if share <= MAX_SHARE_OF_LINEAR else "fails"
            cases.append((verdict, (name, f"{share:.3f}")))
    return judge_cases("policies", ("policy", "share of its regret at T / 10"), cases)


def _claim_ratios(where: str, systems: Sequence[System], names: Sequence[str]) -> Claim:
    """A claim that these policies lose at most half as much as DynLin-UCB in these systems."""

    def judge(evidence: Sequence[DynamicalEvidence]) -> Judgement:
        cases: list[tuple[CaseVerdict, Cells]] = []
        for each in evidence:
            for name in names if each.system in systems else ():
                ratio = each.ratio(name)
                verdict: CaseVerdict = "holds" if ratio <= MAX_RATIO else "fails"
                worst = format_digits(each.final(name).max(), 3)
                cases.append((verdict, (each.system.name, name, format_digits(ratio, 3), worst)))
        columns = ("system", "policy", "ratio", "worst run")
        return judge_cases("systems and policies", columns, cases)

    return Claim(
        f"{where} each of {', '.join(names)} loses at most {MAX_RATIO:g} times as much as "
        "DynLin-UCB, which is told the spectral radius; they are told nothing.",
        "The claim holds for a policy in a system if the ratio of mean regrets, the policy / "
        f"DynLin-UCB, is at most {MAX_RATIO:g}. Reproduced if it holds for all, not reproduced if "
        "it fails for more than half of them, otherwise partly.",
        judge,
    )


CLAIMS = (
    Claim(
        "In the authors' system, regrets are in the order in which their program has them: "
        "DynLin-UCB, batch EXP3, then EXP3 and Lin-UCB.",
        "The claim holds for two policies if at least 97.5 % of the bootstrap draws agree on which "
        "mean regret is lower. Reproduced if it holds for all pairs, not reproduced if it fails "
        "for more than half of them, otherwise partly.",
        _judge_order,
    ),
    Claim(
        "In the authors' system, policies that ignore the dynamics, EXP3 and Lin-UCB, lose in "
        "proportion to time.",
        "The claim holds for a policy if at a tenth of the horizon its mean regret is at most "
        f"{MAX_SHARE_OF_LINEAR:g} of that at the horizon. Reproduced if it holds for all, not "
        "reproduced if it fails for more than half of them, otherwise partly.",
        _judge_linear,
    ),
    _claim_ratios(
        "In the authors' system, with either range,",
        (AUTHORS, TIGHT),
        [POLICIES[policy] for policy in OURS],
    ),
    _claim_ratios("In every system, slower ones too,", SYSTEMS, [POLICIES[ARS]]),
)


def dynamical_table(evidence: Sequence[DynamicalEvidence]) -> str:
    """Mean regrets by policy and system, and the worst run of each."""
    columns = ["policy", "what it is told"]
    for each in evidence:
        columns += [each.system.name, "worst run"]
    known = {
        POLICIES[DYN_LIN]: "radius, bounds, horizon",
        POLICIES[LIN]: "bounds, horizon",
        POLICIES[EXP3]: "horizon",
        BATCHES: "radius, horizon",
    }
    rows = []
    for name in evidence[0].regret:
        row = [name, known.get(name, "nothing")]
        for each in evidence:
            row += [f"{each.final(name).mean():,.0f}", f"{each.final(name).max():,.0f}"]
        rows.append(row)
    return markdown_table(columns, rows)


def describe_dynamical(evidence: Sequence[DynamicalEvidence], settings: Settings) -> str:
    """The table of regrets with its caption."""
    radii = ", ".join(f"{each.system.bandit.system.radius:.3f}" for each in evidence)
    caption = (
        f"Mean regret at T = {evidence[0].slots[-1]:,} against the best constant plan, and that of "
        f"the worst run, over {evidence[0].replications:,} runs with seed {settings.beyond_seed}. "
        f"Spectral radii: {radii}. Policies made for "
        "rewards from 0 to 1 see totals scaled by the range; DynLin-UCB and Lin-UCB do not depend "
        "on it."
    )
    return f"{dynamical_table(evidence)}\n\n{textwrap.fill(caption, width=100)}"


def find_dynamical(figure: DynamicalFigure, settings: Settings, folder: Path) -> Findings:
    """The claims, judged by what a folder holds, and the section of the report."""
    evidence = load_dynamical(figure, settings, folder)
    if not evidence:
        return Findings([], [], [], [])
    sections = [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        describe_dynamical(evidence, settings),
    ]
    case = f"{evidence[0].replications:,} runs"
    judged = [(claim, {case: judge_claim(claim, evidence)}) for claim in CLAIMS]
    return Findings([figure], judged, sections, [])


def draw_dynamical(figure: DynamicalFigure, settings: Settings, folder: Path) -> None:
    """Draw the mean regrets against time, a panel for each system."""
    evidence = load_dynamical(figure, settings, folder)
    rows = math.ceil(len(evidence) / 2)
    canvas = make_canvas(len(evidence[0].regret), rows)
    panels = canvas.subplots(rows, 2, sharey=True, squeeze=False).flat
    for axes, each in zip(panels, evidence, strict=False):
        for number, (name, regret) in enumerate(each.regret.items()):
            style = "-" if number < len(OURS) else "--"
            marker = "osD^vPX*<"[number]
            axes.plot(each.slots, regret.mean(axis=0), style, marker=marker, ms=3, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
        axes.yaxis.set_major_formatter(PLAIN_NUMBERS)
        axes.set_title(each.system.name, fontsize="small")
        axes.grid(visible=True, alpha=0.3)
        axes.set_xlabel("slots")
        axes.set_ylabel("mean regret")
    canvas.suptitle(f"{figure.title}, {evidence[0].replications:,} runs", fontsize="large")
    add_legend(canvas, canvas.axes[0])
    save_canvas(canvas, figure.name, folder)
