"""The adversarial chapter: ARS-EXP3, ARS-CLW and CLW, in figures 6 to 9.

Here are its studies, its pictures, and its sections of the report; its figures and its claims are
beside it.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from aftereffect.errors import InputError
from aftereffect.policies import ArsClw, Clw, Policy
from aftereffect.reproduction._claims import judge_claim
from aftereffect.reproduction._pictures import add_legend, describe_runs, make_canvas, save_canvas
from aftereffect.reproduction._report import format_command_block, format_final, markdown_table
from aftereffect.reproduction._settings import Settings, space_evenly
from aftereffect.reproduction.adversarial.claims import (
    CLAIMS,
    AdversarialEvidence,
    list_evidence,
    list_long_evidence,
)
from aftereffect.reproduction.adversarial.figures import (
    FIGURES,
    OURS,
    STYLES,
    AdversarialFigure,
    Panel,
    PriceFigure,
    list_choices,
    make_clw,
)
from aftereffect.reproduction.chapters import Chapter, Figure, Findings, StoredStudy
from aftereffect.simulation import PLAIN_NUMBERS, Study, draw_curves

__all__ = ["CHAPTER", "CLAIMS", "FIGURES"]


#: Which d CLW is given to show the price of not knowing it, in quarters of the true d.
QUARTERS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
COLUMNS = 2
ABOUT_FIGURES = (
    "Regret against the best fixed arm, in generated reward, with 95 % bands of the mean. Rewards "
    "are fixed beforehand and the same in all runs, which differ by what the policies draw. The "
    "tables give the regret at the horizon: its mean, the standard error of the mean, and the 95th "
    "percentile of the replications."
)
ABOUT_PRICE = (
    "Not a figure of the paper: the regret of CLW at the horizon, given anything from a quarter of "
    "d to four times d, beside ARS-EXP3 and ARS-CLW, which do not need d."
)


def shown_study(figure: AdversarialFigure, panel: Panel, settings: Settings) -> StoredStudy:
    """The study that a panel shows."""
    return _study(figure, panel, "", tuple(panel.players.values()), settings, in_picture=True)


def tenth_horizon_study(figure: AdversarialFigure, panel: Panel, settings: Settings) -> StoredStudy:
    """The same for a tenth of the slots, and tuned to that.

    ARS-EXP3 is tuned to its horizon, so its growth shows from one horizon to another, not within a
    run.
    """
    slots = max(settings.adversarial_horizon // 10, 100)
    return _study(figure, panel, "-tenth-horizon", (OURS,), settings, slots)


def long_horizon_study(
    figure: AdversarialFigure, panel: Panel, settings: Settings, fraction: int
) -> StoredStudy:
    """A few runs of many more slots, if asked for; or of a fraction of those slots."""
    suffix = "-long-horizon" if fraction == 1 else "-long-horizon-tenth"
    slots = settings.adversarial_long_horizon // fraction
    runs = settings.adversarial_long_replications
    return _study(figure, panel, suffix, (OURS, make_clw(panel.d)), settings, slots, runs)


def clw_by_given_d(figure: PriceFigure, panel: Panel, settings: Settings) -> StoredStudy:
    """CLW with d of all sizes, and the policies that do not need d."""
    given = dict.fromkeys(max(1, round(panel.d * quarters / 4)) for quarters in QUARTERS)
    policies = (*map(make_clw, given), OURS, ArsClw())
    return _study(figure, panel, f"-{panel.d}", policies, settings, in_picture=True)


def _study(
    figure: Figure,
    panel: Panel,
    suffix: str,
    policies: tuple[Policy, ...],
    settings: Settings,
    slots: int | None = None,
    runs: int | None = None,
    *,
    in_picture: bool = False,
) -> StoredStudy:
    horizon = slots or settings.adversarial_horizon
    return StoredStudy(
        f"{figure.name}{panel.suffix}{suffix}",
        policies,
        panel.bandit(settings, horizon),
        space_evenly(horizon),
        runs or settings.adversarial_replications,
        settings.seed,
        in_picture,
    )


def list_studies(figure: AdversarialFigure | PriceFigure, settings: Settings) -> list[StoredStudy]:
    """All studies that a figure and the claims about it rest on."""
    if isinstance(figure, PriceFigure):
        return [clw_by_given_d(figure, panel, settings) for panel in figure.panels]
    studies = [shown_study(figure, panel, settings) for panel in figure.panels]
    if not figure.is_oblivious:
        studies += [tenth_horizon_study(figure, panel, settings) for panel in figure.panels]
        if settings.adversarial_long_horizon:
            panel = figure.panels[0]
            studies += [long_horizon_study(figure, panel, settings, part) for part in (1, 10)]
    return studies


def load_studies(
    figure: AdversarialFigure | PriceFigure, settings: Settings, folder: Path
) -> dict[str, Study]:
    """All studies of a figure by name; none if one is not stored."""
    try:
        studies = {study.name: study.load(folder) for study in list_studies(figure, settings)}
    except InputError:  # without the data files of this figure, which then was not asked for
        return {}
    found = {name: study for name, study in studies.items() if study is not None}
    return found if len(found) == len(studies) else {}


def make_findings(settings: Settings, folder: Path) -> Findings:
    """Judge the claims by what a folder holds."""
    figures: list[Figure] = []
    evidence: list[AdversarialEvidence] = []
    long_evidence: list[AdversarialEvidence] = []
    sections = [ABOUT_FIGURES]
    for figure in FIGURES.values():
        studies = load_studies(figure, settings, folder)
        if not studies:
            continue
        figures.append(figure)
        if isinstance(figure, PriceFigure):
            sections += [
                f"### {figure.title}",
                ABOUT_PRICE,
                f"![{figure.title}]({figure.name}.png)",
            ]
            continue
        found = list_evidence(figure, studies, settings)
        evidence += found
        long_evidence += list_long_evidence(figure, studies, settings)
        sections += _write_figure(figure, found, settings)
    cases = {f"{settings.adversarial_horizon:,} slots": evidence}
    if long_evidence:
        cases[f"{settings.adversarial_long_horizon:,} slots"] = long_evidence
    claims = [
        (claim, {case: judge_claim(claim, each) for case, each in cases.items()})
        for claim in CLAIMS
    ]
    return Findings(figures, claims, sections, list_choices(settings))


def draw_figure(figure: AdversarialFigure | PriceFigure, settings: Settings, folder: Path) -> None:
    """Write the picture of a figure whose studies are stored."""
    listed = [study for study in list_studies(figure, settings) if study.in_picture]
    studies = [study for each in listed if (study := each.load(folder)) is not None]
    if isinstance(figure, PriceFigure):
        draw_price(figure, studies, settings, folder)
    else:
        draw_panels(figure, studies, settings, folder)


def draw_panels(
    figure: AdversarialFigure, studies: Sequence[Study], settings: Settings, folder: Path
) -> None:
    """Draw one pair of axes for each panel, with time on a linear axis."""
    rows = -(-len(studies) // COLUMNS)
    canvas = make_canvas(len(figure.panels[0].players), rows)
    axes = canvas.subplots(rows, min(COLUMNS, len(studies)), squeeze=False).ravel()
    for panel, study, ax in zip(figure.panels, studies, axes, strict=False):
        draw_curves(study, ax, [STYLES[role] for role in panel.players])
        ax.set_xscale("linear")
        ax.set_xlim(0, study.horizon)
        ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.tick_params(axis="x", labelsize="small")
        ax.set_ylabel("regret (in generated reward)")
        ax.set_title(fill(panel.describe(settings), 70), fontsize="small")
    canvas.suptitle(f"{figure.title}\n{describe_runs(studies[0])}", fontsize="large")
    add_legend(canvas, axes[0])
    save_canvas(canvas, figure.name, folder)


def draw_price(
    figure: PriceFigure, studies: Sequence[Study], settings: Settings, folder: Path
) -> None:
    """Draw the regret of CLW against the d that it is given, for each panel."""
    canvas = make_canvas(curves=3)
    axes = canvas.subplots(1, len(studies), squeeze=False).ravel()
    for panel, study, ax in zip(figure.panels, studies, axes, strict=True):
        given = [
            (runs.policy.d, runs)
            for runs in study
            if isinstance(runs.policy, Clw) and runs.policy.d is not None
        ]
        ax.errorbar(
            [d / panel.d for d, _ in given],
            [runs.mean[-1] for _, runs in given],
            yerr=[0.0 if runs.sem is None else 1.96 * runs.sem[-1] for _, runs in given],
            color=STYLES["true d"].colour,
            marker="o",
            capsize=3,
            label="CLW",
        )
        for role in ("ours", "guesses d"):
            style = STYLES[role]
            mean = study[panel.players[role]].mean[-1]
            ax.axhline(mean, color=style.colour, linestyle=style.dashes, label=style.name)
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        ax.set_ylim(bottom=0)
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.set_xlabel(f"d given to CLW, divided by the true d = {panel.d}")
        ax.set_ylabel("regret at the horizon (in generated reward)")
        ax.set_title(fill(panel.describe(settings), 70), fontsize="small")
        ax.grid(visible=True, alpha=0.3)
    runs = describe_runs(studies[0], "intervals")
    canvas.suptitle(f"{figure.title}\n{runs}", fontsize="large")
    add_legend(canvas, axes[0])
    save_canvas(canvas, figure.name, folder)


def _write_figure(
    figure: AdversarialFigure, evidence: Sequence[AdversarialEvidence], settings: Settings
) -> list[str]:
    """A figure of the report."""
    sections = [f"### {figure.title}", f"![{figure.title}]({figure.name}.png)"]
    for each in evidence:
        rows = [
            (STYLES[role].name, *format_final(each.study[policy]))
            for role, policy in each.panel.players.items()
        ]
        sections += [
            f"{each.description[0].upper()}{each.description[1:]}:",
            markdown_table(("policy", "mean", "sem", "p95"), rows),
        ]
    if settings.data is None:
        panel = figure.panels[0]
        options = [
            *(("--policy", str(policy)) for policy in panel.players.values()),
            ("--rewards", str(panel.rewards.stand_in)),
            ("--delay", str(panel.delay)),
            ("--horizon", str(settings.adversarial_horizon)),
            ("--replications", str(settings.adversarial_replications)),
            ("--seed", str(settings.seed)),
        ]
        sections += ["This command plays the first panel:", format_command_block(options)]
    return sections


CHAPTER = Chapter(
    "adversarial",
    "Adversarial bandits",
    FIGURES,
    of_paper=True,
    list_studies=list_studies,
    draw_figure=draw_figure,
    make_findings=make_findings,
)
