"""The cells of a sweep: every combination of the values of its grid, planned and checked."""

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

from aftereffect.checks import shown
from aftereffect.environments import Environment, described
from aftereffect.policies import Policy
from aftereffect.rewards import Reward
from aftereffect.simulation.plan import Plan, planned
from aftereffect.spec import Spec, name_of, notation, parse
from aftereffect.spreads import Delaying, Spreading
from aftereffect.sweeps.grid import DEFAULT, GRID, NAMED, Entry, Grid
from aftereffect.sweeps.problems import Problems, written

MOST_CELLS = 1_000_000
#: What an environment is made of; the first that is given is named where they do not go together.
_WORLD = ("rewards", "spread", "means", "arms")
#: Keys whose texts are spec strings, and of what.
_SPECS: dict[str, type[Spec]] = {"policy": Policy, "spread": Spreading, "reward": Reward, "delays": Delaying}


@dataclass(frozen=True)
class Cell:
    """One study of a sweep: a policy in an environment.

    ``words`` are the keys that the file gives and what this cell takes of each; ``parameters`` are what was filled in there.
    """

    plan: Plan
    words: Mapping[str, object]
    parameters: Mapping[str, object]

    @cached_property
    def name(self) -> str:
        """The same for the same study, whatever else the sweep holds."""
        plan = self.plan
        (label, policy), *_ = plan.players.items()
        description = [label, str(plan.environment), plan.engine, plan.checkpoints, plan.seed, plan.replications]
        return f"{name_of(type(policy))}-{hashlib.sha256(json.dumps(description).encode()).hexdigest()[:16]}"

    def path(self, folder: Path) -> Path:
        """Where its study is kept."""
        return folder / f"{self.name}.parquet"


def cells_of(grid: Grid, folder: Path, problems: Problems) -> tuple[Cell, ...]:
    """Every cell, in the order of the grid; raises if there is any problem. Files of rewards are looked for in the folder."""
    count = prod(map(len, grid.keys.values())) * prod(map(len, grid.parameters.values()))
    if count > MOST_CELLS:
        problems.add((GRID,), f"a sweep has at most {MOST_CELLS:,} cells, but this could have {count:,}")
        problems.stop()
    environment = cache(partial(described, folder=folder))  # the same for many cells, and a file may be large
    cells: dict[str, Cell] = {}
    chosen: dict[str, Mapping[str, Entry]] = {}
    for keys, parameters in _combinations(grid):
        cell = _cell(keys, parameters, environment, problems)
        if cell is None:
            continue
        if cell.name in cells:
            _tell_double(chosen[cell.name], keys | parameters, problems)
        cells[cell.name], chosen[cell.name] = cell, keys | parameters
    problems.stop()
    return tuple(cells.values())


def _combinations(grid: Grid) -> Iterator[tuple[dict[str, Entry], dict[str, Entry]]]:
    """One entry of every key, and of those parameters that the texts among them name."""
    for entries in product(*grid.keys.values()):
        texts = [entry.value for entry in entries if isinstance(entry.value, str)]
        names = [name for name in grid.parameters if any(f"{{{name}}}" in text for text in texts)]
        for values in product(*(grid.parameters[name] for name in names)):
            yield dict(zip(grid.keys, entries, strict=True)), dict(zip(names, values, strict=True))


def _cell(
    keys: Mapping[str, Entry],
    parameters: Mapping[str, Entry],
    environment: Callable[..., Environment],
    problems: Problems,
) -> Cell | None:
    """One cell, or None after telling why there cannot be one."""
    filled = {name: entry.value for name, entry in parameters.items()}
    words = {name: _filled(entry.value, filled) for name, entry in keys.items()}
    specs = {name: kind for name, kind in _SPECS.items() if name in words}
    if None in [problems.of(keys[name].path, partial(parse, words[name], kind)) for name, kind in specs.items()]:
        return None
    about = next(name for name in _WORLD if name in words)
    world = problems.of(keys[about].path, lambda: environment(**_world(words)))
    if world is None or problems.of(keys["horizon"].path, lambda: _fits(world, words)) is None:
        return None
    settings = {name: words[name] for name in ("horizon", "replications", "seed", "engine", "checkpoints")}
    plan = problems.of(
        keys["policy"].path,
        lambda: planned(words["policy"], world, **settings),
        f" (with {about} {shown(words[about])})",
    )
    given = {name: value for name, value in words.items() if keys[name].path != DEFAULT}
    return None if plan is None else Cell(plan, given, filled)


def _fits(world: Environment, words: Mapping[str, Any]) -> bool:
    world.check(words["engine"], words["horizon"])
    return True


def _filled(value: Any, parameters: Mapping[str, object]) -> Any:
    return NAMED.sub(lambda name: notation(parameters[name[1]]), value) if isinstance(value, str) else value


def _world(words: Mapping[str, Any]) -> dict[str, Any]:
    """What describes the environment, the means of so many arms written out."""
    world = {name: words.get(name) for name in ("means", "spread", "reward", "rewards", "delays")}
    if "arms" in words:
        world["means"] = tuple(np.linspace(words["best"], words["worst"], words["arms"]).tolist())
    return world


def _tell_double(before: Mapping[str, Entry], now: Mapping[str, Entry], problems: Problems) -> None:
    """Two cells are the same: name a value in which they differ, of the policy rather than another."""
    differing = [name for name, entry in now.items() if entry.path != before.get(name, entry).path]
    blamed = "policy" if "policy" in differing else differing[-1]
    problems.add(now[blamed].path, f"gives the same cell as {written(before[blamed].path)}; each must be there once")
