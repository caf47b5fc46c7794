"""The chapter beyond the paper: the regret of SettleUcb beside its rivals, and beside oracles.

Here are the studies, the tables and the picture of the rivals; their settings and claims are beside
it, and so is every other figure, with its own.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np

from aftereffect._core import Vector
from aftereffect.policies import Policy
from aftereffect.reproduction._claims import JudgedClaims, judge_claim
from aftereffect.reproduction._pictures import add_legend, save_canvas
from aftereffect.reproduction._report import ABSENT, format_digits, markdown_table
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.beyond import dynamical, exponents, orders, price
from aftereffect.reproduction.beyond.dynamical import DynamicalFigure
from aftereffect.reproduction.beyond.exponents import ExponentFigure
from aftereffect.reproduction.beyond.figures import (
    ARS,
    ARS_KL,
    FIGURE,
    NAIVE,
    NAMES,
    ODAAF,
    SETTLE,
    Horizons,
    RegretEvidence,
    RegretFigure,
    Setting,
    list_claims,
)
from aftereffect.reproduction.beyond.orders import OrderFigure
from aftereffect.reproduction.beyond.price import PriceFigure
from aftereffect.reproduction.chapters import Chapter, Findings, StoredStudy
from aftereffect.simulation import PLAIN_NUMBERS, Study, space_logarithmically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CHAPTER",
    "FIGURES",
    "summarize_dynamical",
    "summarize_exponents",
    "summarize_orders",
    "summarize_price",
    "summarize_regret",
]

#: A figure of this chapter.
BeyondFigure: TypeAlias = (
    RegretFigure | OrderFigure | PriceFigure | ExponentFigure | DynamicalFigure
)
FIGURES: dict[str, BeyondFigure] = {
    figure.key: figure
    for figure in (
        FIGURE,
        orders.ORDERS,
        price.PRICE,
        exponents.EXPONENTS,
        dynamical.DYNAMICAL,
    )
}


#: So many of the horizons are short.
_SHORT = 2
GROWTH_CHECKPOINTS, MAX_GROWTH_RUNS = 31, 200
#: The exponents that are tried.
GROWTH_POWERS = [round(0.05 * step, 2) for step in range(1, 201)]
TIMED_RUNS, TIMED_REPEATS = 64, 7
RIVALS = (ARS, ODAAF, NAIVE)
WIDTH, ROW, MARGINS = 12.5, 0.3, 1.9
TICKS = (0.03, 0.1, 0.3, 1, 3, 10, 30)


class Mark(NamedTuple):
    """How a policy is marked; shapes differ too, for grey print."""

    shape: str
    colour: str
    size: int


MARKS: Mapping[Policy, Mark] = {
    SETTLE: Mark("o", "#0072B2", 9),
    ARS_KL: Mark("D", "#009E73", 6),
    ODAAF: Mark("s", "#D55E00", 6),
    NAIVE: Mark("X", "#000000", 7),
}


def list_horizons(settings: Settings) -> Horizons:
    """The horizons at which regret is compared."""
    horizon = settings.beyond_horizon
    shortest = horizon // 1_000
    return Horizons(shortest, 3 * shortest, horizon // 100, horizon // 10, horizon)


def list_studies(figure: BeyondFigure, settings: Settings) -> list[StoredStudy]:
    """All studies of all settings; besides regrets, those of growth and processor time."""
    if isinstance(figure, OrderFigure):
        return orders.list_order_studies(figure, settings)
    if isinstance(figure, PriceFigure):
        return price.list_price_studies(figure, settings)
    if isinstance(figure, ExponentFigure):
        return exponents.list_exponent_studies(figure, settings)
    if isinstance(figure, DynamicalFigure):
        return dynamical.list_dynamical_studies(figure, settings)
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
    # A policy that must know the horizon plays once for each, but the short ones.
    tuned = [policy for policy in setting.policies if policy.needs_horizon]
    for horizon in horizons[_SHORT:] if tuned else ():
        studies[f"horizon-{horizon}"] = store(f"horizon-{horizon}", tuned, (horizon,), runs)
    if setting.has_growth:
        slots = space_logarithmically(horizons.middle, long, GROWTH_CHECKPOINTS)
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
    setting: Setting, studies: Mapping[str, Study], horizons: Horizons
) -> RegretEvidence:
    regret = {}
    for policy in setting.policies:
        if policy.needs_horizon:
            finals = [studies[f"horizon-{horizon}"][policy].final for horizon in horizons[_SHORT:]]
            regret[policy] = np.column_stack([np.full((len(finals[0]), _SHORT), math.nan), *finals])
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
    found = [
        _find_regrets(settings, folder),
        orders.find_orders(cast(OrderFigure, FIGURES["orders"]), settings, folder),
        price.find_prices(cast(PriceFigure, FIGURES["price"]), settings, folder),
        exponents.find_exponents(cast(ExponentFigure, FIGURES["exponents"]), settings, folder),
        dynamical.find_dynamical(cast(DynamicalFigure, FIGURES["dynamical"]), settings, folder),
    ]
    return Findings(
        [figure for each in found for figure in each.figures],
        [claim for each in found for claim in each.claims],
        [section for each in found for section in each.sections],
        [],
    )


def _find_regrets(settings: Settings, folder: Path) -> Findings:
    figure = cast(RegretFigure, FIGURES["regret"])
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
        growth_table(evidence, horizons.middle, long),
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
    evidence = load_evidence(cast(RegretFigure, FIGURES["regret"]), settings, folder)
    if not evidence:
        return ""
    claims = _judge_claims(evidence, settings)
    caption = describe_summary(evidence, claims, settings.beyond_seed)
    return f"{summary_table(evidence)}\n\n{caption}"


def summarize_orders(folder: Path, settings: Settings) -> str:
    """The regret in random orders in one table with its caption; empty if a study is missing.

    >>> summarize_orders(Path("nowhere"), Settings())
    ''
    >>> len(orders.list_order_studies(orders.ORDERS, Settings()))
    164
    """
    evidence = orders.load_orders(cast(OrderFigure, FIGURES["orders"]), settings, folder)
    return orders.describe_orders(evidence, settings) if evidence else ""


def summarize_price(folder: Path, settings: Settings) -> str:
    """The prices of anonymity in one table with its caption; empty if a study is missing.

    >>> summarize_price(Path("nowhere"), Settings())
    ''
    >>> price.find_horizon(Settings())
    100000
    """
    evidence = price.load_prices(cast(PriceFigure, FIGURES["price"]), settings, folder)
    return price.describe_prices(evidence, settings) if evidence else ""


def summarize_exponents(folder: Path, settings: Settings) -> str:
    """The exponents in one table with its caption; empty if a study is missing.

    >>> summarize_exponents(Path("nowhere"), Settings())
    ''
    >>> exponents.list_exponent_horizons(Settings())
    (100000, 1000000, 10000000)
    """
    figure = cast(ExponentFigure, FIGURES["exponents"])
    evidence = exponents.load_exponents(figure, settings, folder)
    return exponents.describe_exponents(evidence, settings) if evidence else ""


def summarize_dynamical(folder: Path, settings: Settings) -> str:
    """The regrets in linear bandits in one table with its caption; empty if a study is missing.

    >>> summarize_dynamical(Path("nowhere"), Settings())
    ''
    >>> len(dynamical.CLAIMS)
    4
    """
    figure = cast(DynamicalFigure, FIGURES["dynamical"])
    evidence = dynamical.load_dynamical(figure, settings, folder)
    return dynamical.describe_dynamical(evidence, settings) if evidence else ""


def draw_figure(figure: BeyondFigure, settings: Settings, folder: Path) -> None:
    """Write the picture of a figure whose studies are stored."""
    if isinstance(figure, OrderFigure):
        orders.draw_orders(figure, settings, folder)
    elif isinstance(figure, PriceFigure):
        price.draw_prices(figure, settings, folder)
    elif isinstance(figure, ExponentFigure):
        exponents.draw_exponents(figure, settings, folder)
    elif isinstance(figure, DynamicalFigure):
        dynamical.draw_dynamical(figure, settings, folder)
    else:
        draw_ratios(figure, load_evidence(figure, settings, folder, complete=False), folder)


def regret_table(evidence: Sequence[RegretEvidence], horizon: int) -> str:
    """Every policy in every setting, at one horizon."""
    columns = (
        *("setting", "policy", "mean", "p95", "worst"),
        *(f"{NAMES[rival]} / policy" for rival in RIVALS),
        "policy / floor",
    )
    rows = [
        (
            each.setting.name,
            name,
            *_format_runs(each, policy, horizon),
            *(format_digits(each.ratio(rival, policy, horizon), 3) for rival in RIVALS),
            format_digits(each.floor_ratio(policy, horizon), 3),
        )
        for each in evidence
        for policy, name in NAMES.items()
    ]
    return markdown_table(columns, rows)


def growth_table(evidence: Sequence[RegretEvidence], first: int, last: int) -> str:
    """How the mean regret of SettleUcb grows where the reach is finite."""
    columns = (
        "setting",
        f"T = {first:,}",
        f"T = {last:,}",
        "p",
    )
    rows = [
        (
            each.setting.name,
            f"{each.growth[0]:,.0f}",
            f"{each.growth[1]:,.0f}",
            f"{each.growth[2]:.2f}",
        )
        for each in evidence
        if each.growth is not None
    ]
    return markdown_table(columns, rows)


def cost_table(evidence: Sequence[RegretEvidence]) -> str:
    """The processor time of one replication."""
    rows = [
        (
            each.setting.name,
            *(f"{1e3 * seconds:.3g} ms" for seconds in each.cost),
            format_digits(each.cost[0] / each.cost[1], 3),
        )
        for each in evidence
        if each.cost is not None
    ]
    return markdown_table(("setting", NAMES[SETTLE], NAMES[ARS], "ratio"), rows)


def _format_runs(evidence: RegretEvidence, policy: Policy, horizon: int) -> list[str]:
    """Mean, 95th percentile and maximum of the regret."""
    numbers = (
        measure(policy, horizon) for measure in (evidence.mean, evidence.p95, evidence.worst)
    )
    return [f"{number:,.0f}" if math.isfinite(number) else ABSENT for number in numbers]


def summary_table(evidence: Sequence[RegretEvidence]) -> str:
    """SettleUcb alone, a row for each setting."""
    shortest, short, early, middle, late = evidence[0].horizons
    columns = (
        *("setting", "mean", "p95", "worst", f"ARS-UCB, T={_format_power(early)}"),
        *(_format_power(middle), _format_power(late), "ODAAF", "UCB1", "floor"),
        *(f"ARS-KL-UCB, T={_format_power(shortest)}", _format_power(short)),
    )
    rows = [
        (
            each.setting.name,
            *_format_runs(each, SETTLE, middle),
            *(format_digits(each.ratio(ARS, SETTLE, slot), 3) for slot in (early, middle, late)),
            *(format_digits(each.ratio(rival, SETTLE, middle), 3) for rival in (ODAAF, NAIVE)),
            format_digits(each.floor_ratio(SETTLE, middle), 3),
            *(format_digits(each.ratio(ARS_KL, SETTLE, slot), 3) for slot in (shortest, short)),
        )
        for each in evidence
    ]
    return markdown_table(columns, rows)


def describe_summary(evidence: Sequence[RegretEvidence], claims: JudgedClaims, seed: int) -> str:
    """What the columns of the summary are, and how many claims were reproduced."""
    middle = evidence[0].horizons[3]
    judged = [(claim, found) for claim, cases in claims for found in cases.values()]
    missed = [(claim, found) for claim, found in judged if found.verdict != "reproduced"]
    text = (
        "The columns mean, p95 and worst are the mean, the 95th percentile and the maximum of the "
        f"regret of SettleUcb at T = {middle:,}, over {evidence[0].replications:,} runs with seed "
        f"{seed}. The columns of ARS-UCB are the mean regret of `ArsUcb(4, Power(2))` divided by "
        "that of SettleUcb, at three horizons. The columns ODAAF and UCB1 are the same ratio at "
        f"T = {middle:,}. ODAAF knows the horizon and the true mean lag; UCB1 ignores the delay. "
        "The column floor is the mean regret of SettleUcb divided by the Lai-Robbins slope times "
        "ln T, which is the floor for rewards that arrive at once. The last columns are the mean "
        "regret of ARS-KL-UCB divided by that of SettleUcb at short horizons. A dash means that "
        "ODAAF cannot play with an infinite mean lag, or that no floor is known. The first "
        f"{sum(each.setting.of_paper for each in evidence)} settings are the paper's. Of "
        f"{len(judged)} claims, {len(judged) - len(missed)} were reproduced."
    )
    for claim, found in missed:
        text += f' Not reproduced: "{claim.title}" ({found.count}).'
    return textwrap.fill(text, width=100)


def _format_power(slots: int) -> str:
    """A horizon in few characters: 1e5."""
    return f"{slots:.0e}".replace("e+0", "e")


def draw_ratios(figure: RegretFigure, evidence: Sequence[RegretEvidence], folder: Path) -> None:
    """Draw the ratios of mean regrets: a row for each setting, a mark for each policy."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(WIDTH, MARGINS + ROW * len(evidence)), layout="constrained")
    horizons = evidence[0].horizons[3:]
    panels = canvas.subplots(1, len(horizons), sharex=True, sharey=True)
    for axes, horizon in zip(panels, horizons, strict=True):
        _draw_panel(axes, evidence, horizon)
    panels[0].set_yticks(range(len(evidence)), [each.setting.name for each in evidence])
    panels[0].invert_yaxis()  # the first setting on top
    canvas.suptitle(
        f"Mean regret of {NAMES[ARS]} divided by the policy's, {evidence[0].replications:,} runs",
        fontsize="large",
    )
    add_legend(canvas, panels[0], len(MARKS))
    save_canvas(canvas, figure.name, folder)


