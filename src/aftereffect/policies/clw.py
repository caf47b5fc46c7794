"""CLW, the composite loss wrapper, which must know the largest delay d.

CLW (Cesa-Bianchi, Gentile and Mansour, 2018; in 2022 with Cesari and Colomboni)::

    repeat: draw an arm from the learner
            stay with it for a block of random length, at least 2d slots
            feed the learner with the total of the last d slots of the block, divided by 2d

In these d slots only rewards of this arm arrive. As blocks end at random, the update does not
depend on what the delays do. The policy must know d, and delays must not depend on the arms that
are played. Then the regret is O(sqrt(d N T)) with the right learner (Tsallis).

Variants differ in the length of a block, which is drawn when the block begins::

    colt    2d slots, and then until a coin of 1 / (2 (2d - 1)) shows 1
    jmlr    until a coin of 1 / (2d + 1) shows 1 after 2d slots in which it showed 0
    seed    until a coin of 1 / (2d) shows 1 and then 0 in 2d - 1 slots (the appendix of the paper)

For the last two, gaps between ones are added up to and including the first that is long enough.
The journal version of 2022 looks at d + 1 slots and divides by 2d + 1.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import Chance, PolicyKernels, check_lag, register
from aftereffect.delays import DelayFacts
from aftereffect.errors import ParameterError
from aftereffect.policies._learners import (
    LEARNERS,
    MIXING,
    LearnerName,
    LearnerState,
    blank_learner,
    draw,
    feed,
    gain_of,
    probability,
)
from aftereffect.policies.base import Policy

VariantName = Literal["colt", "jmlr", "seed"]
#: Kernels get the variant as a number, so that one program plays any of them.
_COLT, _JMLR, _SEED = range(3)


class Variant(NamedTuple):
    """Its number; by d the window and what its total is divided by; the smallest d."""

    number: int
    window: Callable[[int], int]
    divisor: Callable[[int], int]
    min_d: int


def draw_failures(chance: float, rng: np.random.Generator) -> int:
    """How often a coin fails before it first succeeds."""
    if chance >= 1.0:
        return 0
    return math.floor(math.log1p(-rng.random()) / math.log1p(-chance))


def draw_until_long_gap(chance: float, longer_than: int, rng: np.random.Generator) -> int:
    """Add up the gaps between successes, up to and including the first that is longer than this."""
    slots = 0
    while True:
        gap = 1 + draw_failures(chance, rng)
        slots += gap
        if gap > longer_than:
            return slots


def draw_colt_length(d: int, rng: np.random.Generator) -> int:
    """As in the conference paper."""
    return 2 * d + draw_failures(1.0 / (2.0 * (2.0 * d - 1.0)), rng)


def draw_jmlr_length(d: int, rng: np.random.Generator) -> int:
    """As in the journal paper, which repairs it."""
    return draw_until_long_gap(1.0 / (2.0 * d + 1.0), 2 * d, rng)


def draw_seed_length(d: int, rng: np.random.Generator) -> int:
    """As in the appendix of the paper on ARS."""
    return draw_until_long_gap(1.0 / (2.0 * d), 2 * d - 1, rng)


def draw_length(variant: int, d: int, rng: np.random.Generator) -> int:
    """The slots of a block."""
    if variant == _COLT:
        return draw_colt_length(d, rng)
    if variant == _JMLR:
        return draw_jmlr_length(d, rng)
    return draw_seed_length(d, rng)


VARIANTS: Mapping[VariantName, Variant] = {
    "colt": Variant(_COLT, lambda d: d, lambda d: 2 * d, min_d=1),
    "jmlr": Variant(_JMLR, lambda d: d + 1, lambda d: 2 * d + 1, min_d=0),
    "seed": Variant(_SEED, lambda d: d, lambda d: 2 * d, min_d=1),
}


#: ``rate(d, arms, horizon)`` of a learner in a variant.
Rate = Callable[[int, int, int], float]


def colt_eta(d: int, arms: int, horizon: int) -> float:
    """Corollary 4 of the conference paper."""
    return 4 * math.sqrt(d * math.log(arms) / ((4 * arms + 1) * horizon))


def jmlr_eta(d: int, arms: int, horizon: int) -> float:
    """The journal paper's, with d + 1 for its d, so that it is above 0 without delay."""
    return math.sqrt((d + 1) * math.log(arms) / (arms * horizon))


