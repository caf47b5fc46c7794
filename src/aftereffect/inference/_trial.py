"""What an experiment recorded: totals by slot, draws by block, and how their demand arrives."""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, Slots, Vector
from aftereffect.delays import LagLaw
from aftereffect.errors import ParameterError


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
