"""Studies as tables and files, through polars."""

import csv
import io
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
from aftereffect.simulation.seal import read_sealed, seal
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.spec import parse

if TYPE_CHECKING:
    import polars

SUFFIXES = (".parquet", ".csv")
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


def curves(study: Study) -> "dict[str, Any]":
    """The columns of a table with one row per policy, replication and checkpoint."""
    slots, count = len(study.checkpoints), study.replications
    return {
        "policy": [runs.label for runs in study for _ in range(count * slots)],
        "replication": np.tile(np.repeat(np.arange(count), slots), len(study)),
        "slot": np.tile(np.array(study.checkpoints), count * len(study)),
        "regret": np.concatenate([runs.regret.ravel() for runs in study]),
    }


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
    """The rows of a study as one file; the ending of the path says in which format."""
    target = writable(path, SUFFIXES)
    write = _write_csv if target.suffix.lower() == ".csv" else _write_parquet
    with replacing(target, suffix=".part") as draft:
        write(study, draft, target)


def _write_parquet(study: Study, draft: Path, target: Path) -> None:
    frame = rows(study)
    try:
        frame.write_parquet(draft)
    except imported("polars").exceptions.PolarsError as error:  # a full disk, say
        raise OutputError(f"cannot write {target}: {str(error).splitlines()[0]}") from None
    seal(draft)


def _write_csv(study: Study, draft: Path, target: Path) -> None:
    """The same rows, with a column for the pulls of each arm and for the regret at each checkpoint in place of lists."""
    shared = (str(study.environment), study.engine, study.horizon, study.seed, study.made_by)
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            (
                *("policy", "environment", "engine", "horizon", "seed", "made_by", "seconds", "replication", "rounds"),
                *(f"pulls_{arm}" for arm in range(study.environment.arms)),
                *(f"regret_{slot}" for slot in study.checkpoints),
            )
        )
        for runs in study:
            numbers = zip(runs.rounds.tolist(), runs.pulls.tolist(), runs.regret.tolist(), strict=True)
            writer.writerows(
                (runs.label, *shared, runs.seconds, replication, rounds, *pulls, *regret)
                for replication, (rounds, pulls, regret) in enumerate(numbers)
            )


def load(path: str | os.PathLike[str]) -> Study:
    """A study as it was saved in a Parquet file."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"cannot read {source}: there is no such file")
    if source.suffix.lower() == ".csv":
        raise InputError(f"cannot read {source}: studies are read back from .parquet files, .csv is for other programs")
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
    """What a Parquet file holds. Its seal is checked first: damaged files can make polars panic, or abort the process."""
    pl = imported("polars")
    content = read_sealed(source)
    try:
        return pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError as error:  # written by a later version, say
        raise InputError(f"cannot read {source}: {str(error).splitlines()[0]}") from None


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
