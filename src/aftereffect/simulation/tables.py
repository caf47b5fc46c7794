"""Studies as tables and files, through polars."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aftereffect.environments import ENGINES, Environment, Unnamed
from aftereffect.errors import InputError, OutputError, ParameterError, SpecError
from aftereffect.extras import imported
from aftereffect.outputs import replacing, writable
from aftereffect.policies import Policy
from aftereffect.simulation.replications import Outcome
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.spec import parse

if TYPE_CHECKING:
    import polars

SUFFIXES = (".parquet",)
#: The same in every row of a study.
SHARED = ("environment", "engine", "horizon", "seed", "made_by", "checkpoints")


def schema() -> "dict[str, Any]":
    """The columns of a saved study and their types."""
    pl = imported("polars")
    return {
        "policy": pl.String,
        "environment": pl.String,
        "engine": pl.String,
        "horizon": pl.Int64,
        "seed": pl.Int64,
        "made_by": pl.String,
        "seconds": pl.Float64,
        "replication": pl.Int64,
        "rounds": pl.Int64,
        "pulls": pl.List(pl.Float64),
        "checkpoints": pl.List(pl.Int64),
        "regret": pl.List(pl.Float64),
    }


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
            schema_overrides=schema(),
        ).select(list(schema()))
        for runs in study
    )
    return frame


def save(study: Study, path: str | os.PathLike[str]) -> None:
    """The rows of a study as one file."""
    target = writable(path, SUFFIXES)
    frame = rows(study)
    with replacing(target, suffix=".part") as draft:
        try:
            frame.write_parquet(draft)
        except imported("polars").exceptions.PolarsError as error:  # a full disk, say
            raise OutputError(f"cannot write {target}: {str(error).splitlines()[0]}") from None


def load(path: str | os.PathLike[str]) -> Study:
    """A study as it was saved."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"cannot read {source}: there is no such file")
    frame = _frame(source)
    wanted = schema()
    missing = [name for name in wanted if name not in frame.columns]
    if missing or frame.is_empty():
        lacks = f"the columns {', '.join(missing)}" if missing else "any row"
        raise InputError(f"cannot read {source}: not a saved study, it lacks {lacks}")
    try:
        for name, kind in wanted.items():
            if frame.schema[name] != kind or frame[name].null_count():
                raise ValueError(f"the column {name} must hold {kind} and nothing else")
        if frame.select(SHARED).n_unique() > 1:
            raise ValueError("its rows do not fit together")
        first = frame.row(0, named=True)
        environment = _environment(first["environment"], len(first["pulls"]))
        checkpoints = tuple(first["checkpoints"])
        parts = frame.partition_by("policy", maintain_order=True)
        runs = tuple(_runs(part.sort("replication"), len(checkpoints), environment.arms) for part in parts)
        if first["engine"] not in ENGINES or len({len(each.rounds) for each in runs}) > 1:
            raise ValueError("its rows do not fit together")
        return Study(environment, first["engine"], first["horizon"], checkpoints, first["seed"], first["made_by"], runs)
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"cannot read {source}: not a saved study ({str(error).splitlines()[0]})") from None


def _frame(source: Path) -> Any:
    """What a Parquet file holds."""
    pl = imported("polars")
    try:
        return pl.read_parquet(source)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # polars panics at some damaged files, and a panic is no Exception
        raise InputError(f"cannot read {source}: not a Parquet file ({str(error).splitlines()[0]})") from None


def _environment(label: str, arms: int) -> Environment:
    try:
        return parse(label, Environment)
    except (SpecError, ParameterError):  # a label, not a spec string: the numbers are there all the same
        return Unnamed(label, arms)


def _runs(part: Any, checkpoints: int, arms: int) -> PolicyRuns:
    label: str = part["policy"][0]
    if set(part["regret"].list.len()) != {checkpoints} or set(part["pulls"].list.len()) != {arms}:
        raise ValueError("its rows do not fit together")
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
