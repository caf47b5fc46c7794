"""A power-law tail as a sum of few exponentials, with a certificate.

What earlier pulls still have to deliver is a sum over all of them, O(T) per look. A tail that is a sum of exponentials,
tail(x) = sum of c_j exp(-lambda_j x), needs one number per term instead: S_j <- exp(-lambda_j) S_j + reward in each slot.

The tail of a power law is an integral of exponentials, so a trapezoid in log lambda gives such a sum, with a few hundred
terms. Balanced truncation (two symmetric eigenproblems, on the lags up to the horizon) finds the few rates that matter, and
a least-squares fit their weights.
"""

import math
from functools import cache

import numpy as np

from aftereffect.errors import ParameterError
from aftereffect.kernels import Vector
from aftereffect.spreads.power_law import PowerLaw, hurwitz_zeta

#: The most that all lags together may miss of the tail: it bounds the error of every window's total, on every path.
TOLERANCE = 1e-10

_STEP = 0.25
_SLOWEST, _FASTEST = 1e-2, 45.0
_TERMS = range(16, 80, 4)
_DENSE = 2_000


@cache
def exponential_fit(spread: PowerLaw, horizon: int) -> tuple[Vector, Vector]:
    """Rates and weights of the fewest terms whose errors at the lags 0 .. horizon sum to at most `TOLERANCE`."""
    rates, weights = _trapezoid(spread.gamma, horizon)
    lags, widths = _grid(horizon)
    tail = spread.tail(lags)
    for terms in _TERMS:
        fewer = _truncated(rates, weights, horizon, min(terms, len(rates)))
        powers = np.exp(-np.outer(lags, fewer))
        scaled = powers * widths[:, None]
        norms = np.linalg.norm(scaled, axis=0)
        fit = np.linalg.lstsq(scaled / norms, tail * widths, rcond=1e-15)[0] / norms
        if np.abs(tail - powers @ fit) @ widths <= TOLERANCE:
            return fewer, fit
    raise ParameterError(
        f"{spread} cannot be simulated roundwise to within {TOLERANCE:g} over {horizon:,} slots: "
        "take a larger gamma, a shorter horizon, or the slotwise engine"
    )


def _trapezoid(gamma: float, horizon: int) -> tuple[Vector, Vector]:
    """tail(x) = integral of t^(gamma-1) e^(-x t) / ((e^t - 1) Gamma(gamma) zeta(gamma)) dt, in steps of log t."""
    slowest = math.log(_SLOWEST / horizon)
    rates = np.exp(np.arange(slowest, math.log(_FASTEST), _STEP))
    norm = math.gamma(gamma) * float(hurwitz_zeta(gamma, 1))
    weights = _STEP * rates**gamma / np.expm1(rates) / norm
    weights[0] += math.exp((slowest - _STEP / 2) * (gamma - 1)) / ((gamma - 1) * norm)  # all that is slower still
    return rates, weights


def _truncated(rates: Vector, weights: Vector, horizon: int, terms: int) -> Vector:
    """The rates of the balanced truncation of a sum of exponentials on the lags 0 .. horizon."""
    root = np.sqrt(weights)
    sums = rates[:, None] + rates
    gramian = root[:, None] * root * np.expm1(-sums * (horizon + 1)) / np.expm1(-sums)
    _, vectors = np.linalg.eigh(gramian)
    kept = vectors[:, -terms:]
    # 1 - exp(-rate) instead of exp(-rate): slow rates differ from 0, but their exponentials not from 1.
    losses = np.linalg.eigvalsh(kept.T @ (-np.expm1(-rates)[:, None] * kept))
    slower: Vector = -np.log1p(-np.clip(losses, 0, 1 - 1e-16))
    return slower


def _grid(horizon: int) -> tuple[Vector, Vector]:
    """Lags at which to look, every one at first and then evenly in log time, and how many lags each stands for.

    The error of a fit of at most 80 terms changes sign about as often as it has terms, so thousands of points per path miss
    nothing of it.
    """
    lags = np.arange(min(horizon, _DENSE) + 1, dtype=float)
    if horizon > _DENSE:
        lags = np.unique(np.append(lags, np.round(np.geomspace(_DENSE, horizon, 3_000))))
    return lags, np.append(np.diff(lags), 1.0)
