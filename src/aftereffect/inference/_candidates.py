"""Delays that may be the right one, and what the totals of windows say if one of them is.

A delay changes two things: which part of a total each arm has brought, and what is usual. A history
either has the same delay, so that it shows what is usual of totals; or it shows demand, which then
arrives with the delay. Both are compared.
"""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.inference._trial import Trial, spread_by_arm
from aftereffect.policies import list_shapes

#: The weeks of history from which on its season is used.
_SEASON_WEEKS = 2
#: Totals, and what is usual at a place, are at least this part of what is usual on average.
FLOOR = 0.02
#: The prior of a delay falls with this power of its mean lag.
_LAG_POWER = 0.5
#: The steps by which the delay of a season is undone.
_UNDO_STEPS = 10


class Candidate(NamedTuple):
    """A delay, and what the totals of windows are if it is the right one.

    `shares` are those of the delay by lag, and `demand` is its season by place in the week.
    `season` is that of totals; None if it is that of delayed demand. `prior` is a logarithm.
    `values` are logarithms of totals over what is usual, NaN if less than half of a window is
    known; `parts` say which part of a window each arm has brought.
    """

    shares: Vector
    demand: Vector
    season: Vector | None
    prior: float
    values: Vector
    parts: Matrix


class Family:
    """The delays of candidates, side by side, and how much of any two is `common`."""

    def __init__(self, candidates: list[Candidate]) -> None:
        longest = max((len(each.shares) for each in candidates), default=0)
        self.shares = np.array(
            [np.pad(each.shares, (0, longest - len(each.shares))) for each in candidates]
        )
        self.is_of_totals = np.array([each.season is not None for each in candidates])
        self.common = np.array([self.compare(each) for each in candidates])

    def compare(self, other: Candidate) -> Vector:
        """How much each delay and another one have in common; nothing if their seasons differ."""
        lags = min(self.shares.shape[1], len(other.shares))
        common = np.minimum(self.shares[:, :lags], other.shares[:lags]).sum(axis=1)
        found: Vector = np.where(self.is_of_totals == (other.season is not None), common, 0.0)
        return found


def learn_season(trial: Trial) -> Vector | None:
    """The median over the weeks of the history at each place; None if it has too few weeks."""
    week, history = trial.week, trial.history
    weeks = len(history) // week
    if week == 1 or weeks < _SEASON_WEEKS:
        return None
    rows = history[len(history) - weeks * week :].reshape(weeks, week)
    if np.isnan(rows).all(axis=0).any() or np.nanmean(rows) <= 0:
        return None
    usual = np.roll(np.nanmedian(rows, axis=0), trial.places[0])
    floored: Vector = np.maximum(usual, FLOOR * usual.mean())
    return floored


def undo_delays(season: Vector, shares: Matrix) -> Matrix:
    """The seasons of demand which, delayed by the shares of each row, would be the given season.

    A delay is undone step by step, by the ratio of what is given to what would arrive (the method
    of Richardson and Lucy). So all stays positive, and after few steps noise has not grown.
    """
    week, rows = len(season), len(shares)
    padded = np.pad(shares, ((0, 0), (0, -shares.shape[1] % week)))
    delays = np.fft.rfft(padded.reshape(rows, -1, week).sum(axis=1))
    demand = np.tile(season, (rows, 1))
    for _ in range(_UNDO_STEPS):
        arrives = np.maximum(np.fft.irfft(delays * np.fft.rfft(demand), week), 1e-300)
        demand = demand * np.fft.irfft(delays.conj() * np.fft.rfft(season / arrives), week)
    floored: Matrix = np.maximum(demand, FLOOR * season.mean())
    return floored


def list_candidates(trial: Trial, season: Vector, *, with_demand: bool) -> list[Candidate]:
    """All delays of the usual shapes; `with_demand`, also as if the season were that of demand."""
    shapes, found = list_shapes(trial.window, trial.delay), []
    demands = undo_delays(season, shapes.by_lag)
    for row, mean_lag in enumerate(shapes.mean_lags):
        shares = shapes.by_lag[row, : int(shapes.lags[row])]
        prior = -_LAG_POWER * float(np.log1p(mean_lag))
        found.append(make_candidate(trial, shares, demands[row], season, prior))
        if with_demand:
            found.append(make_candidate(trial, shares, season, None, prior))
    return found


def make_candidate(
    trial: Trial, shares: Vector, demand: Vector, season: Vector | None, prior: float = 0.0
) -> Candidate:
    """Measure the totals of windows as a delay explains them."""
    arrived = spread_by_arm(trial, shares, demand)
    by_slot = arrived.sum(axis=1) if season is None else season[trial.places]
    known = ~np.isnan(trial.totals)
    columns = np.where(known, trial.totals, 0.0), np.where(known, by_slot, 0.0), by_slot, known
    totals, usual, whole, slots = trial.add_up(np.column_stack(columns)).T
    floor = max(FLOOR * float(whole.mean()), 1e-300)
    values = np.log(np.maximum(totals, floor) / np.maximum(usual, floor))
    by_arm = trial.add_up(arrived)
    parts = by_arm / by_arm.sum(axis=1, keepdims=True)
    values = np.where(2 * slots >= trial.window, values, np.nan)
    return Candidate(shares, demand, season, prior, values, parts)
