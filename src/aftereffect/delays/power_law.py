"""The power-law delay: shares that fall like a power of the lag, without an end.

What earlier pulls still have to deliver is a sum over all of them, O(T) each time it is needed. A
tail that is a sum of exponentials, tail(x) = sum of c_j exp(-lambda_j x), needs one number per term
instead: S_j <- exp(-lambda_j) S_j + reward in each slot; what is pending is the sum of c_j S_j.

The tail of a power law is an integral of exponentials, so a trapezoid in log lambda gives such a
sum, with a few hundred terms. Balanced truncation (two symmetric eigenproblems, on the lags up to
the horizon) finds the few rates that matter, and a least-squares fit their weights. The sum misses
less than 1e-10 of the tail in all. The slot of every pull matters for ever, so each is drawn, and a
replication costs O(T).

Where rewards are 0 or 1, eight pulls are drawn at a time, as the bits of a byte, and what each of
the 256 bytes adds to each S_j is looked up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import (
    ArmKey,
    BytePulls,
    Matrix,
    Memory,
    OnePull,
    RewardSource,
    Source,
    Vector,
    check_float,
    register,
)
from aftereffect.delays._engines import CollectRow, Recipe, Size, as_lags
from aftereffect.delays.base import LagLaw
from aftereffect.delays.geometric import tabulate_bytes
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


#: Pulls in some slots; returns what they generate.
Play: TypeAlias = Callable[
    [Memory, Matrix, int, Source, ArmKey, int, int, np.random.Generator], float
]


@register
@dataclass(frozen=True)
class PowerLaw(LagLaw):
    """Shares in proportion to lag^-gamma at the lags 1, 2, 3, ... without an end.

    Parameters
    ----------
    gamma
        The exponent, above 1. Up to 2 the mean lag is infinite, and Theorem 1 says nothing.

    Examples
    --------
    >>> round(PowerLaw(3).mean_lag, 6)
    1.368433
    """

    gamma: float

    def __post_init__(self) -> None:
        self._set(gamma=check_float("gamma", self.gamma, above=1, at_most=50))

    @cached_property
    def _norm(self) -> float:
        return float(hurwitz_zeta(self.gamma, 1))

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def mean_lag(self) -> float:
        if self.gamma <= 2:
            return math.inf
        return float(hurwitz_zeta(self.gamma - 1, 1)) / self._norm

    @property
    def lag_variance(self) -> float:
        if self.gamma <= 3:
            return math.inf
        return float(hurwitz_zeta(self.gamma - 2, 1)) / self._norm - self.mean_lag**2

    def share(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        return np.where(at < 1, 0.0, np.maximum(at, 1).astype(float) ** -self.gamma / self._norm)

    def tail(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        later = hurwitz_zeta(self.gamma, np.maximum(at, 0) + 1) / self._norm
        return np.where(at < 1, 1.0, later)

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        rates, weights = fit_exponentials(self.gamma, horizon)
        fades = np.exp(-rates)
        # The number of terms J, then J each of exp(-rate_j), weight_j and exp(-8 rate_j), then for
        # each byte the number of ones in it and the J numbers that it adds.
        table = np.concatenate(
            [[len(rates)], fades, weights, np.exp(-8 * rates), tabulate_bytes(fades).ravel()]
        )
        return Recipe(_collect_mixture(rewards), table, len(rates))

    def roundwise_size(self, horizon: int) -> Size:
        return Size(1 + 3 * MAX_TERMS + 256 * (1 + MAX_TERMS), MAX_TERMS)


@cache
def _play_pulls(one: OnePull) -> Play:
    """Play any rewards, pull by pull."""

    def play(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        rng: np.random.Generator,
    ) -> float:
        generated = 0.0
        for slot in range(t, t + slots):
            pulled = one(source, key, slot, rng)
            generated += pulled
            for term in range(int(tables[row, 0])):
                memory[row, term] = tables[row, term + 1] * memory[row, term] + pulled
        return generated

    return play


@cache
def _play_bytes(one: OnePull, byte: BytePulls) -> Play:
    """Play rewards of 0 or 1, eight pulls at a time as far as possible."""
    play_rest = _play_pulls(one)

    def play(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        rng: np.random.Generator,
    ) -> float:
        terms = int(tables[row, 0])
        first = 1 + 3 * terms
        # Views: only indices that plainly count from 0 become vector instructions.
        sums, fades = memory[row], tables[row, 1 + 2 * terms : first]
        generated = 0.0
        for _ in range(slots // 8):
            drawn = first + byte(source, key, rng) * (terms + 1)
            generated += tables[row, drawn]
            added = tables[row, drawn + 1 : drawn + 1 + terms]
            for term in range(terms):
                sums[term] = fades[term] * sums[term] + added[term]
        few = slots % 8
        return generated + play_rest(memory, tables, row, source, key, t + slots - few, few, rng)

    return play


@cache
def _collect_mixture(rewards: RewardSource) -> CollectRow:
    one = rewards.one
    play = _play_pulls(one) if rewards.byte is None else _play_bytes(one, rewards.byte)

    def sum_pending(memory: Memory, tables: Matrix, row: int) -> float:
        terms = int(tables[row, 0])
        total = 0.0
        for term in range(terms):
            total += tables[row, terms + term + 1] * memory[row, term]
        return total

    def collect(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        play(memory, tables, row, source, key, t, slots - window, rng)
        before = sum_pending(memory, tables, row)
        generated = play(memory, tables, row, source, key, t + slots - window, window, rng)
        return max(generated + before - sum_pending(memory, tables, row), 0.0)

    return collect
