"""What the stop rule would have said at every look: `analyse`, for all times at once."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._analysis import believe
from aftereffect.inference._scores import list_segments
from aftereffect.inference._sequence import EFFECTS, Evidence, find_intervals, weigh_evidence
from aftereffect.inference._trial import Trial, check_trial


class Course(NamedTuple):
    """What was known by look: the leader, and the expected loss of shipping it, per slot.

    A look is a time at which a block has settled, when the first `slots` slots were known; the
    first is the beginning. `is_better` says whether each arm was shown to be better than the
    control, by look and arm. The rule stopped at the look `stop`; None if it never did.

    Examples
    --------
    >>> trial = Trial(
    ...     totals=np.ones(4), played=np.zeros(4, int), starts=np.array([0]),
    ...     decided=np.array([0]), probabilities=np.array([[0.5, 0.5]]), places=np.zeros(4, int),
    ... )
    >>> follow(trial, stop_when_loss_below=0.01).stop is None
    True
    """

    slots: Slots
    leaders: Slots
    losses: Vector
    is_better: NDArray[np.bool_]
    stop: int | None


def follow(trial: Trial, stop_when_loss_below: float, level: float = 0.95) -> Course:
    """What `analyse` would have said whenever a block had settled, and when its rule stopped.

    Parameters
    ----------
    trial
        What was recorded.
    stop_when_loss_below
        The expected loss per slot below which the rule stops; see `Results.stops`.
    level
        The probability with which all intervals hold.
    """
    check_trial(trial)
    segments, control = list_segments(trial), trial.control
    alpha = (1 - level) / math.comb(trial.arms, 2)

    @cache
    def weigh(arm: int, other: int) -> Evidence:
        return weigh_evidence(segments, arm, other)

    slots = weigh(1, 0).slots
    # Of blocks that settle at the same time, the last one is what a look sees.
    looks = np.append(np.flatnonzero(np.diff(slots)), len(slots) - 1)
    beliefs = np.zeros((trial.arms, len(looks), len(EFFECTS)))
    beliefs[control, :, EFFECTS == 0] = 1.0
    is_better = np.zeros((len(looks), trial.arms), bool)
    for arm in range(trial.arms):
        if arm != control:
            capital = weigh(arm, control).capital[looks]
            beliefs[arm] = believe(capital)
            is_better[:, arm] = find_intervals(capital, alpha)[:, 0] > 0
    lifts = np.exp(EFFECTS)
    means = (beliefs @ lifts).T
    up_to = np.prod(np.cumsum(beliefs, axis=2), axis=0)
    best = np.diff(up_to, axis=1, prepend=0.0) @ lifts
    leaders = np.argmax(means, axis=1)
    losses = _find_means(trial, slots[looks], means) * np.maximum(best - means.max(axis=1), 0.0)
    stop = None
    for at in np.flatnonzero(losses < stop_when_loss_below):
        leader = int(leaders[at])
        rows = (weigh(leader, arm).capital[looks[at]] for arm in range(trial.arms) if arm != leader)
        if all(math.isfinite(find_intervals(row[None], alpha)[0, 0]) for row in rows):
            stop = int(at)
            break
    return Course(slots[looks], leaders, losses, is_better, stop)


def _find_means(trial: Trial, slots: Slots, lifts: Matrix) -> Vector:
    """What the control brings per slot, as it was known at each look."""
    known = ~np.isnan(trial.totals)
    sums = np.append(0.0, np.cumsum(np.where(known, trial.totals, 0.0)))
    played = np.eye(trial.arms)[trial.played] * known[:, None]
    counts = np.vstack([np.zeros(trial.arms), np.cumsum(played, axis=0)])
    weights = (counts[slots] * lifts).sum(axis=1)
    means: Vector = np.where(weights > 0, sums[slots] / np.maximum(weights, 1e-300), 0.0)
    return means
