"""``aftereffect create | ask | tell | missing | skip | status | history | lag | export | verify | close``: live experiments."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from aftereffect.checks import whole
from aftereffect.cli.live_formats import LAG, LINES, OUTCOMES, SLOT, STATUS, VERIFICATION
from aftereffect.cli.outcomes_file import outcomes_in
from aftereffect.cli.simulate import Format
from aftereffect.cli.values import Number, Numbers, OutputFile, RealNumber, SpecText
from aftereffect.errors import CorruptionError, ParameterError, UnlikelyTotalError
from aftereffect.extras import require
from aftereffect.lag import estimate_lag
from aftereffect.lag.picture import save_landing
from aftereffect.live import DEFAULT_STORAGE, Experiment, open_storage
from aftereffect.outputs import PICTURES, writable

StorageUrl: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="AFTEREFFECT_STORAGE",
        help="Where experiments are kept: sqlite:///file.db or postgresql+psycopg://user:password@host/database.",
    ),
]

Name: TypeAlias = Annotated[str, Parameter(help="The experiment.")]
Printed: TypeAlias = Annotated[Format, Parameter(help="How the answer is printed; of a status, csv has the arms alone.")]

Revise: TypeAlias = Annotated[
    bool, Parameter(negative=(), help="Replace what was told before, while no decision was made by it.")
]


@contextmanager
def _opened(name: str, storage: str, *, check: bool = True) -> Iterator[Experiment]:
    """An experiment whose files are let go of properly: SQLite then leaves one file behind, not three."""
    with open_storage(storage) as place:
        yield Experiment.open(name, storage=place, check=check)


def create(
    name: str,
    /,
    *,
    arms: Annotated[str, Parameter(metavar="NAME,...")],
    policy: SpecText,
    reward_range: Numbers,
    max_total: Number | None = None,
    horizon: Number | None = None,
    seed: Number | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Printed = "table",
) -> None:
    """Begin a live experiment; with the same settings again, nothing changes.

    Parameters
    ----------
    name
        Letters, digits, '-', '_' and '.'.
    arms
        What to choose from, with commas: A,B,C
    policy
        Such as "ars-ucb" or "clw(d=24)" (aftereffect list policies).
    reward_range
        The least and the most that the play of one slot can bring in all, over its whole life: 0,200
    max_total
        The largest total to believe, against typing errors.
    horizon
        How many slots it will last, for policies that plan ahead.
    seed
        Of what a randomised policy draws; drawn if not given.
    """
    with open_storage(storage) as place:
        experiment = Experiment.create(
            name,
            arms=[arm.strip() for arm in arms.split(",")],
            policy=policy,
            reward_range=reward_range,
            max_total=max_total,
            horizon=horizon,
            seed=seed,
            storage=place,
        )
        answer = experiment.status()
        print(f"kept in {place.url}", file=sys.stderr)
    STATUS[format](answer)


def ask(name: Name, /, *, slot: Number | None = None, storage: StorageUrl = DEFAULT_STORAGE, format: Printed = "table") -> None:
    """Decide the next slot and print its arm.

    Parameters
    ----------
    slot
        The number of the slot, which may be decided already: asked again, the answer is the same.
    """
    with _opened(name, storage) as experiment:
        answer = experiment.ask(slot)
    SLOT[format](answer)


def tell(
    name: Name,
    slot: Number | None = None,
    value: Number | None = None,
    /,
    *,
    arm: Annotated[str | None, Parameter(metavar="NAME")] = None,
    revise: Revise = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    csv: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Printed = "table",
) -> None:
    """Record the total of a slot, or of all slots in a file.

    Parameters
    ----------
    slot
        The number of the slot.
    value
        All that was seen in it.
    arm
        The arm that was really played, if not the one that was advised.
    yes
        It is right, however far from all that was seen.
    csv
        A file with the columns slot and value, and perhaps arm, in any order and with others beside them. A slot without a
        value is missing; one without an arm was played as advised. All are recorded, or none.
    """
    outcomes: list[tuple[int, float | None, str | None]]
    if csv is None and slot is not None and value is not None:
        outcomes = [(slot, value, arm)]
    elif csv is not None and slot is None and arm is None:
        outcomes = outcomes_in(csv)
    else:
        raise ParameterError("tell takes a slot and its value, or --csv with a file of them")
    with _opened(name, storage) as experiment:
        try:
            answer = experiment.tell_many(outcomes, revise=revise, confirm=yes)
        except UnlikelyTotalError as error:
            raise UnlikelyTotalError(f"{error}, with --yes") from None
    OUTCOMES[format](answer)


def missing(
    name: Name,
    slot: Number,
    /,
    *,
    revise: Revise = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Printed = "table",
) -> None:
    """Record that the total of a slot will never be known.

    Parameters
    ----------
    slot
        The number of the slot.
    """
    with _opened(name, storage) as experiment:
        answer = [experiment.missing(slot, revise=revise)]
    OUTCOMES[format](answer)


def skip(
    name: Name,
    first: Number,
    last: Number | None = None,
    /,
    *,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Printed = "table",
) -> None:
    """Record that nothing was decided for some slots, during an outage, say.

    Where an arm was played all the same, tell its totals with --arm.

    Parameters
    ----------
    first
        The next slot.
    last
        The last slot of the gap; the same as the first if not given.
    """
    with _opened(name, storage) as experiment:
        answer = experiment.skip(first, last)
    STATUS[format](answer)


def status(name: Name, /, *, storage: StorageUrl = DEFAULT_STORAGE, format: Printed = "table") -> None:
    """Print how an experiment stands, arm by arm, and what comes next."""
    with _opened(name, storage) as experiment:
        answer = experiment.status()
    STATUS[format](answer)


def history(
    name: Name, /, *, last: Number = 20, after: Number = -1, storage: StorageUrl = DEFAULT_STORAGE, format: Printed = "table"
) -> None:
    """Print what happened, slot by slot.

    Parameters
    ----------
    last
        At most so many slots, the latest.
    after
        Only slots after this one.
    """
    most = whole("last", last)
    with _opened(name, storage) as experiment:
        answer = experiment.history(after=max(after, experiment.status().slots - 1 - most))
    LINES[format](answer)


def lag(
    name: Name,
    /,
    *,
    level: RealNumber = 0.9,
    plot: OutputFile | None = None,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Printed = "table",
) -> None:
    """Estimate how long effects linger, from the totals of an experiment alone; or say that they cannot tell.

    Parameters
    ----------
    level
        How often the bands should be right: 0.5, 0.8, 0.9, 0.95 or 0.99.
    plot
        A .png, .svg or .pdf file for a picture of what has landed by when (needs the extra "plot").
    """
    if plot is not None:
        require("plot")
        writable(plot, PICTURES)
    with _opened(name, storage) as experiment:
        estimate = estimate_lag(experiment.history(), level=level)
    if plot is not None:
        save_landing(estimate, plot)
    LAG[format](estimate)


def export(name: Name, /, *, out: OutputFile, storage: StorageUrl = DEFAULT_STORAGE) -> None:
    """Write the whole history of an experiment into a file.

    Parameters
    ----------
    out
        A .csv or .parquet file (this one needs the extra "data").
    """
    with _opened(name, storage) as experiment:
        experiment.export(out)
    print(out)


def verify(name: Name, /, *, storage: StorageUrl = DEFAULT_STORAGE, format: Printed = "table") -> None:
    """Check every event of an experiment and derive every decision again; exit status 2 if something is damaged."""
    with _opened(name, storage, check=False) as experiment:
        found = experiment.verify()
    VERIFICATION[format](found)
    if not found.whole:
        raise CorruptionError(f"experiment {name!r} is damaged: restore a backup")


def close(name: Name, /, *, storage: StorageUrl = DEFAULT_STORAGE, format: Printed = "table") -> None:
    """End an experiment and print its final table."""
    with _opened(name, storage) as experiment:
        answer = experiment.close()
    STATUS[format](answer)


COMMANDS = (create, ask, tell, missing, skip, status, history, lag, export, verify, close)
#: Their heading in the help.
GROUP = "Live experiments"
