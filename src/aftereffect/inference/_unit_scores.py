"""What each block says of the arms of several units: scores, and bets on how arms were dealt.

A block deals the arms to all units. Take two arms, a supposed effect of one of them, and the m
units that got either; r of them got the first. Given all that was before, r, and what the other
units got, every choice of r of the m units is as likely as every other: that is how policies deal
arms. With the supposed effects taken out, totals do not depend on that choice.
So neither do the scores of the units, which a gambler may know before he bets.

He goes through the units one after another. When r units with the first arm are left among m, the
next one has it with the probability q = r / m, as all choices are alike: exactly, given those that
were before it. With any number D that follows from the scores, he bets as in `_sequence` ::

    exp(D) / (q exp(D) + 1 - q)  if the unit has the first arm
         1 / (q exp(D) + 1 - q)  if it has the other

which has a mean of 1, given all before. So the product over units and blocks is a martingale, and
nothing was assumed but the deal. D is how much the score of the unit speaks for the first arm, less
the mean of that over the units that are left: with two units left, this is the logarithm of the
exact likelihood ratio. What is common to all units cancels, in D and already in the scores: these
are those of units apart from the mean of all. With m = 1, or if all m units got the same arm, q is
0 or 1, and nobody wins or loses. So a single unit is analysed by `_scores` instead.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._scores import MAX_BLOCKS, cut, list_looks, list_segments, win
from aftereffect.inference._sequence import Bets
from aftereffect.inference._trial import Trial, UnitTrial, list_units
from aftereffect.inference._unit_baseline import (
    Cube,
    UnitBaseline,
    UnitView,
    UnitWindows,
    learn_units,
)
from aftereffect.policies import apply_filter

#: The windows after which a baseline is learned for the first time.
_FIRST_WINDOWS = 6
#: The most blocks of a segment, times units: memory grows with both.
_MAX_BETS = 6_400


class UnitSegment(NamedTuple):
    """Blocks of several units, as in `Segment`.

    Arms are counted from the `control` on. `values` are those of windows by unit, `mixing` the
    weights of units in their mean, and `spreads` the deviations of their noise. `loads` say how a
    block weighs residuals, by block and window, and `around` what earlier blocks of a unit add to
    its scores for a lift of an arm, by block, unit and arm. `dealt` are the arms of the blocks.
    """

    views: list[UnitView]
    values: Matrix
    mixing: Matrix
    spreads: Vector
    filter: Vector
    loads: Matrix
    around: Cube
    dealt: Slots
    starts: Slots
    slots: Slots
    stands_for: Slots
    plausible: Slots
    control: int

    @property
    def scores_per_block(self) -> int:
        """One for each unit but one, since scores are apart from their mean."""
        return len(self.spreads) - 1

    @property
    def known(self) -> Matrix:
        """1 for totals that are known, else 0, by window from the first block on, and unit."""
        known: Matrix = ~np.isnan(self.values[len(self.values) - self.loads.shape[1] :]) * 1.0
        return known

    def score(self, view: UnitView, lifts: Matrix) -> Cube:
        """Scores by block, unit and column of lifts: of all arms but the control."""
        known = ~np.isnan(self.values)
        left = np.where(known, self.values, 0.0)[:, :, None] - np.log1p(
            view.parts @ np.expm1(lifts)
        )
        left -= self.mixing[:, None] @ left
        levels = view.levels[:, None] + view.tilts @ (lifts - view.lifts[:, None])
        left = np.where(known[:, :, None], left - levels, 0.0)
        white = apply_filter(self.filter, left)[len(left) - self.loads.shape[1] :]
        residuals = cut(white / self.spreads[:, None]) * self.known[:, :, None]
        scores: Cube = np.tensordot(self.loads, residuals, 1)
        return scores

    def list_squares(self) -> Vector:
        """The mean squares of scores by block, of units apart from their mean."""
        if not len(self.starts):
            return np.zeros(0)
        scores = self.score(self.views[0], self.views[0].lifts[:, None])[:, :, 0]
        count = scores.shape[1]
        expected = np.maximum((self.loads**2 @ self.known).sum(axis=1), 1e-12)
        squares: Vector = (scores**2).sum(axis=1) / expected * count / max(count - 1, 1)
        return squares

    def list_gains(
        self, square: Vector, arms: tuple[int, int], sizes: Vector, effects: Vector
    ) -> Iterator[Vector]:
        """The logarithms of what bets bring, by size, block and effect, for one view at a time."""
        count = self.views[0].parts.shape[2] + 1
        arm, other = ((each - self.control) % count for each in arms)
        raised = sizes[:, None] / self.spreads  # what a lift adds to residuals, by size and unit
        expected = np.stack(
            [(self.loads * cut(each * self.loads)).sum(axis=1) for each in raised.ravel()]
        ).reshape(*raised.shape, -1)
        around = raised[:, :, None] * self.around[:, :, arm].T
        whole = np.maximum((self.loads**2).sum(axis=1), 1e-12)
        weights = expected / (square * whole)
        middles = expected / 2 * ((self.loads**2 @ self.known) / whole[:, None]).T + around
        for view in self.views:
            lifts = np.repeat(np.append(0.0, view.lifts)[:, None], len(effects), axis=1)
            lifts[arm] = lifts[other] + effects
            scores = self.score(view, (lifts - lifts[0])[1:])
            yield self._bet(scores, weights, middles, (arm, other))

    def _bet(self, scores: Cube, weights: Cube, middles: Cube, arms: tuple[int, int]) -> Cube:
        """Bet on one unit after another; see the beginning of this module."""
        is_arm, is_other = (self.dealt == arm for arm in arms)
        is_either = is_arm | is_other
        firsts, left = is_arm.sum(axis=1), is_either.sum(axis=1)
        sizes, units, blocks = weights.shape
        speaks = np.zeros((units, sizes, blocks, scores.shape[2]))
        for unit in range(units):
            speaks[unit] = weights[:, unit, :, None] * (scores[:, unit] - middles[:, unit, :, None])
            speaks[unit] *= is_either[:, unit, None]
        rest, won = speaks.sum(axis=0), np.zeros(speaks.shape[1:])
        for unit in range(units):
            chance = firsts / np.maximum(left, 1)
            here = np.flatnonzero(is_either[:, unit] & (firsts > 0) & (firsts < left))
            rest -= speaks[unit]
            if len(here):
                others = np.maximum(left - 1, 1)[here, None]
                bets = speaks[unit][:, here] - rest[:, here] / others
                first = is_arm[here, unit, None]
                drawn = np.where(first, chance[here, None], 1 - chance[here, None])
                won[:, here] += win(bets, drawn, np.where(first, -1.0, 1.0))
            firsts = firsts - is_arm[:, unit]
            left = left - is_either[:, unit]
        return won


def list_unit_segments(trial: UnitTrial) -> list[UnitSegment]:
    """All blocks up to the first that has not settled, from when the first baseline was learned."""
    segments: list[UnitSegment] = []
    whole = len(trial.units[0].totals) // trial.units[0].window
    if whole <= _FIRST_WINDOWS:
        return segments
    units = UnitWindows(trial)
    most = max(min(MAX_BLOCKS, _MAX_BETS // len(trial.units)), 1)
    for first, last, windows in list_looks(trial.units[0], _FIRST_WINDOWS):
        if windows > units.count:
            break
        if not units.has_positive(windows):
            continue
        baseline = learn_units(units, windows)
        for begin in range(first, last, most):
            end = min(begin + most, last)
            segments.append(_weigh_blocks(units, baseline, begin, end))
            if len(segments[-1].starts) < end - begin:
                return segments
    return segments


def _weigh_blocks(units: UnitWindows, baseline: UnitBaseline, first: int, last: int) -> UnitSegment:
    """Those of these blocks that have settled."""
    trial, window, whole = units.first, units.windows.window, units.count
    settled = (trial.ends + baseline.reach - 2) // window + 1
    settled[-1] = whole + 1  # the last block may go on
    over = np.arange(first, last)[np.logical_and.accumulate(settled[first:last] <= whole)]
    begin, stop = int(trial.starts[first]) // window, min(int(settled[last - 1]), whole)
    memory = max(begin - len(baseline.filter) + 1, 0)
    all_loads = apply_filter(baseline.filter, baseline.loads)[begin:stop]
    counts = np.arange(begin, stop) < settled[over, None]
    loads = np.where(counts, all_loads[:, over].T, 0.0)
    return UnitSegment(
        views=[view._replace(parts=view.parts[memory:stop]) for view in baseline.views],
        values=units.values[memory:stop],
        mixing=baseline.mixing[memory:stop],
        spreads=baseline.spreads,
        filter=baseline.filter,
        loads=loads,
        around=_expect_around(units, loads @ all_loads, over),
        dealt=units.dealt[over],
        starts=trial.starts[over],
        slots=settled[over] * window,
        stands_for=baseline.stands_for,
        plausible=baseline.plausible,
        control=units.control,
    )


def _expect_around(units: UnitWindows, together: Matrix, over: Slots) -> Cube:
    """What earlier blocks of a unit add to scores; later ones are expected alike for all units."""
    blocks = np.arange(together.shape[1])
    draws = units.dealt[: len(blocks), :, None] == np.arange(units.arms)
    added: Cube = np.tensordot(together * (blocks < over[:, None]), draws.astype(float), 1)
    return added


def list_bets(trial: Trial | UnitTrial) -> Sequence[Bets]:
    """Blocks, and what bets on them bring; a single unit is analysed as a trial without units."""
    units = list_units(trial)
    if isinstance(trial, UnitTrial) and len(units) > 1:
        return list_unit_segments(trial)
    return list_segments(units[0])