def gain_gamma(d: int, arms: int, horizon: int) -> float:
    """The paper's, for the gain form."""
    return min(1.0, math.sqrt(2 * d * arms * math.log(arms) / (horizon + d)))


def colt_tsallis_eta(d: int, arms: int, horizon: int) -> float:
    """As in the journal paper, for blocks of 2d slots."""
    return math.sqrt(max(horizon // (2 * d), 1) / 2)


def jmlr_tsallis_eta(d: int, arms: int, horizon: int) -> float:
    """Corollary 7 of the journal paper."""
    return math.sqrt(max(horizon // (2 * d + 1), 1) / 2)


def jmlr_gamma(d: int, arms: int, horizon: int) -> float:
    """The paper's, with a d of at least 1, so that it is above 0 without delay."""
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


class ClwParams(NamedTuple):
    """Variant and learner, its rate and mix, d, the window, and what its total is divided by."""

    variant: int
    learner: int
    rate: float
    mix: float
    d: int
    window: int
    divisor: float


@register
@dataclass(frozen=True)
class Clw(Policy):
    """CLW: a learner fed once per block of random length; needs the horizon and the largest lag.

    Parameters
    ----------
    d
        The largest lag. A simulation fills in the true value if you leave it out.
    variant
        ``colt`` (2018), ``jmlr`` (2022, repaired) or ``seed`` (the appendix of the paper on ARS).
    base
        The learner: ``tsallis``, ``exp3`` (on losses) or ``exp3-gain``.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(Clw(d=19), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    177.4
    """

    d: int | None = None
    variant: VariantName = "jmlr"
    base: LearnerName = "tsallis"
    needs_horizon = True
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        self._check_choices(variant=VariantName, base=LearnerName)
        if self.d is not None:
            self._set(d=check_lag("d", self.d, at_least=VARIANTS[self.variant].min_d))

    def with_delay_facts(self, facts: DelayFacts) -> "Clw":
        if self.d is not None:
            return self
        if math.isinf(facts.reach):
            raise ParameterError(
                "clw needs d, the largest lag, which is infinite or unknown here: pass d=..."
            )
        return replace(self, d=max(math.ceil(facts.reach), VARIANTS[self.variant].min_d))

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_clw, absorb_clw)

    def chance(self) -> Chance:
        return chance_clw

    def initial(self, arms: int) -> LearnerState:
        return blank_learner(arms)

    def params(self, arms: int, horizon: int) -> ClwParams:
        if self.d is None:
            raise ParameterError("clw needs d, the largest lag: pass d=...")
        variant = VARIANTS[self.variant]
        rate = RATES[self.variant, self.base](self.d, arms, horizon)
        return ClwParams(
            variant.number,
            LEARNERS.index(self.base),
            rate,
            mix=rate if self.base in MIXING else 0.0,
            d=self.d,
            window=variant.window(self.d),
            divisor=float(variant.divisor(self.d)),
        )


def chance_clw(state: LearnerState, params: ClwParams, arm: int) -> float:
    """With which probability `decide` draws an arm."""
    return probability(state, params.mix, arm)


def decide_clw(
    state: LearnerState, params: ClwParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next block."""
    arm = draw(state, params.mix, rng)
    return arm, draw_length(params.variant, params.d, rng), params.window


def absorb_clw(state: LearnerState, params: ClwParams, arm: int, window: int, total: float) -> None:
    """Feed the learner with the total of the window."""
    planned = total * (params.window / window)  # what the planned window would have shown
    feed(state, params.learner, params.rate, arm, gain_of(planned, params.divisor))
