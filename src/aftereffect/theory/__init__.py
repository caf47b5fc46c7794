"""What the paper proves, as numbers: delay measures, the bounds of its theorems, and the lower bound as a yardstick.

>>> from aftereffect import ArsUcb, Geometric, StochasticBandit
>>> environment = StochasticBandit([.9, .5], Geometric(.8))
>>> round(d1(environment), 6), round(d2(environment), 6)
(4.5, 0.694444)
>>> bound = theorem_1(ArsUcb(alpha=5), environment, horizon=10**6)
>>> round(bound.logarithmic), round(bound.log_t_star)
(1382, 5814)
"""

from aftereffect.theory.adversarial import ArsClwBound, Theorem2, ars_clw_bound, first_right_guess, theorem_2
from aftereffect.theory.lower_bound import lai_robbins_slope
from aftereffect.theory.measures import d1, d2
from aftereffect.theory.theorem_1 import Theorem1, k0, theorem_1

__all__ = [
    "ArsClwBound",
    "Theorem1",
    "Theorem2",
    "ars_clw_bound",
    "d1",
    "d2",
    "first_right_guess",
    "k0",
    "lai_robbins_slope",
    "theorem_1",
    "theorem_2",
]
