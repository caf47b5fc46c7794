"""One replication slot by slot: which arm, which total, and what the pull brings in all."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aftereffect._core import Slots, Vector, import_optional
from aftereffect.bandits import Bandit
from aftereffect.delays import ARM, REWARD, TOTAL
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy, check_anonymous
from aftereffect.simulation._plot import plot_pulls
from aftereffect.simulation._replications import prepare, run_batch
from aftereffect.simulation._runs import check_memory
from aftereffect.simulation._tasks import Task

if TYPE_CHECKING:
    import matplotlib.axes
    import polars


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


MAX_TRACE_SLOTS = 100_000_000
#: Memory that each slot takes while a trace is made.
_BYTES_PER_SLOT = 40


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
