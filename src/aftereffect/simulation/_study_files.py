"""How studies are stored: in sealed Parquet files, and as CSV for other programs."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aftereffect._core import Spec, atomic_write, check_writable, import_optional, parse
from aftereffect.bandits import Bandit
from aftereffect.errors import InputError, OutputError, ParameterError, SpecError
from aftereffect.policies import Policy
from aftereffect.simulation._engine_choice import ENGINE_CHOICES
from aftereffect.simulation._runs import PolicyRuns
from aftereffect.simulation._seal import add_seal, read_sealed

if TYPE_CHECKING:
    import polars

STUDY_SUFFIXES = (".parquet", ".csv")
#: The columns that are the same in every row of a study.
_SHARED = ("bandit", "engine", "horizon", "seed", "made_by", "checkpoints")
_CSV_COLUMNS = (
    "policy",
    "bandit",
    "engine",
    "horizon",
    "seed",
    "made_by",
    "seconds",
    "replication",
    "rounds",
)
S = TypeVar("S", bound=Spec)


def save_study(
    path: str | os.PathLike[str], shared: Mapping[str, Any], runs: Sequence[PolicyRuns]
) -> None:
    """Write one file with a row per policy and replication, in the format of the path's suffix.

    `shared` holds the values of the columns `_SHARED`.
    """
    target = check_writable(path, STUDY_SUFFIXES)
    write = _write_csv if target.suffix.lower() == ".csv" else _write_parquet
    with atomic_write(target, suffix=".part") as draft:
        write(draft, target, shared, runs)


def _write_parquet(
    draft: Path, target: Path, shared: Mapping[str, Any], runs: Sequence[PolicyRuns]
) -> None:
    pl = import_optional("polars")
    schema = _schema()
    # What is the same in all rows is repeated, which Parquet stores once.
    frame: polars.DataFrame = pl.concat(
        pl.DataFrame(
            {name: [value] * len(each.rounds) for name, value in shared.items()}
            | {
                "policy": [each.label] * len(each.rounds),
                "seconds": [each.seconds] * len(each.rounds),
                "replication": range(len(each.rounds)),
                "rounds": each.rounds,
                "pulls": list(each.pulls),
                "regret": list(each.regret),
            },
            schema_overrides=schema,
        ).select(list(schema))
        for each in runs
    )
    try:
        frame.write_parquet(draft)
    except pl.exceptions.PolarsError as error:  # a full disk, say
        raise OutputError(f"cannot write {target}: {str(error).splitlines()[0]}") from None
    add_seal(draft)


def _schema() -> dict[str, Any]:
    """Return the columns of a saved study and their types."""
    pl = import_optional("polars")
    return {
        "policy": pl.String,
        "bandit": pl.String,
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


def _write_csv(
    draft: Path, _target: Path, shared: Mapping[str, Any], runs: Sequence[PolicyRuns]
) -> None:
    """Write the same rows with a column per arm and per checkpoint, since CSV has no lists."""
    same = [shared[name] for name in _SHARED if name != "checkpoints"]
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        arms = (f"pulls_{arm}" for arm in range(runs[0].pulls.shape[1]))
        slots = (f"regret_{slot}" for slot in shared["checkpoints"])
        writer.writerow((*_CSV_COLUMNS, *arms, *slots))
        for each in runs:
            numbers = zip(
                each.rounds.tolist(), each.pulls.tolist(), each.regret.tolist(), strict=True
            )
            writer.writerows(
                (each.label, *same, each.seconds, replication, rounds, *pulls, *regret)
                for replication, (rounds, pulls, regret) in enumerate(numbers)
            )


def load_study(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a Parquet file and return the fields of the study in it.

    Raises
    ------
    InputError
        If the file does not exist, is damaged, or holds something else.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"cannot read {source}: there is no such file")
    if source.suffix.lower() == ".csv":
        raise InputError(
            f"cannot read {source}: studies can be loaded from .parquet files only, "
            ".csv files are for other programs"
        )
    frame = _read_frame(source)
    wanted = _schema()
    missing = [name for name in wanted if name not in frame.columns]
    if missing or frame.is_empty():
        lacks = f"the columns {', '.join(missing)}" if missing else "any row"
        raise InputError(f"cannot read {source}: not a saved study, it lacks {lacks}")
    try:
        for name, kind in wanted.items():
            if frame.schema[name] != kind or frame[name].null_count():
                raise ValueError(f"the column {name} must hold {kind} and nothing else")
        if frame.select(_SHARED).n_unique() > 1:
            raise ValueError("its rows contradict each other")
        first = frame.row(0, named=True)
        checkpoints = tuple(first["checkpoints"])
        runs = tuple(
            _read_runs(part.sort("replication"), len(checkpoints), len(first["pulls"]))
            for part in frame.partition_by("policy", maintain_order=True)
        )
        if first["engine"] not in ENGINE_CHOICES or len({len(each.rounds) for each in runs}) > 1:
            raise ValueError("its rows contradict each other")
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"cannot read {source}: not a saved study ({str(error).splitlines()[0]})"
        ) from None
    return {
        "bandit": _parse_label(first["bandit"], Bandit),
        "bandit_label": first["bandit"],
        "engine": first["engine"],
        "horizon": first["horizon"],
        "checkpoints": checkpoints,
        "seed": first["seed"],
        "made_by": first["made_by"],
        "runs": runs,
    }


def _read_frame(source: Path) -> Any:
    """Read a Parquet file after checking its seal: a damaged one can make polars abort."""
    pl = import_optional("polars")
    content = read_sealed(source)
    try:
        return pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError as error:  # written by a later version, say
        raise InputError(f"cannot read {source}: {str(error).splitlines()[0]}") from None


def _read_runs(part: Any, checkpoints: int, arms: int) -> PolicyRuns:
    label: str = part["policy"][0]
    if set(part["regret"].list.len()) != {checkpoints} or set(part["pulls"].list.len()) != {arms}:
        raise ValueError("its rows contradict each other")
    if part["replication"].to_list() != list(range(part.height)):
        raise ValueError(f"replications of {label} are missing or repeated")
    return PolicyRuns(
        label=label,
        policy=_parse_label(label, Policy),
        regret=part["regret"].explode().to_numpy().reshape(part.height, checkpoints),
        pulls=part["pulls"].explode().to_numpy().reshape(part.height, arms),
        rounds=part["rounds"].to_numpy(),
        seconds=part["seconds"][0],
    )


def _parse_label(label: str, kind: type[S]) -> S | None:
    """Parse a spec string; None for another label, whose numbers can be read all the same."""
    try:
        return parse(label, kind)
    except (SpecError, ParameterError):
        return None
