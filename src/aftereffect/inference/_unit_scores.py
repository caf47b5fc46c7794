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
from numpy.typing import NDArray

from aftereffect._core import Calendar, Matrix, Slots, Vector
from aftereffect.inference._scores import (
    MAX_BLOCKS,
    cut,
    list_looks,
    list_segments,
    win,
)
from aftereffect.inference._sequence import Bets
from aftereffect.inference._trial import Trial, UnitTrial, list_units
from aftereffect.policies import (
    DelayShapes,
    UnitSlots,
    apply_filter,
    find_shares,
    learn_lifts,
    learn_noise,
    list_shapes,
    see_windows,
    spread_arms,
)

#: The windows after which a baseline is learned for the first time.
_FIRST_WINDOWS = 6
#: Delays are alike if so much of their shares is common. One is plausible if its posterior
#: probability is at least this part of that of the best; and the most that are considered.
_ALIKE, _PLAUSIBLE, _MAX_DELAYS = 0.7, 0.08, 3
#: The effects of a block are followed until less than this is left, but no longer than this part of
#: the windows that are known: at first long delays are plausible, and nobody waits for them.
_TAIL, _PATIENCE = 0.01, 0.2

Cube = NDArray[np.float64]


class UnitView(NamedTuple):
    """The totals of windows as one delay explains them, with lifts that were estimated before.

    `parts` are those of the arms but the control, by window, unit and arm, and `levels` those of
    the units under the lifts; `tilts` say how lifts change them, by unit and arm.
    """

    parts: Cube
    lifts: Vector
    levels: Vector
    tilts: Matrix


