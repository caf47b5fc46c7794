"""The chapter beyond the paper: the regret of SettleUcb beside its rivals.

Here are its studies, its picture, and its sections of the report; its figures, results and claims
are beside it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aftereffect._core import Vector
from aftereffect.policies import Policy
from aftereffect.reproduction.beyond.claims import RegretEvidence, list_claims
from aftereffect.reproduction.beyond.figures import (
    ARS,
    FIGURES,
    SETTLE,
    RegretFigure,
    Setting,
)
from aftereffect.reproduction.beyond.results import (
    cost_table,
    describe_summary,
    draw_ratios,
    growth_table,
    regret_table,
    summary_table,
)
from aftereffect.reproduction.chapters import (
    Chapter,
    Findings,
    JudgedClaims,
    StoredStudy,
    judge_claim,
)
from aftereffect.reproduction.settings import Settings
from aftereffect.simulation import Study, log_spaced

__all__ = ["CHAPTER", "FIGURES", "summarize_regret"]


GROWTH_CHECKPOINTS, MAX_GROWTH_RUNS = 31, 200
#: The exponents that are tried.
GROWTH_POWERS = [round(0.05 * step, 2) for step in range(1, 201)]
TIMED_RUNS, TIMED_REPEATS = 64, 7


def list_horizons(settings: Settings) -> tuple[int, int, int]:
    """The horizons at which regret is compared."""
    horizon = settings.beyond_horizon
    return horizon // 100, horizon // 10, horizon


def list_studies(figure: RegretFigure, settings: Settings) -> list[StoredStudy]:
    """All studies of all settings: regrets, growth and processor time."""
    return [
        study
        for setting in figure.settings
        for study in _studies_of(figure, setting, settings).values()
    ]


def _studies_of(
    figure: RegretFigure, setting: Setting, settings: Settings
) -> dict[str, StoredStudy]:
    """The studies of one setting, by what they are for."""
    stem = f"{figure.name}-{1 + figure.settings.index(setting):02}"
    horizons = list_horizons(settings)
    long = 10 * settings.beyond_horizon

    def store(
        name: str, policies: Sequence[Policy], checkpoints: tuple[int, ...], runs: int
    ) -> StoredStudy:
        return StoredStudy(
            f"{stem}-{name}",
            tuple(policies),
            setting.bandit,
            checkpoints,
            runs,
            settings.beyond_seed,
            in_picture=name.startswith("horizon"),
            timed=name.startswith("timed"),
        )

    runs = settings.beyond_replications
    anytime = [policy for policy in setting.policies if not policy.needs_horizon]
    studies = {"horizons": store("horizons", anytime, horizons, runs)}
    # A policy that must know the horizon plays once for each.
    tuned = [policy for policy in setting.policies if policy.needs_horizon]
    for horizon in horizons if tuned else ():
        studies[f"horizon-{horizon}"] = store(f"horizon-{horizon}", tuned, (horizon,), runs)
    if setting.has_growth:
        slots = log_spaced(horizons[1], long, GROWTH_CHECKPOINTS)
        studies["growth"] = store("growth", (SETTLE,), slots, min(MAX_GROWTH_RUNS, runs))
    # Processor times vary with what else the machine does: the shortest of some repeats counts.
    for repeat in range(TIMED_REPEATS) if setting.is_timed else ():
        studies[f"timed-{repeat}"] = store(f"timed-{repeat}", (SETTLE, ARS), (long,), TIMED_RUNS)
    return studies


def load_evidence(
    figure: RegretFigure, settings: Settings, folder: Path, *, complete: bool = True
) -> list[RegretEvidence]:
    """The evidence of all settings; none if a study is not stored.

    Without ``complete``, only the studies that the picture shows are needed and read.
    """
    evidence = []
    for setting in figure.settings:
        stored = _studies_of(figure, setting, settings)
        wanted = {name: each for name, each in stored.items() if complete or each.in_picture}
        studies = {
            name: study for name, each in wanted.items() if (study := each.load(folder)) is not None
        }
        if len(studies) < len(wanted):
            return []
        evidence.append(_read_evidence(setting, studies, list_horizons(settings)))
    return evidence


def _read_evidence(
    setting: Setting, studies: Mapping[str, Study], horizons: tuple[int, int, int]
) -> RegretEvidence:
    regret = {}
    for policy in setting.policies:
        if policy.needs_horizon:
            finals = [studies[f"horizon-{horizon}"][policy].final for horizon in horizons]
            regret[policy] = np.column_stack(finals)
        else:
            regret[policy] = studies["horizons"][policy].regret
    growth = cost = None
    if "growth" in studies:
        study = studies["growth"]
        mean = study[SETTLE].mean
        growth = (float(mean[0]), float(mean[-1]), fit_growth(study.checkpoints, mean))
    timed = [study for name, study in studies.items() if name.startswith("timed")]
    if timed:
        settle, ars = (
            min(study[policy].seconds for study in timed) / TIMED_RUNS for policy in (SETTLE, ARS)
        )
        cost = (settle, ars)
    return RegretEvidence(setting, horizons, regret, growth, cost)


def fit_growth(slots: Sequence[int], mean: Vector) -> float:
    """The p with which a + b (ln T)^p fits best, by least squares; a holds what is paid once.

    >>> slots = [10**5, 10**6, 10**7, 10**8]
    >>> fit_growth(slots, 3 + 2 * np.log(slots) ** 1.5)
    1.5
    """
    residuals = {
        power: np.polyfit(np.log(slots) ** power, mean, 1, full=True)[1].sum()
        for power in GROWTH_POWERS
    }
    return min(GROWTH_POWERS, key=residuals.__getitem__)


def make_findings(settings: Settings, folder: Path) -> Findings:
    """Judge the claims by what a folder holds."""
    figure = FIGURES["regret"]
    evidence = load_evidence(figure, settings, folder)
    if not evidence:
        return Findings([], [], [], [])
    claims = _judge_claims(evidence, settings)
    sections = [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        f"Pseudo-regret over {settings.beyond_replications:,} runs, seed {settings.beyond_seed}. "
        '"ARS-UCB / policy" is the mean regret of ARS-UCB divided by that of the policy: above 1 '
        'the policy is better. "policy / floor" is its mean regret divided by the Lai-Robbins '
        "slope times ln T, below which no consistent policy stays in the long run if it sees "
        "rewards at once. A dash: the policy cannot play, as ODAAF must know the mean lag and that "
        "is infinite, or no floor is known.",
    ]
    horizons, long = list_horizons(settings), 10 * settings.beyond_horizon
    for horizon in horizons:
        sections += [f"#### T = {horizon:,}", regret_table(evidence, horizon)]
    sections += [
        "#### Growth of the mean regret of SettleUcb as a + b (ln T)^p",
        growth_table(evidence, horizons[1], long),
        f"#### Processor time of one replication, T = {long:,}",
        cost_table(evidence),
    ]
    return Findings([figure], claims, sections, [])


def _judge_claims(evidence: Sequence[RegretEvidence], settings: Settings) -> JudgedClaims:
    case = f"{settings.beyond_replications:,} runs"
    claims = list_claims(list_horizons(settings))
    return [(claim, {case: judge_claim(claim, evidence)}) for claim in claims]


def summarize_regret(folder: Path, settings: Settings) -> str:
    """SettleUcb beside its rivals in one table with its caption, from a finished folder.

    It is empty if a study is missing in the folder.

    >>> print(summarize_regret(Path("regret"), DEFAULT))  # doctest: +SKIP
    | setting                   | mean | p95 | worst | ARS-UCB, T=1e4 |  1e5 |  1e6 | ...
    | ------------------------- | ---: | --: | ----: | -------------: | ---: | ---: | ...
    | delay uniform on 10 .. 30 |  373 | 463 |   548 |           2.72 | 3.75 | 4.41 | ...
    """
    evidence = load_evidence(FIGURES["regret"], settings, folder)
    if not evidence:
        return ""
    claims = _judge_claims(evidence, settings)
    caption = describe_summary(evidence, claims, settings.beyond_seed)
    return f"{summary_table(evidence)}\n\n{caption}"


def draw_figure(figure: RegretFigure, settings: Settings, folder: Path) -> None:
    """Write the picture of a figure whose studies are stored."""
    draw_ratios(figure, load_evidence(figure, settings, folder, complete=False), folder)


CHAPTER = Chapter(
    "beyond",
    "Beyond the paper: SettleUcb",
    FIGURES,
    of_paper=False,
    list_studies=list_studies,
    draw_figure=draw_figure,
    make_findings=make_findings,
)
