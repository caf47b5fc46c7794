"""How well delays explain the totals of a history, for one model of the noise.

The rewards of arms are normal around the level, with an unknown standard deviation. They are
integrated out, so that many arms explain noise no better than few.
"""

import math

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.lag._model import Cube, Noise

#: Standard deviations of rewards that are tried, relative to that of a whitened slot's noise.
RELATIVE_DEVIATIONS = 10.0 ** np.arange(-2, 3.1, 0.5)
#: Numbers held in memory at a time.
MAX_CELLS = 4_000_000


class Evidence:
    """Sums over slots that comparing delays needs, for one model of the noise.

    Parameters
    ----------
    shares
        x(t, b, k): which arms were played at which lags before each slot.
    totals
        The total of each slot.
    columns
        The level, drift and patterns.
    noise, inflation
        The noise, and the factor by which its variance is larger than fitted.
    observed
        The slots whose totals count.
    """

    def __init__(
        self,
        shares: Cube,
        totals: Vector,
        columns: Matrix,
        noise: Noise,
        inflation: float,
        observed: Slots,
    ) -> None:
        slots, self.bins, self.arms = shares.shape
        rows = np.concatenate([shares.reshape(slots, -1), totals[:, None], columns], axis=1)
        white = noise.whiten(rows)[observed]
        size = columns.shape[1]
        nuisance, triangle = np.linalg.qr(white[:, -size:])
        rest = white[:, :-size] - nuisance @ (nuisance.T @ white[:, :-size])
        design, target = rest[:, :-1], rest[:, -1]
        variance = noise.variance * inflation
        self.gram: Matrix = (design.T @ design / variance).reshape(self.bins, -1)
        self.target: Matrix = (design.T @ target / variance).reshape(self.bins, self.arms)
        self.variance = variance
        free = len(observed) - size
        #: The log-likelihood of the totals if no arm matters, up to a constant.
        self.without_arms: float = -0.5 * (
            noise.log_determinant(slots) * len(observed) / slots
            + free * math.log(inflation)
            + 2 * float(np.log(np.abs(np.diag(triangle))).sum())
            + float(target @ target) / variance
        )

    def log_ratio(self, shares: Matrix, arms: slice = slice(None)) -> Vector:
        """The log-likelihood of the totals with these shares minus that if no arm matters.

        Each row of `shares` is one delay; `arms` selects the arms that may matter.
        """
        gram, target = self._by_arm(shares)
        values, vectors = np.linalg.eigh(gram[:, arms, arms])
        values = np.maximum(values, 0.0)
        along = np.square(np.einsum("nkl,nk->nl", vectors, target[:, arms]))
        prior = (self.variance * RELATIVE_DEVIATIONS**2)[:, None, None]
        logs = 0.5 * (along * prior / (1 + prior * values) - np.log1p(prior * values)).sum(axis=-1)
        best = logs.max(axis=0)
        result: Vector = best + np.log(np.exp(logs - best).mean(axis=0))
        return result

    def effects(self, shares: Vector) -> tuple[Vector, float]:
        """The rewards of the arms, given the shares, and how many free parameters they are."""
        gram, target = (each[0] for each in self._by_arm(shares[None]))
        best, effects, free = -np.inf, np.zeros(self.arms), 0.0
        for prior in self.variance * RELATIVE_DEVIATIONS**2:
            regularised = gram + np.eye(self.arms) / prior
            found = np.linalg.solve(regularised, target)
            log = 0.5 * (float(target @ found) - float(np.linalg.slogdet(prior * regularised)[1]))
            if log > best:
                best, effects, free = (
                    log,
                    found,
                    float(np.trace(np.linalg.solve(regularised, gram))),
                )
        return effects, free

    def _by_arm(self, shares: Matrix) -> tuple[Cube, Matrix]:
        gram = np.empty((len(shares), self.arms, self.arms))
        step = max(1, MAX_CELLS // self.gram.shape[1])
        for first in range(0, len(shares), step):
            some = shares[first : first + step]
            half = (some @ self.gram).reshape(-1, self.arms, self.bins, self.arms)
            gram[first : first + step] = np.einsum("nkbl,nb->nkl", half, some)
        return gram, shares @ self.target
