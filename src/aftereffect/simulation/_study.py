"""What `simulate` returns, and how it is stored: as tables and files, through polars.

Parquet checks little of what it holds: a flipped bit can give other numbers without an error, or
abort the process that reads it. So each file has a *seal*: a mark and the SHA-256 of all other
bytes, between the last column and the footer::

    PAR1 | columns | mark, digest | footer | length of the footer | PAR1

Readers find the footer from the end and the columns by their offsets in it, so other programs do
not notice the seal.
"""

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np

from aftereffect._core import (
    Spec,
    atomic_write,
    check_int,
    check_writable,
    html_table,
    import_optional,
    parse,
    text_table,
)
from aftereffect.bandits import Bandit
from aftereffect.errors import (
    InputError,
    OutputError,
    ParameterError,
    SpecError,
    UnknownPolicyError,
)
from aftereffect.policies import Policy
from aftereffect.simulation._plot import plot_regret
from aftereffect.simulation._replications import (
    ENGINE_CHOICES,
    EngineChoice,
    give_facts,
    trace_run,
)
from aftereffect.simulation._runs import PolicyRuns, Trace

if TYPE_CHECKING:
    import matplotlib.axes
    import polars

FINAL_HEADINGS = ("policy", "mean regret", "sem", "p95")
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
_MAGIC = b"PAR1"
_MARK = b"aftereffect seal"
_SEAL = len(_MARK) + hashlib.sha256().digest_size
#: The length of the footer, and the magic behind it.
_END = 4 + len(_MAGIC)
S = TypeVar("S", bound=Spec)


class Summary(TypedDict):
    """One policy's results in plain types, as ``--format json`` prints them."""

    policy: str
    bandit: str
    engine: str
    horizon: int
    replications: int
    seed: int
    checkpoints: list[int]
    regret_mean: list[float]
    regret_sem: list[float] | list[None]
    regret_p95: list[float]
    pulls_mean: list[float]
    rounds_mean: float
    seconds: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Study:
    """Regret curves of some policies in one bandit.

    ``study["ars-ucb"]`` (or a policy, or its number) gives the `PolicyRuns` of one policy;
    iterating gives all. ``"ars-ucb" in study`` tells whether it has that policy.

    Attributes
    ----------
    bandit
        The bandit; None in a study from a file whose ``bandit_label`` is not a spec string.
    bandit_label
        The bandit as text.
    engine
        ``"roundwise"`` or ``"slotwise"``.
    horizon
        Slots per replication.
    checkpoints
        The slots at which regret was recorded; the last is the horizon.
    seed
        The seed that gives the same study again.
    made_by
        The version and sources of this package, and the code of one's own, that played it.
    runs
        The replications of each policy.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5])
    >>> study = ae.simulate("round-robin", bandit, horizon=100, replications=3, seed=1)
    >>> "round-robin" in study, "ucb1" in study
    (True, False)
    >>> study.labels, study["round-robin"].mean[-1].round(6).item()
    (['round-robin'], 20.0)
    """

    bandit: Bandit | None
    bandit_label: str
    engine: EngineChoice
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    made_by: str
    runs: tuple[PolicyRuns, ...]

    @property
    def arms(self) -> int:
        """The number of arms."""
        return int(self.runs[0].pulls.shape[1])

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return self.runs[0].replications

    @property
    def labels(self) -> list[str]:
        """The names of the policies, in their order."""
        return [runs.label for runs in self.runs]

    def final_only(self) -> "Study":
        """Return the same study with the horizon as its only checkpoint, in less memory."""
        ends = (
            replace(
                runs,
                regret=runs.final[:, None].copy(),
                pulls=runs.pulls.copy(),
                of_all=None if runs.of_all is None else runs.of_all.final_only(),
            )
            for runs in self.runs
        )
        return replace(self, checkpoints=self.checkpoints[-1:], runs=tuple(ends))

    def __iter__(self) -> Iterator[PolicyRuns]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __contains__(self, policy: object) -> bool:
        if isinstance(policy, PolicyRuns):
            return any(policy is runs for runs in self.runs)
        return isinstance(policy, (str, Policy)) and self._find(policy) is not None

    def __getitem__(self, policy: Policy | str | int) -> PolicyRuns:
        if isinstance(policy, Integral):
            return self.runs[int(policy)]
        number = self._find(policy)
        if number is None:
            raise UnknownPolicyError(
                f"no policy {str(policy)!r} in this study; there are: {', '.join(self.labels)}"
            )
        return self.runs[number]

    def _find(self, policy: object) -> int | None:
        """Find the number of a policy by its label, or by any spec string that means the same."""
        wanted = str(policy)
        if wanted not in self.labels:
            with suppress(SpecError, ParameterError):  # then it is no spec string either
                known = parse(wanted, Policy)
                if self.bandit is not None:
                    known = give_facts(known, self.bandit)
                wanted = str(known)
        return self.labels.index(wanted) if wanted in self.labels else None

    def __repr__(self) -> str:
        final = ", ".join(f"{runs.label} {runs.mean[-1]:,.1f}" for runs in self.runs)
        return (
            f"<Study of {self.bandit_label}: horizon {self.horizon:,}, "
            f"{self.replications:,} replications, mean regret: {final}>"
        )

    def __str__(self) -> str:
        """Return a table of the regret at the horizon."""
        table = text_table([FINAL_HEADINGS, *self.final_rows()])
        return f"{self.bandit_label}\n{self._settings()}\n\n{table}"

    def _repr_html_(self) -> str:
        """Return the same table for notebooks."""
        title = f"{self.bandit_label}: {self._settings()}"
        return html_table([FINAL_HEADINGS, *self.final_rows()], title=title)

    def _settings(self) -> str:
        return (
            f"horizon {self.horizon:,}, {self.replications:,} replications, "
            f"seed {self.seed}, {self.engine} engine"
        )

    def final_rows(self) -> list[tuple[str, ...]]:
        """Return the regret of each policy at the horizon, as text under `FINAL_HEADINGS`."""
        return [
            (
                runs.label,
                f"{runs.mean[-1]:,.1f}",
                "-" if runs.sem is None else f"{runs.sem[-1]:,.1f}",
                f"{runs.p95[-1]:,.1f}",
            )
            for runs in self.runs
        ]

    def summaries(self) -> list[Summary]:
        """Return each policy's results in plain types, ready for JSON."""
        return [
            Summary(
                policy=runs.label,
                bandit=self.bandit_label,
                engine=self.engine,
                horizon=self.horizon,
                replications=self.replications,
                seed=self.seed,
                checkpoints=list(self.checkpoints),
                regret_mean=runs.mean.tolist(),
                regret_sem=[None] * len(self.checkpoints)
                if runs.sem is None
                else runs.sem.tolist(),
                regret_p95=runs.p95.tolist(),
                pulls_mean=runs.mean_pulls.tolist(),
                rounds_mean=runs.mean_rounds,
                seconds=runs.seconds,
            )
            for runs in self.runs
        ]

    def trace(self, policy: Policy | str | int, replication: int) -> Trace:
        """Return every slot of one replication: its arm, its total, the reward of its pull.

        The slotwise engine plays it with the seed of that replication. In a study of the slotwise
        engine it is that very run; in one of the roundwise engine it is another run of the same
        law.
        """
        runs = self[policy]
        number = check_int("replication", replication, at_most=self.replications - 1)
        if runs.policy is None or self.bandit is None:
            label = runs.label if runs.policy is None else self.bandit_label
            raise ParameterError(
                f"{label} is not a spec string, so it cannot be played again from a file"
            )
        return trace_run(runs.policy, self.bandit, self.horizon, self.seed, number)

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Plot mean regret against time, with 95 % bands of the mean. Needs the extra ``plot``."""
        return plot_regret(self, ax)

    def to_polars(self) -> "polars.DataFrame":
        """Return a table with the columns policy, replication, slot and regret.

        It has one row per policy, replication and checkpoint. Needs the extra ``data``.
        """
        columns = _curve_columns(self.checkpoints, self.runs)
        frame: polars.DataFrame = import_optional("polars").DataFrame(columns)
        return frame

    def to_pandas(self) -> Any:
        """Return the same table as a ``pandas.DataFrame``. No extra installs pandas."""
        return import_optional("pandas").DataFrame(_curve_columns(self.checkpoints, self.runs))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, with one row per policy and replication.

        A ``.parquet`` file can be loaded again, and carries a digest that shows damage; it needs
        the extra ``data``. A ``.csv`` file has the same rows for other programs, with a column for
        the pulls of each arm and for the regret at each checkpoint. A study that keeps only some
        replications cannot be written.
        """
        if any(runs.of_all is not None for runs in self.runs):
            raise ParameterError(
                f"a file has all replications, but of {self.replications:,} this study keeps only "
                f"{len(self.runs[0].rounds):,}: simulate without keep, or write summaries() as JSON"
            )
        shared = {
            "bandit": self.bandit_label,
            "engine": self.engine,
            "horizon": self.horizon,
            "seed": self.seed,
            "made_by": self.made_by,
            "checkpoints": list(self.checkpoints),
        }
        _save_study(path, shared, self.runs)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Study":
        """Read a Parquet file that `save` or a sweep wrote; a damaged one is refused."""
        return cls(**_load_study(path))


