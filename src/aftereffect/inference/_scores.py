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
from aftereffect.inference._baseline import Baseline, Baselines, Explanation, list_columns
from aftereffect.inference._trial import (
    Trial,
    add_delayed,
    learn_season,
    spread_by_arm,
    spread_by_block,
)

#: The windows after which a baseline is learned for the first time; and it is learned again when
#: there are so many times as many.
_FIRST_WINDOWS, _AGAIN = 12, 1.3
#: The most blocks of a segment: its memory grows with their square.
MAX_BLOCKS = 100
#: Residuals beyond so many deviations are cut in scores: totals have bursts.
_CUT = 1.5
#: The largest bet on one block: totals have bursts.
_MAX_BET = 4.0


class View(NamedTuple):
    """The totals of windows as one delay explains them.

    `values` are logarithms of totals over what is usual, by window, and `parts` those of each arm
    in what arrives. A lift of an arm (a logarithm) changes them, and also what the past says of the
    level and season: `tilts` say how, by window and arm. `lifts` are those that were estimated
    before.
    """

    values: Vector
    parts: Matrix
    tilts: Matrix
    lifts: Vector


class Segment(NamedTuple):
    """Blocks between two times at which a baseline was learned, in the order of their starts.

    The first of the `views` has the mean delay, and further ones have other plausible delays:
    `plausible` and `stands_for` are those of the `Baseline`.
    `filter` makes residuals of totals, in units of their noise; the first windows are only for
    that. `loads` say how a block weighs residuals, by block and window; it is also what a lift of
    its own arm adds to them. `around` is what other blocks add for a lift of an arm, as it is
    expected when the block begins, by arm, block and window. `draws` and `chances` are those of the
    blocks, and `starts` their first slots. A block has settled when the first `slots` slots are
    known.
    """

    views: list[View]
    filter: Vector
    loads: Matrix
    around: NDArray[np.float64]
    draws: Matrix
    chances: Matrix
    starts: Slots
    slots: Slots
    stands_for: Slots
    plausible: Slots

    def score(self, view: View, lifts: Matrix) -> Matrix:
        """The scores of the blocks, by block, under several lifts of all arms: one per column."""
        left = view.values[:, None] - np.log(view.parts @ np.exp(lifts)) - view.tilts @ lifts
        residuals = add_delayed(self.filter, left)[len(left) - self.loads.shape[1] :]
        scores: Matrix = self.loads @ cut(residuals)
        return scores

    def expect(self, arm: int, lift: float) -> Matrix:
        """What a lift of an arm adds to each score: if another arm is drawn, and if this one is."""
        around = self.around[arm]
        if_other = (self.loads * cut(lift * around)).sum(axis=1)
        if_this = (self.loads * cut(lift * (around + self.loads))).sum(axis=1)
        return np.stack([if_other, if_this])

    @property
    def scores_per_block(self) -> int:
        """Each block has one."""
        return 1

    def list_squares(self) -> Vector:
        """The squares of scores; 1 on average if noise is white."""
        view = self.views[0]
        squares: Vector = self.score(view, view.lifts[:, None])[:, 0] ** 2 / self.own
        return squares

    def list_gains(
        self, square: Vector, arms: tuple[int, int], sizes: Vector, effects: Vector
    ) -> Iterator[Vector]:
        """The logarithms of what bets bring, by size, block and effect: one view after another."""
        arm, other = arms
        expected = np.array([self.expect(arm, size) for size in sizes])
        is_arm, is_other = self.draws[:, [arm, other]].T[:, :, None] > 0
        is_either, sign = is_arm | is_other, np.where(is_arm, -1.0, 1.0)
        chance, rest = self.chances[:, [arm, other]].T[:, :, None]
        drawn = np.where(is_arm, chance, rest) / np.maximum(chance + rest, 1e-300)
        if_other, if_this = np.swapaxes(expected, 0, 1)[:, :, :, None]
        weights, middle = (if_this - if_other) / (square * self.own)[:, None], if_this + if_other
        for view in self.views:
            lifts = np.repeat(view.lifts[:, None], len(effects), axis=1)
            lifts[arm] = lifts[other] + effects
            bets = weights * (self.score(view, lifts) - middle / 2)
            yield np.where(is_either, win(bets, drawn, sign), 0.0)

    @property
    def own(self) -> Vector:
        """The variance of scores if noise is white."""
        squares: Vector = np.maximum((self.loads**2).sum(axis=1), 1e-12)
        return squares


def cut(residuals: Matrix) -> Matrix:
    limited: Matrix = np.clip(residuals, -_CUT, _CUT)
    return limited


def win(bets: Vector, drawn: Vector, sign: Vector) -> Vector:
    """The logarithms of what bets on an arm bring: both formulas of `_sequence`.

    They are divided by what stands over the line. `drawn` is the probability of what was drawn:
    the arm, where `sign` is -1, or the other one, where it is 1.
    """
    limited = np.clip(bets, -_MAX_BET, _MAX_BET)
    gains: Vector = -np.log(drawn + (1 - drawn) * np.exp(sign * limited))
    return gains


