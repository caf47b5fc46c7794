"""What each block says of its arm: a score.

The score of a block is how much larger totals were than expected, while effects of the block
arrived. Expected is what earlier totals say. If all arms are the same, totals do not depend on
draws. So the score of a block times (1 if the arm was drawn, else 0, less the probability of the
arm) is 0 on average, given all that was before: a martingale over blocks, whatever the totals are.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._arrivals import add_delayed, spread_by_arm, spread_by_block
from aftereffect.inference._baseline import (
    Baseline,
    fit_baseline,
    learn_season,
    list_columns,
    measure_windows,
)
from aftereffect.inference._trial import Trial

#: The windows after which a baseline is learned for the first time; and it is learned again when
#: there are so many times as many.
_FIRST_WINDOWS, _AGAIN = 12, 1.3
#: Residuals beyond so many deviations are cut in scores: totals have bursts.
_CUT = 1.5


class Segment(NamedTuple):
    """Blocks between two times at which a baseline was learned, in the order of their starts.

    Residuals are in units of their noise, by window: `white` without any effect of arms, and
    `sides` what a lift of each arm adds (lifts are logarithms). `loads` say how a block weighs
    them, by block and window. `lifts` are those that were estimated before. `draws` and `chances`
    are those of the blocks, and `starts` their first slots. A block has settled when the first
    `slots` slots are known.
    """

    white: Vector
    sides: Matrix
    loads: Matrix
    lifts: Vector
    draws: Matrix
    chances: Matrix
    starts: Slots
    slots: Slots

    def score(self, lifts: Matrix) -> Matrix:
        """The scores of the blocks, by block, under several lifts of all arms: one per column."""
        left = np.clip(self.white[:, None] - self.sides @ lifts, -_CUT, _CUT)
        scores: Matrix = self.loads @ left
        return scores

    def expect(self, lift: float) -> Vector:
        """What a lift of its arm adds to the score of each block."""
        shifts: Vector = (self.loads * np.clip(self.loads * lift, -_CUT, _CUT)).sum(axis=1)
        return shifts

    @property
    def own(self) -> Vector:
        """What a lift of its arm adds to the score of a block; its variance if noise is white."""
        squares: Vector = (self.loads**2).sum(axis=1)
        return squares


def list_segments(trial: Trial) -> list[Segment]:
    """All blocks whose effects have arrived, from when the first baseline was learned."""
    return [_weigh_blocks(trial, *each) for each in _learn_baselines(trial)]


def _learn_baselines(trial: Trial) -> Iterator[tuple[int, int, Baseline]]:
    """Blocks from a first to before a last, with the baseline that was learned before them."""
    season, before = learn_season(trial), None
    windows, whole = _FIRST_WINDOWS, len(trial.totals) // trial.window
    while windows < whole:
        slots, next_windows = windows * trial.window, int(windows * _AGAIN) + 1
        past = trial._replace(
            totals=trial.totals[:slots], played=trial.played[:slots], places=trial.places[:slots]
        )
        if np.isnan(past.totals).all() or np.nanmax(past.totals) <= 0:
            windows = next_windows
            continue
        before = fit_baseline(past, season, before)
        first = int(np.searchsorted(trial.starts, slots))
        last = int(np.searchsorted(trial.starts, next_windows * trial.window))
        if first < last and before.is_clear:
            yield first, last, before
        windows = next_windows


def _weigh_blocks(trial: Trial, first: int, last: int, baseline: Baseline) -> Segment:
    """Those of these blocks that have settled."""
    window, shares, season = trial.window, baseline.shares, baseline.season
    settled = (trial.ends[first:last] + len(shares) - 2) // window + 1  # windows
    begin, whole = int(trial.starts[first]) // window, len(trial.totals) // window
    stop = min(int(settled[-1]), whole)
    values, parts = measure_windows(trial, shares, season, baseline.shows_demand)
    is_known = ~np.isnan(values)
    # What is missing counts as expected.
    expected = list_columns(trial) @ baseline.offsets
    left = np.where(is_known, values - expected, parts @ baseline.lifts)
    arrived = trial.add_up(spread_by_arm(trial, shares, season)).sum(axis=1)
    # Blocks begin after the baseline was learned: nothing of them is in earlier windows.
    by_block = spread_by_block(trial, shares, season, first, last, stop - begin)
    loads = add_delayed(baseline.filter, by_block / arrived[begin:stop, None]) / baseline.scale
    counts = is_known[begin:stop, None] & (np.arange(begin, stop)[:, None] < settled)
    over = np.flatnonzero(settled <= whole)
    blocks = first + over
    return Segment(
        white=add_delayed(baseline.filter, left)[begin:stop] / baseline.scale,
        sides=add_delayed(baseline.filter, parts)[begin:stop] / baseline.scale,
        loads=np.where(counts, loads, 0.0)[:, over].T,
        lifts=baseline.lifts,
        draws=trial.draws()[blocks],
        chances=trial.probabilities[blocks],
        starts=trial.starts[blocks],
        slots=settled[over] * window,
    )