def _curve_columns(checkpoints: Sequence[int], runs: Sequence[PolicyRuns]) -> dict[str, Any]:
    """Return the columns of a table with one row per policy, replication and checkpoint."""
    slots, count = len(checkpoints), len(runs[0].rounds)
    return {
        "policy": [each.label for each in runs for _ in range(count * slots)],
        "replication": np.tile(np.repeat(np.arange(count), slots), len(runs)),
        "slot": np.tile(np.array(checkpoints), count * len(runs)),
        "regret": np.concatenate([each.regret.ravel() for each in runs]),
    }


def _save_study(
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


def _load_study(path: str | os.PathLike[str]) -> dict[str, Any]:
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
    content = _read_sealed(source)
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


def add_seal(path: Path) -> None:
    """Put a seal into a Parquet file that was just written."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        size = file.seek(-_END, 2) + _END
        file.seek(size - _END - int.from_bytes(file.read(4), "little"))
        start, footer = file.tell(), file.read()
        file.seek(start)
        file.write(_MARK + digest + footer)


def _read_sealed(path: Path) -> bytes:
    """Return the bytes of a Parquet file, if they are those that were sealed.

    Raises
    ------
    InputError
        If it is not a Parquet file, has no seal, or is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if (
        len(content) < len(_MAGIC) + _END
        or content[: len(_MAGIC)] != _MAGIC
        or content[-len(_MAGIC) :] != _MAGIC
    ):
        raise InputError(f"cannot read {path}: not a Parquet file, or cut short")
    footer = len(content) - _END - int.from_bytes(content[-_END : -len(_MAGIC)], "little")
    start = footer - _SEAL
    if start < 0 or content[start : start + len(_MARK)] != _MARK:
        raise InputError(
            f"cannot read {path}: not written by Study.save, or damaged: "
            "it has no digest of its content"
        )
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(memoryview(content)[footer:])
    if digest.digest() != content[start + len(_MARK) : footer]:
        raise InputError(
            f"cannot read {path}: it is damaged, its content does not match its digest: "
            "run the study again or restore the file"
        )
    return content
