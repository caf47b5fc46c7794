"""The stochastic half: ARS-UCB and ODAAF, in figures 2-5 and 10-19."""

from collections.abc import Iterable
from pathlib import Path

from aftereffect.paper.half import Findings, Half
from aftereffect.paper.judgement import judged
from aftereffect.paper.markdown import ABSENT, command_block, final_cells, table
from aftereffect.paper.part import Part
from aftereffect.paper.settings import Settings
from aftereffect.paper.stochastic.claims import CLAIMS
from aftereffect.paper.stochastic.draw import LONG_RUNS, draw, draw_long_runs
from aftereffect.paper.stochastic.evidence import ORDERS, PAPER_ORDER, Evidence, Found, Order, collected, panel, parts
from aftereffect.paper.stochastic.figures import ALPHAS, FIGURES, GROWTHS, MEANS, Figure
from aftereffect.paper.stochastic.looks import LOOKS
from aftereffect.policies import Policy

ABOUT = (
    "Mean pseudo-regret (generated reward lost) with 95 % bands of the mean; all policies on the left, ARS-UCB alone on the "
    "right. The tables give the regret at the horizon: its mean, the standard error of that, and what 95 % of the "
    "replications stay below. Naive UCB1, about which the paper claims nothing, did not play with the arms relabelled. "
    "Figures 2 and 3, and 4 and 5, share their setting: a policy that plays in both of them has the same runs there."
)


class StochasticHalf(Half[Figure]):
    """ARS-UCB and its rivals."""

    title = "Stochastic bandits"
    figures = FIGURES
    further_pictures = (LONG_RUNS,)

    def parts(self, figure: Figure, settings: Settings) -> list[Part]:
        return parts(figure, settings)

    def draw(self, figure: Figure, settings: Settings, folder: Path) -> None:
        study = panel(figure, PAPER_ORDER, settings).kept(folder)
        assert study is not None
        draw(figure, study, folder)

    def findings(self, settings: Settings, folder: Path) -> Findings:
        found = collected(FIGURES.values(), settings, folder)
        shown = found[PAPER_ORDER]
        if shown:
            draw_long_runs(shown, folder)
        results = [(claim, {order.name: judged(claim, found[order]) for order in ORDERS}) for claim in CLAIMS]
        sections = [section for number in range(len(shown)) for section in figure_sections(found, number, settings)]
        return Findings([each.figure.number for each in shown], results, [ABOUT, *sections], choices(settings))


def options(figure: Figure, settings: Settings) -> list[tuple[str, str]]:
    """How to play a figure from the command line."""
    environment = figure.environment
    return [
        *(("--policy", str(policy)) for policy in figure.policies),
        ("--means", ",".join(f"{mean:g}" for mean in environment.means)),
        ("--spread", str(environment.spread)),
        ("--horizon", str(settings.horizon)),
        ("--replications", str(settings.replications)),
        ("--seed", str(settings.seed)),
    ]


def figure_sections(found: Found, number: int, settings: Settings) -> list[str]:
    """A figure of the report."""
    figure = found[PAPER_ORDER][number].figure
    caption = f"Figure {figure.number}: {figure.caption}"
    rows = [
        (LOOKS[policy].name, *(cell for order in ORDERS for cell in _final(found[order][number], order, policy)))
        for policy in figure.policies
    ]
    columns = [
        f"{name}, {order.name.lower()}" if name == "mean" else name for order in ORDERS for name in ("mean", "sem", "p95")
    ]
    return [
        f"### {caption}",
        f"![{caption}]({figure.name}.png)",
        table(("policy", *columns), rows),
        "From the command line, as in the first three columns:",
        command_block(options(figure, settings)),
    ]


def _final(evidence: Evidence, order: Order, policy: Policy) -> tuple[str, str, str]:
    if policy not in order.policies(evidence.figure):
        return ABSENT, ABSENT, ABSENT
    return final_cells(evidence.panel[policy])


def choices(settings: Settings) -> list[tuple[str, str]]:
    """What the paper does not say about this half."""
    return [
        ("horizon", f"{settings.horizon:,} slots; {settings.long_horizon:,} for the first claim"),
        ("replications", f"{settings.replications:,} of each policy, with seed {settings.seed}"),
        ("values of alpha", f"{_listed(policy.alpha for policy in ALPHAS)}, with rounds of k² slots"),
        ("growths of rounds", f"{_listed(policy.growth for policy in GROWTHS)}, with alpha 4"),
        ("law of the rewards", "Bernoulli: a pull's whole reward is 1 with the arm's mean as its probability, else 0"),
        ("composite rewards", "every reward is cut into the same shares; nothing is cut off where they are infinitely many"),
        (
            "variant of ODAAF",
            "all three, where the paper names ODAAF; each is told the true mean, bound or variance of the delay",
        ),
        ("regret", "pseudo-regret of generated reward: whether it lands before the horizon does not matter"),
        ("order of the arms", f"as the paper lists their means, {MEANS[0]:g} first; and once more with {MEANS[-1]:g} first"),
        ("deviation", "the standard deviation of the regret at the horizon, over replications"),
        ("a policy that ignores delay", "UCB1, naive, in every figure"),
    ]


def _listed(values: Iterable[object]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
