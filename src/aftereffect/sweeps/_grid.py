"""The grid of a sweep file: its keys, with checks and defaults, and the values that it gives.

The tables are read key by key, and everything that is wrong is reported at once.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aftereffect._core import (
    MAX_SEED,
    MAX_SLOTS,
    check_float,
    check_int,
    check_means,
    short_repr,
    suggest,
)
from aftereffect.errors import ParameterError
from aftereffect.simulation import (
    DEFAULT_CHECKPOINTS,
    ENGINE_CHOICES,
    MAX_CHECKPOINTS,
    MAX_REPLICATIONS,
)
from aftereffect.sweeps._problems import KeyPath, Problems

GRID, PARAMETERS = "grid", "parameters"
#: The path of a value that the file does not give.
DEFAULT: KeyPath = (GRID,)
#: ``ars-ucb(alpha={alpha})`` names the parameter alpha.
NAMED = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Key:
    """A key of the grid: its check, its default, and whether one value is itself a list."""

    check: Callable[[object], object]
    default: object = None
    is_list: bool = False

    def is_single(self, given: object) -> bool:
        """Tell whether this is one value, and not a list of values."""
        return not isinstance(given, list) or (
            self.is_list and bool(given) and not isinstance(given[0], list)
        )


def _check_text(given: object) -> str:
    if not isinstance(given, str):
        raise ParameterError(f"expected text, in quotes, got {short_repr(given)}")
    return given


def _check_engine(given: object) -> str:
    if given not in ENGINE_CHOICES:
        raise ParameterError(
            f"unknown engine {short_repr(given)}: {suggest(str(given), ENGINE_CHOICES)}"
        )
    return str(given)


def _int_from(name: str, at_least: int, at_most: int) -> Callable[[object], int]:
    return lambda given: check_int(name, given, at_least=at_least, at_most=at_most)


def _share(name: str) -> Callable[[object], float]:
    return lambda given: check_float(name, given, at_least=0, at_most=1)


#: The options of ``aftereffect simulate``, each a value or a list of them.
KEYS = {
    "policy": Key(_check_text),
    "means": Key(check_means, is_list=True),
    "arms": Key(_int_from("arms", 2, 1_000_000)),
    "best": Key(_share("best"), 0.9),
    "worst": Key(_share("worst"), 0.1),
    "reward_law": Key(_check_text),
    "rewards": Key(_check_text),
    "delay": Key(_check_text),
    "horizon": Key(_int_from("horizon", 1, MAX_SLOTS)),
    "replications": Key(_int_from("replications", 1, MAX_REPLICATIONS), 100),
    "seed": Key(_int_from("seed", 0, MAX_SEED), 0),
    "engine": Key(_check_engine, "roundwise"),
    "checkpoints": Key(_int_from("checkpoints", 1, MAX_CHECKPOINTS), DEFAULT_CHECKPOINTS),
    "bandit": Key(_check_text),
}
#: At least one of each must be given, and at most one of each pair.
REQUIRED = (("policy",), ("horizon",), ("means", "arms", "rewards", "bandit"))
EXCLUSIVE = (
    ("means", "arms"),
    *((drawn, "rewards") for drawn in ("means", "arms", "reward_law")),
    *((part, "bandit") for part in ("means", "arms", "reward_law", "rewards", "delay")),
)
#: Keys that make sense only with another.
NEEDS = {"best": "arms", "worst": "arms"}
#: The columns of the table of results besides the parameters and the keys.
RESULTS = ("regret_mean", "regret_sem", "regret_p95", "rounds_mean", "seconds", "part")
COLUMNS = (*KEYS, *RESULTS)


@dataclass(frozen=True)
class Entry:
    """One value of a key or of a parameter, and its path in the file."""

    value: Any
    path: KeyPath


@dataclass(frozen=True)
class Grid:
    """The values of every key, and of every parameter that texts name in braces."""

    keys: Mapping[str, list[Entry]]
    parameters: Mapping[str, list[Entry]]


def read_grid(document: Mapping[str, Any], problems: Problems) -> Grid:
    """Read the grid of a sweep file without the values that are wrong.

    Raises if that leaves nothing to combine.
    """
    for key in document:
        if key in KEYS:
            problems.add((key,), "belongs below [grid]")
        elif key not in (GRID, PARAMETERS):
            problems.add((key,), f"unknown table: {suggest(key, (GRID, PARAMETERS))}")
    if GRID not in document:
        problems.add((GRID,), "the table [grid] is missing")
        problems.raise_any()
    tables: list[Mapping[str, Any]] = []
    for name in (GRID, PARAMETERS):
        tables.append(document.get(name, {}))
        if not isinstance(tables[-1], dict):
            problems.add((name,), f"expected one table, [{name}], got {short_repr(tables[-1])}")
            problems.raise_any()
    grid = Grid(
        _read_keys(tables[0], problems),
        {name: _read_parameter(name, given, problems) for name, given in tables[1].items()},
    )
    _check_names(grid, problems)
    is_complete = all(any(name in grid.keys for name in several) for several in REQUIRED)
    is_contradictory = any(one in grid.keys and other in grid.keys for one, other in EXCLUSIVE)
    has_gaps = not all((*grid.keys.values(), *grid.parameters.values()))
    if is_contradictory or not is_complete or has_gaps:
        problems.raise_any()
    return grid


def _read_keys(given: Mapping[str, Any], problems: Problems) -> dict[str, list[Entry]]:
    """Read the keys that are given or have a default, in the order of `KEYS`."""
    for name in given:
        if name not in KEYS:
            problems.add((GRID, name), f"unknown key: {suggest(name, KEYS)}")
    for several in REQUIRED:
        if not any(name in given for name in several):
            problems.add((GRID,), f"{' or '.join(several)} is missing")
    for one, other in EXCLUSIVE:
        if one in given and other in given:
            problems.add((GRID, other), f"cannot be given together with {one}")
    for name, needed in NEEDS.items():
        if name in given and needed not in given:
            problems.add((GRID, name), f"can be given only together with {needed}")
    entries: dict[str, list[Entry]] = {}
    for name, key in KEYS.items():
        if name in given:
            found = _list_entries(
                (GRID, name), given[name], single=key.is_single(given[name]), problems=problems
            )
            checked = [
                (entry, problems.attempt(entry.path, partial(key.check, entry.value)))
                for entry in found
            ]
            entries[name] = [
                Entry(value, entry.path) for entry, value in checked if value is not None
            ]
        elif key.default is not None:
            entries[name] = [Entry(key.default, DEFAULT)]
    return entries


def _read_parameter(name: str, given: object, problems: Problems) -> list[Entry]:
    """Read the values of a parameter."""
    entries = _list_entries(
        (PARAMETERS, name), given, single=not isinstance(given, list), problems=problems
    )
    fitting = [entry for entry in entries if isinstance(entry.value, (bool, int, float, str))]
    for entry in entries:
        if entry not in fitting:
            problems.add(
                entry.path, f"expected a number, text, true or false, got {short_repr(entry.value)}"
            )
    return fitting


def _list_entries(path: KeyPath, given: Any, *, single: bool, problems: Problems) -> list[Entry]:
    if single:
        return [Entry(given, path)]
    if not given:
        problems.add(path, "is empty: give a value, or a list of at least one")
    return [Entry(value, (*path, number)) for number, value in enumerate(given)]


def _check_names(grid: Grid, problems: Problems) -> None:
    """Check that texts name all parameters and no others; drop texts that name others."""
    named: set[str] = set()
    for entries in grid.keys.values():
        for entry in [entry for entry in entries if isinstance(entry.value, str)]:
            names = NAMED.findall(entry.value)
            named.update(names)
            unknown = [name for name in names if name not in grid.parameters]
            for name in unknown:
                problems.add(
                    entry.path, f"unknown parameter {{{name}}}: {suggest(name, grid.parameters)}"
                )
            if unknown:
                entries.remove(entry)
    for name in grid.parameters:
        if name not in named:
            problems.add(
                (PARAMETERS, name),
                f"no text in the grid names it: write {{{name}}} where it belongs",
            )
        if name in COLUMNS:
            problems.add((PARAMETERS, name), "results have a column of that name: choose another")
