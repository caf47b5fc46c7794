"""The grid of a sweep: the tables of its file, its cells and their results.

The tables are read key by key, and everything that is wrong is reported at once. A cell is one
combination of the grid, planned and checked.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from aftereffect._core import (
    MAX_SEED,
    MAX_SLOTS,
    Spec,
    check_float,
    check_int,
    check_means,
    html_table,
    import_optional,
    name_of,
    notation,
    parse,
    short_repr,
    suggest,
    text_table,
)
from aftereffect.bandits import Bandit, bandit_from_options
from aftereffect.delays import Delay
from aftereffect.errors import AftereffectError, ParameterError, SweepError
from aftereffect.policies import Policy
from aftereffect.rewards import RewardLaw
from aftereffect.simulation import (
    DEFAULT_CHECKPOINTS,
    ENGINE_CHOICES,
    FINAL_HEADINGS,
    MAX_CHECKPOINTS,
    MAX_REPLICATIONS,
    Plan,
    Study,
    plan_study,
    recipe_of,
)

if TYPE_CHECKING:
    import polars

T = TypeVar("T")
#: The keys and numbers that lead to a value: ``("grid", "policy", 2)``.
KeyPath: TypeAlias = tuple[str | int, ...]

MAX_CELLS = 1_000_000
GRID, PARAMETERS = "grid", "parameters"
#: The path of a value that the file does not give.
DEFAULT: KeyPath = (GRID,)
#: ``ars-ucb(alpha={alpha})`` names the parameter alpha.
NAMED = re.compile(r"\{([^{}]+)\}")


class Problems:
    """The problems found in a file so far. One that many cells share is reported once."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self._name = name
        self._order = {path: number for number, path in enumerate(_paths_in(document))}
        self._found: dict[tuple[KeyPath, str], None] = {}

    def add(self, path: KeyPath, problem: str) -> None:
        """Add a problem of the value that a path leads to, or of the table where it should be."""
        self._found[path, " ".join(problem.split())] = None

    def attempt(self, path: KeyPath, make: Callable[[], T], suffix: str = "") -> T | None:
        """Return what `make` returns, or None after adding the reason why it fails."""
        try:
            return make()
        except AftereffectError as error:
            self.add(path, f"{error}{suffix}")
            return None

    def raise_any(self) -> None:
        """Raise if there are any, in the order of the file."""
        if self._found:
            found = sorted(self._found, key=lambda each: self._order.get(each[0], -1))
            raise SweepError(f"{self._name}: {show_path(path)}: {text}" for path, text in found)


