"""Studies as tables and files, through polars."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aftereffect.environments import ENGINES, Environment
from aftereffect.errors import InputError, ParameterError, SpecError
from aftereffect.extras import imported
from aftereffect.outputs import replacing, writable
from aftereffect.policies import Policy
from aftereffect.simulation.replications import Outcome
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.spec import parse

if TYPE_CHECKING:
    import polars

SUFFIXES = (".parquet",)
COLUMNS = (
    "policy",
    "environment",
    "engine",
    "horizon",
    "seed",
    "made_by",
    "seconds",
    "replication",
    "rounds",
    "pulls",
    "checkpoints",
    "regret",
)


def curves(study: Study) -> "polars.DataFrame":
    """One row per policy, replication and checkpoint."""
    pl = imported("polars")
    slots, count = len(study.checkpoints), study.replications
    frame: polars.DataFrame = pl.concat(
        pl.DataFrame(
            {
                "policy": [runs.label] * (count * slots),
                "replication": np.repeat(np.arange(count), slots),
                "slot": np.tile(np.array(study.checkpoints), count),
                "regret": runs.regret.ravel(),
            }
        )
        for runs in study
    )
    return frame


def rows(study: Study) -> "polars.DataFrame":
    """One row per policy and replication. What is the same in all rows is repeated, which Parquet stores once."""
    pl = imported("polars")
    count = study.replications
    shared = {
        "environment": str(study.environment),
        "engine": study.engine,
        "horizon": study.horizon,
        "seed": study.seed,
        "made_by": study.made_by,
        "checkpoints": list(study.checkpoints),
    }
    schema = dict.fromkeys(COLUMNS, pl.Int64) | {
        "policy": pl.String,
        "environment": pl.String,
        "engine": pl.String,
        "made_by": pl.String,
        "seconds": pl.Float64,
        "pulls": pl.List(pl.Float64),
        "checkpoints": pl.List(pl.Int64),
        "regret": pl.List(pl.Float64),
    }
    frame: polars.DataFrame = pl.concat(
        pl.DataFrame(
            {name: [value] * count for name, value in shared.items()}
            | {
                "policy": [runs.label] * count,
                "seconds": [runs.seconds] * count,
                "replication": range(count),
                "rounds": runs.rounds,
                "pulls": list(runs.pulls),
                "regret": list(runs.regret),
            },
            schema_overrides=schema,
        ).select(COLUMNS)
        for runs in study
    )
    return frame


def save(study: Study, path: str | os.PathLike[str]) -> None:
    """The rows of a study as one file."""
    target = writable(path, SUFFIXES)
    frame = rows(study)
    with replacing(target) as draft:
        frame.write_parquet(draft)


def load(path: str | os.PathLike[str]) -> Study:
    """A study as it was saved."""
    pl = imported("polars")
    source = Path(path)
    if not source.is_file():
        raise InputError(f"cannot read {source}: there is no such file")
    try:
        frame = pl.read_parquet(source)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"cannot read {source}: not a Parquet file ({str(error).splitlines()[0]})") from None
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing or frame.is_empty():
        lacks = f"the columns {', '.join(missing)}" if missing else "any row"
        raise InputError(f"cannot read {source}: not a saved study, it lacks {lacks}")
    first = frame.row(0, named=True)
    try:
        environment = parse(first["environment"], Environment)
        checkpoints = tuple(first["checkpoints"])
        parts = frame.partition_by("policy", maintain_order=True)
        runs = tuple(_runs(part.sort("replication"), len(checkpoints), environment.arms) for part in parts)
        if first["engine"] not in ENGINES or len({len(each.rounds) for each in runs}) > 1:
            raise ValueError("its rows do not fit together")
        return Study(environment, first["engine"], first["horizon"], checkpoints, first["seed"], first["made_by"], runs)
    except (SpecError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"cannot read {source}: not a saved study ({str(error).splitlines()[0]})") from None


def _runs(part: Any, checkpoints: int, arms: int) -> PolicyRuns:
    label: str = part["policy"][0]
    outcome = Outcome(
        part["regret"].explode().to_numpy().reshape(part.height, checkpoints),
        part["pulls"].explode().to_numpy().reshape(part.height, arms),
        part["rounds"].to_numpy(),
    )
    if part["replication"].to_list() != list(range(part.height)):
        raise ValueError(f"replications of {label} are missing or doubled")
    return PolicyRuns(label, _policy(label), outcome, part["seconds"][0])


def _policy(label: str) -> Policy | None:
    try:
        return parse(label, Policy)
    except (SpecError, ParameterError):  # a label, not a spec string: the numbers are there all the same
        return None
