"""Play switchbacks on a real series and on made-up ones, and put the tables into a document.

``make real``. A row is a world; the numbers are lost shares in % of the demand without lifts, so
that random play loses as much in all rows with the same lifts. A picture lies beside the document.
Claims are judged, and the exit status is 1 if one was missed.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import aftereffect as ae
from aftereffect._core import check_writable, save_figure
from aftereffect.rewards import read_history
from aftereffect.simulation import COLOURS
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- real: written by make real -->", "<!-- /real -->"
SERIES = str(Path(__file__).parent / "data" / "traffic.csv.gz")
LIFTS = (0, 0.05, 0.1, 0.2)
HOURS = 8 * 7 * 24
SEED = 20_000
YEAR = 52 * 7
#: The fixed designs, of which the best in hindsight is shown: blocks in slots, and blocks per arm.
BLOCKS, BLOCKS_OF_DAYS, BLOCKS_PER_ARM = (12, 24, 48), (4, 8, 16), (2, 4, 7)
DELAYS = {
    "fading, mean 4 h": "geometric(0.75)",
    "evenly 0 to 23 h": "interval(0, 23)",
    "evenly 12 to 35 h": "interval(12, 35)",
}


class World(NamedTuple):
    """A row of a table: its name, a bandit, its slots, the most to lose, and blocks to try."""

    name: str
    bandit: ae.Bandit
    horizon: int
    limit: float | None = None
    blocks: tuple[int, ...] = BLOCKS


class Row(NamedTuple):
    """What policies lose in one world, by run."""

    world: World
    random: float
    adaptive: np.ndarray
    told: np.ndarray
    fixed: dict[tuple[int, int], np.ndarray]

    @property
    def best_fixed(self) -> float:
        """The loss of the fixed design that is best in hindsight."""
        return min(float(lost.mean()) for lost in self.fixed.values())


def real_worlds() -> Iterator[World]:
    """The real series: with a history, without one, other arms and lengths."""
    for name, delay in DELAYS.items():
        limit = {"fading, mean 4 h": 0.5, "evenly 0 to 23 h": 1.0}.get(name, 2.5)
        yield World(name, ae.HistoryBandit(SERIES, LIFTS, delay), HOURS, limit)
    for name, delay in DELAYS.items():
        bandit = ae.HistoryBandit(SERIES, LIFTS, delay, history_delayed=True)
        yield World(f"{name}, history delayed too", bandit, HOURS)
    for name, delay in DELAYS.items():
        limit = {"fading, mean 4 h": 0.75, "evenly 0 to 23 h": 1.5}.get(name, 3.75)
        bandit = ae.HistoryBandit(SERIES, LIFTS, delay, weeks_before=0)
        yield World(f"{name}, no history", bandit, HOURS, limit)
    delay = DELAYS["evenly 0 to 23 h"]
    for arms in ((0, 0.1), (0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2)):
        yield World(f"{len(arms)} arms", ae.HistoryBandit(SERIES, arms, delay), HOURS)
    for weeks in (2, 52):
        yield World(f"{weeks} weeks", ae.HistoryBandit(SERIES, LIFTS, delay), weeks * 168)


def daily_worlds() -> Iterator[World]:
    """The real series by days: with a history of demand or of delayed totals, and without one."""
    totals = sum_days()
    for name, delay in {
        "fading, mean 3 days": "geometric(0.75)",
        "evenly 0 to 6 days": "interval(0, 6)",
        "evenly 2 to 7 days": "interval(2, 7)",
    }.items():
        for suffix, weeks, is_delayed in (
            ("", 8, False),
            (", history delayed too", 8, True),
            (", no history", 0, False),
        ):
            bandit = ae.HistoryBandit(
                totals, LIFTS, delay, "1d", weeks_before=weeks, history_delayed=is_delayed
            )
            yield World(f"{name}{suffix}", bandit, YEAR, blocks=BLOCKS_OF_DAYS)


def sum_days() -> list[float]:
    """The real series by days, from its first Monday on."""
    series, place, _ = read_history(SERIES, "1h")
    hours = np.asarray(series)[-place % (7 * 24) :]
    days: list[float] = hours[: len(hours) // 24 * 24].reshape(-1, 24).sum(axis=1).tolist()
    return days


def defective_worlds() -> Iterator[World]:
    """The real series with feeds as they are."""
    for name, defects in {
        "1 % of totals zero": ae.Defects(zeros=0.01),
        "1 % ten times too high": ae.Defects(spikes=0.01),
        "10 % missing": ae.Defects(missing=0.1),
        "three days late": ae.Defects(late=72),
        "a week of holidays": ae.Defects(holiday=1),
        "half the level from the middle on": ae.Defects(drop=0.5),
    }.items():
        bandit = ae.HistoryBandit(SERIES, LIFTS, DELAYS["fading, mean 4 h"], feed=defects)
        yield World(name, bandit, HOURS)


def standard_worlds() -> Iterator[World]:
    """Sixteen made-up worlds: slots, seasons, noise and delays, each value several times."""
    horizons = {"1h": HOURS, "1d": 364, "1w": 104}
    lifts = {"1h": LIFTS, "1d": (0, 0.05, 0.1, 0.2), "1w": (0, 0.1, 0.2)}
    now, fading, decay = "immediate", "geometric(0.75)", "linear-decay(8)"
    evenly, dead, lumps = "interval(0, 7)", "interval(4, 11)", "shape([.5, 0, 0, 0, 0, 0, .5])"
    for slot, season, noise, delay in (
        *(("1h", "flat", 0.1, now), ("1h", "weekday", 0.03, fading), ("1h", "trend", 0.1, decay)),
        *(("1h", "ar", 0.03, evenly), ("1h", "ar+weekday", 0.1, dead), ("1h", "ar", 0.1, lumps)),
        *(
            ("1d", "flat", 0.03, fading),
            ("1d", "weekday", 0.01, evenly),
            ("1d", "trend", 0.03, now),
        ),
        *(("1d", "ar", 0.01, decay), ("1d", "ar+weekday", 0.03, lumps), ("1d", "flat", 0.1, dead)),
        *(("1w", "flat", 0.01, now), ("1w", "trend", 0.03, fading), ("1w", "ar", 0.01, fading)),
        ("1w", "flat", 0.03, "interval(0, 2)"),
    ):
        bandit = ae.SeasonalBandit(lifts[slot], delay, slot, season, noise)
        yield World(f"{slot}, {season}, noise {noise:.0%}, {delay}", bandit, horizons[slot])


def play(world: World, runs: int) -> Row:
    """Play all policies in one world."""
    lifts = world.bandit.lifts
    designs = [
        (block, blocks)
        for block in world.blocks
        for blocks in BLOCKS_PER_ARM
        if block * blocks * len(lifts) <= world.horizon
    ]
    policies = {each: ae.FixedSwitchback(*each) for each in designs}
    adaptive = [ae.AdaptiveSwitchback(), ae.AdaptiveSwitchback(delay=world.bandit.delay)]
    study = ae.simulate(
        [*adaptive, *policies.values()], world.bandit, world.horizon, runs, seed=SEED
    )
    best = 1 + max(lifts)
    lost = [best * each.final for each in study]
    random = 100 * (max(lifts) - sum(lifts) / len(lifts))
    return Row(world, random, *lost[:2], dict(zip(designs, lost[2:], strict=True)))


def write_table(rows: list[Row]) -> str:
    """Lost shares of some worlds as a table."""
    lines = [
        "| world | random | best fixed, in hindsight | 24 h blocks, two per arm | "
        "adaptive-switchback | median | worst | above random | told the delay |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lost = row.adaptive
        error = lost.std() / np.sqrt(len(lost))
        known = f"{row.fixed[24, 2].mean():.2f}" if (24, 2) in row.fixed else "-"
        best = f"{row.best_fixed:.2f}" if row.fixed else "-"
        lines.append(
            f"| {row.world.name} | {row.random:.2f} | {best} | {known} | **{lost.mean():.2f}** ± "
            f"{error:.2f} | {np.median(lost):.2f} | {lost.max():.1f} | "
            f"{np.mean(lost > row.random):.1%} | {row.told.mean():.2f} |"
        )
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Draw what each world loses: random play, the best fixed design, and the adaptive one."""
    figure = Figure(figsize=(8, 0.42 * len(rows) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(rows))[::-1]
    lost = [row.adaptive.mean() for row in rows]
    errors = [2 * row.adaptive.std() / np.sqrt(len(row.adaptive)) for row in rows]
    random, fixed = [row.random for row in rows], [row.best_fixed for row in rows]
    axes.barh(places, random, 0.8, color="#dddddd", label="random play")
    axes.barh(places, fixed, 0.5, color=COLOURS[4], label="best of nine fixed switchbacks")
    axes.barh(places, lost, 0.2, color=COLOURS[0], xerr=errors, label="AdaptiveSwitchback")
    axes.set_yticks(places, [row.world.name for row in rows])
    axes.set_xlabel("lost, % of the demand without lifts (bars: two standard errors)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def judge(
    real: list[Row], daily: list[Row], defective: list[Row], standard: list[Row]
) -> Iterator[tuple[bool, str]]:
    """What is claimed of these rows, and whether it holds."""
    for row in real:
        if row.world.limit is not None:
            mean = row.adaptive.mean()
            claim = f"{row.world.name}: loses at most {row.world.limit} %"
            yield mean <= row.world.limit, f"{claim} ({mean:.2f})"
    for row in (*real[:3], *daily, *defective):
        above = np.mean(row.adaptive > row.random)
        yield above <= 0.02, f"{row.world.name}: at most 2 % of runs above random ({above:.1%})"
    for row in real[:3]:
        part = row.adaptive.mean() / row.best_fixed
        yield part <= 1 / 3, f"{row.world.name}: at most a third of the best fixed ({part:.2f})"
    for row in daily:
        part = row.adaptive.mean() / row.best_fixed
        yield part <= 0.5, f"{row.world.name}: at most half of the best fixed ({part:.2f})"
    for row in real[-4:]:
        part = row.adaptive.mean() / row.fixed[24, 2].mean()
        yield part <= 1, f"{row.world.name}: at most 24 h blocks, two per arm ({part:.2f} of it)"
    clean = real[0].adaptive.mean()
    for row in defective:
        factor = row.adaptive.mean() / clean
        yield factor <= 1.5, f"{row.world.name}: at most 1.5 times as bad ({factor:.2f})"
    parts = [row.adaptive.mean() / row.random for row in standard]
    yield np.mean(parts) <= 0.25, f"sixteen worlds: .25 of random on average ({np.mean(parts):.2f})"
    told = [row.told.mean() / row.random for row in standard]
    worst = max(part for part, known in zip(parts, told, strict=True) if known <= 0.15)
    claim = "sixteen worlds: at most .5 of random where it has at most .15 if told the delay"
    yield worst <= 0.5, f"{claim} ({worst:.2f})"
    yield max(parts) <= 1.05, f"sixteen worlds: never above 1.05 of random ({max(parts):.2f})"


def main() -> int:
    """Play, judge, write, and return the exit status."""
    parser = argparse.ArgumentParser(description="switchbacks on a real series")
    parser.add_argument("document", type=Path, help=f"its text between {BEGIN} and {END} changes")
    parser.add_argument("--runs", type=int, default=200, help="runs per policy and world")
    options = parser.parse_args()
    document = check_writable(options.document, (".md",))
    split_at_markers(document.read_text(encoding="utf-8"), BEGIN, END)
    groups: dict[str, list[Row]] = {}
    start = time.monotonic()
    for title, worlds in {
        "The real series": real_worlds(),
        "The real series by days": daily_worlds(),
        "The real series, with feeds as they are": defective_worlds(),
        "Sixteen made-up worlds": standard_worlds(),
    }.items():
        groups[title] = []
        for world in worlds:
            groups[title].append(play(world, options.runs))
            lost = groups[title][-1].adaptive.mean()
            print(f"{time.monotonic() - start:6.0f} s  {world.name}: {lost:.2f}", flush=True)
    verdicts = list(judge(*groups.values()))
    parts = [f"{options.runs} runs per world, seed {SEED}."]
    parts += [f"### {title}\n\n{write_table(rows)}" for title, rows in groups.items()]
    claims = "\n".join(f"- {'kept' if kept else '**missed**'}: {text}" for kept, text in verdicts)
    parts.append(f"### Claims\n\n{claims}")
    replace_between_markers(document, BEGIN, END, "\n\n".join(parts))
    draw(groups["The real series"], document.with_suffix(".png"))
    for kept, text in verdicts:
        print(f"{'kept' if kept else 'missed'}: {text}")
    return 0 if all(kept for kept, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
