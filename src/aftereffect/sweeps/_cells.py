"""The cells of a sweep: every combination of its grid, planned and checked; and their results."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aftereffect._core import (
    Spec,
    html_table,
    import_optional,
    name_of,
    notation,
    parse,
    short_repr,
    text_table,
)
from aftereffect.bandits import Bandit, bandit_from_options
from aftereffect.delays import Delay
from aftereffect.policies import Policy
from aftereffect.rewards import RewardLaw
from aftereffect.simulation import FINAL_HEADINGS, Plan, Study, plan_study
from aftereffect.sweeps._grid import DEFAULT, GRID, NAMED, Entry, Grid, Problems, show_path

if TYPE_CHECKING:
    import polars


MAX_CELLS = 1_000_000
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
    bandit.check(values["engine"], values["horizon"])
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
