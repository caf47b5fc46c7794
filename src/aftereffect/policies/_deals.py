"""Deals: each unit gets an arm with given probabilities, and arms are balanced over units.

A deal draws an order of the n units, all orders alike, and one number u from [0, 1). The unit at
place k of the order gets the arm in whose part of [0, 1) the point (k + u) / n lies, where each arm
has a part as long as its probability p (systematic sampling).

- A unit has each place with probability 1 / n, so its point lies anywhere in [0, 1), evenly: it has
  each arm with probability p exactly.
- Of n points that are 1 / n apart, a part of length p has n p, rounded up or down. So the number of
  units that have an arm is never farther than 1 from n p.
- The numbers of units by arm follow from u. Given these, every way of giving the arms to the units
  is as likely as every other, since all orders are: `inference` rests on that.
"""

import numpy as np

from aftereffect._core import Vector


def deal_arms(choices: Vector, chances: Vector, rng: np.random.Generator) -> None:
    """Draw the arm of each unit, and write it into `choices`. Arms of chance 0 are not dealt.

    >>> choices = np.zeros(6)
    >>> deal_arms(choices, np.array([0.5, 0.0, 0.5]), np.random.default_rng(1))
    >>> np.sort(choices).tolist()
    [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]
    """
    units = choices.shape[0]
    order = np.arange(units)
    for last in range(units - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    points = (np.arange(units) + rng.random()) / units
    dealt = np.flatnonzero(chances > 0.0)
    ends = np.cumsum(chances[dealt])[:-1]  # all that is left belongs to the last arm
    choices[order] = dealt[np.searchsorted(ends, points, side="right")]
