"""What runs leave: all replications of one policy, or one replication slot by slot.

Results that would not fit into memory are refused.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aftereffect._core import (
    Matrix,
    Slots,
    Vector,
    import_optional,
)
from aftereffect.bandits import Bandit
from aftereffect.delays import ARM, REWARD, TOTAL
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy, check_anonymous
from aftereffect.simulation._plot import plot_pulls
from aftereffect.simulation._replications import Task, prepare, run_batch

if TYPE_CHECKING:
    import matplotlib.axes
    import polars

#: The file in which Linux states how much memory a container may use.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GIB = 2**30


def check_memory(needed: int, lower: str) -> None:
    """Refuse what needs more bytes than this machine has; `lower` says what would need less."""
    available = _available_memory()
    if available is not None and needed > available:
        raise ParameterError(
            f"the results need {needed / _GIB:,.1f} GiB of memory, but only "
            f"{available / _GIB:,.1f} GiB are available: ask for fewer {lower}"
        )


def _available_memory() -> int | None:
    """Return how many bytes this process can have at most; None where the system does not say."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows, or an unusual system
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # no such file, or no limit: "max"
        found.append(int(_CONTAINER_LIMIT.read_text()))
    return min(found, default=None)


MAX_TRACE_SLOTS = 100_000_000
#: Memory that each slot takes while a trace is made.
_BYTES_PER_SLOT = 40


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PolicyRuns:
    """All replications of one policy.

    Attributes
    ----------
    label
        The name of the policy in its study.
    policy
        The policy; None in a study from a file whose label is not a spec string (say, a growth
        given as a callable).
    regret
        Regret by replication and checkpoint.
    pulls
        Slots in which an arm was pulled, by replication and arm.
    rounds
        Rounds played, by replication.
    seconds
        The processor time that they took on all cores together, without compiling.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate("round-robin", ae.StochasticBandit([0.9, 0.5]), 100, 3, seed=1)
    >>> runs = study["round-robin"]
    >>> runs.pulls.tolist(), runs.final.round(6).tolist()
    ([[50.0, 50.0], [50.0, 50.0], [50.0, 50.0]], [20.0, 20.0, 20.0])
    """

    label: str
    policy: Policy | None
    regret: Matrix
    pulls: Matrix
    rounds: Slots
    seconds: float

    def __repr__(self) -> str:
        return f"<PolicyRuns of {self.label}: {len(self.rounds):,} replications>"

    @property
    def final(self) -> Vector:
        """Regret at the horizon, by replication."""
        last: Vector = self.regret[:, -1]
        return last

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
        count = np.sqrt(len(self.regret))
        return _measure_parts(lambda part: part.std(axis=0, ddof=1) / count, self.regret)

    @property
    def p95(self) -> Vector:
        """The regret that 95 % of the replications stay below, at each checkpoint."""
        return _measure_parts(lambda part: np.quantile(part, 0.95, axis=0), self.regret)


#: Bytes of a table that are measured at a time, but one column at least: that takes as many again.
_PART = 2**26


def _measure_parts(measure: Callable[[Matrix], Vector], table: Matrix) -> Vector:
    """Measure the columns of a table, some columns at a time."""
    parts = min(-(-table.nbytes // _PART), table.shape[1])
    return np.concatenate([measure(part) for part in np.array_split(table, parts, axis=1)])


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """One replication slot by slot.

    Attributes
    ----------
    arms
        The arm pulled in each slot.
    totals
        The total observed in each slot.
    rewards
        The reward that the pull of each slot brings in all, whenever it arrives.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate("round-robin", ae.StochasticBandit([1.0, 0.0]), 6, 1, seed=1)
    >>> trace = study.trace("round-robin", 0)
    >>> trace.arms.tolist(), trace.totals.tolist()
    ([0, 1, 0, 1, 0, 1], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    """

    arms: Slots
    totals: Vector
    rewards: Vector

    def __repr__(self) -> str:
        return f"<Trace of {len(self):,} slots>"

    def __len__(self) -> int:
        return len(self.arms)

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Plot which arm was pulled in which slots. Needs the extra ``plot``."""
        return plot_pulls(self.arms, ax)

    def to_polars(self) -> "polars.DataFrame":
        """Return a table with the columns slot, arm, total, reward. Needs the extra ``data``."""
        columns = {
            "slot": np.arange(len(self)),
            "arm": self.arms,
            "total": self.totals,
            "reward": self.rewards,
        }
        frame: polars.DataFrame = import_optional("polars").DataFrame(columns)
        return frame


def trace_run(policy: Policy, bandit: Bandit, horizon: int, seed: int, replication: int) -> Trace:
    """Play one replication on the slotwise engine and record every slot.

    >>> import aftereffect as ae
    >>> trace_run(ae.RoundRobin(), ae.StochasticBandit([1.0, 0.0]), 4, seed=1, replication=0).totals
    array([1., 0., 1., 0.])
    """
    if horizon > MAX_TRACE_SLOTS:
        raise ParameterError(
            f"a trace can have at most {MAX_TRACE_SLOTS:,} slots, got a horizon of {horizon:,}"
        )
    check_memory(_BYTES_PER_SLOT * horizon, "slots")
    check_anonymous(policy)
    task = Task(
        policy=policy,
        bandit=bandit,
        engine="slotwise",
        horizon=horizon,
        checkpoints=(horizon,),
        seed=seed,
        replications=range(replication, replication + 1),
    )
    memory = run_batch(task, prepare(task, engine=bandit.tracer(horizon))).memory
    return Trace(
        arms=memory[ARM, :horizon].astype(np.int64),
        totals=memory[TOTAL, :horizon].copy(),
        rewards=memory[REWARD, :horizon].copy(),
    )
