"""What runs leave: all replications of one policy, and what they say together.

Results that would not fit into memory are refused.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation._digest import OfAll

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
    of_all
        What all replications say together, if the study keeps only the first of them (`keep` of
        `simulate`). Then the arrays above hold these; the means, standard errors and percentiles
        below are those of all. None if all are kept.

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
    of_all: OfAll | None = None

    def __repr__(self) -> str:
        return f"<PolicyRuns of {self.label}: {self.replications:,} replications>"

    @property
    def replications(self) -> int:
        """How many replications were played."""
        return len(self.rounds) if self.of_all is None else self.of_all.replications

    @property
    def final(self) -> Vector:
        """Regret at the horizon, by replication."""
        last: Vector = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Vector:
        """Mean regret at each checkpoint."""
        if self.of_all is not None:
            return self.of_all.mean
        average: Vector = self.regret.mean(axis=0)
        return average

    @property
    def sem(self) -> Vector | None:
        """Standard error of that mean; None for a single replication."""
        if self.of_all is not None:
            return self.of_all.sem
        if len(self.regret) < 2:
            return None
        count = np.sqrt(len(self.regret))
        return _measure_parts(lambda part: part.std(axis=0, ddof=1) / count, self.regret)

    @property
    def p95(self) -> Vector:
        """The regret that 95 % of the replications stay below, at each checkpoint."""
        if self.of_all is not None:
            return self.of_all.p95
        return _measure_parts(lambda part: np.quantile(part, 0.95, axis=0), self.regret)

    @property
    def mean_pulls(self) -> Vector:
        """Mean number of slots in which each arm was pulled."""
        average: Vector = self.pulls.mean(axis=0)
        return average if self.of_all is None else self.of_all.mean_pulls

    @property
    def mean_rounds(self) -> float:
        """Mean number of rounds."""
        return float(self.rounds.mean()) if self.of_all is None else self.of_all.mean_rounds


#: Bytes of a table that are measured at a time, but one column at least: that takes as many again.
_PART = 2**26


def _measure_parts(measure: Callable[[Matrix], Vector], table: Matrix) -> Vector:
    """Measure the columns of a table, some columns at a time."""
    parts = min(-(-table.nbytes // _PART), table.shape[1])
    return np.concatenate([measure(part) for part in np.array_split(table, parts, axis=1)])
