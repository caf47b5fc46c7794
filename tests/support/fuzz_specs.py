"""Thousands of spec strings and parameter sets through parse, create, ask, tell and simulate: ``make fuzz``.

Whatever is given, it is played or refused with an error of ours, within `MAX_SECONDS` of processor
time, and nothing is recorded of what was refused. Cases follow from the seed and their number
alone, so that each can be looked at again:

    python tests/support/fuzz_specs.py --seed 1 --only 4711
"""

import argparse
import itertools
import math
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # processor time is what is limited

from fuzz_cases import Case, cases, compiled, made
from fuzz_play import compile_all, compile_decides, examined

MAX_SECONDS = 2.0
#: The same in the test suite, where other work makes processors slower.
TEST_LIMIT = 8
MAX_BYTES = 3 * 2**30


@dataclass(frozen=True)
class Found:
    """What became of a case: ``accepted``, ``refused`` or what is wrong."""

    case: Case
    outcome: str
    seconds: float

    @property
    def bad(self) -> bool:
        return self.outcome not in ("accepted", "refused")


def run(
    todo: Iterable[Case],
    workers: int = 1,
    limit: float = MAX_SECONDS,
    examine: Callable[[Case], str] = examined,
) -> list[Found]:
    """Examine cases in processes of their own: one that does not end is killed by the system, and the next goes on."""
    context = multiprocessing.get_context("fork")
    pieces = iter(_batched(todo, 50))
    found: list[Found] = []
    running: dict[Any, tuple[Any, list[Case]]] = {}

    def start(piece: list[Case]) -> None:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(there, piece, limit, examine), daemon=True)
        process.start()
        there.close()
        running[here] = (process, piece)

    for piece in itertools.islice(pieces, workers):
        start(list(piece))
    while running:
        for here in wait(list(running)):
            process, left = running[here]
            try:
                found.append(here.recv())
                left.pop(0)
                continue
            except EOFError:
                del running[here]
                process.join()
            if left:
                found.append(
                    Found(
                        left[0], f"killed by signal {-process.exitcode} after {limit:g} s", math.inf
                    )
                )
                left.pop(0)
            following = left or list(next(pieces, ()))
            if following:
                start(following)
    return found


def _batched(todo: Iterable[Case], size: int) -> Iterable[list[Case]]:
    several = iter(todo)
    while piece := list(itertools.islice(several, size)):
        yield piece


def _work(pipe: Any, piece: list[Case], limit: float, examine: Callable[[Case], str]) -> None:
    warnings.simplefilter("error", RuntimeWarning)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in piece:
        before = time.process_time()
        # The system ends a process that passes it, also one that loops in C; whole seconds, of
        # which some are over.
        most = math.ceil(before + limit + 2)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        outcome = examine(case)
        seconds = time.process_time() - before
        if seconds > limit and outcome in ("accepted", "refused"):
            outcome = f"took {seconds:.1f} s"
        pipe.send(Found(case, outcome, seconds))
    pipe.close()


def main() -> int:
    """Run them and say what was found; the exit status is 1 if anything is bad."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--compiled", type=int, default=1_000, help="how many of them are simulated by machine code"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=MAX_SECONDS, help="seconds of processor time for each"
    )
    parser.add_argument(
        "--only", type=int, help="look at this case alone, here, with its traceback"
    )
    given = parser.parse_args()
    if given.only is not None:
        case = (made if given.only < given.count - given.compiled else compiled)(
            given.seed, given.only
        )
        print(case)
        compile_decides()
        print(examined(case, raising=True))
        return 0
    begin = time.monotonic()
    compile_decides()
    if given.compiled:
        compile_all()
    found = run(cases(given.seed, given.count, given.compiled), given.workers, given.limit)
    kinds = Counter((each.case.kind, "bad" if each.bad else each.outcome) for each in found)
    for kind in sorted({kind for kind, _ in kinds}):
        counts = ", ".join(
            f"{kinds[kind, word]:,} {word}" for word in ("accepted", "refused", "bad")
        )
        print(f"{kind:12} {counts}")
    bad = sorted((each for each in found if each.bad), key=lambda each: each.case.number)
    for each in bad[:100]:
        print(f"BAD {each.case.number}: {each.outcome}: {each.case}"[:600])
    for each in sorted(found, key=lambda each: -each.seconds)[:3]:
        print(
            f"slowest, {each.seconds:.2f} s of processor time: case {each.case.number}: {each.case}"[
                :300
            ]
        )
    print(
        f"{len(found):,} cases of seed {given.seed}: {len(bad)} bad, {time.monotonic() - begin:.0f} s in all"
    )
    return 1 if bad or len(found) != given.count else 0


if __name__ == "__main__":
    sys.exit(main())
