"""The regret of SettleUcb beside its rivals, in the paper's settings and beyond: ``make regret``.

Prints the regret of every policy in every setting, how many times below its rivals' it is, how it grows and what it costs,
and says of every claim whether it was kept; the exit status is 1 if one was not. ``--write FILE`` also puts a short table
between two markers in that file. Report and picture go into a folder.
"""

import argparse
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aftereffect as ae
from aftereffect.checks import whole
from aftereffect.errors import AftereffectError
from aftereffect.extras import require
from aftereffect.outputs import creatable_folder, make_folder, replacing, writable
from measure import duration
from regret_claims import EARLY, HERE, LATER, Verdict, verdicts
from regret_picture import draw
from regret_runs import (
    ARS,
    COST_HORIZON,
    COST_SPREADS,
    GROWS_FROM,
    GROWS_TO,
    HORIZONS,
    NAIVE,
    NAMES,
    ODAAF,
    SETTLE,
    Cost,
    Growth,
    Played,
    cost,
    growth,
    played,
)
from regret_settings import SETTINGS
from tables import between, markdown, rewrite, rounded

BEGIN, END = "<!-- regret: written by make regret -->", "<!-- /regret -->"
REPLICATIONS, QUICK_REPLICATIONS, SEED = 1_000, 50, 271828
#: At most, where runs are longest.
GROWTH_RUNS = 200

HEAD = ("setting", "policy", "mean", "p95", "worst", "ARS-UCB / it", "ODAAF / it", "UCB1 / it", "it / floor")
SHORT_HEAD = ("setting", "mean", "p95", "worst", "ARS-UCB, T=1e4", "1e5", "1e6", "ODAAF", "UCB1", "floor")


@dataclass(frozen=True)
class Findings:
    """All that was measured."""

    results: Sequence[Played]
    growths: Mapping[str, Growth]
    costs: Mapping[str, Cost]

    @property
    def verdicts(self) -> list[Verdict]:
        """What became of the claims."""
        return verdicts(self.results, self.growths, self.costs)


def measured(runs: int, seed: int) -> Findings:
    """Play everything; says what it is at, as it takes minutes."""
    results, growths = [], {}
    for number, setting in enumerate(SETTINGS, start=1):
        print(f"{number} of {len(SETTINGS)}: {setting.name} ...", file=sys.stderr, flush=True)
        results.append(played(setting, runs, seed))
        if math.isfinite(setting.reach):
            growths[setting.name] = growth(setting, min(GROWTH_RUNS, runs), seed)
    print("cost ...", file=sys.stderr, flush=True)
    return Findings(results, growths, {str(spread): cost(spread) for spread in COST_SPREADS})


def times(ratio: float) -> str:
    """A ratio, or a dash where there is none."""
    return rounded(ratio, 3) if math.isfinite(ratio) else "-"


def amount(regret: float) -> str:
    """A regret, or a dash where there is none."""
    return f"{regret:,.0f}" if math.isfinite(regret) else "-"


def spread_of_runs(result: Played, policy: ae.Policy, horizon: int) -> list[str]:
    """Mean, 95th percentile and worst."""
    return [amount(number(policy, horizon)) for number in (result.mean, result.p95, result.worst)]


def regret_table(results: Sequence[Played], horizon: int) -> str:
    """Every policy in every setting, at one horizon."""
    rows: list[Sequence[str]] = [HEAD]
    for result in results:
        for policy, name in NAMES.items():
            ratios = [times(result.times_below(policy, rival, horizon)) for rival in (ARS, ODAAF, NAIVE)]
            numbers = spread_of_runs(result, policy, horizon)
            rows.append((result.setting.name, name, *numbers, *ratios, times(result.times_floor(policy, horizon))))
    return f"## T = {horizon:,}\n\n{markdown(rows)}"


def growth_table(growths: Mapping[str, Growth]) -> str:
    """How the regret of SettleUcb grows where the reach is finite."""
    rows: list[Sequence[str]] = [("setting", f"T = {GROWS_FROM:,}", f"T = {GROWS_TO:,}", "p")]
    rows += [(name, amount(grown.first), amount(grown.last), f"{grown.exponent:.2f}") for name, grown in growths.items()]
    return f"## Growth of SettleUcb's mean regret, as a + b (ln T)^p\n\n{markdown(rows)}"


def cost_table(costs: Mapping[str, Cost]) -> str:
    """Processor time of a replication."""
    rows: list[Sequence[str]] = [("spread", NAMES[SETTLE], NAMES[ARS], "ratio")]
    rows += [(name, duration(each.settle), duration(each.ars), times(each.ratio)) for name, each in costs.items()]
    return f"## Processor time of one replication, T = {COST_HORIZON:,}\n\n{markdown(rows)}"


