"""What `simulate` returns."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from aftereffect.checks import whole
from aftereffect.columns import aligned
from aftereffect.environments import EngineName, Environment
from aftereffect.errors import ParameterError, SpecError
from aftereffect.extras import imported
from aftereffect.kernels import Matrix, Slots, Vector
from aftereffect.policies import Policy
from aftereffect.simulation.replications import Outcome
from aftereffect.simulation.trace import Trace, traced
from aftereffect.spec import parse

if TYPE_CHECKING:
    import matplotlib.axes
    import polars


FINAL_HEADINGS = ("policy", "mean regret", "sem", "p95")


class Summary(TypedDict):
    """One policy's results in plain types, as ``--format json`` prints them."""

    policy: str
    environment: str
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


@dataclass(frozen=True, eq=False, repr=False)
class PolicyRuns:
    """All replications of one policy.

    ``seconds`` is the processor time they took, on all cores together, compiling left out.
    ``policy`` is None in a study read from a file whose label is not a spec string (a growth given as a callable).
    """

    label: str
    policy: Policy | None
    outcome: Outcome
    seconds: float

    def __repr__(self) -> str:
        return f"<PolicyRuns of {self.label}: {len(self.rounds):,} replications>"

    @property
    def regret(self) -> Matrix:
        """By replication and checkpoint."""
        return self.outcome.regret

    @property
    def final(self) -> Vector:
        """Regret at the horizon, by replication."""
        last: Vector = self.outcome.regret[:, -1]
        return last

    @property
    def pulls(self) -> Matrix:
        """Slots played, by replication and arm."""
        return self.outcome.plays

    @property
    def rounds(self) -> Slots:
        """Rounds played, by replication."""
        return self.outcome.rounds

    @property
    def mean(self) -> Vector:
        """Mean regret at each checkpoint."""
        average: Vector = self.regret.mean(axis=0)
        return average

    @property
    def sem(self) -> Vector | None:
        """Standard error of that mean; None for a single replication."""
        if len(self.regret) < 2:
            return None
        error: Vector = self.regret.std(axis=0, ddof=1) / np.sqrt(len(self.regret))
        return error

    @property
    def p95(self) -> Vector:
        """The regret that 95 % of the replications stay below, at each checkpoint."""
        return np.quantile(self.regret, 0.95, axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Regret curves of some policies in one environment.

    ``made_by`` says which version of this package and of its sources, and which code of one's own, played it.

    ``study["ars-ucb"]`` (or a policy, or its place in the list) gives the `PolicyRuns` of one policy; iterating gives all.
    """

    environment: Environment
    engine: EngineName
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    made_by: str
    runs: tuple[PolicyRuns, ...]

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return len(self.runs[0].rounds)

    def at_horizon(self) -> "Study":
        """The same with the horizon as its only checkpoint, in as much less memory as there were others."""
        ends = (
            replace(runs, outcome=runs.outcome._replace(regret=runs.final[:, None].copy(), plays=runs.pulls.copy()))
            for runs in self.runs
        )
        return replace(self, checkpoints=self.checkpoints[-1:], runs=tuple(ends))

    def __iter__(self) -> Iterator[PolicyRuns]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, policy: Policy | str | int) -> PolicyRuns:
        if isinstance(policy, Integral):
            return self.runs[int(policy)]
        labels = [runs.label for runs in self.runs]
        wanted = str(policy)
        if wanted not in labels:
            with suppress(SpecError, ParameterError):  # then it is no spec string either
                wanted = str(parse(wanted, Policy).told(self.environment.knowledge))
        if wanted not in labels:
            raise ParameterError(f"no policy {str(policy)!r} in this study; there are: {', '.join(labels)}")
        return self.runs[labels.index(wanted)]

    def __repr__(self) -> str:
        labels = ", ".join(runs.label for runs in self.runs)
        return f"<Study of {labels}: horizon {self.horizon:,}, {self.replications:,} replications>"

    def __str__(self) -> str:
        """A table of the regret at the horizon."""
        title = (
            f"{self.environment}\nhorizon {self.horizon:,}, {self.replications:,} replications, "
            f"seed {self.seed}, {self.engine} engine"
        )
        return f"{title}\n\n{aligned([FINAL_HEADINGS, *self.final_rows()])}"

    def final_rows(self) -> list[tuple[str, ...]]:
        """The regret of each policy at the horizon, as text under `FINAL_HEADINGS`."""
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
        """Each policy's results in plain types, ready for JSON."""
        return [
            Summary(
                policy=runs.label,
                environment=str(self.environment),
                engine=self.engine,
                horizon=self.horizon,
                replications=self.replications,
                seed=self.seed,
                checkpoints=list(self.checkpoints),
                regret_mean=runs.mean.tolist(),
                regret_sem=[None] * len(self.checkpoints) if runs.sem is None else runs.sem.tolist(),
                regret_p95=runs.p95.tolist(),
                pulls_mean=runs.pulls.mean(axis=0).tolist(),
                rounds_mean=float(runs.rounds.mean()),
                seconds=runs.seconds,
            )
            for runs in self.runs
        ]

    def trace(self, policy: Policy | str | int, replication: int) -> Trace:
        """Every slot of one replication: the arm, the total observed, the reward generated.

        It is played by the slotwise engine with that replication's seed: in a study of the slotwise engine it is that very
        run, in one of the roundwise engine another run of the same law.
        """
        runs = self[policy]
        if runs.policy is None:
            raise ParameterError(f"{runs.label} is not a spec string, so it cannot be played again from a file")
        number = whole("replication", replication, at_most=self.replications - 1)
        return traced(runs.policy, self.environment, self.horizon, self.seed, number)

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Mean regret against time, with 95 % bands of the mean. Needs the extra ``plot``."""
        from aftereffect.simulation.plotting import plot_regret

        return plot_regret(self, ax)

    def to_polars(self) -> "polars.DataFrame":
        """One row per policy, replication and checkpoint: policy, replication, slot, regret. Needs the extra ``data``."""
        from aftereffect.simulation.tables import curves

        frame: polars.DataFrame = imported("polars").DataFrame(curves(self))
        return frame

    def to_pandas(self) -> Any:
        """The same table as a ``pandas.DataFrame``. Needs pandas, which no extra brings."""
        from aftereffect.simulation.tables import curves

        return imported("pandas").DataFrame(curves(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, one row per policy and replication.

        A ``.parquet`` file can be loaded again, and carries a digest that shows damage; it needs the extra ``data``. A ``.csv``
        file has the same rows for other programs, with a column for the pulls of each arm and for the regret at each
        checkpoint.
        """
        from aftereffect.simulation.tables import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Study":
        """Read a Parquet file that `save` wrote, or a part of a sweep; a damaged one is refused."""
        from aftereffect.simulation.tables import load

        return load(path)
