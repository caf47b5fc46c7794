"""Theorem 2 and the appendix bound the regret of the adversarial algorithms.

::

    Theorem 2, ARS-EXP3:   regret <= 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1)
    appendix, ARS-CLW:     regret <= sum over phases with h >= d of 8 sqrt(h (4 N + 1) t ln N)
                                     + 2 h^-1(d)

K is the number of rounds; a phase has t slots and guesses h; h^-1(d) is the first T with h(T) >= d.
The second bound follows from Corollary 4 of the paper on CLW, without the O(d) per phase that the
corollary does not state.
"""

import math
from dataclasses import dataclass

from aftereffect._core import MAX_SLOTS, check_float, check_int
from aftereffect.growth import Power
from aftereffect.policies import ArsClw, ArsExp3


@dataclass(frozen=True)
class Theorem2:
    """The bound of ARS-EXP3: the cost of learning, of delay, and of the slots after the last round.

    Examples
    --------
    >>> theorem_2(ArsExp3(), arms=3, d=10, horizon=10**7).longest_round
    247
    """

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
    """The bound of ARS-CLW: the cost of learning, and of the slots before the guess reaches d.

    Examples
    --------
    >>> ars_clw_bound(ArsClw(), arms=3, d=10, horizon=10**7).guessing
    118100
    """

    learning: float
    guessing: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.learning + self.guessing


def theorem_2(policy: ArsExp3, arms: int, d: float, horizon: int) -> Theorem2:
    """The bound for rewards that arrive within d slots, however delays are chosen.

    Examples
    --------
    >>> bound = theorem_2(ArsExp3(), arms=3, d=10, horizon=10**7)
    >>> bound.rounds, round(bound.total)
    (60698, 1545634)
    """
    count, slots, reach = _check(arms, d, horizon)
    rounds = policy.rounds(slots)
    growth = Power(policy.beta)
    longest = growth(rounds)
    learning = 3 * longest * math.sqrt(count * math.log(count) * rounds)
    return Theorem2(rounds, longest, learning, 2 * reach * rounds, growth(rounds + 1))


def ars_clw_bound(policy: ArsClw, arms: int, d: float, horizon: int) -> ArsClwBound:
    """The bound for rewards that arrive within d slots, if delays do not depend on the arms played.

    Examples
    --------
    >>> round(ars_clw_bound(ArsClw(), arms=3, d=10, horizon=10**7).total)
    1198994
    """
    count, slots, reach = _check(arms, d, horizon)
    learning, start, end = 0.0, 0, policy.first_phase
    while start < slots:
        guess = policy.guess(end)
        if guess >= reach:
            learning += 8 * math.sqrt(
                guess * (4 * count + 1) * (min(end, slots) - start) * math.log(count)
            )
        start, end = end, 2 * end
    return ArsClwBound(learning, 2 * first_right_guess(policy, reach))


def first_right_guess(policy: ArsClw, d: float) -> float:
    """h^-1(d): the first T with h(T) >= d; infinite if no run is that long.

    Examples
    --------
    >>> first_right_guess(ArsClw(), d=10)
    59050
    """
    high = 2
    while policy.guess(high) < d:
        if high > MAX_SLOTS:
            return math.inf
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if policy.guess(middle) < d else (low, middle)
    return high


def _check(arms: int, d: float, horizon: int) -> tuple[int, int, float]:
    return (
        check_int("arms", arms, at_least=2, at_most=MAX_SLOTS),
        check_int("horizon", horizon, at_least=1, at_most=MAX_SLOTS),
        check_float("d", d, at_least=0),
    )
