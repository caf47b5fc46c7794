"""What ask and tell cost, beside raw SQLite and Optuna in the same run: ``make bench-live``.

Every promise says whether it was kept; the exit status is 1 if one was not.
"""

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aftereffect._core import __version__, text_table
from contestants.environments import CannotTakePartError, python_of, run_or_leave_out
from contestants.live import ARMS, pace_in, raw_pace
from contestants.pace import Pace
from live_large import with_many_slots, with_replaced_totals
from live_slots import with_every_slot
from measure import duration, verdict

REPETITIONS = 5
#: One of Optuna's pairs takes as long as many of ours, and fewer are enough.
OPTUNA_FRACTION = 8
PATIENCE_SECONDS = 120
MOST = 10**9
FASTER_THAN_OPTUNA, SHARE_OF_RAW, CPU_ABOVE_RAW = 10, 0.35, 0.5e-3
#: With a faster sync there is next to nothing to wait for, and Python is compared with C.
SLOW_SYNC, PAGE, SYNCS = 0.15e-3, b"-" * 4096, 200

OURS, RAW, OPTUNA, OPTUNA_WAL, MEMORY = (
    "aftereffect",
    "raw SQLite",
    "Optuna",
    "Optuna, WAL",
    "aftereffect in memory",
)


def optuna_pace(path: Path, pairs: int, *, wal: bool = False) -> Pace:
    """Optuna's pace, in an environment and a process of its own."""
    work = {"path": str(path), "arms": ARMS, "pairs": max(1, pairs // OPTUNA_FRACTION), "wal": wal}
    command = [python_of("optuna"), "-m", "contestants.optuna", json.dumps(work)]
    return Pace(
        **json.loads(run_or_leave_out(command, "stopped", PATIENCE_SECONDS).splitlines()[-1])
    )


CONTESTANTS: dict[str, Callable[[Path, int], Pace]] = {
    OURS: lambda path, pairs: pace_in(f"sqlite:///{path}", pairs),
    RAW: raw_pace,
    OPTUNA: optuna_pace,
    OPTUNA_WAL: lambda path, pairs: optuna_pace(path, pairs, wal=True),
    MEMORY: lambda _, pairs: pace_in("memory://", pairs),
}


def sync_seconds(path: Path) -> float:
    """How long the disk takes to store one more page at the end of a file."""
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(PAGE)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def optuna_version() -> str:
    """Which Optuna there is; its environment is made now, and not while others are measured."""
    asked = "from importlib.metadata import version; print(version('optuna'))"
    return run_or_leave_out([python_of("optuna"), "-c", asked], "not there").strip()


def measured(
    contestants: Sequence[str], folder: Path, pairs: int
) -> tuple[dict[str, list[Pace]], float]:
    """Measure the contestants in turn, several times, in new files; and the time of a sync."""
    paces: dict[str, list[Pace]] = {title: [] for title in contestants}
    syncs = []
    for repetition in range(REPETITIONS):
        print(f"repetition {repetition + 1} of {REPETITIONS} ...", file=sys.stderr, flush=True)
        syncs.append(sync_seconds(folder / "sync"))
        for number, title in enumerate(contestants):
            paces[title].append(CONTESTANTS[title](folder / f"{number}-{repetition}.db", pairs))
    return paces, statistics.median(syncs)


def faster(ours: Sequence[Pace], theirs: Sequence[Pace]) -> float:
    """The speed-up within each repetition, as the disk's speed may change between them."""
    return statistics.median(their.wall / our.wall for our, their in zip(ours, theirs, strict=True))


def table(paces: dict[str, list[Pace]], versions: dict[str, str]) -> str:
    """Everybody's line."""
    rows = [("", "version", "pairs/s", "wall ms", "CPU ms", "aftereffect is")]
    for title, theirs in paces.items():
        wall, cpu = (
            statistics.median(seconds)
            for seconds in zip(*((each.wall, each.cpu) for each in theirs), strict=True)
        )
        ratio = "" if title == OURS else f"{faster(paces[OURS], theirs):.2g}x"
        version = versions[title.partition(",")[0]]
        rows.append(
            (
                title,
                version,
                f"{1 / wall:,.0f}",
                f"{wall * 1e3:.3g}",
                f"{cpu * 1e3:.3g}",
                ratio,
            )
        )
    return text_table(rows, left=2)


def against_the_others(folder: Path, pairs: int) -> Iterator[bool]:
    """Durable pairs beside Optuna's, and beside what SQLite takes for the same commits."""
    contestants, versions = (
        list(CONTESTANTS),
        {OURS: __version__, MEMORY: __version__, RAW: sqlite3.sqlite_version},
    )
    try:
        versions[OPTUNA], left_out = optuna_version(), ""
    except CannotTakePartError as reason:
        contestants, left_out = [OURS, RAW, MEMORY], str(reason)
    paces, sync = measured(contestants, folder, pairs)
    print(
        f"ask and tell, ars-ucb, {len(ARMS)} arms, on SQLite unless said otherwise; "
        f"medians of {REPETITIONS} times {pairs}"
    )
    print(table(paces, versions))
    print(f"a sync of the disk takes {duration(sync)}")
    yield from beside_raw(paces[OURS], paces[RAW], sync)
    if left_out:
        print(
            f"at least {FASTER_THAN_OPTUNA}x Optuna: {verdict(False)}, "
            f"since it is left out: {left_out}"
        )
        yield False
        return
    ratio, with_wal = (faster(paces[OURS], paces[title]) for title in (OPTUNA, OPTUNA_WAL))
    kept = ratio >= FASTER_THAN_OPTUNA
    print(
        f"at least {FASTER_THAN_OPTUNA}x Optuna: {ratio:.1f}x {verdict(kept)}; "
        f"{with_wal:.1f}x where its file is in WAL mode"
    )
    yield kept


def beside_raw(ours: Sequence[Pace], raw: Sequence[Pace], sync: float) -> Iterator[bool]:
    """Judge the share of raw SQLite's speed, where commits wait for the disk, and our CPU."""
    share = faster(ours, raw)
    if sync < SLOW_SYNC:
        reason = f"does not apply: the sync is faster than {duration(SLOW_SYNC)}"
        print(f"at least {SHARE_OF_RAW} of raw SQLite's pairs per second: {share:.2f}, {reason}")
    else:
        print(
            f"at least {SHARE_OF_RAW} of raw SQLite's pairs per second: {share:.2f} "
            f"{verdict(share >= SHARE_OF_RAW)}"
        )
        yield share >= SHARE_OF_RAW
    above = statistics.median(our.cpu - their.cpu for our, their in zip(ours, raw, strict=True))
    print(
        f"at most {duration(CPU_ABOVE_RAW)} of CPU per pair above raw: {duration(above)} "
        f"{verdict(above <= CPU_ABOVE_RAW)}"
    )
    yield above <= CPU_ABOVE_RAW


def count(text: str) -> int:
    """A number of slots or pairs, which may be written as 1e6."""
    number = float(text)
    if not 1 <= number <= MOST:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MOST:,}, got {text}")
    return int(number)


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(
        description="live experiments beside raw SQLite and Optuna, in pairs of ask and tell"
    )
    parser.add_argument(
        "--folder", type=Path, help="on the disk to measure (default: for temporary files)"
    )
    parser.add_argument(
        "--slots", type=count, default=10**6, help="of the large experiment (default: 1e6)"
    )
    parser.add_argument(
        "--pairs", type=count, default=400, help="that are measured at a time (default: 400)"
    )
    given = parser.parse_args()
    if given.folder is not None and not given.folder.is_dir():
        parser.error(f"there is no folder {given.folder}")
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made).resolve()
        try:
            outcomes = [
                *against_the_others(folder, given.pairs),
                *with_many_slots(folder, given.slots),
                *with_every_slot(folder),
                *with_replaced_totals(folder),
            ]
        except CannotTakePartError as reason:
            print(f"Optuna {reason}", file=sys.stderr)
            return 1
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
