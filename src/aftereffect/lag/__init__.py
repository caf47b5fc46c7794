"""How long effects linger, from the totals of a history alone.

>>> from aftereffect import Interval, StochasticBandit, simulate
>>> study = simulate("ars-ucb", StochasticBandit([.9, .5, .2], Interval(5, 16)), 3_000, 1, seed=3, engine="slotwise")
>>> estimate = estimate_lag(study.trace(0, 0))
>>> estimate.known, estimate.low < 10 < estimate.high
(True, True)
"""

from aftereffect.lag.estimate import LagEstimate, Quantity, estimate_lag

__all__ = ["LagEstimate", "Quantity", "estimate_lag"]
