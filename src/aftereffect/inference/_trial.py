"""What an experiment recorded, and what its totals say if one delay or another is the right one.

A delay changes two things: which part of a total each arm has brought, and what is usual. A history
either has the same delay, so that it shows what is usual of totals; or it shows demand, which then
arrives with the delay. Both are compared.
"""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, Slots, Vector
from aftereffect.delays import LagLaw
from aftereffect.errors import ParameterError
from aftereffect.policies import list_shapes

#: The weeks of history from which on its season is used.
_SEASON_WEEKS = 2
#: Totals, and what is usual at a place, are at least this part of what is usual on average.
FLOOR = 0.02
#: The prior of a delay falls with this power of its mean lag.
_LAG_POWER = 0.5
#: The steps by which the delay of a season is undone.
_UNDO_STEPS = 10


class Trial(NamedTuple):
    """An experiment: its totals by slot, and its draws by block.

    `totals` are NaN where they are not known, and `played` are the numbers of the arms. A block is
    a run of slots for which one arm was drawn: it begins at `starts`, the arm was `decided`, and
    each arm had its probability. Slots lie at `places` of the week. `history` are the totals before
    slot 0, when the `control` was played. `delay` is how effects arrive, if that is known.

    Examples
    --------
    >>> import numpy as np
    >>> trial = Trial(
    ...     totals=np.array([9.0, 8.0, 7.0, 9.5]),
    ...     played=np.array([0, 0, 1, 1]),
    ...     starts=np.array([0, 2]),
    ...     decided=np.array([0, 1]),
    ...     probabilities=np.array([[0.5, 0.5], [0.4, 0.6]]),
    ...     places=np.zeros(4, int),
    ... )
    >>> trial.arms, trial.window
    (2, 1)
    """

    totals: Vector
    played: Slots
    starts: Slots
    decided: Slots
    probabilities: Matrix
    places: Slots
    calendar: Calendar = Calendar()
    history: Vector = np.zeros(0)
    control: int = 0
    delay: LagLaw | None = None

    @property
    def arms(self) -> int:
        """The number of arms."""
        return int(self.probabilities.shape[1])

    @property
    def week(self) -> int:
        """The number of slots of a week; 1 if slots are longer than days."""
        return self.calendar.slots_per_week

    @property
    def window(self) -> int:
        """The number of slots whose totals are added up."""
        return self.calendar.window

    @property
    def ends(self) -> Slots:
        """The slot after the last of each block."""
        return np.append(self.starts[1:], len(self.totals))

    def draws(self) -> Matrix:
        """1 for the arm that was drawn, by block and arm."""
        return np.eye(self.arms)[self.decided]

    def add_up(self, by_slot: Matrix) -> Matrix:
        """Sums over whole windows; what is left at the end does not count."""
        count = len(by_slot) // self.window
        sums: Matrix = by_slot[: count * self.window].reshape(count, self.window, -1).sum(axis=1)
        return sums


class UnitTrial(NamedTuple):
    """An experiment with several units, such as stores: a trial for each of them.

    All have the same slots, blocks, probabilities and calendar. In each block, arms were dealt to
    all units: given how many units had each arm, every way of giving the arms to the units was as
    likely as every other. That is so for `unit-switchback` and `fixed-unit-switchback`.

    Examples
    --------
    >>> import numpy as np
    >>> chances, places = np.array([[0.5, 0.5]]), np.zeros(2, int)
    >>> def make(arm):
    ...     played = np.full(2, arm)
    ...     return Trial(np.ones(2), played, np.array([0]), played[:1], chances, places)
    >>> UnitTrial((make(0), make(1))).arms
    2
    """

    units: tuple[Trial, ...]

    @property
    def arms(self) -> int:
        """The number of arms."""
        return self.units[0].arms

    @property
    def control(self) -> int:
        """The number of the control."""
        return self.units[0].control


def list_units(trial: Trial | UnitTrial) -> tuple[Trial, ...]:
    """The trials of all units; a trial has one."""
    return trial.units if isinstance(trial, UnitTrial) else (trial,)


