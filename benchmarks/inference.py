"""How often the answers of `aftereffect.inference` are wrong, and how soon they come.

``make inference``. Experiments are played in made-up worlds and on a real series, and analysed
after every block, as an impatient user does. An alarm is an interval that excludes 0 though arms do
not differ. What is finished is kept in a folder, so that a run can be stopped and continued by the
same code: all kinds of experiments grow together, and ``--tables`` writes what is finished.
"""

import argparse
import hashlib
import inspect
import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import aftereffect as ae
from aftereffect import inference
from aftereffect._core import Vector, check_writable, sources_digest
from aftereffect.inference import Trial
from aftereffect.inference._analysis import believe
from aftereffect.inference._scores import list_segments
from aftereffect.inference._sequence import EFFECTS, find_intervals, weigh_evidence
from aftereffect.inference._trial import learn_season
from aftereffect.policies import Recording
from aftereffect.simulation import Task, prepare, run_batch
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- inference: written by make inference -->", "<!-- /inference -->"
SERIES = str(Path(__file__).parent / "data" / "traffic.csv.gz")
HOURS, SEED, ALPHA, BATCH = 8 * 7 * 24, 95_000, 0.05, 25
#: The share of the control, and the loss per slot at which the rule stops, as a part of its mean.
SHARE, LOSS = 0.2, 0.001
DELAY = "interval(0, 11)"
REAL = "real series"
#: Where arms do not differ, the rule stops so seldom here that all runs are analysed as a whole.
SELDOM = "trend"
#: Blocks of the fixed switchbacks in hours, and the first hours of a block that are left out.
FIXED = {12: 6, 24: 12, 48: 24}


class Part(NamedTuple):
    """Experiments of one kind."""

    name: str
    world: str
    lift: float
    policy: str


