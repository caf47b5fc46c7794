"""The report as Markdown: which of the paper's claims hold, the figures with their numbers, and what we chose."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from aftereffect.paper.claims import CLAIMS
from aftereffect.paper.evidence import ORDERS, PAPER_ORDER, Evidence, Found, Order
from aftereffect.paper.figures import ALPHAS, FIGURES, GROWTHS, MEANS, Figure
from aftereffect.paper.judgement import Claim, Judgement, judged
from aftereffect.paper.looks import LOOKS
from aftereffect.paper.settings import Settings
from aftereffect.policies import Policy
from aftereffect.provenance import made_by

TITLE = "Bandits with composite and anonymous feedback: the paper's experiments, played again"
_NUMBER = re.compile(r"-?[\d.]|-$")
MARKS = {"reproduced": "✔", "partly": "◐", "not reproduced": "✘", "not judged": "-"}

Judged = Sequence[tuple[Claim, Mapping[Order, Judgement]]]


def judgements(found: Found) -> Judged:
    """Every claim, with the arms in every order."""
    return [(claim, {order: judged(claim, found[order]) for order in ORDERS}) for claim in CLAIMS]


def verdict(judgement: Judgement) -> str:
    """A verdict with its mark."""
    return f"{MARKS[judgement.verdict]} {judgement.verdict}"


def markdown(found: Found, results: Judged, settings: Settings) -> str:
    """The whole report."""
    sections = [
        f"# {TITLE}",
        f"The stochastic experiments of *Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback*: "
        f"{_covered(found)}, {settings.horizon:,} slots, {settings.replications:,} replications, seed {settings.seed}, by "
        f"{made_by()}.",
        "## The claims",
        "Behind a ± stands a standard error; in brackets, from .. to, the middle 95 % of the bootstrap's draws.",
        _table(
            ("claim", *(order.name for order in ORDERS)),
            [(claim.title, *map(verdict, by_order.values())) for claim, by_order in results],
        ),
        *(section for number, result in enumerate(results, 1) for section in _claim(number, *result)),
        "## The figures",
        "Mean pseudo-regret (generated reward lost) with 95 % bands of the mean; all policies on the left, ARS-UCB alone on "
        "the right. The tables give the regret at the horizon: its mean, the standard error of that, and what 95 % of the "
        "replications stay below. Naive UCB1, about which the paper claims nothing, did not play with the arms relabelled. "
        "Figures 2 and 3, and 4 and 5, share their setting: a policy that plays in both of them has the same runs there.",
        *(section for number in range(len(found[PAPER_ORDER])) for section in _figure(found, number, settings)),
        "## What the paper does not say, and what we chose",
        _table(("open in the paper", "here"), _choices(settings)),
        "Every replication of every policy is in `results.parquet`: regret at each checkpoint, plays of each arm, rounds.",
    ]
    return "\n\n".join(sections) + "\n"


def command(figure: Figure, settings: Settings) -> str:
    """The command line that plays a figure."""
    environment = figure.environment
    options = [
        *(("--policy", str(policy)) for policy in figure.policies),
        ("--means", ",".join(f"{mean:g}" for mean in environment.means)),
        ("--spread", str(environment.spread)),
        ("--horizon", str(settings.horizon)),
        ("--replications", str(settings.replications)),
        ("--seed", str(settings.seed)),
    ]
    return " \\\n    ".join(["aftereffect simulate", *(shlex.join(option) for option in options)])


def _covered(found: Found) -> str:
    played = [each.figure.number for each in found[PAPER_ORDER]]
    if len(played) == len(FIGURES):
        return f"all {len(FIGURES)} panels"
    return f"{len(played)} of the {len(FIGURES)} panels, by which alone the claims are judged"


def _claim(number: int, claim: Claim, by_order: Mapping[Order, Judgement]) -> list[str]:
    sections = [f"### Claim {number}: {claim.title}", f"**Rule.** {claim.rule}"]
    if claim.picture:
        sections.append(f"![{claim.title}]({claim.picture}.png)")
    for order, judgement in by_order.items():
        sections.append(f"**{order.name}: {verdict(judgement)}**; {judgement.count}.")
        if judgement.rows:
            sections.append(_table(judgement.columns, judgement.rows))
    return sections


def _figure(found: Found, number: int, settings: Settings) -> list[str]:
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
        _table(("policy", *columns), rows),
        "From the command line, as in the first three columns:",
        f"```sh\n{command(figure, settings)}\n```",
    ]


def _final(evidence: Evidence, order: Order, policy: Policy) -> tuple[str, str, str]:
    if policy not in order.policies(evidence.figure):
        return "-", "-", "-"
    runs = evidence.panel[policy]
    return f"{runs.mean[-1]:,.1f}", "-" if runs.sem is None else f"{runs.sem[-1]:,.1f}", f"{runs.p95[-1]:,.1f}"


def _choices(settings: Settings) -> list[tuple[str, str]]:
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


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Words to the left, numbers to the right; a dash is a number that is not there."""
    body = list(rows)
    numeric = [all(_NUMBER.match(row[place]) for row in body) for place in range(len(columns))]
    lines = [columns, ["---:" if right else "---" for right in numeric], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
