"""What several units bring: how soon experiments stop, what they lose, and how often they err.

``make units``. Units are played in a made-up world and on a real series. In both, a drift is common
to all units, and each has a size, a season, a level and noise of its own. What is finished is kept
in a folder, so that a run can be stopped and continued by the same code, and ``--tables`` writes
what is there.
"""

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aftereffect as ae
from aftereffect import inference, policies
from aftereffect._core import (
    Calendar,
    Matrix,
    SlotKernels,
    Slots,
    Vector,
    sources_digest,
)
from aftereffect.inference import Trial, UnitTrial, follow
from aftereffect.inference._sequence import find_intervals, weigh_evidence
from aftereffect.inference._unit_scores import list_bets
from aftereffect.policies import UnitPolicy, slot_floors
from aftereffect.rewards import read_history
from aftereffect.simulation import load_decide
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- units: written by make units -->", "<!-- /units -->"
SERIES = Path(__file__).parent / "data" / "traffic.csv.gz"
SEED = 42_000
#: Slots of four hours.
PER_DAY, HOURS = 6, 4
WEEK = 7 * PER_DAY
#: Weeks of history.
BEFORE = 4
#: Effects arrive evenly over twelve hours.
SHARES = np.full(3, 1 / 3)
#: The part of the mean total below which the rule stops.
LOSS = 0.001


class World(NamedTuple):
    """Standard deviations, as parts of a total: of the common level, and of level and noise."""

    name: str
    common: float
    level: float
    noise: float
    memory: float
    is_real: bool = False


JUDGED = (
    World("made up", common=0.15, level=0.05, noise=0.08, memory=0.9),
    World("traffic", common=0.0, level=0.05, noise=0.08, memory=0.9, is_real=True),
)