def list_parts(runs: int) -> Iterator[tuple[Part, int, int]]:
    """No difference in all worlds; three lifts in each; and the designs on the real series.

    Each with its runs, and how many of them are analysed as a whole: others only for alarms.
    """
    floors = f"floors(adaptive-switchback, [{SHARE}, 0])"
    few = {name: runs // (4 if name == REAL else 8) for name in list_worlds()}
    for name, whole in few.items():
        count = whole if name == REAL else runs
        yield Part("no difference", name, 0.0, floors), count, count if name == SELDOM else whole
    for lift in (0.05, 0.1, 0.2):
        for name, whole in few.items():
            yield Part("coverage", name, lift, floors), whole, whole
    for block in FIXED:
        blocks = HOURS // block // 2
        policy = f"fixed-switchback(block={block}, blocks_per_arm={blocks})"
        for lift in (0.0, 0.1):
            yield Part("fixed", REAL, lift, policy), few[REAL], 0


def list_worlds() -> dict[str, Any]:
    """Arms are made by the lift: a function of it."""

    def made_up(season: str, noise: float = 0.1, delay: str = DELAY, **given: Any) -> Any:
        return lambda lift: ae.SeasonalBandit(
            (0, lift), delay, "1h", season, noise, shuffle=False, **given
        )

    return {
        "flat": made_up("flat"),
        "weekday": made_up("weekday"),
        "trend": made_up("trend"),
        "ar": made_up("ar"),
        "ar+weekday": made_up("ar+weekday", 0.05),
        "heavy tails": made_up("weekday", tails="heavy"),
        "outliers": made_up("weekday", feed=ae.Defects(zeros=0.01, spikes=0.01)),
        "another delay": made_up("weekday", delay="shape([.5, 0, 0, 0, 0, 0, .5])"),
        REAL: lambda lift: ae.HistoryBandit(SERIES, (0, lift), DELAY, shuffle=False),
    }


def make_task(part: Part) -> Task:
    """The first run of a part."""
    bandit = list_worlds()[part.world](part.lift)
    policy = Recording(ae.parse(part.policy)).with_calendar(bandit.calendar)
    return Task(policy, bandit, "slotwise", HOURS, (HOURS,), SEED, range(1))


@cache
def prepare_part(part: Part) -> tuple[Task, Any]:
    """Compile a part, once in a process."""
    task = make_task(part)
    return task, prepare(task)


def describe_version(part: Part) -> str:
    """What decides the numbers of a part: its seed, and the code that plays and analyses it."""
    task, folder = make_task(part), Path(inference.__file__).parent
    given = "".join(map(inspect.getsource, (analyse, look_for_alarm, peek, test_blocks)))
    analysis = sources_digest(sorted(folder.glob("_*.py"))) + given
    world = str(task.bandit).replace(SERIES, Path(SERIES).name)
    digest = hashlib.sha256((world + task.made_by + analysis).encode()).hexdigest()
    return f"seed {SEED}, code {digest[:16]}"


def play(part: Part, first: int, last: int) -> list[Trial]:
    """Experiments ``first .. last - 1`` of a part."""
    task, prepared = prepare_part(part)
    bandit = task.bandit
    logs = run_batch(replace(task, replications=range(first, last)), prepared).states
    trials = []
    for run in range(last - first):
        blocks, before = map(int, logs.counts[run])
        starts = logs.starts[run, :blocks].astype(int)
        played = logs.played[run, before : before + HOURS].astype(int)
        trials.append(
            Trial(
                totals=logs.totals[run, before : before + HOURS],
                played=played,
                starts=starts,
                decided=played[starts],
                probabilities=logs.chances[run, :blocks],
                places=np.arange(HOURS) % bandit.calendar.slots_per_week,
                calendar=bandit.calendar,
                history=logs.totals[run, :before],
            )
        )
    return trials


def look_for_alarm(trial: Trial, alpha: float = ALPHA) -> dict[str, float]:
    """What `analyse` says of alarms, in less time.

    An interval has all usual effects that are not ruled out. So it excludes 0 only if 0 is ruled
    out, and intervals are needed only then.
    """
    segments = list_segments(trial)
    capital = weigh_evidence(segments, 1, 0, np.zeros(1)).capital
    if capital.max() < -math.log(alpha):
        return {"alarm": 0.0, "naive": float(peek(trial))}
    ends = find_intervals(weigh_evidence(segments, 1, 0).capital, alpha)
    is_shown = (ends[:, 0] > 0) | (ends[:, 1] < 0)
    return {"alarm": float(is_shown.any()), "naive": float(peek(trial))}


def analyse(trial: Trial, lift: float) -> dict[str, float]:
    """What an impatient user would see, of two arms."""
    evidence = weigh_evidence(list_segments(trial), 1, 0)
    ends = find_intervals(evidence.capital, ALPHA)
    truth = np.log1p(lift)
    beliefs = believe(evidence.capital)
    lifts = np.exp(EFFECTS)
    means = beliefs @ lifts
    loss = beliefs @ np.maximum(lifts, 1.0) - np.maximum(means, 1.0)
    # As in Results.stops: it must be known what the leader brings at least.
    is_known = np.isfinite(np.where(means > 1.0, ends[:, 0], ends[:, 1]))
    shown = np.flatnonzero((ends[:, 0] > 0) | (ends[:, 1] < 0))
    stopped = np.flatnonzero((loss < LOSS) & is_known)
    at = stopped[0] if len(stopped) else -1
    return {
        "alarm": float(len(shown) > 0),
        "naive": float(peek(trial)),
        "day": float(evidence.slots[shown[0]]) / 24 if len(shown) else np.inf,
        "stopped": float(len(stopped) > 0),
        "stop day": float(evidence.slots[at]) / 24 if len(stopped) else np.inf,
        "covered": float(ends[at, 0] <= truth <= ends[at, 1]),
        "ever": float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()),
        "half width": float(ends[-1, 1] - ends[-1, 0]) / 2,
    }


def peek(trial: Trial) -> bool:
    """Whether a z-test of the mean totals of arms finds a difference after any slot."""
    season = learn_season(trial)
    values = trial.totals / (1.0 if season is None else season[trial.places])
    is_known = ~np.isnan(values)
    values = np.where(is_known, values, 0.0)
    sums = [
        [np.cumsum(np.where(is_known & (trial.played == arm), values**power, 0)) for arm in (0, 1)]
        for power in (0, 1, 2)
    ]
    counts, means = np.maximum(sums[0], 1), np.array(sums[1]) / np.maximum(sums[0], 1)
    variances = np.maximum(np.array(sums[2]) / counts - means**2, 1e-12) / counts
    z = (means[1] - means[0]) / np.sqrt(variances.sum(axis=0))
    return bool((np.abs(z[48:][np.array(sums[0])[:, 48:].min(axis=0) >= 10]) > 1.96).any())


def test_blocks(trial: Trial, washout: int) -> dict[str, float]:
    """The usual analysis of a fixed switchback: a t-test of blocks, without their first slots."""
    season = learn_season(trial)
    values = np.log(np.maximum(trial.totals, 1e-9) / season[trial.places])
    blocks = [
        values[start + washout : end].mean()
        for start, end in zip(trial.starts, trial.ends, strict=True)
    ]
    groups = [np.array(blocks)[trial.decided == arm] for arm in (0, 1)]
    error = np.sqrt(sum(group.var(ddof=1) / len(group) for group in groups))
    effect = groups[1].mean() - groups[0].mean()
    width = 2.0 * error  # the quantile of Student's t with some fifty degrees of freedom
    return {"alarm": float(abs(effect) > width), "half width": float(width)}


