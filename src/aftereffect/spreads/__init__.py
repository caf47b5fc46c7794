"""Spreads: how one pull's reward lands in later slots.

Three families, told apart by base class, and each served by a recipe of its own in `aftereffect.environments`:

- `RandomLag`: the whole reward at one random lag;
- `FixedShares`: every reward cut into the same shares;
- spreads without an end, each with its own recursion: `Geometric`, `PowerLaw`.

A spread that fits a family needs its shares and nothing else; one that does not brings a recipe. `PerArm` gives each arm a
spread of its own.
"""

from aftereffect.spreads.base import Delaying, FiniteSpread, FixedShares, RandomLag, Spread, Spreading
from aftereffect.spreads.fixed_shares import Interval, LinearDecay, LinearRise, Shape
from aftereffect.spreads.geometric import Geometric
from aftereffect.spreads.hold_back import HoldBack
from aftereffect.spreads.immediate import Immediate
from aftereffect.spreads.per_arm import PerArm
from aftereffect.spreads.power_law import PowerLaw
from aftereffect.spreads.random_lag import RandomDelay, UniformDelay

__all__ = [
    "Delaying",
    "FiniteSpread",
    "FixedShares",
    "Geometric",
    "HoldBack",
    "Immediate",
    "Interval",
    "LinearDecay",
    "LinearRise",
    "PerArm",
    "PowerLaw",
    "RandomDelay",
    "RandomLag",
    "Shape",
    "Spread",
    "Spreading",
    "UniformDelay",
]
