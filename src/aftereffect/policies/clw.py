"""CLW, the composite loss wrapper (Cesa-Bianchi, Gentile, Mansour, 2018; with Cesari and Colomboni, 2022).

::

    repeat: draw an arm from the learner and stay with it for a block of random length, at least 2d slots
            feed the learner with what was seen in the last d slots of the block, divided by 2d

By then everything that arrives is of this arm, and that blocks end by coins makes the update independent of what delays do. It
must know d, and delays must not look at the play: then the regret is O(sqrt(d N T)) with the right learner (Tsallis).

Variants differ in how blocks end (see `blocks`); the journal version looks at d + 1 slots and divides by 2d + 1.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

import numpy as np

from aftereffect.checks import lag
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.knowledge import Knowledge
from aftereffect.policies.base import Policy, State
from aftereffect.policies.blocks import VARIANTS, VariantName
from aftereffect.policies.learners import LEARNERS, LearnerName, blank, draw, gain_of
from aftereffect.spec import one_of, register

RATE, MIX, D, WINDOW, DIVISOR = range(5)

#: ``rate(d, arms, horizon)`` of a learner in a variant.
Rate = Callable[[int, int, int], float]


def colt_eta(d: int, arms: int, horizon: int) -> float:
    """Corollary 4 of the conference paper."""
    return 4 * math.sqrt(d * math.log(arms) / ((4 * arms + 1) * horizon))


def jmlr_eta(d: int, arms: int, horizon: int) -> float:
    """The journal paper's, with d + 1 for its d, so that it is no zero without delay."""
    return math.sqrt((d + 1) * math.log(arms) / (arms * horizon))


def gain_gamma(d: int, arms: int, horizon: int) -> float:
    """The paper's, for the gain form."""
    return min(1.0, math.sqrt(2 * d * arms * math.log(arms) / (horizon + d)))


def colt_tsallis_eta(d: int, arms: int, horizon: int) -> float:
    """As the next, for blocks of 2d slots."""
    return math.sqrt(max(horizon // (2 * d), 1) / 2)


def jmlr_tsallis_eta(d: int, arms: int, horizon: int) -> float:
    """Corollary 7 of the journal paper."""
    return math.sqrt(max(horizon // (2 * d + 1), 1) / 2)


def jmlr_gamma(d: int, arms: int, horizon: int) -> float:
    """The same as without the journal paper's lag 0, but no zero without delay."""
    return gain_gamma(max(d, 1), arms, horizon)


RATES: Mapping[tuple[VariantName, LearnerName], Rate] = {
    ("colt", "exp3"): colt_eta,
    ("seed", "exp3"): colt_eta,
    ("jmlr", "exp3"): jmlr_eta,
    ("colt", "tsallis"): colt_tsallis_eta,
    ("seed", "tsallis"): colt_tsallis_eta,
    ("jmlr", "tsallis"): jmlr_tsallis_eta,
    ("colt", "exp3-gain"): gain_gamma,
    ("seed", "exp3-gain"): gain_gamma,
    ("jmlr", "exp3-gain"): jmlr_gamma,
}


@register
@dataclass(frozen=True)
class Clw(Policy):
    """CLW: a learner fed once per block of random length; must be told the horizon and over how many slots rewards spread.

    Parameters
    ----------
    d
        The largest lag. A simulation tells it the truth if it is not given.
    variant
        ``colt`` (2018), ``jmlr`` (2022, repaired) or ``seed`` (the appendix of the paper on ARS).
    base
        The learner: ``tsallis``, ``exp3`` (on losses) or ``exp3-gain``.

    Examples
    --------
    >>> print(Clw(10))
    clw(d=10, variant=jmlr, base=tsallis)
    """

    d: int | None = None
    variant: VariantName = "jmlr"
    base: LearnerName = "tsallis"
    needs_horizon = True

    def __post_init__(self) -> None:
        for name, known in (("variant", get_args(VariantName)), ("base", get_args(LearnerName))):
            one_of(name, getattr(self, name), known)
        if self.d is not None:
            self._set(d=lag("d", self.d, at_least=VARIANTS[self.variant].least))

    def told(self, knowledge: Knowledge) -> "Clw":
        if self.d is not None:
            return self
        if math.isinf(knowledge.bound):
            raise ParameterError("clw must be told d, but here it is infinite or unknown: give a number")
        return replace(self, d=max(math.ceil(knowledge.bound), VARIANTS[self.variant].least))

    def kernels(self) -> PolicyKernels:
        return kernels(self.variant, self.base)

    def initial(self, arms: int) -> State:
        return blank(arms)

    def params(self, arms: int, horizon: int) -> Vector:
        if self.d is None:
            raise ParameterError("clw must be told d")
        variant = VARIANTS[self.variant]
        rate = RATES[self.variant, self.base](self.d, arms, horizon)
        mix = rate if LEARNERS[self.base].mixes else 0.0
        return np.array([rate, mix, self.d, variant.window(self.d), variant.divisor(self.d)], dtype=float)


@cache
def kernels(variant: VariantName, learner: LearnerName) -> PolicyKernels:
    """A round is a block."""
    length, feed = VARIANTS[variant].length, LEARNERS[learner].feed

    def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
        arm = draw(arms, own, params[MIX], rng)
        return arm, length(int(params[D]), rng), int(params[WINDOW])

    def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
        seen = total * (params[WINDOW] / slots)  # as much as the slots that were planned would show
        feed(arms, own, params[RATE], arm, gain_of(seen, params[DIVISOR]))

    return PolicyKernels(decide, absorb)