def work(part: Part, first: int, last: int, is_whole: bool) -> list[dict[str, float]]:
    """Play and analyse some experiments: as a whole, or only to see whether there is an alarm."""
    trials = play(part, first, last)
    if part.name == "fixed":
        washout = FIXED[ae.parse(part.policy).block]
        return [test_blocks(trial, washout) for trial in trials]
    return [analyse(trial, part.lift) if is_whole else look_for_alarm(trial) for trial in trials]


Found: TypeAlias = dict[Part, list[dict[str, float]]]
Verdicts: TypeAlias = list[tuple[bool, str]]


def write_report(found: Found) -> tuple[str, Verdicts]:
    """Tables, and what is claimed."""
    written = [write(found) for write in (write_alarms, write_cover, write_power)]
    text = "\n\n".join(table for table, _ in written)
    return text, [verdict for _, verdicts in written for verdict in verdicts]


def write_alarms(found: Found) -> tuple[str, Verdicts]:
    """How often there is an alarm where arms do not differ."""
    verdicts: Verdicts = []
    lines = [
        "### Arms that do not differ\n",
        "| world | runs | false alarms | upper end, 97.5 % | peeking with a z-test |",
        "|---|---|---|---|---|",
    ]
    for part, rows in found.items():
        if part.name == "no difference":
            alarms, runs = sum(row["alarm"] for row in rows), len(rows)
            upper = find_upper_end(int(alarms), runs)
            naive = np.mean([row["naive"] for row in rows])
            rate = f"{alarms / runs:.1%}"
            lines.append(f"| {part.world} | {runs} | **{rate}** | {upper:.1%} | {naive:.0%} |")
            text = f"{part.world}: false alarms at most 5 % ({rate}), upper end 6 % ({upper:.1%})"
            verdicts.append((alarms <= 0.05 * runs and upper <= 0.06, text))
    return "\n".join(lines), verdicts


def write_cover(found: Found) -> tuple[str, Verdicts]:
    """How often intervals have the truth, and when the rule stops."""
    verdicts: Verdicts = []
    lines = [
        "### When it stops, and whether the truth is covered\n",
        "| world | lift | runs | stopped within 8 weeks | median day | covered at the stop | "
        "stopped and not covered | at every look | difference shown | median day | "
        "half width after 8 weeks |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for part, rows in sorted(
        found.items(), key=lambda item: list(list_worlds()).index(item[0].world)
    ):
        whole = [row for row in rows if "ever" in row]
        if whole:
            columns = {name: np.array([row[name] for row in whole]) for name in whole[0]}
            covered = columns["covered"][columns["stopped"] > 0]
            cover = show_rate(covered) if len(covered) else "-"
            cells = [
                show_rate(columns["stopped"]),
                show(np.median(columns["stop day"])),
                f"**{cover}**",
                show_rate(columns["stopped"] * (1 - columns["covered"])),
                show_rate(columns["ever"]),
                show_rate(columns["alarm"]),
                show(np.median(columns["day"])),
                show(100 * np.median(columns["half width"]), ".1f", " %"),
            ]
            lines.append(f"| {part.world} | {part.lift:.0%} | {len(whole)} | {' | '.join(cells)} |")
            if len(covered):
                text = f"{part.world}, lift {part.lift:.0%}: covered at the stop ({cover})"
                verdicts.append((covered.mean() >= 0.95, text))
    return "\n".join(lines), verdicts


def write_power(found: Found) -> tuple[str, Verdicts]:
    """Fixed designs with their own test beside ours; what raises alarms too often is no match."""
    lines = [
        "### One arm 10 % better, real series, after 8 weeks\n",
        "| design | runs | difference shown | half width | false alarms where arms do not differ |",
        "|---|---|---|---|---|",
    ]
    shown, widths = {}, {}
    for part, rows in found.items():
        if part.world == REAL and part.lift == 0.1:
            alarms = np.array([row["alarm"] for row in rows])
            shown[part.policy] = alarms
            widths[part.policy] = np.median([row["half width"] for row in rows])
            width = f"{100 * widths[part.policy]:.1f} %"
            same = next(
                np.array([row["alarm"] for row in others])
                for other, others in found.items()
                if (other.world, other.lift, other.policy) == (part.world, 0.0, part.policy)
            )
            cells = [show_rate(alarms), width, show_rate(same)]
            lines.append(f"| `{part.policy}` | {len(rows)} | {' | '.join(cells)} |")
    ours, *fixed = shown
    best = max(fixed, key=lambda policy: shown[policy].mean())
    text = f"shown in {show_rate(shown[ours])}, best fixed {show_rate(shown[best])}"
    ratio = widths[ours] / min(widths[policy] for policy in fixed)
    return "\n".join(lines), [
        (shown[ours].mean() >= shown[best].mean(), text),
        (ratio <= 1.5, f"width at most 1.5 times the fixed sample's ({ratio:.2f})"),
    ]


