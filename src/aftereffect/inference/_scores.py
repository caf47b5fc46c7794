"""What each block says of its arm: a score.

The score of a block is how much larger totals were than expected, while effects of the block
arrived. Expected is what earlier totals say. If all arms are the same, totals do not depend on
draws. So the score of a block times (1 if the arm was drawn, else 0, less the probability of the
arm) is 0 on average, given all that was before: a martingale over blocks, whatever the totals are.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._baseline import (
    Baseline,
    fit_baseline,
    learn_season,
    list_columns,
    measure_windows,
)
from aftereffect.inference._trial import Trial, add_delayed, spread_by_arm, spread_by_block

#: The windows after which a baseline is learned for the first time; and it is learned again when
#: there are so many times as many.
_FIRST_WINDOWS, _AGAIN = 12, 1.3
#: Residuals beyond so many deviations are cut in scores: totals have bursts.
_CUT = 1.5


class Segment(NamedTuple):
    """Blocks between two times at which a baseline was learned, in the order of their starts.

    `values` are logarithms of totals over what is usual, by window, and `parts` those of each arm
    in what arrives. A lift of an arm (a logarithm) changes them, and also what the past says of the
    level and season: `tilts` say how, by window and arm. `filter` makes of them residuals in units
    of their noise; its first windows are only for that. `loads` say how a block weighs residuals,
    by block and window; it is also what a lift of its own arm adds to them. `around` is what
    other blocks add for a lift of an arm, as it is expected when the block begins, by arm, block
    and window. `lifts` are those that were estimated before. `draws` and `chances` are those of the
    blocks, and `starts` their first slots. A block has settled when the first `slots` slots are
    known.
    """

    values: Vector
    parts: Matrix
    tilts: Matrix
    filter: Vector
    loads: Matrix
    around: NDArray[np.float64]
    lifts: Vector
    draws: Matrix
    chances: Matrix
    starts: Slots
    slots: Slots

    def score(self, lifts: Matrix) -> Matrix:
        """The scores of the blocks, by block, under several lifts of all arms: one per column."""
        left = self.values[:, None] - np.log(self.parts @ np.exp(lifts)) - self.tilts @ lifts
        residuals = add_delayed(self.filter, left)[len(left) - self.loads.shape[1] :]
        scores: Matrix = self.loads @ _cut(residuals)
        return scores

    def expect(self, arm: int, lift: float) -> Matrix:
        """What a lift of an arm adds to each score: if another arm is drawn, and if this one is."""
        around = self.around[arm]
        if_other = (self.loads * _cut(lift * around)).sum(axis=1)
        if_this = (self.loads * _cut(lift * (around + self.loads))).sum(axis=1)
        return np.stack([if_other, if_this])

    @property
    def own(self) -> Vector:
        """The variance of scores if noise is white."""
        squares: Vector = (self.loads**2).sum(axis=1)
        return squares


def _cut(residuals: Matrix) -> Matrix:
    cut: Matrix = np.clip(residuals, -_CUT, _CUT)
    return cut


def list_segments(trial: Trial) -> list[Segment]:
    """All blocks up to the first that has not settled, from when the first baseline was learned."""
    segments = []
    for first, last, baseline in _learn_baselines(trial):
        segments.append(_weigh_blocks(trial, first, last, baseline))
        if len(segments[-1].starts) < last - first:
            break
    return segments


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
    window, shares, demand = trial.window, baseline.shares, baseline.demand
    begin, whole = int(trial.starts[first]) // window, len(trial.totals) // window
    settled = (trial.ends + len(shares) - 2) // window + 1  # windows
    settled[-1] = whole + 1  # the last block may go on
    stop = min(int(settled[last - 1]), whole)
    values, parts = measure_windows(trial, shares, demand, baseline.season)
    is_known = ~np.isnan(values)
    # Under other lifts the past would have shown another level and season.
    columns = list_columns(trial)
    tilts = columns @ baseline.slopes
    expected = columns @ (baseline.offsets - baseline.slopes @ baseline.lifts)
    # What is missing counts as expected.
    as_expected = np.log(parts @ np.exp(baseline.lifts)) + tilts @ baseline.lifts
    values = np.where(is_known, values - expected, as_expected)
    # Of earlier blocks, those count whose effects arrive in these windows, or shortly before.
    memory = len(baseline.filter) - 1
    before = max(begin - memory, 0)
    oldest = min(int(np.searchsorted(settled, begin - memory, side="right")), first)
    newest = int(np.searchsorted(trial.starts, stop * window))
    origin = int(trial.starts[oldest]) // window
    arrived = trial.add_up(spread_by_arm(trial, shares, demand)).sum(axis=1)
    by_block = spread_by_block(trial, shares, demand, oldest, newest, stop - origin)
    by_block = by_block / arrived[origin:stop, None]
    all_loads = (add_delayed(baseline.filter, by_block) / baseline.scale)[begin - origin :]
    over = np.arange(first, last)[np.logical_and.accumulate(settled[first:last] <= whole)]
    counts = is_known[begin:stop] & (np.arange(begin, stop) < settled[over, None])
    draws, chances = trial.draws(), trial.probabilities[over]
    # Arms of earlier blocks are known when a block begins; those of later ones have its chances.
    is_earlier = np.arange(oldest, newest) < over[:, None]
    is_later = np.arange(oldest, newest) > over[:, None]
    around = np.stack(
        [
            (is_earlier * draws[oldest:newest, arm] + is_later * chances[:, [arm]]) @ all_loads.T
            for arm in range(trial.arms)
        ]
    )
    return Segment(
        values=values[before:stop],
        parts=parts[before:stop],
        tilts=tilts[before:stop],
        filter=baseline.filter / baseline.scale,
        loads=np.where(counts, all_loads[:, over - oldest].T, 0.0),
        around=around,
        lifts=baseline.lifts,
        draws=draws[over],
        chances=chances,
        starts=trial.starts[over],
        slots=settled[over] * window,
    )
