"""How the demand of slots arrives in windows, by arm and by block."""

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.inference._trial import Trial


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
    by_arm = np.zeros((len(demand), trial.arms))
    by_arm[:lead, trial.control] = demand[:lead]
    by_arm[np.arange(lead, len(demand)), trial.played] = demand[lead:]
    return add_delayed(shares, by_arm)[lead:]


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
