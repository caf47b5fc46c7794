"""Means of arms and shares of lags that explain totals best: least squares in turns, the shares never negative."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect.kernels import Matrix, Slots, Vector

Mask: TypeAlias = NDArray[np.bool_]

#: So that nothing is singular where an arm was hardly played or two bins look alike.
_RIDGE = 1e-6
_TURNS, _CLOSE = 40, 1e-5


class Model:
    """A division of lags into bins, and the sums over slots that fits with it need."""

    def __init__(self, rows: Matrix, edges: Slots, arms: int) -> None:
        self.edges, self.arms = edges, arms
        self.gram: Matrix = (rows.T @ rows).reshape(self.size, arms, self.size, arms)

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    def fitted(self, target: Vector, start: Vector | None = None) -> "Fit":
        """The best shares and means, given the products of the columns with totals."""
        wanted = target.reshape(self.size, self.arms)
        shares: Vector = np.full(self.size, 1 / self.size) if start is None else start
        positive = shares > 0
        means: Vector = np.zeros(self.arms)
        for _ in range(_TURNS):
            by_arm = np.tensordot(np.tensordot(shares, self.gram, (0, 0)), shares, (1, 0))
            means = np.asarray(np.linalg.solve(ridged(by_arm), shares @ wanted), dtype=np.float64)
            by_bin = np.tensordot(np.tensordot(self.gram, means, (3, 0)), means, (1, 0))
            found, positive = nonnegative(ridged(by_bin), wanted @ means, positive)
            whole = found.sum()
            if whole <= 0:
                break
            change = np.abs(found / whole - shares).sum()
            shares, means = found / whole, means * whole
            if change < _CLOSE:
                break
        return Fit(self, shares, means)


@dataclass(frozen=True, eq=False)
class Fit:
    """Shares by bin, which sum to 1, and means by arm."""

    model: Model
    shares: Vector
    means: Vector

    @property
    def weights(self) -> Vector:
        """What each column counts."""
        return np.outer(self.shares, self.means).ravel()

    @property
    def mean_lag(self) -> float:
        """The mean lag."""
        middles = (self.model.edges[:-1] + self.model.edges[1:] - 1) / 2
        return float(self.shares @ middles)

    def landed(self, lags: Slots) -> Vector:
        """The share that has landed by each lag."""
        landed: Vector = np.interp(lags + 1.0, self.model.edges, np.append(0.0, np.cumsum(self.shares)))
        return landed

    def over(self, share: float) -> float:
        """The lag by which so much has landed."""
        landed = np.append(0.0, np.cumsum(self.shares))
        return max(float(np.interp(share, landed, self.model.edges)) - 1.0, 0.0)


def ridged(matrix: Matrix) -> Matrix:
    """A matrix of products that can be solved."""
    ridge = _RIDGE * max(float(np.trace(matrix)) / len(matrix), 1e-12)
    return matrix + ridge * np.eye(len(matrix))


def nonnegative(gram: Matrix, target: Vector, positive: Mask) -> tuple[Vector, Mask]:
    """The x >= 0 with the least x' gram x - 2 x' target, by active sets (Lawson and Hanson); and where it is positive.

    A guess of that makes it quick.
    """

    def solved(free: Mask) -> Vector:
        x = np.zeros(len(target))
        x[free] = np.linalg.solve(gram[np.ix_(free, free)], target[free])
        return x

    free = positive.copy()
    x = np.zeros(len(target))
    while free.any():
        x = solved(free)
        if (x[free] > 0).all():
            break
        free &= x > 0
        x = np.zeros(len(target))
    least = 1e-10 * np.abs(target).max(initial=0.0)
    for _ in range(3 * len(target)):
        gain = np.where(free, -np.inf, target - gram @ x)
        best = int(gain.argmax())
        if gain[best] <= least:
            break
        free[best] = True
        while True:
            wanted = solved(free)
            below = free & (wanted <= 0)
            if not below.any():
                x = wanted
                break
            step = (x[below] / np.maximum(x[below] - wanted[below], 1e-300)).min()
            x += step * (wanted - x)
            free &= x > 1e-14
            x[~free] = 0.0
            if not free.any():
                break
    return x, free