def show(number: float, notation: str = ".0f", unit: str = "") -> str:
    """A number, or "-" if it is infinite."""
    return f"{number:{notation}}{unit}" if np.isfinite(number) else "-"


def show_rate(outcomes: Vector) -> str:
    """The share of ones in percent, with its standard error."""
    rate = float(outcomes.mean())
    error = np.sqrt(max(rate * (1 - rate), 0.0) / len(outcomes))
    return f"{100 * rate:.0f} ± {100 * error:.0f} %"


def find_upper_end(count: int, runs: int) -> float:
    """The upper end of the exact binomial interval, by bisection."""
    low, high = count / runs, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        terms = np.arange(count + 1)
        logs = np.cumsum(np.log(np.append(1, (runs - terms[:-1]) / terms[1:])))
        total = np.exp(logs + terms * np.log(middle) + (runs - terms) * np.log1p(-middle)).sum()
        low, high = (middle, high) if total > 0.025 else (low, middle)
    return low


def read_rows(path: Path, head: list[Any]) -> list[dict[str, float]] | None:
    """What was found of a part until now; None if it was another part, or another version of it."""
    if not path.exists():
        return []
    first, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return rows if first == head else None


def add_rows(path: Path, head: list[Any], rows: list[dict[str, float]]) -> None:
    """Keep what was found of some more runs, all of them or none."""
    lines = [] if path.exists() else [head]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, *rows])
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def main() -> int:
    """Play, analyse, judge, write, and return the exit status."""
    parser = argparse.ArgumentParser(description="how often inference is wrong")
    parser.add_argument("document", type=Path, help=f"its text between {BEGIN} and {END} changes")
    parser.add_argument("--runs", type=int, default=2_000, help="runs without a difference")
    parser.add_argument("--folder", type=Path, default=Path("inference"), help="finished runs")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each core")
    parser.add_argument("--tables", action="store_true", help="play no more: write what is there")
    options = parser.parse_args()
    document = check_writable(options.document, (".md",))
    split_at_markers(document.read_text(encoding="utf-8"), BEGIN, END)
    options.folder.mkdir(exist_ok=True)
    parts, start = list(list_parts(options.runs)), time.monotonic()
    heads = [[*part, describe_version(part)] for part, *_ in parts]
    paths = [options.folder / f"{number}.jsonl" for number in range(len(parts))]
    for path, head in zip(paths, heads, strict=True):
        if read_rows(path, head) is None:
            print(f"{path} is of another version: remove it", file=sys.stderr)
            return 2
    jobs = []
    for number, (part, runs, whole) in enumerate(parts):
        done = len(read_rows(paths[number], heads[number]) or [])
        for first in range(done, runs if not options.tables else 0, BATCH):
            jobs.append((first / runs, number, part, first, first + BATCH, first < whole))
    jobs.sort(key=lambda job: job[0])  # all parts grow evenly
    with ProcessPoolExecutor(options.jobs) as pool:
        shares, numbers, *given = zip(*jobs, strict=True) if jobs else [()] * 6
        for share, number, rows in zip(shares, numbers, pool.map(work, *given), strict=True):
            add_rows(paths[number], heads[number], rows)
            print(f"{time.monotonic() - start:6.0f} s  {share:.1%} of all runs", flush=True)
    found = {
        part: rows
        for (part, *_), path, head in zip(parts, paths, heads, strict=True)
        if (rows := read_rows(path, head))
    }
    report, verdicts = write_report(found)
    claims = "\n".join(f"- {'kept' if kept else '**missed**'}: {text}" for kept, text in verdicts)
    played, wanted = sum(map(len, found.values())), sum(runs for _, runs, _ in parts)
    head = f"Seed {SEED:,}. Finished are {played:,} of {wanted:,} experiments."
    text = "\n\n".join([head, report, f"### Claims\n\n{claims}"])
    replace_between_markers(document, BEGIN, END, text)
    for kept, line in verdicts:
        print(f"{'kept' if kept else 'missed'}: {line}")
    return 0 if all(kept for kept, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