def _draw_panel(axes: "Axes", evidence: Sequence[RegretEvidence], horizon: int) -> None:
    """All ratios at one horizon, with the settings beyond the paper below a dashed line."""
    for policy, mark in MARKS.items():
        ratios = [each.ratio(ARS, policy, horizon) for each in evidence]
        rows = [row for row, ratio in enumerate(ratios) if math.isfinite(ratio)]
        points = [ratios[row] for row in rows]
        (marks,) = axes.plot(
            points, rows, mark.shape, color=mark.colour, markersize=mark.size, label=NAMES[policy]
        )
        marks.set_markeredgecolor("white")  # separates marks that overlap
    axes.axvline(1, color="black", linewidth=1)
    border = sum(each.setting.of_paper for each in evidence) - 0.5
    axes.axhline(border, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(TICKS, minor=False)
    axes.set_xticks((), minor=True)
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.grid(visible=True, alpha=0.3)
    axes.set_ylim(-0.7, len(evidence) - 0.3)
    axes.set_title(f"T = {horizon:,}", fontsize="medium")
    axes.set_xlabel(f"{NAMES[ARS]} / the policy; right of 1 the policy is better")


CHAPTER = Chapter(
    "beyond",
    "Beyond the paper: SettleUcb",
    FIGURES,
    of_paper=False,
    list_studies=list_studies,
    draw_figure=draw_figure,
    make_findings=make_findings,
)
