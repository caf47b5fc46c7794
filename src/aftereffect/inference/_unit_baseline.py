"""What totals of several units would be without a difference between arms: delay, level, noise.

As in `_baseline`, it makes inference sharp, and inference is right without it. It is what policies
of units learn (`aftereffect.policies.learn_lifts`), from totals that came before the blocks for
which it is used.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Calendar, Matrix, Slots, Vector
from aftereffect.inference._trial import UnitTrial
from aftereffect.policies import (
    DelayShapes,
    UnitSlots,
    find_shares,
    learn_lifts,
    learn_noise,
    list_shapes,
    see_windows,
    spread_arms,
)

#: Delays are alike if so much of their shares is common. One is plausible if its posterior
#: probability is at least this part of that of the best; and the most that are considered.
_ALIKE, _PLAUSIBLE, _MAX_DELAYS = 0.7, 0.08, 3
#: The effects of a block are followed until less than this is left, but no longer than this part of
#: the windows that are known: at first long delays are plausible, and nobody waits for them.
_TAIL, _PATIENCE = 0.01, 0.2

Cube: TypeAlias = NDArray[np.float64]


class UnitView(NamedTuple):
    """The totals of windows as one delay explains them, with lifts that were estimated before.

    `parts` are those of the arms but the control, by window, unit and arm, and `levels` those of
    the units under the lifts; `tilts` say how lifts change them, by unit and arm.
    """

    parts: Cube
    lifts: Vector
    levels: Vector
    tilts: Matrix


class UnitBaseline(NamedTuple):
    """What was learned from the totals before some slot; compare `Baseline`.

    `mixing` are the weights of units in their mean, by window, and `spreads` the deviations of
    their noise, once the `filter` has made it white. `loads` say which part of a window each block
    has brought, by the mean delay, which `reach` says how many slots to wait for.
    """

    views: list[UnitView]
    mixing: Matrix
    spreads: Vector
    filter: Vector
    loads: Matrix
    reach: int
    stands_for: Slots
    plausible: Slots


class UnitWindows:
    """A trial of units as windows, whose arms are counted from the control on."""

    def __init__(self, trial: UnitTrial) -> None:
        self.units, self.first = trial.units, trial.units[0]
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
        self.count = len(self.windows.values) - self.windows.before
        self.values = self.windows.values[self.windows.before :]
        slots_seen = np.arange(self.windows.slots)
        numbers = np.searchsorted(self.first.starts, slots_seen, side="right") - 1
        self.by_draw = self.windows._replace(blocks=numbers)
        self._parts: dict[int, Cube] = {}
        self._loads: dict[int, Matrix] = {}

    def count_on(self, arms: Slots) -> Slots:
        """Numbers of arms, counted on from the control."""
        counted: Slots = (arms - self.control) % self.arms
        return counted

    def has_positive(self, windows: int) -> bool:
        """Whether any total of the first windows is above 0; else there is nothing to compare."""
        slots = windows * self.windows.window
        return any(np.nanmax(unit.totals[:slots], initial=0.0) > 0 for unit in self.units)

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


def learn_units(units: UnitWindows, known: int) -> UnitBaseline:
    """Learn from the totals of the first `known` windows."""
    windows, shapes = units.windows, units.shapes
    past, before = windows.until(known), windows.before
    posterior = learn_lifts(past, shapes, units.arms - 1)
    weights = posterior.weights
    chosen, likely = _choose(shapes, weights), [int(row) for row in np.flatnonzero(weights)]
    parts = sum(weights[row] * units.find_parts(row) for row in likely)
    lifts = weights @ posterior.means
    fitted = np.zeros(past.values.shape)
    fitted[before:] = parts[:known] @ lifts
    noise = learn_noise(past.values, fitted)
    # Apart from the mean of all units, the noise of a unit is smaller than it is.
    spreads = noise.apart.spreads / np.sqrt(1 - 1 / past.values.shape[1])
    shares = weights @ shapes.by_lag
    reach = int(np.argmax(np.cumsum(shares) >= (1 - _TAIL) * shares.sum())) + 1
    mixing = ~np.isnan(units.values) / spreads**2
    mixing = mixing / np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)
    counted = noise.apart.weights[before:]
    found = [(parts, lifts), *((units.find_parts(row), posterior.means[row]) for row in chosen)]
    return UnitBaseline(
        views=[_look(units.values, mixing, counted, *each) for each in found],
        mixing=mixing,
        spreads=spreads,
        filter=noise.apart.filter,
        loads=sum(weights[row] * units.find_loads(row) for row in likely),
        reach=min(reach, max(int(_PATIENCE * known), 1) * windows.window),
        stands_for=_find_like(shapes, shares, chosen),
        plausible=np.flatnonzero(weights >= _PLAUSIBLE * weights.max()),
    )


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
