"""The same work done by aftereffect, by other libraries and by hand: ``make bench-field``.

Prints a table of slots per CPU second; ``--write FILE`` also puts it between two markers in that
file. Contestants that did other work, by their regret, are marked, and those that cannot take part
are listed with the reason.
"""

import argparse
import json
import math
import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from aftereffect._core import check_writable
from aftereffect.reproduction import format_digits, markdown_table
from contestants.environments import CannotTakePartError, python_of, run_or_leave_out
from contestants.protocol import Outcome, Work
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- field: written by make bench-field -->", "<!-- /field -->"

MEANS = tuple(arm / 10 for arm in range(9, 0, -1))
AT_ONCE = Work(MEANS, horizon=10_000, replications=1, seed=1)
LATE = replace(AT_ONCE, lags=(30, 40))
IN_ROUNDS = replace(LATE, policy="ars-ucb", horizon=10_000_000, replications=2_000)
#: By how many standard errors of their difference two mean regrets of the same work may differ.
TOLERANCE = 5
PATIENCE_SECONDS = 900

HEAD = (
    "",
    "version",
    "UCB1, no delay",
    "aftereffect is",
    "regret",
    "naive UCB1, late",
    "aftereffect is",
    "regret",
)


@dataclass(frozen=True)
class Contestant:
    """A contestant, and how many of its replications take some seconds."""

    title: str
    module: str
    replications: int


OURSELVES = Contestant("aftereffect", "aftereffect", 1_500)
RIVALS = (
    Contestant("compiled loop, tuned", "numba_tuned", 1_500),
    Contestant("compiled loop, as one writes it", "numba_loop", 1_500),
    Contestant("array loop, all replications at once", "numpy_loop", 1_500),
    Contestant("plain loop", "python_loop", 100),
    Contestant("river", "river", 20),
    Contestant("SMPyBandits", "smpybandits", 12),
    Contestant("MABWiser", "mabwiser", 8),
)


def outcome(contestant: Contestant, work: Work) -> Outcome:
    """Run the contestant in a process of its own."""
    command = [
        python_of(contestant.module),
        "-m",
        f"contestants.{contestant.module}",
        json.dumps(asdict(work)),
    ]
    printed = run_or_leave_out(command, "stopped", PATIENCE_SECONDS)
    # Libraries may print lines of their own before.
    return Outcome(**json.loads(printed.splitlines()[-1]))


def both_works(contestant: Contestant) -> list[Outcome]:
    """Without delay, and late."""
    print(f"{contestant.title} ...", file=sys.stderr, flush=True)
    return [
        outcome(contestant, replace(work, replications=contestant.replications))
        for work in (AT_ONCE, LATE)
    ]


def same_work(ours: Outcome, theirs: Outcome) -> bool:
    """Whether the mean regrets are equal up to chance."""
    return abs(theirs.regret - ours.regret) <= TOLERANCE * math.hypot(
        theirs.standard_error, ours.standard_error
    )


def row(contestant: Contestant, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[str]:
    """A contestant's line of the table."""
    cells = [contestant.title, theirs[0].version]
    for our, their in zip(ours, theirs, strict=True):
        ratio = our.slots_per_cpu_second / their.slots_per_cpu_second
        mark = "" if same_work(our, their) else ", **other work**"
        cells += [
            format_digits(their.slots_per_cpu_second, 3),
            "" if our is their else f"{format_digits(ratio, 2)}x",
            f"{their.regret:,.0f} ± {their.standard_error:,.1f}{mark}",
        ]
    return cells


def table(ours: Sequence[Outcome]) -> str:
    """A line for each contestant, and why some could not take part."""
    lines, reasons = [row(OURSELVES, ours, ours)], []
    for rival in RIVALS:
        try:
            lines.append(row(rival, ours, both_works(rival)))
        except CannotTakePartError as reason:
            lines.append([rival.title, "left out", *[""] * 6])
            reasons.append(f"{rival.title} is left out: {reason}")
    return "\n\n".join([markdown_table(HEAD, lines), *reasons])


def report() -> str:
    """The text between the markers."""
    compared = table(both_works(OURSELVES))
    print("aftereffect in rounds ...", file=sys.stderr, flush=True)
    in_rounds = outcome(OURSELVES, IN_ROUNDS)
    first, end = LATE.lags
    caption = f"""
        The columns UCB1 and naive UCB1 are slots per CPU second, on {machine()}. Beside them are
        how many times as fast aftereffect is, and the mean regret with its standard error. There
        are {len(MEANS)} Bernoulli arms of mean {MEANS[0]} to {MEANS[-1]}, and T =
        {AT_ONCE.horizon:,}.
        "Late" means that every reward arrives in equal shares at the lags {first} to {end - 1}; the
        total of a slot is credited to the arm pulled in that slot. A regret that is
        more than {TOLERANCE} standard errors from that of aftereffect is marked "other work": the
        two programs do not do the same. Not in the table: with the same delay and T =
        {IN_ROUNDS.horizon:,}, ARS-UCB simulates
        {format_digits(in_rounds.slots_per_cpu_second / 1e6, 2)} million slots per CPU second, since
        it does not play them one by one."""
    return f"{compared}\n\n{textwrap.fill(' '.join(caption.split()), width=100)}"


def machine() -> str:
    """The processor and the version of Python."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    return f"one of {os.cpu_count()} cores, {processor}, Python {platform.python_version()}"


def main() -> int:
    """Measure, print, write the table, and return the exit status."""
    parser = argparse.ArgumentParser(
        description="aftereffect against the field, in slots per CPU second"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help=f"replace the text between {BEGIN} and {END} in this file",
    )
    target = parser.parse_args().write
    if target is not None:
        try:
            split_at_markers(
                check_writable(target, (".md",)).read_text(encoding="utf-8"), BEGIN, END
            )
        except (OSError, ValueError) as problem:
            # Exits with status 2, before anything is measured.
            parser.error(f"cannot write the table into {target}: {problem}")
    try:
        measured = report()
    except CannotTakePartError as reason:
        print(f"aftereffect itself {reason}", file=sys.stderr)
        return 1
    if target is not None:
        replace_between_markers(target, BEGIN, END, measured)
    print(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
