"""How long effects linger, learnt while one arm is held from the very first slot on.

Nothing is in flight at the start. So the totals of an arm that is held climb to its mean s as the spread's distribution
function does, and by slot m they have brought, expected, s (m - mean lag) once all has settled. With the level from the slots
m .. n ::

    mean lag = m - collected(m) / level         standard error  sqrt( m (1 - level) / level * (1 + m / (n - m)) )

The arm is held until m, half of n, is twice what the mean lag can be within two standard errors: a climb that goes on at a
constant rate never looks settled then. An arm that pays rarely would take for ever; there the estimate is taken as it is,
as long as it is noise and not the lag that keeps it from being settled.

While nothing at all has come the next arm is tried now and then: the first may pay nothing. What comes later may be from
any of them, so the lag is taken to be at least that silence.

Single slots also show how much chance there is in *when* a reward lands. With whole rewards at random lags the totals of a
slot have a variance of s (1 - s) + clumping s^2, where the clumping is 1 less the sum of the squared shares; with rewards cut
into shares it is less than s (1 - s), and there is no clumping.

All this is in the cells below, at the beginning of a policy's own vector, and the curve behind them: points of slots and what
was collected by then.
"""

import math

from aftereffect.kernels import Vector

#: The arm that is held; slots and total so far; points of the curve; slots since this arm was taken, and those in which nothing
#: had come yet; what was learnt; how many of the last slots show the arm's level, and their total; when all this was over.
CELLS = ARM, SLOTS, TOTAL, POINTS, TRIED, SILENCE, LAG, CLUMPING, LATE, BROUGHT, SETTLED = range(11)

#: Silent slots after which another arm is tried, and rounds of that through all arms after which nothing is expected to come.
PATIENCE, MOST_ROUNDS = 32, 4
#: An arm that pays rarely is held this many times as long as any.
RARELY = 2.0
#: Nobody waits longer than this for totals to settle: they may drift for ever.
LONGEST = 10_000
#: How many mean lags, at most, half of what was seen must be.
_LAGS = 2.0
#: How many standard errors above its estimate the lag may be, before it is settled, and is taken to be, afterwards.
_DOUBT, _CAUTION = 2.0, 0.3


def room(least: int) -> int:
    """The points that the curve can have: single slots up to `least`, then steps of a quarter."""
    return least + math.ceil(math.log(2 * LONGEST, 1.25))


def step(own: Vector, least: int) -> int:
    """How many slots to play next: single ones first, for the clumping; then a quarter of what was played."""
    return step_after(own[SLOTS], least)


def step_after(slots: float, least: int) -> int:
    """The same after so many slots: it is also how far apart the points of the curve are."""
    return 1 if slots < least else max(1, int(slots) // 4)


def settle(own: Vector, curve: int, least: int, arms: int, slots: int, total: float) -> None:
    """Learn a round's total, of at least `least` slots in all, and note if this settles it. The curve begins at that cell."""
    own[SLOTS] += slots
    own[TOTAL] += total
    own[TRIED] += slots
    at = curve + 2 * int(own[POINTS])
    last = own[at - 2] if own[POINTS] > 0.0 else 0.0
    if own[SLOTS] - last >= step_after(last, least):  # live, slots may be missing: points are no closer than planned
        own[at], own[at + 1] = own[SLOTS], own[TOTAL]
        own[POINTS] += 1
    if own[TOTAL] <= 0.0:
        own[SILENCE] = own[SLOTS]
        if own[SLOTS] >= min(PATIENCE * arms * MOST_ROUNDS, LONGEST):
            own[LAG] = own[SETTLED] = own[SLOTS]
        elif own[TRIED] >= PATIENCE:
            own[ARM], own[TRIED] = (own[ARM] + 1) % arms, 0.0
        return
    if own[SLOTS] < least:
        return

    middle = curve
    while own[middle] < 0.5 * own[SLOTS]:
        middle += 2
    first, late = own[middle], own[SLOTS] - own[middle]
    collected = own[TOTAL] - own[middle + 1]
    if late == 0.0:  # live, a round may be held so long that it is all there is
        return
    if collected < 1.0 and own[SLOTS] < LONGEST:
        return
    lag = max(first - own[middle + 1] / (collected / late), 0.0) if collected > 0.0 else first
    if own[SILENCE] >= PATIENCE:
        lag = max(lag, own[SILENCE])
    likely = min((max(collected, 0.0) + 1.0) / (late + 2.0), 1.0)
    error = math.sqrt(first * (1.0 - likely) / likely * (1.0 + first / late))
    rare = own[SLOTS] >= RARELY * least and first >= _LAGS * lag and error >= lag
    if first < _LAGS * (lag + _DOUBT * error + 0.5) and not rare and own[SLOTS] < LONGEST:
        return
    own[LAG] = min(lag + _CAUTION * error + 0.5, first / _LAGS)
    own[CLUMPING] = clumping(own, curve, least)
    own[LATE], own[BROUGHT], own[SETTLED] = late, collected, own[SLOTS]


def clumping(own: Vector, curve: int, least: int) -> float:
    """From the single slots in the second half of those that were played for it; at most one standard error too high."""
    count = total = squares = 0.0
    for point in range(1, int(own[POINTS])):
        at = curve + 2 * point
        if own[at] - own[at - 2] == 1.0 and own[at] > 0.5 * least:
            seen = own[at + 1] - own[at - 1]
            count += 1.0
            total += seen
            squares += seen * seen
    if count < 2.0 or total <= 0.0:
        return 1.0
    mean = total / count
    variance = (squares / count - mean * mean) * (1.0 + math.sqrt(2.0 / count))
    return min(max((variance - mean * (1.0 - mean)) / (mean * mean), 0.0), 1.0)
