"""No delay at all: the ordinary bandit."""

from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Vector
from aftereffect.spec import register
from aftereffect.spreads.base import FixedShares


@register
@dataclass(frozen=True)
class Immediate(FixedShares):
    """The whole reward lands in the slot of the pull itself."""

    @property
    def shares(self) -> Vector:
        return np.ones(1)
