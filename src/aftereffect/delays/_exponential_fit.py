"""A power-law tail as a sum of few exponentials, with a certificate.

What earlier pulls still have to deliver is a sum over all of them, O(T) per look. A tail that is a
sum of exponentials, tail(x) = sum of c_j exp(-lambda_j x), needs one number per term instead: S_j
<- exp(-lambda_j) S_j + reward in each slot.

The tail of a power law is an integral of exponentials, so a trapezoid in log lambda gives such a
sum, with a few hundred terms. Balanced truncation (two symmetric eigenproblems, on the lags up to
the horizon) finds the few rates that matter, and a least-squares fit their weights.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import Vector
from aftereffect.errors import ParameterError

#: The most that all lags together may miss of the tail: it bounds the error of every window's
#: total, on every path.
TOLERANCE = 1e-10

_STEP = 0.25
_SLOWEST, _FASTEST = 1e-2, 45.0
#: The numbers of terms that are tried.
_TERMS = range(16, 80, 4)
MAX_TERMS = _TERMS[-1]
_DENSE = 2_000
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 12


def hurwitz_zeta(s: float, start: ArrayLike) -> Vector:
    """The sum over k >= 0 of (start + k)^-s, for s > 1 and start > 0.

    By the formula of Euler and Maclaurin, with an error of about 1e-15.
    """
    a = np.asarray(start, dtype=float)
    head = sum((a + k) ** -s for k in range(_SHIFT))
    b = a + _SHIFT
    total = head + b ** (1 - s) / (s - 1) + b**-s / 2
    factor = s * b ** (-s - 1) / 2
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + bernoulli * factor
        factor = factor * (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2) * b**2)
    zeta: Vector = total
    return zeta


@cache
def fit_exponentials(gamma: float, horizon: int) -> tuple[Vector, Vector]:
    """Rates and weights of the fewest terms that miss at most `TOLERANCE` of the tail.

    That is the sum of their errors at the lags 0 .. horizon.
    """
    rates, weights = _trapezoid(gamma, horizon)
    lags, widths = _grid(horizon)
    tail = hurwitz_zeta(gamma, lags + 1) / hurwitz_zeta(gamma, 1)
    for terms in _TERMS:
        fewer = _truncate(rates, weights, horizon, min(terms, len(rates)))
        powers = np.exp(-np.outer(lags, fewer))
        scaled = powers * widths[:, None]
        norms = np.linalg.norm(scaled, axis=0)
        fit = np.linalg.lstsq(scaled / norms, tail * widths, rcond=1e-15)[0] / norms
        if np.abs(tail - powers @ fit) @ widths <= TOLERANCE:
            return fewer, fit
    raise ParameterError(
        f"power-law({gamma:g}) cannot be simulated roundwise to within {TOLERANCE:g} "
        f"over {horizon:,} slots: "
        "take a larger gamma, a shorter horizon, or the slotwise engine"
    )


def _trapezoid(gamma: float, horizon: int) -> tuple[Vector, Vector]:
    """The tail as a sum of exponentials, by the trapezoid rule in steps of log t.

    tail(x) = integral of t^(gamma-1) e^(-x t) / ((e^t - 1) Gamma(gamma) zeta(gamma)) dt.
    """
    slowest = math.log(_SLOWEST / horizon)
    rates = np.exp(np.arange(slowest, math.log(_FASTEST), _STEP))
    norm = math.gamma(gamma) * float(hurwitz_zeta(gamma, 1))
    weights = _STEP * rates**gamma / np.expm1(rates) / norm
    weights[0] += math.exp((slowest - _STEP / 2) * (gamma - 1)) / (
        (gamma - 1) * norm
    )  # all that is slower still
    return rates, weights


def _truncate(rates: Vector, weights: Vector, horizon: int, terms: int) -> Vector:
    """The rates of the balanced truncation of a sum of exponentials on the lags 0 .. horizon."""
    root = np.sqrt(weights)
    sums = rates[:, None] + rates
    gramian = root[:, None] * root * np.expm1(-sums * (horizon + 1)) / np.expm1(-sums)
    _, vectors = np.linalg.eigh(gramian)
    chosen = vectors[:, -terms:]
    # 1 - exp(-rate) instead of exp(-rate): slow rates differ from 0, but their exponentials not
    # from 1.
    losses = np.linalg.eigvalsh(chosen.T @ (-np.expm1(-rates)[:, None] * chosen))
    slower: Vector = -np.log1p(-np.clip(losses, 0, 1 - 1e-16))
    return slower


def _grid(horizon: int) -> tuple[Vector, Vector]:
    """Lags to check, each at first and then evenly in log time, and how many lags each stands for.

    The error of a fit of at most 80 terms changes sign about as often as it has terms, so thousands
    of points per path miss nothing of it.
    """
    lags = np.arange(min(horizon, _DENSE) + 1, dtype=float)
    if horizon > _DENSE:
        lags = np.unique(np.append(lags, np.round(np.geomspace(_DENSE, horizon, 3_000))))
    return lags, np.append(np.diff(lags), 1.0)
