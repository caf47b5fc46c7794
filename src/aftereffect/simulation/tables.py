"""Studies as tables and files, through polars."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aftereffect.environments import Environment
from aftereffect.errors import InputError, SpecError
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


def save(study: Study, path: str | os.PathLike[str]) -> None:
    """One row per policy and replication. What is the same in all rows is repeated, which Parquet stores once."""
    pl = imported("polars")
    target = writable(path, SUFFIXES)
    frame = pl.concat(
        pl.DataFrame(
            {
                "policy": [runs.label] * study.replications,
                "environment": str(study.environment),
                "engine": study.engine,
                "horizon": study.horizon,
                "seed": study.seed,
                "seconds": runs.seconds,
                "replication": np.arange(study.replications),
                "rounds": runs.rounds,
                "pulls": list(runs.pulls),
                "checkpoints": [list(study.checkpoints)] * study.replications,
                "regret": list(runs.regret),
            }
        )
        for runs in study
    )
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
    parts = frame.partition_by("policy", maintain_order=True)
    first = frame.row(0, named=True)
    return Study(
        parse(first["environment"], Environment),
        first["engine"],
        first["horizon"],
        tuple(first["checkpoints"]),
        first["seed"],
        tuple(_runs(part.sort("replication")) for part in parts),
    )


def _runs(part: Any) -> PolicyRuns:
    label: str = part["policy"][0]
    outcome = Outcome(np.array(part["regret"].to_list()), np.array(part["pulls"].to_list()), part["rounds"].to_numpy())
    return PolicyRuns(label, _policy(label), outcome, part["seconds"][0])


def _policy(label: str) -> Policy | None:
    try:
        return parse(label, Policy)
    except SpecError:  # a label, not a spec string: the numbers are there all the same
        return None
