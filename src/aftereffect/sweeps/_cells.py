"""The cells of a sweep: one combination of the grid each, planned and checked."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from aftereffect._core import Spec, name_of, notation, parse, short_repr
from aftereffect.bandits import Bandit, bandit_from_options
from aftereffect.delays import Delay
from aftereffect.policies import Policy
from aftereffect.rewards import RewardLaw
from aftereffect.simulation import Plan, plan_study, recipe_of
from aftereffect.sweeps._grid import DEFAULT, GRID, NAMED, Entry, Grid
from aftereffect.sweeps._problems import Problems, show_path

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
