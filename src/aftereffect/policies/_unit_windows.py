"""What UnitSwitchback sees: totals of windows over what is usual, and which arms arrive in them."""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, Slots, Vector
from aftereffect.policies._delay_shapes import DelayShapes
from aftereffect.policies._unit_noise import Cube
from aftereffect.policies._unit_slots import UnitSlots, learn_seasons

#: What stands for a total of 0, as a part of what is usual.
_FLOOR = 0.02
#: The most days of a history that are seen, beside its season; or windows, if those are more.
_DAYS, _WINDOWS = 21, 30


class Windows(NamedTuple):
    """What is known of the windows, the first of which lie before slot 0.

    `values` are by window and unit, NaN where most slots are not known. `blocks` are the numbers of
    the blocks by slot from 0 on, `played` says which arm but the first a unit played in each block,
    and `demand` is what is usual at the slots from `lead` before slot 0 on, averaged over units.
    """

    values: Matrix
    blocks: Slots
    played: Cube
    demand: Vector
    window: int

    @property
    def slots(self) -> int:
        """The number of slots from 0 on."""
        return len(self.blocks)

    @property
    def before(self) -> int:
        """The number of windows before slot 0."""
        return len(self.values) - self.slots // self.window

    def until(self, windows: int) -> "Windows":
        """The same up to so many windows from slot 0 on."""
        slots = windows * self.window
        blocks = self.blocks[:slots]
        return Windows(
            self.values[: self.before + windows],
            blocks,
            self.played[: int(blocks[-1]) + 1 if slots else 0],
            self.demand[: len(self.demand) - self.slots + slots],
            self.window,
        )


def see_windows(slots: UnitSlots, calendar: Calendar, reach: int, lifts: int) -> Windows:
    """All that was observed, as windows; effects reach over so many slots.

    >>> from aftereffect.policies._unit_slots import blank_slots
    >>> slots = blank_slots(units=2, slots=6)
    >>> slots.totals[:4], slots.observed[0] = [[1, 3], [1, 3], [2, 3], [2, 3]], 4
    >>> see_windows(slots, Calendar(), reach=1, lifts=1).values.round(2)
    array([[-0.41,  0.  ],
           [-0.41,  0.  ],
           [ 0.29,  0.  ],
           [ 0.29,  0.  ]])
    """
    window, week = calendar.window, calendar.slots_per_week
    before, known = slots.find_known()
    seasons = learn_seasons(slots, week, calendar.first)
    past = min(before // window, max(_DAYS * (week // 7) // window, _WINDOWS)) * window
    whole = known // window * window
    totals = slots.totals[before - past : before + whole]
    demand = (seasons / seasons.mean(axis=0)).mean(axis=1)
    arms = slots.arms[before : before + whole]
    begins = np.ones(whole, bool)
    begins[1:] = (arms[1:] != arms[:-1]).any(axis=1)
    return Windows(
        values=_find_values(
            totals, seasons[(calendar.first + np.arange(-past, whole)) % week], window
        ),
        blocks=np.cumsum(begins) - 1,
        played=(arms[begins][:, :, None] == np.arange(1, lifts + 1)).astype(float),
        demand=demand[(calendar.first + np.arange(-reach, whole)) % week],
        window=window,
    )


def _find_values(totals: Matrix, usual: Matrix, window: int) -> Matrix:
    """The logarithms of totals over what is usual; NaN where less than half is known."""
    known, shape = ~np.isnan(totals), (len(totals) // window, window, totals.shape[1])
    sums = np.where(known, totals, 0.0).reshape(shape).sum(axis=1)
    bases = np.where(known, usual, 0.0).reshape(shape).sum(axis=1)
    enough = (2 * known.reshape(shape).sum(axis=1) >= window) & (bases > 0)
    ratios = np.maximum(sums, 0.0) / np.where(bases > 0, bases, 1.0)
    # Of no consequence but where a total is nearly 0: each unit has a level of its own.
    scales = np.where(enough, ratios, 0.0).sum(axis=0) / np.maximum(enough.sum(axis=0), 1)
    ratios = ratios / np.where(scales > 0, scales, 1.0)
    values: Matrix = np.where(enough, np.log(np.maximum(ratios, _FLOOR)), np.nan)
    return values


def find_shares(windows: Windows, shapes: DelayShapes, row: int) -> Matrix:
    """The share of what arrives in a window, from slot 0 on, that each block has brought."""
    shares, slots = shapes.by_lag[row, : int(shapes.lags[row])], windows.slots
    lead, blocks = len(windows.demand) - slots, int(windows.blocks[-1]) + 1
    lags = np.flatnonzero(shares)
    pulled = np.arange(slots)[:, None] - lags
    brought = shares[lags] * windows.demand[np.maximum(lead + pulled, 0)]
    window = np.broadcast_to(np.arange(slots)[:, None] // windows.window, pulled.shape)
    count, ours = slots // windows.window, pulled >= 0
    cells = window[ours] * blocks + windows.blocks[pulled[ours]]
    by_block = np.bincount(cells, brought[ours], count * blocks).reshape(count, blocks)
    whole = brought.sum(axis=1).reshape(count, windows.window).sum(axis=1)
    found: Matrix = by_block / np.maximum(whole, 1e-300)[:, None]
    return found


def spread_arms(windows: Windows, shares: Matrix, units: Slots) -> Cube:
    """The part of each arm but the first in what arrives, by window from 0 on, unit and arm."""
    blocks, _, lifts = windows.played.shape
    played = windows.played[:, units].reshape(blocks, -1)
    return (shares @ played).reshape(len(shares), -1, lifts)
