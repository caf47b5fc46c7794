"""Generalised ODAAF (Garg and Akash, 2019): phased elimination for rewards spread over at most d slots.

With D = 2^-m and L = ln(T D^2), every active arm has after phase m ::

    n_m = ceil( (sqrt(L) + sqrt(L + 4 D m d))^2 / (2 D^2) )

plays; there is no bridge. Its paper's own n_m is not known to us in full; this one is equation (28) of ODAAF's supplement,
and safe whatever they printed: leaks in and out of a block are at most d per phase. Phases stop when T 4^-m <= e.
"""

import math
from dataclasses import dataclass, replace

from aftereffect.checks import MOST_SLOTS, real
from aftereffect.errors import ParameterError
from aftereffect.kernels import PolicyKernels, Vector
from aftereffect.knowledge import Knowledge
from aftereffect.policies import phased_elimination
from aftereffect.policies.base import Policy, State
from aftereffect.spec import register


def plays(horizon: int, m: int, bound: float) -> int:
    """Equation (28)."""
    d = 2.0**-m
    log = math.log(horizon * d**2)
    return math.ceil((math.sqrt(log) + math.sqrt(log + 4 * d * m * bound)) ** 2 / (2 * d**2))


@register
@dataclass(frozen=True)
class GeneralizedOdaaf(Policy):
    """Generalised ODAAF: phased elimination that must be told the horizon and over how many slots rewards spread.

    Parameters
    ----------
    d
        The largest lag. A simulation tells it the truth if it is not given.
    """

    d: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        if self.d is not None:
            self._set(d=real("d", self.d, at_least=0, at_most=MOST_SLOTS))

    def told(self, knowledge: Knowledge) -> "GeneralizedOdaaf":
        if self.d is not None:
            return self
        if math.isinf(knowledge.bound):
            raise ParameterError("generalized-odaaf must be told d, but here it is infinite or unknown: give a number")
        return replace(self, d=knowledge.bound)

    def kernels(self) -> PolicyKernels:
        return phased_elimination.KERNELS

    def initial(self, arms: int) -> State:
        return phased_elimination.initial(arms)

    def params(self, arms: int, horizon: int) -> Vector:
        return phased_elimination.params(horizon, self.targets(horizon), bridged=False)

    def targets(self, horizon: int) -> list[int]:
        """n_1, n_2, ... for a run of that many slots."""
        if self.d is None:
            raise ParameterError("generalized-odaaf must be told d")
        bound = self.d
        return phased_elimination.rising(horizon, lambda m: plays(horizon, m, bound))
