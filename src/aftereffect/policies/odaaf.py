"""ODAAF (Pike-Burke, Agrawal, Szepesvari, Grunewalder, 2018): phased elimination that is told about the delay.

With D = 2^-m and L = ln(T D^2), every active arm has n_m plays after phase m ::

    mean        n_m = ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 6 D m E))^2 / D^2 )                  (14)
    bounded     n_m = max( m min(d, (14) / m), ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 4 D E))^2 / D^2 ) )      (18), bridged
    variance    n_m = ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 4 D (E + 2V)))^2 / D^2 )             (25), bridged

where E is the mean delay, V its variance and d its bound. The regret is O(sum of ln(T gap^2) / gap + E ln(1/gap)) for the
first, without the logarithm at E for the others.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from aftereffect.checks import MOST_SLOTS, real
from aftereffect.errors import ParameterError
from aftereffect.kernels import PolicyKernels, Vector
from aftereffect.knowledge import Knowledge, knowledge_of
from aftereffect.policies import phased_elimination
from aftereffect.policies.base import Policy, State
from aftereffect.spec import one_of, register
from aftereffect.spreads import Spreading

VariantName = Literal["mean", "bounded", "variance"]

#: Delays longer than any run say nothing, and plays computed from them would overflow.
MAX_KNOWLEDGE = Knowledge(mean_delay=MOST_SLOTS, variance=float(MOST_SLOTS) ** 2, bound=MOST_SLOTS)


def _plays(horizon: int, m: int, delay: float) -> int:
    """What the three variants share; they differ in what they add for the delay."""
    d = 2.0**-m
    log = math.log(horizon * d**2)
    root = math.sqrt(2 * log) + math.sqrt(2 * log + 8 / 3 * d * log + d * delay)
    return math.ceil(root**2 / d**2)


def mean_plays(horizon: int, m: int, knowledge: Knowledge) -> int:
    """Equation (14)."""
    return _plays(horizon, m, 6 * m * knowledge.mean_delay)


def bounded_plays(horizon: int, m: int, knowledge: Knowledge) -> int:
    """Equation (18)."""
    bounded = min(knowledge.bound, mean_plays(horizon, m, knowledge) / m)
    return max(math.ceil(m * bounded), _plays(horizon, m, 4 * knowledge.mean_delay))


def variance_plays(horizon: int, m: int, knowledge: Knowledge) -> int:
    """Equation (25)."""
    return _plays(horizon, m, 4 * (knowledge.mean_delay + 2 * knowledge.variance))


class Variant(NamedTuple):
    """How many plays a phase wants, whether a bridge follows, and what must be known."""

    plays: Callable[[int, int, Knowledge], int]
    bridged: bool
    needs: tuple[str, ...]


VARIANTS: Mapping[VariantName, Variant] = {
    "mean": Variant(mean_plays, False, ("mean_delay",)),
    "bounded": Variant(bounded_plays, True, ("mean_delay", "bound")),
    "variance": Variant(variance_plays, True, ("mean_delay", "variance")),
}


@register
@dataclass(frozen=True)
class Odaaf(Policy):
    """ODAAF: phased elimination that must be told the horizon and about the delay.

    Parameters
    ----------
    variant
        ``mean`` (knows the mean delay), ``bounded`` (also a bound) or ``variance`` (also the variance).
    mean_delay, variance, bound
        What it is told. What its variant needs and is not given here it is told by a simulation, truly.

    Examples
    --------
    >>> from aftereffect import UniformDelay
    >>> print(Odaaf.informed_by(UniformDelay(10, 30), "bounded"))
    odaaf(variant=bounded, mean_delay=20, bound=30)
    """

    variant: VariantName = "mean"
    mean_delay: float | None = None
    variance: float | None = None
    bound: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        one_of("variant", self.variant, get_args(VariantName))
        for name, most in MAX_KNOWLEDGE._asdict().items():
            if getattr(self, name) is not None:
                self._set(**{name: real(name, getattr(self, name), at_least=0, at_most=most)})

    @classmethod
    def informed_by(cls, spread: Spreading, variant: VariantName = "mean", arms: int = 1) -> "Odaaf":
        """Told the truth about a spread; for a spread per arm say how many arms there are."""
        return cls(variant).told(knowledge_of(spread.by_arm(arms)))

    def told(self, knowledge: Knowledge) -> "Odaaf":
        missing = {name: getattr(knowledge, name) for name in self._missing()}
        for name, truth in missing.items():
            if math.isinf(truth):
                raise ParameterError(
                    f"odaaf(variant={self.variant}) must be told {name}, but here it is infinite or unknown: give a number"
                )
        return replace(self, **missing)

    def kernels(self) -> PolicyKernels:
        return phased_elimination.KERNELS

    def initial(self, arms: int) -> State:
        return phased_elimination.initial(arms)

    def params(self, arms: int, horizon: int) -> Vector:
        return phased_elimination.params(horizon, self.targets(horizon), bridged=VARIANTS[self.variant].bridged)

    def targets(self, horizon: int) -> list[int]:
        """n_1, n_2, ... for a run of that many slots."""
        missing = self._missing()
        if missing:
            raise ParameterError(f"odaaf(variant={self.variant}) must be told {' and '.join(missing)}")
        knowledge = Knowledge(self.mean_delay or 0.0, self.variance or 0.0, self.bound or 0.0)
        return phased_elimination.rising(horizon, lambda m: VARIANTS[self.variant].plays(horizon, m, knowledge))

    def _missing(self) -> list[str]:
        return [name for name in VARIANTS[self.variant].needs if getattr(self, name) is None]
