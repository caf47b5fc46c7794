"""What runs leave: all replications of one policy, or one replication slot by slot."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from aftereffect._core import Matrix, Slots, Vector, import_optional
from aftereffect.bandits import Bandit
from aftereffect.delays import ARM, REWARD, TOTAL
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation._limits import check_memory
from aftereffect.simulation._replications import Task, prepare, run_batch

if TYPE_CHECKING:
    import polars

MAX_TRACE_SLOTS = 100_000_000
#: Memory that each slot takes while a trace is made.
_BYTES_PER_SLOT = 40


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
        error: Vector = self.regret.std(axis=0, ddof=1) / np.sqrt(len(self.regret))
        return error

    @property
    def p95(self) -> Vector:
        """The regret that 95 % of the replications stay below, at each checkpoint."""
        return np.quantile(self.regret, 0.95, axis=0)


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
            f"a trace records every slot: at most {MAX_TRACE_SLOTS:,} of them, "
            f"got a horizon of {horizon:,}"
        )
    check_memory(_BYTES_PER_SLOT * horizon, "slots")
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
