"""The adversarial half: ARS-EXP3, ARS-CLW and CLW, in figures 6 to 9."""

from pathlib import Path

from aftereffect.paper.adversarial.claims import CLAIMS
from aftereffect.paper.adversarial.draw import MISJUDGED, draw, draw_misjudged
from aftereffect.paper.adversarial.evidence import AdversarialEvidence, evidence, far_evidence, parts, shown
from aftereffect.paper.adversarial.figures import FIGURES, LOOKS, AdversarialFigure
from aftereffect.paper.half import Findings, Half
from aftereffect.paper.judgement import judged
from aftereffect.paper.markdown import command_block, final_cells, table
from aftereffect.paper.part import Part
from aftereffect.paper.settings import Settings

ABOUT = (
    "Regret against the best fixed arm, on generated reward, with 95 % bands of the mean. Rewards were fixed beforehand and "
    "are the same in all runs, which differ by what the policies draw. The tables give the regret at the horizon: its mean, "
    "the standard error of that, and what 95 % of the replications stay below."
)
PRICE = (
    "### The price of not knowing d",
    "Not a figure of the paper: the regret of CLW at the horizon, told anything from a quarter of d to four times as much, "
    "beside ARS-EXP3 and ARS-CLW, which are told nothing.",
    f"![The price of not knowing d]({MISJUDGED}.png)",
)


class AdversarialHalf(Half[AdversarialFigure]):
    """ARS-EXP3, ARS-CLW and their rivals."""

    title = "Adversarial bandits"
    figures = FIGURES
    further_pictures = (MISJUDGED,)

    def parts(self, figure: AdversarialFigure, settings: Settings) -> list[Part]:
        return parts(figure, settings)

    def draw(self, figure: AdversarialFigure, settings: Settings, folder: Path) -> None:
        studies = [shown(figure, panel, settings).kept(folder) for panel in figure.panels]
        draw(figure, [study for study in studies if study is not None], settings, folder)

    def findings(self, settings: Settings, folder: Path) -> Findings:
        by_figure = {figure.number: evidence(figure, settings, folder) for figure in FIGURES.values()}
        complete = [number for number, found in by_figure.items() if found]
        found = [each for number in complete for each in by_figure[number]]
        cases = {f"{settings.adversarial_horizon:,} slots": found}
        far = [each for number in complete if (each := far_evidence(FIGURES[number], settings, folder))]
        if far:
            cases[f"{settings.far_horizon:,} slots"] = far
        results = [(claim, {case: judged(claim, each) for case, each in cases.items()}) for claim in CLAIMS]
        sections = [ABOUT, *(section for number in complete for section in _figure(by_figure[number], settings))]
        misjudged = [each for each in found if each.misjudged is not None]
        if misjudged:
            draw_misjudged(misjudged, folder)
            sections += PRICE
        return Findings(complete, results, sections, choices(settings))


def _figure(found: list[AdversarialEvidence], settings: Settings) -> list[str]:
    figure = found[0].figure
    caption = f"Figure {figure.number}: {figure.caption}"
    sections = [f"### {caption}", f"![{caption}]({figure.name}.png)"]
    for each in found:
        rows = [(LOOKS[player].name, *final_cells(each.panel[policy])) for player, policy in each.of.players.items()]
        sections += [f"{each.about[0].upper()}{each.about[1:]}:", table(("policy", "mean", "sem", "p95"), rows)]
    if settings.data is None:
        sections += ["From the command line, the first of these:", command_block(_options(found[0], settings))]
    return sections


def _options(each: AdversarialEvidence, settings: Settings) -> list[tuple[str, str]]:
    return [
        *(("--policy", str(policy)) for policy in each.of.players.values()),
        ("--rewards", str(each.of.source.stand_in)),
        ("--delays", str(each.of.delays)),
        ("--horizon", str(settings.adversarial_horizon)),
        ("--replications", str(settings.adversarial_replications)),
        ("--seed", str(settings.seed)),
    ]


def choices(settings: Settings) -> list[tuple[str, str]]:
    """What the paper does not say about this half."""
    data = (
        "stand-ins drawn once from published shares: independent slots, and independent weekdays"
        if settings.data is None
        else "the original files, in order; where there are fewer rows than slots, as many drawn from all of them; clusters of "
        "pages are a stand-in drawn from published shares"
    )
    return [
        ("adversarial horizon", f"{settings.adversarial_horizon:,} slots"),
        ("adversarial replications", f"{settings.adversarial_replications:,} of each policy"),
        ("data", data),
        ("arms of Outbrain", "the three largest parent categories; also all twelve, and ten clusters of pages"),
        ("coupons", "those that are not usable every day; a weekday pays if the coupon is usable on it"),
        (
            "when a reward is held back",
            "from the 3d-th pull in a row on, rows counted across rounds; also counted within rounds",
        ),
        ("variant of CLW", "that of 2018 on Exp3, with losses; told d = 10 or 20, or 10 % off"),
        ("guess of ARS-CLW", "h(T) = T^0.2, rounded up; the square root would play almost at random up to 1e7 slots"),
        ("rounds of ARS-EXP3", "k^(1/2) slots, rounded up; gamma by the exact number of rounds"),
        ("a policy that ignores delay", "Exp3, naive, in every adversarial figure"),
    ]
