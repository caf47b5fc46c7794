"""What `simulate` returns: the regret of policies in one bandit, as numbers, tables and plots."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from aftereffect._core import check_int, html_table, import_optional, parse, text_table
from aftereffect.bandits import Bandit
from aftereffect.errors import ParameterError, SpecError, UnknownPolicyError
from aftereffect.policies import Policy
from aftereffect.simulation._engine_choice import EngineChoice
from aftereffect.simulation._plot import plot_regret
from aftereffect.simulation._runs import PolicyRuns
from aftereffect.simulation._study_files import load_study, save_study
from aftereffect.simulation._tasks import give_facts
from aftereffect.simulation._trace import Trace, trace_run

if TYPE_CHECKING:
    import matplotlib.axes
    import polars


FINAL_HEADINGS = ("policy", "mean regret", "sem", "p95")


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
        save_study(path, shared, self.runs)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Study":
        """Read a Parquet file that `save` or a sweep wrote; a damaged one is refused."""
        return cls(**load_study(path))


def _curve_columns(checkpoints: Sequence[int], runs: Sequence[PolicyRuns]) -> dict[str, Any]:
    """Return the columns of a table with one row per policy, replication and checkpoint."""
    slots, count = len(checkpoints), len(runs[0].rounds)
    return {
        "policy": [each.label for each in runs for _ in range(count * slots)],
        "replication": np.tile(np.repeat(np.arange(count), slots), len(runs)),
        "slot": np.tile(np.array(checkpoints), count * len(runs)),
        "regret": np.concatenate([each.regret.ravel() for each in runs]),
    }
