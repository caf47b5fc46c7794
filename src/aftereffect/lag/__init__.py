"""How long rewards take to arrive, estimated from the totals of a history alone.

>>> from aftereffect import Interval, StochasticBandit, simulate
>>> bandit = StochasticBandit([0.9, 0.5, 0.2], Interval(5, 15))
>>> study = simulate("ars-ucb", bandit, 3_000, 1, seed=3, engine="slotwise")
>>> estimate = estimate_lag(study.trace(0, 0))
>>> estimate.conclusive, estimate.low < 10 < estimate.high
(True, True)
"""

from aftereffect.lag.estimate import MAX_ARMS, MAX_SLOTS, LagEstimate, Quantity, estimate_lag

__all__ = [
    "MAX_ARMS",
    "MAX_SLOTS",
    "LagEstimate",
    "Quantity",
    "estimate_lag",
]