def report(found: Findings, runs: int, seed: int) -> str:
    """All numbers, and the verdicts."""
    lead = f"""
        Pseudo-regret over {runs:,} runs, seed {seed}. "ARS-UCB / it" is the mean regret of ARS-UCB over that of the policy, so
        above 1 the policy is better; "it / floor" is its mean regret over the Lai-Robbins slope times ln T, which no consistent
        policy stays below in the long run, were rewards seen at once; a dash stands where a policy cannot play, as ODAAF must
        be told the mean lag and that is infinite, or where no floor is known. Growth is of {min(GROWTH_RUNS, runs):,} runs."""
    return "\n\n".join(
        [
            "# Regret, in the paper's settings and beyond",
            filled(lead),
            *(regret_table(found.results, horizon) for horizon in HORIZONS),
            growth_table(found.growths),
            cost_table(found.costs),
            "## Claims",
            "\n".join(f"- {each}" for each in found.verdicts),
        ]
    )


def short_table(results: Sequence[Played]) -> str:
    """SettleUcb alone, a line for each setting."""
    rows: list[Sequence[str]] = [SHORT_HEAD]
    for result in results:
        gains = [times(result.times_below(SETTLE, ARS, horizon)) for horizon in (EARLY, HERE, LATER)]
        others = [times(result.times_below(SETTLE, rival, HERE)) for rival in (ODAAF, NAIVE)]
        numbers = spread_of_runs(result, SETTLE, HERE)
        rows.append((result.setting.name, *numbers, *gains, *others, times(result.times_floor(SETTLE, HERE))))
    return markdown(rows)


def short_report(found: Findings, runs: int) -> str:
    """All that goes between the markers."""
    judged = found.verdicts
    missed = [f"{each.claim}, but {each.found}" for each in judged if not each.kept]
    paper = sum(result.setting.of_paper for result in found.results)
    caption = f"""
        Mean regret of SettleUcb at T = {HERE:,}, its 95th percentile and its worst of {runs:,} runs; how many times as high the
        mean regret of `ArsUcb(4, Power(2))` is at three horizons, and at T = {HERE:,} that of ODAAF, told the horizon and the
        true mean lag, and of naive UCB1; and the mean as a multiple of the Lai-Robbins slope times ln T, the floor for rewards
        that are seen at once. A dash: ODAAF cannot be told an infinite mean lag, or no floor is known. The first {paper}
        settings are the paper's. Of {len(judged)} claims that the command judges, {len(judged) - len(missed)} were kept"""
    ending = "".join(f". Missed: {each}" for each in missed) + "."
    return f"{short_table(found.results)}\n\n{filled(caption + ending)}"


def filled(text: str) -> str:
    """One paragraph, as wide as the file it goes into."""
    return textwrap.fill(" ".join(text.split()), width=126)


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was asked for; what cannot be is refused before anything is played, with exit status 2."""
    asked = parser.parse_args()
    if asked.quick and asked.write is not None:
        parser.error("--quick is for a first look, not for a file that is kept")
    if asked.replications is None:
        asked.replications = QUICK_REPLICATIONS if asked.quick else REPLICATIONS
    try:
        whole("--replications", asked.replications, at_least=1)
        whole("--seed", asked.seed, at_least=0)
        require("plot")
        creatable_folder(asked.out)
        if asked.write is not None:
            between(writable(asked.write, (".md",)).read_text(encoding="utf-8"), BEGIN, END)
    except (AftereffectError, OSError, ValueError) as problem:
        parser.error(str(problem))
    return asked


def main() -> int:
    """Play, print, and write where asked to; the exit status."""
    parser = argparse.ArgumentParser(description="the regret of SettleUcb beside its rivals")
    parser.add_argument("--replications", type=int, help=f"runs of each policy in each setting ({REPLICATIONS:,})")
    parser.add_argument("--seed", type=int, default=SEED, help="the same seed gives the same regrets (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("regret"), help="folder for report and picture (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"replace what stands there between {BEGIN} and {END}")
    parser.add_argument("--quick", action="store_true", help=f"a first look, with {QUICK_REPLICATIONS} runs")
    asked = checked(parser)
    found = measured(asked.replications, asked.seed)
    text = report(found, asked.replications, asked.seed)
    print(text)
    make_folder(asked.out)
    with replacing(asked.out / "regret.md") as draft:
        draft.write_text(f"{text}\n", encoding="utf-8")
    draw(found.results, asked.out)
    if asked.write is not None:
        rewrite(asked.write, BEGIN, END, short_report(found, asked.replications))
    return 0 if all(each.kept for each in found.verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