def list_segments(trial: Trial) -> list[Segment]:
    """All blocks up to the first that has not settled, from when the first baseline was learned."""
    segments, columns = [], list_columns(trial)
    for first, last, baseline in _learn_baselines(trial):
        segments.append(_weigh_blocks(trial, columns, first, last, baseline))
        if len(segments[-1].starts) < last - first:
            break
    return segments


def list_looks(trial: Trial, windows: int = _FIRST_WINDOWS) -> Iterator[tuple[int, int, int]]:
    """When a baseline is learned: blocks from a first to before a last, and windows before them."""
    whole = len(trial.totals) // trial.window
    while windows < whole:
        slots, next_windows = windows * trial.window, int(windows * _AGAIN) + 1
        first = int(np.searchsorted(trial.starts, slots))
        last = int(np.searchsorted(trial.starts, next_windows * trial.window))
        yield first, last, windows
        windows = next_windows


def _learn_baselines(trial: Trial) -> Iterator[tuple[int, int, Baseline]]:
    """Blocks from a first to before a last, with the baseline that was learned before them."""
    # There may not be a whole window yet.
    if len(trial.totals) // trial.window <= _FIRST_WINDOWS:
        return
    baselines = Baselines(trial, learn_season(trial))
    for first, last, windows in list_looks(trial):
        if np.nanmax(trial.totals[: windows * trial.window], initial=0.0) > 0:
            baseline = baselines.learn(windows)
            for begin in range(first, last, MAX_BLOCKS):
                yield begin, min(begin + MAX_BLOCKS, last), baseline


def _weigh_blocks(
    trial: Trial, columns: Matrix, first: int, last: int, baseline: Baseline
) -> Segment:
    """Those of these blocks that have settled."""
    window, mean = trial.window, baseline.explanations[0].candidate
    shares, demand = mean.shares, mean.demand
    begin, whole = int(trial.starts[first]) // window, len(trial.totals) // window
    settled = (trial.ends + len(shares) - 2) // window + 1  # windows
    settled[-1] = whole + 1  # the last block may go on
    stop = min(int(settled[last - 1]), whole)
    # Of earlier blocks, those count whose effects arrive in these windows, or shortly before.
    memory = len(baseline.filter) - 1
    before = max(begin - memory, 0)
    oldest = min(int(np.searchsorted(settled, begin - memory, side="right")), first)
    newest = int(np.searchsorted(trial.starts, stop * window))
    origin = int(trial.starts[oldest]) // window
    whitener, places = baseline.filter / baseline.scale, columns[before:stop]
    views = [_look(each, places, before, stop) for each in baseline.explanations]
    arrived = trial.add_up(spread_by_arm(trial, shares, demand)).sum(axis=1)
    by_block = spread_by_block(trial, shares, demand, oldest, newest, stop - origin)
    by_block = by_block / arrived[origin:stop, None]
    all_loads = add_delayed(whitener, by_block)[begin - origin :]
    over = np.arange(first, last)[np.logical_and.accumulate(settled[first:last] <= whole)]
    is_known = ~np.isnan(mean.values[begin:stop])
    counts = is_known & (np.arange(begin, stop) < settled[over, None])
    draws, chances = trial.draws(), trial.probabilities[over]
    # Arms of earlier blocks are known when a block begins; those of later ones have its chances.
    is_earlier = np.arange(oldest, newest) < over[:, None]
    is_later = np.arange(oldest, newest) > over[:, None]
    tilts = add_delayed(whitener, views[0].tilts)[begin - before :]
    around = np.stack(
        [
            (is_earlier * draws[oldest:newest, arm] + is_later * chances[:, [arm]]) @ all_loads.T
            + tilts[:, arm]
            for arm in range(trial.arms)
        ]
    )
    return Segment(
        views=views,
        filter=whitener,
        loads=np.where(counts, all_loads[:, over - oldest].T, 0.0),
        around=around,
        draws=draws[over],
        chances=chances,
        starts=trial.starts[over],
        slots=settled[over] * window,
        stands_for=baseline.stands_for,
        plausible=baseline.plausible,
    )


def _look(explanation: Explanation, columns: Matrix, first: int, last: int) -> View:
    """The windows from `first` to before `last`, which have the given columns."""
    candidate, lifts = explanation.candidate, explanation.lifts
    # A copy, since a slice would keep the windows of the whole trial in memory.
    parts, values = candidate.parts[first:last].copy(), candidate.values[first:last]
    # Under other lifts the past would have shown another level and season.
    tilts = columns @ explanation.slopes
    expected = columns @ (explanation.offsets - explanation.slopes @ lifts)
    # What is missing counts as expected.
    as_expected = np.log(parts @ np.exp(lifts)) + tilts @ lifts
    return View(np.where(np.isnan(values), as_expected, values - expected), parts, tilts, lifts)
