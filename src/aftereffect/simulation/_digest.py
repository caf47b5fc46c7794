"""What is remembered of replications that are too many to be kept.

Their mean and standard error are exact; their percentile comes from counts by bin.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector

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
