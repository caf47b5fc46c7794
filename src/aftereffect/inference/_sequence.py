"""Confidence sequences: intervals for the effect of an arm that hold at every look, all at once.

Take two arms, and suppose that one brings `effect` more than the other (a logarithm). Then the
score of a block, with all effects taken out, does not depend on which of the two was drawn for it:
given all that was before, the draw has its recorded probability. So a bet on the arm, made by the
score, is fair. With p the probability of the first arm, and L any number that the score gives, ::

    exp(L) / (p exp(L) + 1 - p)  if the first arm was drawn
         1 / (p exp(L) + 1 - p)  if the other was drawn

has a mean of 1, and the product over blocks is a martingale: what a gambler has who began with 1.
It ever reaches 1 / alpha with a probability of at most alpha (Ville). If it does, the supposed
effect is ruled out. Effects that are not ruled out make the interval. Nothing is assumed about
totals or their noise; a good model of scores only makes the gambler rich sooner.

L is the log likelihood ratio of the score if the effect is larger by some number, for several such
numbers, among which the capital is divided.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from aftereffect._core import Matrix, Slots, Vector

#: The largest usual effect: 28 % more, or 22 % less.
_USUAL_EFFECT = 0.25
#: The effects that are tried, as logarithms: 0, and larger ones with wider steps.
_MORE = np.concatenate([np.arange(1, 51) * 0.005, _USUAL_EFFECT + np.arange(1, 24) * 0.02])
EFFECTS: Vector = np.concatenate([-_MORE[::-1], [0.0], _MORE])
#: Deviations of the effect on which bets are made, and the part of the capital for each.
_SIZES, _CAPITAL = np.array([0.01, 0.02, 0.04, 0.08, 0.16]), np.array([0.1, 0.2, 0.4, 0.2, 0.1])
#: The standard deviation of the logarithm of a lift, before anything is known.
_PRIOR = 0.1
#: How much larger squares of scores are than those of white noise at first, for how many scores
#: that counts, and the most that one score counts.
_USUAL_SQUARE, _USUAL_SCORES, _MAX_SQUARE = 2.0, 20.0, 25.0


class Evidence(NamedTuple):
    """The logarithm of the capital, by time and by the effect that is supposed of an arm.

    The first row is the beginning. Each other row is the time when the next block, and all blocks
    before it, had settled: when the first `slots` slots were known. Blocks count in the order of
    their draws, as in the proof, even if a later one has settled earlier.
    """

    capital: Matrix
    slots: Slots


class Bets(Protocol):
    """Blocks between two times at which a baseline was learned, and what bets on them bring.

    `stands_for` and `plausible` are those of a `Baseline`. A block has settled when the first
    `slots` slots are known.
    """

    @property
    def starts(self) -> Slots:
        """The first slot of each block."""

    @property
    def slots(self) -> Slots:
        """When each block has settled."""

    @property
    def stands_for(self) -> Slots:
        """The number of the view that is like each delay; -1 if none is."""

    @property
    def plausible(self) -> Slots:
        """The delays that may be the right one."""

    @property
    def scores_per_block(self) -> int:
        """How many independent scores each block has."""

    def list_squares(self) -> Vector:
        """The mean square of the scores of each block; 1 if noise is white."""

    def list_gains(
        self, square: Vector, arms: tuple[int, int], sizes: Vector, effects: Vector
    ) -> Iterator[Vector]:
        """The logarithms of what bets bring, by size, block and effect, for one view at a time.

        The effects are those of the first of two arms, relative to the other. `square` says how
        large squares of scores are.
        """


def weigh_evidence(
    segments: Sequence[Bets], arm: int, other: int, effects: Vector = EFFECTS
) -> Evidence:
    """Bet on the draws of one arm or another, for each supposed effect of the first.

    Effects are logarithms, relative to the other arm. Each delay takes other effects out of the
    totals, so each has a gambler of its own, from the first block on. What counts is the least
    capital of those whose delay is plausible now, and of the one with the mean delay at each time.
    So it is at most that of the right delay. And it is at most that of the mean delay, which is
    fair without any assumption if arms do not differ.
    """
    nothing = np.zeros((1, len(effects)))
    if not segments:
        return Evidence(nothing, np.zeros(1, int))
    slots = np.concatenate([segment.slots for segment in segments])
    squares = np.split(
        _measure_squares(segments, slots),
        np.cumsum([len(segment.slots) for segment in segments])[:-1],
    )
    sizes = np.append(-_SIZES, _SIZES)
    first = np.log(np.append(_CAPITAL, _CAPITAL) / 2)[:, None] + nothing
    delays = len(segments[0].stands_for)
    # The logarithm of the capital by delay, size of bets, and effect; the mean delay is the last.
    each = np.tile(first, (delays + 1, 1, 1))
    capital = [nothing]
    for segment, square in zip(segments, squares, strict=True):
        if not len(square):  # no block has settled since
            break
        gains = np.array(list(segment.list_gains(square, (arm, other), sizes, effects))).cumsum(
            axis=2
        )
        views = np.append(segment.stands_for, 0)
        rows = np.append(segment.plausible, delays)
        paths = np.array([_add_up(each[row][:, None] + gains[views[row]]) for row in rows])
        capital.append(paths.min(axis=0))
        # A delay that no view is like gains what the least of those that count has gained.
        ends, least = gains[:, :, -1], views[rows[paths[:, -1].argmin(axis=0)]]
        of_least = ends[least, :, np.arange(len(effects))].T
        each = each + np.where((views >= 0)[:, None, None], ends[views], of_least)
    return Evidence(np.concatenate(capital), np.append(0, np.maximum.accumulate(slots)))


def _add_up(logarithms: Vector) -> Matrix:
    """The logarithms of sums over the first axis."""
    largest = logarithms.max(axis=0)
    sums: Matrix = largest + np.log(np.exp(logarithms - largest).sum(axis=0))
    return sums


def _measure_squares(segments: Sequence[Bets], slots: Slots) -> Vector:
    """How large squares of scores were, in the blocks that had settled when a block began."""
    squares = np.concatenate([segment.list_squares() for segment in segments])
    starts = np.concatenate([segment.starts for segment in segments])
    counts = np.concatenate([np.full(len(each.starts), each.scores_per_block) for each in segments])
    order = np.argsort(slots, kind="stable")
    sums = np.append(0.0, np.cumsum((counts * np.minimum(squares, _MAX_SQUARE))[order]))
    known = np.append(0, np.cumsum(counts[order]))
    before = np.searchsorted(slots[order], starts, side="right")
    means: Vector = (_USUAL_SCORES * _USUAL_SQUARE + sums[before]) / (_USUAL_SCORES + known[before])
    return means


def believe(capital: Matrix) -> Matrix:
    """How much each effect is believed: as the capital against it is small, and by a prior.

    The last axis is that of effects.
    """
    logarithms = -capital - 0.5 * (EFFECTS / _PRIOR) ** 2
    largest = logarithms.max(axis=-1, keepdims=True)
    weights = np.gradient(EFFECTS) * np.exp(logarithms - largest)
    beliefs: Matrix = weights / weights.sum(axis=-1, keepdims=True)
    return beliefs


def find_intervals(evidence: Matrix, alpha: float, effects: Vector = EFFECTS) -> Matrix:
    """The interval of effects that are not ruled out, by row.

    It has every effect of usual size that is not ruled out. A larger one, beyond one that is ruled
    out, does not count: where residuals are cut, very large effects all look alike. An end is
    infinite if no effect on its side is ruled out. Both are if all effects are ruled out: then the
    totals contradict the model of effects.

    >>> find_intervals(np.array([[9.0, 1, 0, 9]]), 0.05, np.array([-0.1, 0, 0.1, 0.2])).round(3)
    array([[-0.025,  0.133]])
    """
    limit = -math.log(alpha)
    found = np.tile([-math.inf, math.inf], (len(evidence), 1))
    is_usual = np.abs(effects) <= _USUAL_EFFECT
    for row, each in enumerate(evidence):
        is_inside = each < limit
        if not is_inside.any():
            continue
        inside = np.flatnonzero(is_inside & is_usual)
        first, last = (inside[0], inside[-1]) if len(inside) else [int(np.argmin(each))] * 2
        below, above = np.flatnonzero(~is_inside[:first]), np.flatnonzero(~is_inside[last:])
        if len(below):
            found[row, 0] = _cross(each, effects, below[-1], limit)
        if len(above):
            found[row, 1] = _cross(each, effects, last + above[0] - 1, limit)
    return found


def _cross(evidence: Vector, effects: Vector, left: int, limit: float) -> float:
    """Where the evidence crosses the limit, between an effect and the next."""
    rise = evidence[left + 1] - evidence[left]
    part = (limit - evidence[left]) / rise if rise != 0 else 0.5
    return float(effects[left] + part * (effects[left + 1] - effects[left]))
