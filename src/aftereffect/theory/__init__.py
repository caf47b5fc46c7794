"""The bounds of the paper as numbers: delay measures, its theorems, and lower bounds to compare.

>>> from aftereffect import ArsUcb, Geometric, StochasticBandit
>>> bandit = StochasticBandit([.9, .5], Geometric(.8))
>>> round(d1(bandit), 6), round(d2(bandit), 6)
(4.5, 0.694444)
>>> bound = theorem_1(ArsUcb(alpha=5), bandit, horizon=10**6)
>>> round(bound.logarithmic), round(bound.log_t_star)
(1382, 5814)
"""

from aftereffect.theory._adversarial import (
    ArsClwBound,
    Theorem2,
    ars_clw_bound,
    first_right_guess,
    theorem_2,
)
from aftereffect.theory._lower_bounds import censored_slope, lai_robbins_slope
from aftereffect.theory._measures import d1, d2
from aftereffect.theory._theorem_1 import Theorem1, k0, theorem_1

__all__ = [
    "ArsClwBound",
    "Theorem1",
    "Theorem2",
    "ars_clw_bound",
    "censored_slope",
    "d1",
    "d2",
    "first_right_guess",
    "k0",
    "lai_robbins_slope",
    "theorem_1",
    "theorem_2",
]