def check_trials(trial: Trial | UnitTrial) -> None:
    """Refuse what cannot be the record of an experiment."""
    units = list_units(trial)
    if not units:
        raise ParameterError("a trial of units must have at least one unit, got none")
    for unit in units:
        check_trial(unit)
    for number, unit in enumerate(units[1:], 1):
        for name in ("starts", "probabilities", "places", "calendar", "control", "delay"):
            if not np.array_equal(getattr(units[0], name), getattr(unit, name)):
                raise ParameterError(
                    f"all units must have the same {name}, as they are dealt together: unit "
                    f"{number} has other {name} than unit 0"
                )


def check_trial(trial: Trial) -> None:
    """Refuse what cannot be the record of an experiment."""
    slots, blocks = len(trial.totals), len(trial.starts)
    if not len(trial.played) == len(trial.places) == slots:
        raise ParameterError(
            f"totals, played and places must have the same length, got {slots:,}, "
            f"{len(trial.played):,} and {len(trial.places):,}"
        )
    if slots and not 0 <= trial.places.min() <= trial.places.max() < trial.week:
        raise ParameterError(
            f"places must be from 0 to {trial.week - 1:,}, the last slot of a week: give all as 0 "
            "if slots have no calendar"
        )
    if not len(trial.decided) == len(trial.probabilities) == blocks:
        raise ParameterError(
            f"starts, decided and probabilities must have one row per block, got {blocks:,}, "
            f"{len(trial.decided):,} and {len(trial.probabilities):,}"
        )
    if blocks and (trial.starts[0] != 0 or (np.diff(trial.starts) < 1).any()):
        raise ParameterError("starts must begin with 0 and increase")
    chances = trial.probabilities
    if (chances < 0).any() or not np.allclose(chances.sum(axis=1), 1, atol=1e-6):
        raise ParameterError("the probabilities of a block must be at least 0 and sum to 1")
    if blocks and (chances[np.arange(blocks), trial.decided] <= 0).any():
        raise ParameterError("an arm was drawn whose recorded probability is 0")


def add_delayed(shares: Vector, values: Matrix, axis: int = 0) -> Matrix:
    """The sum over lags of a share times the values before.

    >>> add_delayed(np.array([0.5, 0.5]), np.array([1.0, 2, 3]))
    array([0.5, 1.5, 2.5])
    """
    rows = np.moveaxis(values, axis, 0)
    sums = shares[0] * rows
    for lag in np.flatnonzero(shares[: len(rows)]):
        if lag:
            sums[lag:] += shares[lag] * rows[:-lag]
    return np.moveaxis(sums, 0, axis)


def spread_by_arm(trial: Trial, shares: Vector, season: Vector) -> Matrix:
    """What arrives in each slot, by the arm that brought it; before slot 0 that was the control.

    `season` is what is usual at each place in the week, as if there were no delay.
    """
    lead = len(shares) - 1
    first = trial.places[0] - lead
    demand = np.append(season[(first + np.arange(lead)) % trial.week], season[trial.places])
    is_played = np.zeros((len(demand), trial.arms))
    is_played[:lead, trial.control] = 1.0
    is_played[np.arange(lead, len(demand)), trial.played] = 1.0
    arrived = [np.convolve(demand * column, shares)[lead : len(demand)] for column in is_played.T]
    return np.column_stack(arrived)


def spread_history(trial: Trial, shares: Vector, season: Vector) -> Matrix:
    """What would have arrived in windows of the history, and what is usual, if both had the delay.

    Gaps of the history count as what is usual there.
    """
    history = trial.history
    usual = season[(trial.places[0] - len(history) + np.arange(len(history))) % trial.week]
    both = np.column_stack([np.where(np.isnan(history), usual, history), usual])
    return trial.add_up(add_delayed(shares, both)[len(shares) - 1 :])


def spread_by_block(
    trial: Trial, shares: Vector, season: Vector, first: int, last: int, windows: int
) -> Matrix:
    """What arrives from each of the blocks `first` to `last` - 1, in `windows` windows.

    The windows are counted from that in which the first of these blocks begins.
    """
    begin = trial.starts[first] // trial.window * trial.window
    starts, ends = trial.starts[first:last] - begin, trial.ends[first:last] - begin
    slots = windows * trial.window
    demand = season[trial.places[begin : begin + slots]]
    by_block = np.zeros((slots, len(starts)))
    for block, (start, end) in enumerate(zip(starts, np.minimum(ends, slots), strict=True)):
        arrived = np.convolve(demand[start:end], shares)[: slots - start]
        by_block[start : start + len(arrived), block] = arrived
    return trial.add_up(by_block)


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
