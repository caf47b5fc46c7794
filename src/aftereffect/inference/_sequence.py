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
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._scores import Segment

#: The largest usual effect: 28 % more, or 22 % less.
_USUAL_EFFECT = 0.25
#: The effects that are tried, as logarithms: 0, and larger ones with wider steps.
_MORE = np.concatenate([np.arange(1, 51) * 0.005, _USUAL_EFFECT + np.arange(1, 24) * 0.02])
EFFECTS: Vector = np.concatenate([-_MORE[::-1], [0.0], _MORE])
#: Deviations of the effect on which bets are made, and the part of the capital for each.
_SIZES, _CAPITAL = np.array([0.01, 0.02, 0.04, 0.08, 0.16]), np.array([0.1, 0.2, 0.4, 0.2, 0.1])
#: The standard deviation of the logarithm of a lift, before anything is known.
_PRIOR = 0.1
#: The largest bet on one block: totals have bursts.
_MAX_BET = 4.0
#: How much larger squares of scores are than those of white noise at first, for how many blocks
#: that counts, and the most that one block counts.
_USUAL_SQUARE, _USUAL_BLOCKS, _MAX_SQUARE = 2.0, 20.0, 25.0


class Evidence(NamedTuple):
    """The logarithm of the capital, by time and by the effect that is supposed of an arm.

    The first row is the beginning. Each other row is the time when the next block, and all blocks
    before it, had settled: when the first `slots` slots were known. Blocks count in the order of
    their draws, as in the proof, even if a later one has settled earlier.
    """

    capital: Matrix
    slots: Slots


def weigh_evidence(
    segments: list[Segment], arm: int, other: int, effects: Vector = EFFECTS
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
        expected = np.array([segment.expect(arm, size) for size in sizes])
        gains = np.array(
            list(_list_gains(segment, square, expected, (arm, other), effects))
        ).cumsum(axis=2)
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


def _list_gains(
    segment: Segment, square: Vector, expected: Vector, arms: tuple[int, int], effects: Vector
) -> Iterator[Vector]:
    """The logarithms of what bets bring, by size, block and effect: for one view after another."""
    arm, other = arms
    is_arm, is_other = segment.draws[:, [arm, other]].T[:, :, None] > 0
    is_either, sign = is_arm | is_other, np.where(is_arm, -1.0, 1.0)
    chance, rest = segment.chances[:, [arm, other]].T[:, :, None]
    drawn = np.where(is_arm, chance, rest) / np.maximum(chance + rest, 1e-300)
    if_other, if_this = np.swapaxes(expected, 0, 1)[:, :, :, None]
    weights, middle = (if_this - if_other) / (square * segment.own)[:, None], if_this + if_other
    for view in segment.views:
        lifts = np.repeat(view.lifts[:, None], len(effects), axis=1)
        lifts[arm] = lifts[other] + effects
        bets = weights * (segment.score(view, lifts) - middle / 2)
        bets = np.clip(bets, -_MAX_BET, _MAX_BET)
        # Both formulas above, divided by what stands over the line.
        yield np.where(is_either, -np.log(drawn + (1 - drawn) * np.exp(sign * bets)), 0.0)


def _measure_squares(segments: list[Segment], slots: Slots) -> Vector:
    """How large squares of scores were, in the blocks that had settled when a block began."""
    scores = [
        segment.score(segment.views[0], segment.views[0].lifts[:, None])[:, 0]
        for segment in segments
    ]
    squares = np.concatenate(scores) ** 2 / np.concatenate([segment.own for segment in segments])
    starts = np.concatenate([segment.starts for segment in segments])
    order = np.argsort(slots, kind="stable")
    sums = np.append(0.0, np.cumsum(np.minimum(squares[order], _MAX_SQUARE)))
    before = np.searchsorted(slots[order], starts, side="right")
    means: Vector = (_USUAL_BLOCKS * _USUAL_SQUARE + sums[before]) / (_USUAL_BLOCKS + before)
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