class UnitSegment(NamedTuple):
    """Blocks of several units, as in `Segment`.

    Arms are counted from the `control` on. `values` are those of windows by unit, `mixing` the
    weights of units in their mean, and `spreads` the deviations of their noise. `loads` say how a
    block weighs residuals, by block and window, and `around` what the other blocks of a unit add to
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
    def own(self) -> Matrix:
        """The variance of scores if noise is white, by block and unit."""
        known = ~np.isnan(self.values[len(self.values) - self.loads.shape[1] :])
        squares: Matrix = np.maximum(self.loads**2 @ known, 1e-12)
        return squares

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
        residuals = cut(white / self.spreads[:, None])
        scores: Cube = np.tensordot(self.loads, residuals, 1)
        return scores

    def list_squares(self) -> Vector:
        """The mean squares of scores by block, of units apart from their mean."""
        if not len(self.starts):
            return np.zeros(0)
        scores = self.score(self.views[0], self.views[0].lifts[:, None])[:, :, 0]
        count = scores.shape[1]
        squares: Vector = (scores**2 / self.own).mean(axis=1) * count / max(count - 1, 1)
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
        weights = expected / (square[:, None] * self.own).T
        middles = expected / 2 + around
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


class _Units:
    """A trial of units as windows, whose arms are counted from the control on."""

    def __init__(self, trial: UnitTrial) -> None:
        self.first = trial.units[0]
        self.control, self.arms = trial.control, trial.arms
        self.calendar = Calendar(self.first.calendar.slots_per_day, int(self.first.places[0]))
        self.shapes: DelayShapes = list_shapes(self.calendar.window, self.first.delay)
        before = max(len(unit.history) for unit in trial.units)
        history = np.full((before, len(trial.units)), np.nan)
        for number, unit in enumerate(trial.units):
            history[before - len(unit.history) :, number] = unit.history
        totals = np.stack([unit.totals for unit in trial.units], axis=1)
        played = np.stack([unit.played for unit in trial.units], axis=1)
        self.dealt = self.count_on(np.stack([unit.decided for unit in trial.units], axis=1))
        arms = np.concatenate([np.zeros(history.shape), self.count_on(played)])
        seen = np.concatenate([history, totals])
        slots = UnitSlots(seen, arms, np.full(1, float(before)), np.full(1, float(len(seen))))
        self.windows = see_windows(slots, self.calendar, self.shapes.by_lag.shape[1], self.arms - 1)
        ends = self.windows.slots
        numbers = np.searchsorted(self.first.starts, np.arange(ends), side="right") - 1
        self.by_draw = self.windows._replace(blocks=numbers)
        self._parts: dict[int, Cube] = {}
        self._loads: dict[int, Matrix] = {}

    def count_on(self, arms: Slots) -> Slots:
        """Numbers of arms, counted on from the control."""
        counted: Slots = (arms - self.control) % self.arms
        return counted

    def find_parts(self, row: int) -> Cube:
        """What each arm has brought, if a shape of delay is right."""
        if row not in self._parts:
            shares = find_shares(self.windows, self.shapes, row)
            units = np.arange(self.windows.values.shape[1])
            self._parts[row] = spread_arms(self.windows, shares, units)
            self._loads[row] = find_shares(self.by_draw, self.shapes, row)
        return self._parts[row]

    def find_loads(self, row: int) -> Matrix:
        """What each block has brought, by window, if a shape of delay is right."""
        self.find_parts(row)
        return self._loads[row]


def list_unit_segments(trial: UnitTrial) -> list[UnitSegment]:
    """All blocks up to the first that has not settled, from when the first baseline was learned."""
    segments: list[UnitSegment] = []
    whole = len(trial.units[0].totals) // trial.units[0].window
    if whole <= _FIRST_WINDOWS:
        return segments
    units = _Units(trial)
    for first, last, windows in list_looks(trial.units[0], _FIRST_WINDOWS):
        if windows > len(units.windows.values) - units.windows.before:
            break
        for begin in range(first, last, MAX_BLOCKS):
            end = min(begin + MAX_BLOCKS, last)
            segments.append(_weigh_blocks(units, begin, end, windows))
            if len(segments[-1].starts) < end - begin:
                return segments
    return segments


def _weigh_blocks(units: _Units, first: int, last: int, known: int) -> UnitSegment:
    """Those of these blocks that have settled, by what the first `known` windows have shown."""
    windows, shapes, trial = units.windows, units.shapes, units.first
    past, before = windows.until(known), windows.before
    posterior = learn_lifts(past, shapes, units.arms - 1)
    weights = posterior.weights
    chosen, likely = _choose(shapes, weights), [int(row) for row in np.flatnonzero(weights)]
    mean_parts = sum(weights[row] * units.find_parts(row) for row in likely)
    mean_loads = sum(weights[row] * units.find_loads(row) for row in likely)
    lifts = weights @ posterior.means
    fitted = np.zeros(past.values.shape)
    fitted[before:] = mean_parts[:known] @ lifts
    noise = learn_noise(past.values, fitted)
    # Apart from the mean of all units, the noise of a unit is smaller than it is.
    spreads = noise.apart.spreads / np.sqrt(1 - 1 / past.values.shape[1])
    shares = weights @ shapes.by_lag
    reach = int(np.argmax(np.cumsum(shares) >= (1 - _TAIL) * shares.sum())) + 1
    reach = min(reach, max(int(_PATIENCE * known), 1) * windows.window)
    whole, window = len(windows.values) - before, windows.window
    settled = (trial.ends + reach - 2) // window + 1
    settled[-1] = whole + 1  # the last block may go on
    over = np.arange(first, last)[np.logical_and.accumulate(settled[first:last] <= whole)]
    begin, stop = int(trial.starts[first]) // window, min(int(settled[last - 1]), whole)
    values = windows.values[before:]
    mixing = ~np.isnan(values) / spreads**2
    mixing = mixing / np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)
    counted = noise.apart.weights[before:]
    memory = max(begin - len(noise.apart.filter) + 1, 0)
    views = [
        _look(values, mixing, counted, units.find_parts(row) if row >= 0 else mean_parts, each)
        for row, each in [(-1, lifts), *((row, posterior.means[row]) for row in chosen)]
    ]
    all_loads = apply_filter(noise.apart.filter, mean_loads)[begin:stop]
    counts = np.arange(begin, stop) < settled[over, None]
    loads = np.where(counts, all_loads[:, over].T, 0.0)
    return UnitSegment(
        views=[view._replace(parts=view.parts[memory:stop]) for view in views],
        values=values[memory:stop],
        mixing=mixing[memory:stop],
        spreads=spreads,
        filter=noise.apart.filter,
        loads=loads,
        around=_expect_around(units, loads @ all_loads, over),
        dealt=units.dealt[over],
        starts=trial.starts[over],
        slots=settled[over] * window,
        stands_for=_find_like(shapes, shares, chosen),
        plausible=np.flatnonzero(weights >= _PLAUSIBLE * weights.max()),
        control=units.control,
    )


def _expect_around(units: _Units, together: Matrix, over: Slots) -> Cube:
    """What other blocks of a unit add to scores: known are the arms of earlier ones."""
    blocks = np.arange(together.shape[1])
    draws = units.dealt[: len(blocks), :, None] == np.arange(units.arms)
    order = units.count_on(np.arange(units.arms))
    chances = np.zeros((len(blocks), units.arms))
    chances[:, order] = units.first.probabilities[: len(blocks)]
    earlier = np.tensordot(together * (blocks < over[:, None]), draws.astype(float), 1)
    later: Matrix = (together * (blocks > over[:, None])) @ chances
    return earlier + later[:, None]


def _look(values: Matrix, mixing: Matrix, weights: Matrix, parts: Cube, lifts: Vector) -> UnitView:
    """What the first windows say of the levels of units, and how lifts change that."""
    known, count = ~np.isnan(values), len(weights)
    raised = np.log1p(parts[:count] @ np.expm1(lifts))
    left = np.where(known[:count], values[:count] - raised, 0.0)
    left = left - (mixing[:count] * left).sum(axis=1, keepdims=True)
    apart = parts[:count] - mixing[:count, None] @ parts[:count]
    sums = np.maximum(weights.sum(axis=0), 1e-300)
    levels = (weights * left).sum(axis=0) / sums
    tilts = -(weights[:, :, None] * apart).sum(axis=0) / sums[:, None]
    return UnitView(parts, lifts, levels, tilts)


def _choose(shapes: DelayShapes, weights: Vector) -> list[int]:
    """Plausible delays, the best first, that are unlike each other."""
    chosen: list[int] = []
    for row in map(int, np.argsort(-weights, kind="stable")):
        common = np.minimum(shapes.by_lag[row], shapes.by_lag[chosen]).sum(axis=1)
        if (
            weights[row] >= _PLAUSIBLE * weights.max()
            and len(chosen) < _MAX_DELAYS
            and (common < _ALIKE).all()
        ):
            chosen.append(row)
    return chosen


def _find_like(shapes: DelayShapes, mean: Vector, chosen: list[int]) -> Slots:
    """The number of the view that is like each delay, the mean of all being the first; or -1."""
    like = np.stack([mean, *shapes.by_lag[chosen]])
    common = np.minimum(shapes.by_lag[:, None], like).sum(axis=2)
    found: Slots = np.where(common.max(axis=1) >= _ALIKE, common.argmax(axis=1), -1)
    return found


def list_bets(trial: Trial | UnitTrial) -> Sequence[Bets]:
    """Blocks, and what bets on them bring; a single unit is analysed as a trial without units."""
    units = list_units(trial)
    if isinstance(trial, UnitTrial) and len(units) > 1:
        return list_unit_segments(trial)
    return list_segments(units[0])