def draw_demand(world: World, units: int, weeks: int, rng: np.random.Generator) -> Matrix:
    """What comes by slot and unit, from the history on, if all play the control."""
    count = (weeks + BEFORE) * WEEK
    times = np.arange(count)[:, None]
    if world.is_real:
        series = read_real()
        begin = WEEK * int(rng.integers((len(series) - count) // WEEK))
        season = series[begin : begin + count, None]
    else:
        phases = 2 * np.pi * times / PER_DAY + rng.normal(0, 0.3, units)
        days = 2 * np.pi * (times // PER_DAY) / 7 + rng.normal(0, 0.3, units)
        season = (1 + 0.5 * np.sin(phases)) * (1 + 0.25 * np.sin(days))
    wander = draw_level(world.common, world.memory, (count, 1), rng)
    wander = wander + draw_level(world.level, world.memory, (count, units), rng)
    sizes = np.exp(rng.normal(0, 1, units))
    demand: Matrix = sizes * season * np.exp(wander + rng.normal(0, world.noise, (count, units)))
    return demand


def draw_level(spread: float, memory: float, shape: tuple[int, int], rng: Any) -> Matrix:
    """Levels that wander: AR(1), by slot and column."""
    steps = rng.normal(0, spread * np.sqrt(1 - memory**2), shape)
    level = np.zeros(shape)
    level[0] = rng.normal(0, spread, shape[1])
    for slot in range(1, shape[0]):
        level[slot] = memory * level[slot - 1] + steps[slot]
    return level


@cache
def read_real() -> Vector:
    """The real series in slots of four hours, from a Monday on."""
    series, place, _ = read_history(str(SERIES), "1h")
    series = series[-place % (7 * 24) :]
    series = series[: len(series) // (7 * 24) * 7 * 24]
    totals: Vector = series.reshape(-1, HOURS).sum(axis=1)
    return totals


def compile_decide(policy: ae.Policy) -> Any:
    """The decision of a policy of one unit, in machine code but for its floors."""
    if not isinstance(policy, ae.Floors):
        return load_decide(policy)
    base = SlotKernels(load_decide(policy.base), policy.base.kernels().observe)
    return slot_floors(base).decide


class Played(NamedTuple):
    """A finished experiment: by slot and unit, and by block."""

    totals: Matrix
    history: Matrix
    arms: Slots
    starts: list[int]
    probabilities: list[Vector]
    lost: float

    def trial(self) -> UnitTrial:
        """What inference gets."""
        starts, chances = np.array(self.starts), np.array(self.probabilities)
        slots, units = self.totals.shape
        return UnitTrial(
            tuple(
                Trial(
                    totals=self.totals[:, unit],
                    played=self.arms[:, unit],
                    starts=starts,
                    decided=self.arms[starts, unit],
                    probabilities=chances,
                    places=np.arange(slots) % WEEK,
                    calendar=Calendar(PER_DAY),
                    history=self.history[:, unit],
                )
                for unit in range(units)
            )
        )


def play(policy: ae.Policy, lifts: Vector, demand: Matrix, seed: int) -> Played:
    """Play all units: together, or a single one with a policy of its own."""
    slots, units = len(demand) - BEFORE * WEEK, demand.shape[1]
    arms, lead, nothing = len(lifts), BEFORE * WEEK, np.zeros((units, 0))
    policy = policy.with_calendar(Calendar(PER_DAY))
    params, rng, kernels = policy.params(arms, slots), np.random.default_rng(seed), policy.kernels()
    is_together = isinstance(policy, UnitPolicy)
    if is_together:
        state, decide = policy.initial_for_units(arms, units, len(demand)), kernels.decide
    else:
        state, decide = policy.initial_for(arms, len(demand)), compile_decide(policy)
    brought, totals = demand.copy(), np.zeros_like(demand)
    played = np.zeros((slots, units), int)
    choices = np.zeros(units, int)
    left, starts, chances = 0, [], []
    for row in range(len(demand)):
        slot = row - lead
        if slot >= 0 and left == 0:
            decided = decide(state, params, slot, rng)
            choices, left = (
                (state.choices.astype(int), decided)
                if is_together
                else (np.full(1, int(decided[0])), int(decided[1]))
            )
            starts.append(slot)
            chances.append((state.probabilities[0] if is_together else state.probabilities).copy())
        if slot >= 0:
            played[slot], left = choices, left - 1
            brought[row] *= 1 + lifts[choices]
        reach = brought[max(row - len(SHARES) + 1, 0) : row + 1]
        totals[row] = SHARES[: len(reach)][::-1] @ reach
        if is_together:
            kernels.observe(state, params, slot, choices, totals[row], nothing)
        else:
            kernels.observe(state, params, slot, int(choices[0]), totals[row, 0], nothing[0])
    after, best = demand[lead:], lifts.max()
    lost = 100 * (after * (best - lifts[played])).sum() / (after.sum() * (1 + best))
    return Played(totals[lead:], totals[:lead], played, starts, chances, float(lost))


class Job(NamedTuple):
    """One experiment of a part of the study."""

    part: str
    world: str
    units: int
    seed: int


#: Weeks by the number of units: where there are few, the rule stops late.
WEEKS = {1: 36, 2: 18, 4: 8, 8: 5, 16: 4}
LIFT, LOST_LIFTS, LOST_UNITS, LOST_WEEKS = 0.05, (0.0, 0.05, 0.1, 0.2), 8, 6
SHARE = 0.2
ALONE = "floors(adaptive-switchback, [0.2, 0.2])"
SAME, SAME_WEEKS, ROUNDS = (4, 16), 4, 4


def list_jobs(runs: int) -> Iterator[Job]:
    """All parts grow together; experiments with fixed blocks are quick, so there are more."""
    yield Job("speed", "made up", 200, 0)
    for seed in range(runs):
        for world in JUDGED:
            for units in WEEKS:
                yield Job("stop", world.name, units, seed)
            for units in SAME:
                yield Job("same", world.name, units, seed)
                for number in range(ROUNDS):
                    yield Job("same, fixed", world.name, units, seed * ROUNDS + number)
            if seed % 2 == 0:
                yield Job("lost", world.name, LOST_UNITS, seed)


def work(job: Job) -> dict[str, float]:
    """Play and analyse one experiment."""
    number = [world.name for world in JUDGED].index(job.world)
    parts = ("speed", "stop", "same", "same, fixed", "lost")
    rng = np.random.default_rng([SEED, parts.index(job.part), number, job.units, job.seed])
    world, seed = JUDGED[number], SEED + job.seed
    ours = ae.UnitSwitchback(least_share=SHARE)
    if job.part == "speed":
        return {"seconds": measure_decision(job.units, 1_000, 4)}
    if job.part == "lost":
        return compare_losses(draw_demand(world, job.units, LOST_WEEKS, rng), rng, seed)
    if job.part == "stop":
        demand = draw_demand(world, job.units, WEEKS[job.units], rng)
        policy = ours if job.units > 1 else ae.parse(ALONE, ae.Policy)
        return look(play(policy, np.array([0, LIFT]), demand, seed), LIFT)
    demand = draw_demand(world, job.units, SAME_WEEKS, rng)
    fixed = ae.FixedUnitSwitchback(block=6, blocks_per_arm=SAME_WEEKS * WEEK)
    return look(play(ours if job.part == "same" else fixed, np.zeros(2), demand, seed), 0.0)


def look(played: Played, lift: float) -> dict[str, float]:
    """What an impatient user would see, who looks whenever a block has settled."""
    evidence = weigh_evidence(list_bets(played.trial()), 1, 0)
    ends, truth = find_intervals(evidence.capital, 0.05), np.log1p(lift)
    course = follow(played.trial(), LOSS * played.totals.sum(axis=1).mean())
    stopped = course.stop is not None
    slot = int(course.slots[course.stop]) if course.stop is not None else -1
    at = int(np.flatnonzero(evidence.slots == slot)[-1]) if stopped else -1
    return {
        "day": slot / PER_DAY if stopped else np.inf,
        "covered": float(ends[at, 0] <= truth <= ends[at, 1]) if stopped else np.nan,
        "right": float(course.leaders[course.stop] == 1) if stopped else np.nan,
        "ever": float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()),
        "alarm": float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).any()),
        "lost": played.lost,
    }


def compare_losses(demand: Matrix, rng: Any, seed: int) -> dict[str, float]:
    """The lost share of four arms in random order, for each way to play them."""
    lifts = rng.permutation(LOST_LIFTS)
    alone = [
        play(ae.AdaptiveSwitchback(), lifts, demand[:, [unit]], seed * 100 + unit)
        for unit in range(demand.shape[1])
    ]
    weights = demand[BEFORE * WEEK :].sum(axis=0)
    losses = [each.lost for each in alone]
    best = lifts.max()
    return {
        "random": float(100 * (best - lifts.mean()) / (1 + best)),
        "each alone": float(np.average(losses, weights=weights)),
        "fixed": play(ae.FixedUnitSwitchback(block=6, blocks_per_arm=2), lifts, demand, seed).lost,
        "ours": play(ae.UnitSwitchback(), lifts, demand, seed).lost,
    }


def measure_decision(units: int, slots: int, arms: int) -> float:
    """The processor seconds of one decision after so many slots of an hour."""
    rng, policy = np.random.default_rng(SEED), ae.UnitSwitchback(slots_per_day=24)
    before, (kernels, params) = 28 * 24, (policy.kernels(), policy.params(arms, slots))
    state = policy.initial_for_units(arms, units, before + slots)
    demand = np.exp(rng.normal(0, 0.1, (before + slots, units)))
    choices, left = np.zeros(units, int), 0
    for row in range(before + slots):
        if row >= before and left == 0:
            choices, left = rng.integers(arms, size=units), 6
        left -= 1
        nothing = np.zeros((units, 0))
        kernels.observe(state, params, row - before, choices, demand[row], nothing)
    times = []
    for _ in range(3):
        begin = time.process_time()
        kernels.decide(state, params, slots, rng)
        times.append(time.process_time() - begin)
    return float(np.median(times))


def describe_version() -> str:
    """What decides the numbers: the seed, and the code that plays and analyses."""
    folders = [Path(module.__file__).parent for module in (policies, inference)]
    files = sorted([Path(__file__), *(path for each in folders for path in each.glob("*.py"))])
    return hashlib.sha256(sources_digest(files).encode()).hexdigest()[:16]


Found = dict[tuple[str, str, int], list[dict[str, float]]]


def write_tables(found: Found) -> tuple[str, list[tuple[bool, str]]]:
    """Tables, and what is claimed."""
    verdicts: list[tuple[bool, str]] = []
    lines = [
        f"### How soon the rule stops: one arm {LIFT:.0%} better\n",
        "| world | units | runs | weeks | stopped | median day | ratio to one unit | covered at "
        "the stop | right arm | covered at every look |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for world in JUDGED:
        alone = np.inf
        for units, weeks in WEEKS.items():
            rows = found.get(("stop", world.name, units), [])
            if not rows:
                continue
            columns = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
            days, stopped = columns["day"], np.isfinite(columns["day"])
            middle = float(np.median(np.minimum(days, weeks * 7)))
            if units == 1:
                alone = middle
            ratio, error = alone / middle, 0.0
            rng = np.random.default_rng(SEED)
            again = np.minimum(rng.choice(days, (2_000, len(days))), weeks * 7)
            first = found[("stop", world.name, 1)]
            others = np.minimum([row["day"] for row in first], WEEKS[1] * 7)
            medians = np.median(rng.choice(others, (2_000, len(others))), axis=1)
            error = float(np.std(medians / np.median(again, axis=1)))
            cells = [
                show_rate(stopped),
                f"{middle:.1f}" if stopped.mean() > 0.5 else f"over {weeks * 7}",
                "-" if units == 1 else f"**{ratio:.1f}** ± {error:.1f}",
                *(show_rate(columns[name][stopped]) for name in ("covered", "right")),
                show_rate(columns["ever"]),
            ]
            lines.append(
                f"| {world.name} | {units} | {len(rows)} | {weeks} | {' | '.join(cells)} |"
            )
            if units > 1:
                text = f"{world.name}, {units} units: stops {ratio:.1f} ± {error:.1f} times as soon"
                verdicts.append((ratio >= 0.7 * units, f"{text} (at least {0.7 * units:.1f})"))
    lines += [
        "\n### Arms that do not differ\n",
        "| world | policy | units | runs | false alarms | upper end, 97.5 % |",
        "|---|---|---|---|---|---|",
    ]
    for (part, world_name, units), rows in found.items():
        if part.startswith("same"):
            alarms = [row["alarm"] for row in rows]
            name = "fixed-unit-switchback" if "fixed" in part else "unit-switchback"
            upper = find_upper_end(int(sum(alarms)), len(alarms))
            rate = show_rate(np.array(alarms))
            lines.append(
                f"| {world_name} | `{name}` | {units} | {len(rows)} | {rate} | {upper:.1%} |"
            )
    for world in JUDGED:
        alarms = np.array(
            [
                row["alarm"]
                for key, rows in found.items()
                if key[0].startswith("same") and key[1] == world.name
                for row in rows
            ]
        )
        if len(alarms):
            text = (
                f"{world.name}: false alarms at most 5 % ({show_rate(alarms)}, {len(alarms)} runs)"
            )
            verdicts.append((float(alarms.mean()) <= 0.05, text))
    every = [row for key, rows in found.items() if key[0] == "stop" and key[2] > 1 for row in rows]
    covered = np.array([row["covered"] for row in every if np.isfinite(row["day"])])
    if len(covered):
        text = f"all units: covered at the stop at least 95 % ({show_rate(covered)})"
        verdicts.append((float(covered.mean()) >= 0.95, text))
    lines += [
        f"\n### Lost share: {LOST_UNITS} units, four arms, {LOST_WEEKS} weeks\n",
        "| world | runs | random | each unit alone, `adaptive-switchback` | "
        "`fixed-unit-switchback` | `unit-switchback` |",
        "|---|---|---|---|---|---|",
    ]
    for world in JUDGED:
        rows = found.get(("lost", world.name, LOST_UNITS), [])
        if rows:
            cells = [
                show_mean(np.array([row[name] for row in rows]))
                for name in ("random", "each alone", "fixed", "ours")
            ]
            lines.append(f"| {world.name} | {len(rows)} | {' | '.join(cells)} |")
            ours, rest = (
                np.array([row["ours"] for row in rows]),
                np.array([min(row["each alone"], row["fixed"]) for row in rows]),
            )
            text = f"{world.name}: loses less than each unit alone and the fixed switchback"
            verdicts.append((float(ours.mean()) < float(rest.mean()), text))
    for row in found.get(("speed", "made up", 200), []):
        text = (
            f"a decision for 200 units after 1,000 slots takes {row['seconds']:.2f} s (below 1 s)"
        )
        verdicts.append((row["seconds"] < 1, text))
    lines += ["\n### Claims\n"]
    lines += [f"- {'kept' if kept else 'missed'}: {text}" for kept, text in verdicts]
    return "\n".join(lines), verdicts


def show_rate(outcomes: Vector) -> str:
    """The share of ones in percent, with its standard error."""
    if not len(outcomes):
        return "-"
    rate = float(outcomes.mean())
    return f"{100 * rate:.0f} ± {100 * np.sqrt(rate * (1 - rate) / len(outcomes)):.0f} %"


def show_mean(values: Vector) -> str:
    """The mean of percents, with its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.2f} ± {error:.2f} %"


def find_upper_end(count: int, runs: int) -> float:
    """The upper end of the exact binomial interval, by bisection."""
    low, high = count / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        logs = [
            math.lgamma(runs + 1)
            - math.lgamma(k + 1)
            - math.lgamma(runs - k + 1)
            + k * math.log(middle)
            + (runs - k) * math.log1p(-middle)
            for k in range(count + 1)
        ]
        low, high = (middle, high) if sum(map(math.exp, logs)) > 0.025 else (low, middle)
    return high


def read_finished(file: Path, version: str) -> dict[Job, dict[str, float]]:
    """What a folder has, of the same code."""
    found = {}
    if file.exists():
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["version"] == version:
                found[Job(*row["job"])] = row["found"]
    return found


def main() -> int:
    """Play what is not finished, write the tables; 1 if a claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("document", type=Path, help="such as docs/units.md")
    parser.add_argument("--runs", type=int, default=100, help="runs of each kind")
    parser.add_argument("--quick", action="store_true", help="8 runs of each kind: two minutes")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--tables", action="store_true", help="only write what is finished")
    given = parser.parse_args()
    split_at_markers(given.document.read_text(encoding="utf-8"), BEGIN, END)
    file, version = Path("units") / "finished.jsonl", describe_version()
    file.parent.mkdir(exist_ok=True)
    finished = read_finished(file, version)
    jobs = list(list_jobs(8 if given.quick else given.runs))
    todo = [] if given.tables else [job for job in jobs if job not in finished]
    with ProcessPoolExecutor(given.jobs) as pool, file.open("a") as log:
        for number, (job, found) in enumerate(
            zip(todo, pool.map(work, todo), strict=True), len(jobs) - len(todo) + 1
        ):
            finished[job] = found
            log.write(json.dumps({"version": version, "job": job, "found": found}) + "\n")
            log.flush()
            print(f"{number:,} of {len(jobs):,}", end="\r", flush=True)
    table: Found = {}
    for job, found in finished.items():
        table.setdefault(job[:3], []).append(found)
    text, verdicts = write_tables(table)
    note = f"Seed {SEED:,}. Finished are {len(finished):,} of {len(jobs):,} experiments."
    replace_between_markers(given.document, BEGIN, END, f"{note}\n\n{text}")
    print(text)
    return int(not all(kept for kept, _ in verdicts))


if __name__ == "__main__":
    sys.exit(main())