def _paths_in(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of all values in a document, in its order."""
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from _paths_in(each, (*path, key))


def show_path(path: KeyPath) -> str:
    """Format a path: ``grid.policy[2]``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


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


#: Keys that describe a bandit; messages about the bandit name the first of them that is given.
_BANDIT_KEYS = ("bandit", "rewards", "delay", "means", "arms")
#: Keys whose texts are spec strings, and of which kind.
_SPECS: dict[str, type[Spec]] = {
    "policy": Policy,
    "delay": Delay,
    "reward_law": RewardLaw,
    "bandit": Bandit,
}


@dataclass(frozen=True)
class Cell:
    """One study of a sweep: a policy in a bandit.

    ``settings`` are the keys that the file gives, each with its value in this cell; ``parameters``
    are the values that were filled in for names in braces.
    """

    plan: Plan
    settings: Mapping[str, object]
    parameters: Mapping[str, object]

    @cached_property
    def name(self) -> str:
        """A name that is the same for the same study, whatever else the sweep holds."""
        plan = self.plan
        (label, policy), *_ = plan.policies.items()
        description = [
            label,
            str(plan.bandit),
            plan.engine,
            plan.checkpoints,
            plan.seed,
            plan.replications,
        ]
        digest = hashlib.sha256(json.dumps(description).encode()).hexdigest()
        return f"{name_of(type(policy))}-{digest[:16]}"

    def path(self, folder: Path) -> Path:
        """Return the file of its study."""
        return folder / f"{self.name}.parquet"


def make_cells(grid: Grid, folder: Path, problems: Problems) -> tuple[Cell, ...]:
    """Make every cell, in the order of the grid; raise if there is any problem.

    Files of rewards are looked for in the folder.
    """
    count = prod(map(len, grid.keys.values())) * prod(map(len, grid.parameters.values()))
    if count > MAX_CELLS:
        problems.add(
            (GRID,), f"a sweep has at most {MAX_CELLS:,} cells, but this could have {count:,}"
        )
        problems.raise_any()
    # Many cells share a bandit, and its file may be large.
    make_bandit = cache(partial(bandit_from_options, folder=folder))
    cells: dict[str, Cell] = {}
    chosen: dict[str, Mapping[str, Entry]] = {}
    for keys, parameters in _combinations(grid):
        cell = _make_cell(keys, parameters, make_bandit, problems)
        if cell is None:
            continue
        if cell.name in cells:
            _report_double(chosen[cell.name], keys | parameters, problems)
        cells[cell.name], chosen[cell.name] = cell, keys | parameters
    problems.raise_any()
    return tuple(cells.values())


def _combinations(grid: Grid) -> Iterator[tuple[dict[str, Entry], dict[str, Entry]]]:
    """Yield one entry of every key, and one of each parameter that the texts among them name."""
    for entries in product(*grid.keys.values()):
        texts = [entry.value for entry in entries if isinstance(entry.value, str)]
        names = [name for name in grid.parameters if any(f"{{{name}}}" in text for text in texts)]
        for values in product(*(grid.parameters[name] for name in names)):
            yield dict(zip(grid.keys, entries, strict=True)), dict(zip(names, values, strict=True))


def _make_cell(
    keys: Mapping[str, Entry],
    parameters: Mapping[str, Entry],
    make_bandit: Callable[..., Bandit],
    problems: Problems,
) -> Cell | None:
    """Make one cell, or return None after adding the reason why it cannot be."""
    filled = {name: entry.value for name, entry in parameters.items()}
    values = {name: _fill(entry.value, filled) for name, entry in keys.items()}
    specs = {name: kind for name, kind in _SPECS.items() if name in values}
    if None in [
        problems.attempt(keys[name].path, partial(parse, values[name], kind))
        for name, kind in specs.items()
    ]:
        return None
    about = next(name for name in _BANDIT_KEYS if name in values)
    bandit = problems.attempt(keys[about].path, lambda: make_bandit(**_bandit_options(values)))
    if bandit is None or not problems.attempt(keys["horizon"].path, lambda: _fits(bandit, values)):
        return None
    options = ("horizon", "replications", "seed", "engine", "checkpoints")
    chosen = {name: values[name] for name in options}
    plan = problems.attempt(
        keys["policy"].path,
        lambda: plan_study(values["policy"], bandit, **chosen),
        f" (with {about} {short_repr(values[about])})",
    )
    given = {name: value for name, value in values.items() if keys[name].path != DEFAULT}
    return None if plan is None else Cell(plan, given, filled)


def _fits(bandit: Bandit, values: Mapping[str, Any]) -> bool:
    bandit.check(recipe_of(values["engine"]), values["horizon"])
    return True


def _fill(value: Any, parameters: Mapping[str, object]) -> Any:
    return (
        NAMED.sub(lambda name: notation(parameters[name[1]]), value)
        if isinstance(value, str)
        else value
    )


def _bandit_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that describe the bandit; a number of arms becomes their means."""
    names = ("bandit", "means", "reward_law", "rewards", "delay")
    options = {name: values.get(name) for name in names}
    if "arms" in values:
        means = np.linspace(values["best"], values["worst"], values["arms"])
        options["means"] = tuple(means.tolist())
    return options


def _report_double(
    before: Mapping[str, Entry], now: Mapping[str, Entry], problems: Problems
) -> None:
    """Report two equal cells at an entry in which they differ: the policy if it does."""
    differing = [name for name, entry in now.items() if entry.path != before.get(name, entry).path]
    blamed = "policy" if "policy" in differing else differing[-1]
    problems.add(
        now[blamed].path,
        f"gives the same cell as {show_path(before[blamed].path)}; give each once",
    )


@dataclass(frozen=True, eq=False, repr=False)
class SweepResults:
    r"""The cells of a sweep and the folder that holds their studies.

    Iterating gives each cell with its study, which is loaded when its turn comes. ``reused`` is the
    number of cells that an earlier run had finished.

    Examples
    --------
    >>> import pathlib
    >>> from aftereffect import Sweep
    >>> text = '[grid]\npolicy = "round-robin"\narms = [2, 3]\nhorizon = 100\nreplications = 1'
    >>> _ = pathlib.Path("sweep.toml").write_text(text)
    >>> results = Sweep.read("sweep.toml").play("results")
    >>> [study.arms for cell, study in results]
    [2, 3]
    """

    folder: Path
    cells: tuple[Cell, ...]
    reused: int

    def __repr__(self) -> str:
        return f"<SweepResults in {self.folder}: {len(self):,} cells, {self.reused:,} reused>"

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[tuple[Cell, Study]]:
        for cell in self.cells:
            yield cell, Study.load(cell.path(self.folder))

    def __str__(self) -> str:
        """Return a table with a row per cell: the settings that differ, and the final regret."""
        return text_table(self._rows(), left=1 + len(self._differing()))

    def _repr_html_(self) -> str:
        """Return the same table for notebooks."""
        return html_table(self._rows(), title=f"{len(self):,} cells in {self.folder}")

    def _differing(self) -> list[str]:
        """Return the keys, besides the policy, of which the cells have several values."""
        return [
            name
            for name in self.cells[0].settings
            if name != "policy" and len({str(cell.settings[name]) for cell in self.cells}) > 1
        ]

    def _rows(self) -> list[tuple[str, ...]]:
        differing = self._differing()
        rows = [(FINAL_HEADINGS[0], *differing, *FINAL_HEADINGS[1:])]
        for cell, study in self:
            rows += [
                (row[0], *(notation(cell.settings[name]) for name in differing), *row[1:])
                for row in study.final_rows()
            ]
        return rows

    def to_polars(self) -> "polars.DataFrame":
        """Return a table with a row per cell: parameters, settings, final regret, file name."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.parameters)
        rows = [
            {
                **{name: cell.parameters.get(name) for name in names},
                **{
                    name: notation(value) if isinstance(value, tuple) else value
                    for name, value in cell.settings.items()
                },
                "policy": runs.label,
                "arms": study.arms,
                "horizon": study.horizon,
                "replications": study.replications,
                "seed": study.seed,
                "bandit": study.bandit_label,
                "regret_mean": float(runs.mean[-1]),
                "regret_sem": None if runs.sem is None else float(runs.sem[-1]),
                "regret_p95": float(runs.p95[-1]),
                "rounds_mean": float(runs.rounds.mean()),
                "seconds": runs.seconds,
                "part": cell.path(self.folder).name,
            }
            for cell, study in self
            for runs in study
        ]
        for name in names:
            values = [row[name] for row in rows if row[name] is not None]
            if not all(
                type(value) is float or (type(value) is int and abs(value) < 2**63)
                for value in values
            ):
                for row in rows:  # a column has one type
                    row[name] = None if row[name] is None else notation(row[name])
        frame: polars.DataFrame = import_optional("polars").DataFrame(
            rows, infer_schema_length=None
        )
        return frame
