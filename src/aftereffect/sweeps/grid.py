"""The tables of a sweep file: what they hold, value by value, each with its place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from aftereffect.checks import shown
from aftereffect.spec import nearest
from aftereffect.sweeps.keys import COLUMNS, EXCLUSIVE, KEYS, NEEDS, REQUIRED
from aftereffect.sweeps.places import Path
from aftereffect.sweeps.problems import Problems

GRID, PARAMETERS = "grid", "parameters"
#: Where a value stands that the file does not give.
DEFAULT: Path = (GRID,)
#: ``ars-ucb(alpha={alpha})`` names the parameter alpha.
NAMED = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Entry:
    """One value of a key or of a parameter, and where it stands in the file."""

    value: Any
    path: Path


@dataclass(frozen=True)
class Grid:
    """The values of every key, and of every parameter that texts name in braces."""

    keys: Mapping[str, list[Entry]]
    parameters: Mapping[str, list[Entry]]


def grid_of(document: Mapping[str, Any], problems: Problems) -> Grid:
    """The grid of a sweep file, without values that are wrong; raises if that leaves nothing to combine."""
    for key in document:
        if key in KEYS:
            problems.add((key,), "belongs below [grid]")
        elif key not in (GRID, PARAMETERS):
            problems.add((key,), f"unknown table: {nearest(key, (GRID, PARAMETERS))}")
    if GRID not in document:
        problems.add((GRID,), "the table [grid] is missing")
        problems.stop()
    keys, parameters = (_table(document, name, problems) for name in (GRID, PARAMETERS))
    grid = Grid(_keys(keys, problems), {name: _values(name, given, problems) for name, given in parameters.items()})
    _check_names(grid, problems)
    complete = all(any(name in grid.keys for name in several) for several in REQUIRED)
    contradictory = any(one in grid.keys and other in grid.keys for one, other in EXCLUSIVE)
    if contradictory or not complete or not all((*grid.keys.values(), *grid.parameters.values())):
        problems.stop()
    return grid


def _table(document: Mapping[str, Any], name: str, problems: Problems) -> Mapping[str, Any]:
    table = document.get(name, {})
    if isinstance(table, dict):
        return table
    problems.add((name,), f"expected one table, [{name}], got {shown(table)}")
    problems.stop()
    return {}


def _keys(given: Mapping[str, Any], problems: Problems) -> dict[str, list[Entry]]:
    """The values of every key that is given, and of those that have a default, in the order of `KEYS`."""
    for name in given:
        if name not in KEYS:
            problems.add((GRID, name), f"unknown key: {nearest(name, KEYS)}")
    for several in REQUIRED:
        if not any(name in given for name in several):
            problems.add((GRID,), f"{' or '.join(several)} is missing")
    for one, other in EXCLUSIVE:
        if one in given and other in given:
            problems.add((GRID, other), f"not together with {one}")
    for name, needed in NEEDS.items():
        if name in given and needed not in given:
            problems.add((GRID, name), f"only together with {needed}")
    entries: dict[str, list[Entry]] = {}
    for name, key in KEYS.items():
        if name in given:
            found = _listed((GRID, name), given[name], single=key.is_single(given[name]), problems=problems)
            checked = [(entry, problems.of(entry.path, partial(key.checked, entry.value))) for entry in found]
            entries[name] = [Entry(value, entry.path) for entry, value in checked if value is not None]
        elif key.default is not None:
            entries[name] = [Entry(key.default, DEFAULT)]
    return entries


def _values(name: str, given: object, problems: Problems) -> list[Entry]:
    """The values of a parameter."""
    entries = _listed((PARAMETERS, name), given, single=not isinstance(given, list), problems=problems)
    fitting = [entry for entry in entries if isinstance(entry.value, (bool, int, float, str))]
    for entry in entries:
        if entry not in fitting:
            problems.add(entry.path, f"expected a number, text, true or false, got {shown(entry.value)}")
    return fitting


def _listed(path: Path, given: Any, *, single: bool, problems: Problems) -> list[Entry]:
    if single:
        return [Entry(given, path)]
    if not given:
        problems.add(path, "holds nothing: give a value, or a list of at least one")
    return [Entry(value, (*path, place)) for place, value in enumerate(given)]


def _check_names(grid: Grid, problems: Problems) -> None:
    """Every parameter that is named must be there, and the other way round. Texts for which that fails are dropped."""
    named: set[str] = set()
    for entries in grid.keys.values():
        for entry in [entry for entry in entries if isinstance(entry.value, str)]:
            names = NAMED.findall(entry.value)
            named.update(names)
            unknown = [name for name in names if name not in grid.parameters]
            for name in unknown:
                problems.add(entry.path, f"unknown parameter {{{name}}}: {nearest(name, grid.parameters)}")
            if unknown:
                entries.remove(entry)
    for name in grid.parameters:
        if name not in named:
            problems.add((PARAMETERS, name), f"no text in the grid names it: write {{{name}}} where it belongs")
        if name in COLUMNS:
            problems.add((PARAMETERS, name), "results have a column of that name: choose another")
