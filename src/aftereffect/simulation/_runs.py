"""What runs leave: all replications of one policy, what they say together, or one slot by slot.

Results that would not fit into memory are refused.
"""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect._core import (
    Matrix,
    Slots,
    Vector,
    import_optional,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation._plot import plot_pulls

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


#: Replications of a digest are summed up by so many that follow each other. So its numbers do not
#: depend on how many are played at a time.
GROUP = 1_024
#: What is known of a group, by checkpoint or arm.
MEAN, SQUARES, LEAST, MOST = range(4)
FACTS = 4
#: Bins of a digest: as many for each power of two, from the least power on to the last. Bins of
#: negative numbers, from the largest on, and that of numbers about zero come before.
_STEPS, _LEAST_POWER, _POWERS = 256, -20, 64
_SMALLEST, _LARGEST = 2.0**_LEAST_POWER, 2.0 ** (_LEAST_POWER + _POWERS)
_ZERO = _STEPS * _POWERS
BINS = 2 * _ZERO + 1


def find_bin(number: float) -> int:
    """The bin of a number.

    >>> find_bin(1.0) - find_bin(0.5), find_bin(0.0) + find_bin(0.0) == find_bin(3) + find_bin(-3)
    (256, True)
    """
    size = abs(number)
    if size < _SMALLEST:
        return _ZERO
    place = _ZERO
    if size < _LARGEST:
        half, power = math.frexp(size)
        place = (power - 1 - _LEAST_POWER) * _STEPS + int((2.0 * half - 1.0) * _STEPS) + 1
    return _ZERO + place if number > 0.0 else _ZERO - place


def measure_group(table: Matrix, group: int, column: int, found: Vector) -> None:
    """Measure a column of a group: mean, squared differences from it, and where numbers end."""
    first = group * GROUP
    end = min(first + GROUP, table.shape[0])
    total, least, most = 0.0, table[first, column], table[first, column]
    for row in range(first, end):
        total += table[row, column]
        least = min(least, table[row, column])
        most = max(most, table[row, column])
    found[MEAN] = mean = total / (end - first)
    squares = 0.0
    for row in range(first, end):
        squares += (table[row, column] - mean) ** 2
    found[SQUARES], found[LEAST], found[MOST] = squares, least, most


class OfAll(NamedTuple):
    """What all replications say together, of which a study keeps some only.

    Means and standard errors are exact. The percentile is at most 0.4 % off.
    """

    replications: int
    mean: Vector
    sem: Vector | None
    p95: Vector
    mean_pulls: Vector
    mean_rounds: float

    def final_only(self) -> "OfAll":
        """The same with the last checkpoint only."""
        sem = None if self.sem is None else self.sem[-1:]
        return self._replace(mean=self.mean[-1:], sem=sem, p95=self.p95[-1:])


class Digest(NamedTuple):
    """What is remembered of many replications.

    That is, by group of replications: what is known of regret at each checkpoint and of the pulls
    of each arm, and the rounds. And by checkpoint, how many regrets are in each bin.
    """

    regret: Any
    pulls: Any
    rounds: Slots
    counts: Any

    @classmethod
    def zeros(cls, replications: int, checkpoints: int, arms: int) -> "Digest":
        """Return the digest of no replications, with room for so many."""
        groups = -(-replications // GROUP)
        return cls(
            regret=np.zeros((groups, checkpoints, FACTS)),
            pulls=np.zeros((groups, arms, FACTS)),
            rounds=np.zeros(groups, dtype=np.int64),
            counts=np.zeros((checkpoints, BINS), dtype=np.uint32),
        )

    @staticmethod
    def count_bytes(replications: int, checkpoints: int, arms: int) -> int:
        """How much memory a digest takes."""
        group = FACTS * (checkpoints + arms) + 1
        return 8 * group * -(-replications // GROUP) + 4 * checkpoints * BINS

    def add(self, first: int, part: "Digest") -> None:
        """Add the replications from number `first` on, which begins a group."""
        groups = slice(first // GROUP, first // GROUP + len(part.rounds))
        self.regret[groups], self.pulls[groups] = part.regret, part.pulls
        self.rounds[groups] = part.rounds
        self.counts[...] += part.counts

    def summarise(self, replications: int) -> OfAll:
        """What so many replications say together."""
        sizes = np.full(len(self.rounds), GROUP)
        sizes[-1] = replications - GROUP * (len(sizes) - 1)
        means = self.regret[..., MEAN]
        mean = sizes @ means / replications
        squares = self.regret[..., SQUARES].sum(axis=0) + sizes @ (means - mean) ** 2
        variance = squares / max(replications - 1, 1)
        bounds = self.regret[..., LEAST].min(axis=0), self.regret[..., MOST].max(axis=0)
        return OfAll(
            replications=replications,
            mean=mean,
            sem=np.sqrt(variance / replications) if replications > 1 else None,
            p95=np.clip([_find_quantile(each, 0.95) for each in self.counts], *bounds),
            mean_pulls=sizes @ self.pulls[..., MEAN] / replications,
            mean_rounds=float(self.rounds.sum() / replications),
        )


def _find_quantile(counts: Any, share: float) -> float:
    """The quantile of numbers that were counted by bin, as if they were spread evenly in a bin."""
    ends = np.cumsum(counts, dtype=np.int64)
    rank = share * float(ends[-1] - 1)
    ranks = np.array([math.floor(rank), math.ceil(rank)])  # of the numbers on both sides of it
    bins = np.searchsorted(ends, ranks, side="right")
    inside = (ranks - (ends[bins] - counts[bins]) + 0.5) / counts[bins]
    octaves, steps = np.divmod(np.abs(bins - _ZERO) - 1, _STEPS)
    inside = np.where(bins > _ZERO, inside, 1.0 - inside)  # from zero on
    sizes = np.ldexp(1.0 + (steps + inside) / _STEPS, octaves + _LEAST_POWER)
    numbers = sizes * np.sign(bins - _ZERO)
    return float(np.interp(rank, ranks, numbers))


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
