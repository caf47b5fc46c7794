"""Whether plans keep what they promise, in weeks that they have not seen.

``make planning``. Each plan has eight weeks of a real series. Reality is the six weeks that follow
in the series, with lifts and lags that are drawn anew. What is finished is kept in a folder, so
that a run can be stopped and continued. Claims are judged, and the exit status is 1 if one was
missed.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aftereffect as ae
from aftereffect._core import check_writable
from aftereffect.bandits import Defects
from aftereffect.planning._designs import check_design, count_worlds
from aftereffect.planning._history import read_past
from aftereffect.planning._jobs import Job, Outcome, play_world
from aftereffect.planning._worlds import (
    Recipe,
    World,
    draw_delay,
    draw_lifts,
    read_lags,
    read_lifts,
)
from aftereffect.rewards import DatedTotals, read_dated_totals
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- planning: written by make planning -->", "<!-- /planning -->"
SERIES = str(Path(__file__).parent / "data" / "traffic.csv.gz")
SEED, WEEK = 123_000, 168
#: Weeks in which a larger share of the slots has no total are not planned with.
MAX_HOLES = 0.25
#: Weeks of the history, weeks before it that still arrive in it, and weeks of the experiment.
SEEN, BEFORE, WEEKS = 8, 2, 6
ARMS, LIFT, LAG, RUNS, WORLDS = 2, "10..25%", "0..24h", 64, 16
#: The candidates of each plan.
DESIGNS, ADAPTIVE = 4, "floors(adaptive-switchback, [0.1, 0])"

#: A plan whose time is measured: four arms, and three designs.
SPEED_OPTIONS = (
    *("--slot", "1h", "--arms", "4", "--lift", "5..15%", "--lag", "12h", "--weeks", "8"),
    *("--jobs", "2", "--seed", "1", "--design", "floors(adaptive-switchback, [0.1, 0, 0, 0])"),
    *("--design", "fixed-switchback(block=24, blocks_per_arm=3)"),
    *("--design", "fixed-switchback(block=48, blocks_per_arm=2)"),
)


def plan_and_live(number: int, runs: int) -> dict[str, Any]:
    """Make a plan from weeks of the series, and play its designs in the weeks that follow."""
    dated = read_dated_totals(SERIES, "1h")
    rng = np.random.default_rng([SEED, number])
    filled, begin = dated.history.totals, draw_window(dated, rng)
    start = begin + SEEN * WEEK
    holes = float(np.isnan(dated.totals[start : start + WEEKS * WEEK]).mean())
    rows = [
        (dated.start + timedelta(hours=slot), None if math.isnan(total) else float(total))
        for slot, total in zip(range(begin, start), dated.totals[begin:start], strict=True)
    ]
    asked = {"slot": "1h", "arms": ARMS, "lift": LIFT, "lag": LAG, "weeks": WEEKS}
    seed = SEED + number
    plan = ae.plan(rows, **asked, runs=runs, power=False, seed=seed, jobs=1)
    limit, slots = plan.stop_when_loss_below, WEEKS * WEEK
    designs = {each.design: check_design(each.design, ARMS, slots) for each in plan.promises}
    lived: dict[str, list[Outcome]] = {name: [] for name in designs}
    past, _ = read_past(rows, "1h")
    recipe = Recipe(past, ARMS, read_lifts(LIFT), read_lags(LAG, "1h"), SEED + 500_000 + number)
    for world_number in range(max(count_worlds(design, WORLDS) for design in designs.values())):
        lifts = draw_lifts(recipe.lifts.draw(rng), ARMS, rng)
        delay = draw_delay(recipe.lags.draw(rng), rng)
        window = filled[begin - BEFORE * WEEK : start + slots]
        bandit = ae.HistoryBandit(
            window,
            lifts,
            delay,
            start=(BEFORE + SEEN) * WEEK,
            weeks_before=SEEN,
            shuffle=False,
            feed=Defects(missing=holes),
            history_delayed=True,
        )
        demand = filled[start : start + slots]
        # Totals are divided by the largest of all slots that are in use.
        reach = len(window) - slots - SEEN * WEEK - find_reach(delay)
        world = World(bandit, demand, lifts, float(window[reach:].max()) * (1 + max(lifts)))
        for name, design in designs.items():
            if world_number < count_worlds(design, WORLDS):
                job = Job(recipe, design, (), slots, limit, (slots,))
                lived[name].append(play_world(job, world, world_number))
    return {"plan": plan.to_dict(), "lived": lived}


def draw_window(dated: DatedTotals, rng: np.random.Generator) -> int:
    """The first slot of a history that can be planned with, before weeks that are as complete."""
    first = -dated.history.first % WEEK
    most = (len(dated.totals) - first) // WEEK - SEEN - WEEKS + 1
    while True:
        begin = first + WEEK * int(rng.integers(BEFORE, most))
        parts = np.split(dated.totals[begin : begin + (SEEN + WEEKS) * WEEK], [SEEN * WEEK])
        if all(np.isnan(part).mean() < MAX_HOLES for part in parts):
            return begin


def find_reach(delay: ae.delays.LagLaw) -> int:
    """The largest lag at which the bandit lets something arrive."""
    lags = np.arange(min(delay.reach, 2_000) + 1)
    return int(np.flatnonzero(delay.tail(lags) < 1e-6)[0])


def judge(found: list[dict[str, Any]]) -> tuple[str, list[tuple[bool, str]]]:
    """A table by design, and what is claimed."""
    lines = [
        "| design | worlds | loss: realised / promised, median | in the 90 % band | "
        "end: realised / promised, median | in the 90 % band |",
        "|---|---|---|---|---|---|",
    ]
    verdicts, slots = [], WEEKS * WEEK
    names = ["adaptive-switchback", "fixed switchbacks"]
    for name, is_adaptive in zip(names, (True, False), strict=True):
        ratios: list[list[float]] = []  # by plan
        inside, ends, inside_ends = ([] for _ in range(3))
        for each in found:
            for values in (ratios, inside, ends, inside_ends):
                values.append([])
            for promise in map(ae.planning.Promise.from_dict, each["plan"]["promises"]):
                if (promise.design == ADAPTIVE) != is_adaptive:
                    continue
                for outcome in each["lived"][promise.design]:
                    lost, _, end, *_ = outcome
                    ratios[-1].append(lost / promise.loss_median)
                    inside[-1].append(promise.loss_low <= lost <= promise.loss_high)
                    if is_adaptive:  # an end after the last slot counts as the last slot
                        at = slots if end is None else end
                        low, middle, high = (
                            slots if number is None else number
                            for number in (promise.end_low, promise.end_median, promise.end_high)
                        )
                        ends[-1].append(at / middle)
                        inside_ends[-1].append(low <= at <= high)
        pairs = (("loss", ratios, inside), ("time to stop", ends, inside_ends))
        cells = []
        for what, values, hits in pairs:
            if not any(values):
                cells += ["fixed", "fixed"]
                continue
            middle, share = np.median(np.concatenate(values)), np.mean(np.concatenate(hits))
            errors = find_error(values, np.median), 100 * find_error(hits, np.mean)
            right = f"{100 * share:.0f} ± {errors[1]:.0f} %"
            cells += [f"**{middle:.2f}** ± {errors[0]:.2f}", right]
            claim = f"{name}, {what}: median of realised / promised from .85 to 1.15"
            verdicts.append((0.85 <= middle <= 1.15, f"{claim} ({middle:.2f})"))
            claim = f"{name}, {what}: 90 % bands right in 85 to 95 %"
            verdicts.append((0.85 <= share <= 0.95, f"{claim} ({right})"))
        lines.append(f"| {name} | {sum(map(len, ratios))} | {' | '.join(cells)} |")
    # In each window what was lost by following the plan, and by each of the candidates.
    losses = [
        [
            lose(each, each["plan"]["recommended"]),
            *(lose(each, promise["design"]) for promise in each["plan"]["promises"]),
        ]
        for each in found
    ]
    ratio, error = compare(np.array(losses)), find_error(losses, compare)
    claim = f"recommendation followed in {len(found)} windows: at most 1.1 times the best design"
    verdicts.append((ratio <= 1.1, f"{claim} in hindsight ({ratio:.2f} ± {error:.2f})"))
    return "\n".join(lines), verdicts


def lose(each: dict[str, Any], design: str) -> float:
    """What a design lost in the weeks after a plan, on average."""
    return float(np.mean([outcome[0] for outcome in each["lived"][design]]))


def compare(losses: NDArray[np.float64]) -> float:
    """What following plans lost, against the design that lost least in all windows together."""
    followed, *designs = losses.reshape(-1, 1 + DESIGNS).sum(axis=0)
    return float(followed / min(designs))


def find_error(values: list[list[Any]], statistic: Callable[[Any], Any]) -> float:
    """The standard error of a statistic, by the bootstrap: worlds of one plan are alike."""
    rng = np.random.default_rng(1)
    rows = rng.integers(len(values), size=(400, len(values)))
    draws = [statistic(np.concatenate([values[place] for place in row])) for row in rows]
    return float(np.std(draws))


def measure_speed(folder: Path) -> dict[str, list[float]]:
    """Seconds, and processor seconds, of the first figures and of a whole plan on two cores.

    The first figures are those of a quick plan. On idle cores, seconds are at most as many as
    processor seconds.
    """
    dated = read_dated_totals(SERIES, "1h")
    begin = draw_window(dated, np.random.default_rng(SEED))
    history = folder / "history.csv"
    rows = [
        f"{(dated.start + timedelta(hours=slot)).isoformat()},{dated.totals[slot]:g}"
        for slot in range(begin, begin + SEEN * WEEK)
        if not math.isnan(dated.totals[slot])
    ]
    history.write_text("\n".join(["time,total", *rows]), encoding="utf-8")
    command = [sys.executable, "-m", "aftereffect", "plan", str(history), *SPEED_OPTIONS]
    found: dict[str, list[float]] = {}
    for name in ("compiled before", "first figures", "whole plan"):  # the first one compiles
        quick = [] if name == "whole plan" else ["--quick"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([*command, *quick], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found[name] = [time.monotonic() - start, work]
    return found


def judge_speed(found: dict[str, list[float]]) -> list[tuple[bool, str]]:
    """What is claimed of the time that plans take."""
    limits = {"first figures": 10, "whole plan": 120}
    return [
        (
            found[name][1] <= limit,
            f"{SEEN} weeks of hours, 4 arms, three designs: {name} in {found[name][1]:.1f} "
            f"processor seconds on two cores, at most {limit} ({found[name][0]:.1f} s)",
        )
        for name, limit in limits.items()
    ]


def main() -> int:
    """Plan, play, judge, write, and return the exit status."""
    parser = argparse.ArgumentParser(description="whether plans keep what they promise")
    parser.add_argument("document", type=Path, help=f"its text between {BEGIN} and {END} changes")
    parser.add_argument("--plans", type=int, default=50, help="plans")
    parser.add_argument("--runs", type=int, default=RUNS, help="worlds of each plan")
    parser.add_argument("--folder", type=Path, default=Path("planning"), help="finished parts")
    parser.add_argument("--jobs", type=int, default=None, help="processes, by default one per core")
    options = parser.parse_args()
    document = check_writable(options.document, (".md",))
    split_at_markers(document.read_text(encoding="utf-8"), BEGIN, END)
    options.folder.mkdir(exist_ok=True)
    start, paths = time.monotonic(), []
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = []
        for number in range(options.plans):
            path = options.folder / f"{SEED}-{options.runs}-{WORLDS}-{number}.json"
            paths.append(path)
            if not path.exists():
                waiting.append((path, pool.submit(plan_and_live, number, options.runs)))
        for path, future in waiting:
            path.write_text(json.dumps(future.result()), encoding="utf-8")
            print(f"{time.monotonic() - start:6.0f} s  {path.name}", flush=True)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    table, verdicts = judge(found)
    speed = options.folder / "speed.json"
    if not speed.exists():
        speed.write_text(json.dumps(measure_speed(options.folder)), encoding="utf-8")
    verdicts += judge_speed(json.loads(speed.read_text(encoding="utf-8")))
    claims = "\n".join(f"- {'kept' if kept else '**missed**'}: {text}" for kept, text in verdicts)
    head = (
        f"{len(found)} plans of {options.runs} worlds, {WORLDS} unseen worlds each, and eight "
        f"times as many for fixed switchbacks; seed {SEED}: "
        f"{ARMS} arms, lift {LIFT}, lag {LAG}, {SEEN} weeks of history, an experiment of {WEEKS}."
    )
    replace_between_markers(document, BEGIN, END, f"{head}\n\n{table}\n\n### Claims\n\n{claims}")
    for kept, text in verdicts:
        print(f"{'kept' if kept else 'missed'}: {text}")
    return 0 if all(kept for kept, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
