"""The regret bounds of the paper's adversarial algorithms, term by term.

::

    Theorem 2, ARS-EXP3:   regret <= 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1)
    appendix, ARS-CLW:     regret <= sum over phases with h >= d of 8 sqrt(h (4 N + 1) t ln N)  +  2 h^-1(d)

K is the number of rounds; a phase has t slots and guesses h; h^-1(d) is the first T with h(T) >= d. The latter is made of
Corollary 4 of the paper on CLW, without the O(d) per phase which that leaves open.
"""

import math
from dataclasses import dataclass

from aftereffect.checks import MOST_SLOTS, real, whole
from aftereffect.growth import Power
from aftereffect.policies import ArsClw, ArsExp3


@dataclass(frozen=True)
class Theorem2:
    """The bound of ARS-EXP3: what learning costs, what delay costs, and the rest that no round fits into."""

    rounds: int
    longest_round: int
    learning: float
    delay: float
    rest: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.learning + self.delay + self.rest


@dataclass(frozen=True)
class ArsClwBound:
    """The bound of ARS-CLW: what learning costs, and the slots before the guess has reached d."""

    learning: float
    guessing: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.learning + self.guessing


def theorem_2(policy: ArsExp3, arms: int, d: float, horizon: int) -> Theorem2:
    """The bound for rewards that come within d slots, whoever chooses the delays.

    Examples
    --------
    >>> bound = theorem_2(ArsExp3(), arms=3, d=10, horizon=10**7)
    >>> bound.rounds, round(bound.total)
    (60698, 1545634)
    """
    count, slots, late = _checked(arms, d, horizon)
    rounds = policy.rounds(slots)
    growth = Power(policy.beta)
    longest = growth(rounds)
    learning = 3 * longest * math.sqrt(count * math.log(count) * rounds)
    return Theorem2(rounds, longest, learning, 2 * late * rounds, growth(rounds + 1))


def ars_clw_bound(policy: ArsClw, arms: int, d: float, horizon: int) -> ArsClwBound:
    """The bound for rewards that come within d slots, where delays do not look at the play."""
    count, slots, late = _checked(arms, d, horizon)
    learning, start, end = 0.0, 0, policy.first_phase
    while start < slots:
        guess = policy.guess(end)
        if guess >= late:
            learning += 8 * math.sqrt(guess * (4 * count + 1) * (min(end, slots) - start) * math.log(count))
        start, end = end, 2 * end
    return ArsClwBound(learning, 2 * first_right_guess(policy, late))


def first_right_guess(policy: ArsClw, d: float) -> float:
    """h^-1(d): the first T with h(T) >= d; infinite if no run is that long."""
    high = 2
    while policy.guess(high) < d:
        if high > MOST_SLOTS:
            return math.inf
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if policy.guess(middle) < d else (low, middle)
    return high


def _checked(arms: int, d: float, horizon: int) -> tuple[int, int, float]:
    return (
        whole("arms", arms, at_least=2, at_most=MOST_SLOTS),
        whole("horizon", horizon, at_least=1, at_most=MOST_SLOTS),
        real("d", d, at_least=0),
    )
