"""Random numbers by counter, for runs on a GPU: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, 2011).

Number n of a stream is a function of the seed, the replication, the use (policy or bandit) and n.
Nothing else matters: not the device, not how many replications run at a time, not how threads are
grouped. A block of the cipher gives two numbers; the second waits for the next draw.

A stream is an array of five words. On a GPU, arrays of words have the methods below; elsewhere,
`Stream` has them. They draw what kernels ask of a NumPy generator, from the same laws.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from aftereffect.simulation._driver import Words

#: What a stream holds: the key, what it is for, how much was drawn, and the number that waits.
KEY, REPLICATION, PART, DRAWN, WAITING = range(5)
STREAM_WORDS = 5

# Numpy's types, because numba makes a float of an unsigned integer and a Python integer.
_LOW, _HALF, _ONE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1)
_FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_FACTOR_0, _FACTOR_1 = _FACTORS
_STEP_0, _STEP_1 = _STEPS
_UNUSED_BITS, _SPACING = np.uint64(11), 2.0**-53
_ROUNDS = 10


def seed_key(seed: int) -> int:
    """The key of all streams of a seed."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def encrypt(key: Any, count: Any, replication: Any, part: Any) -> tuple[Any, Any]:
    """Two words of 64 bits: block `count` of a stream."""
    a, b, c, d = count & _LOW, count >> _HALF, replication, part
    k, m = key & _LOW, key >> _HALF
    for _ in range(_ROUNDS):
        left, right = a * _FACTOR_0, c * _FACTOR_1
        a, b = (right >> _HALF) ^ b ^ k, right & _LOW
        c, d = (left >> _HALF) ^ d ^ m, left & _LOW
        k, m = (k + _STEP_0) & _LOW, (m + _STEP_1) & _LOW
    return a | (b << _HALF), c | (d << _HALF)


def random(words: Words) -> float:
    """Uniform on [0, 1), in steps of 2^-53."""
    drawn = words[DRAWN]
    words[DRAWN] = drawn + _ONE
    if drawn & _ONE:
        return float(words[WAITING] >> _UNUSED_BITS) * _SPACING
    first, second = encrypt(words[KEY], drawn >> _ONE, words[REPLICATION], words[PART])
    words[WAITING] = second
    return float(first >> _UNUSED_BITS) * _SPACING


def standard_normal(rng: Any) -> float:
    """Normal with mean 0 and variance 1, by the method of Box and Muller."""
    radius = math.sqrt(-2.0 * math.log(1.0 - rng.random()))
    return radius * math.cos(2.0 * math.pi * rng.random())


#: Up to so many expected successes a binomial number is found by counting, else by rejection.
_FEW = 10.0


def binomial(rng: Any, n: int, p: float) -> int:
    """The number of successes in n trials."""
    rare = min(p, 1.0 - p)
    if n <= 0 or rare <= 0.0:
        return max(n, 0) if p >= 1.0 else 0
    count = _count_up(rng, n, rare) if n * rare < _FEW else _reject(rng, n, rare)
    return count if p <= 0.5 else n - count


def _count_up(rng: Any, n: int, p: float) -> int:
    """By inversion: take the chances of 0, 1, 2, ... from a random number while it lasts."""
    left, odds = rng.random(), p / (1.0 - p)
    chance = math.exp(n * math.log1p(-p))
    count = 0
    while left >= chance and count < n:
        left -= chance
        count += 1
        chance *= odds * (n - count + 1) / count
        if chance < 1e-18 * left:  # rounding left more than all further chances
            return count
    return count


def _reject(rng: Any, n: int, p: float) -> int:
    """By transformed rejection: the method BTRS of Hormann (1993); p is at most 1/2."""
    deviation = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre, squeeze = n * p + 0.5, 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    mode, odds = math.floor((n + 1) * p), p / (1.0 - p)
    peak = (
        (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
        + _correction(mode)
        + _correction(n - mode)
    )
    while True:
        u = rng.random() - 0.5 + 2.0**-54  # never -1/2, where the hat is infinite
        v = rng.random()
        edge = 0.5 - abs(u)
        count = math.floor((2.0 * a / edge + b) * u + centre)
        if edge >= 0.07 and v <= squeeze:
            return int(count)
        if count < 0 or count > n or v == 0.0:
            continue
        density = (
            peak
            + (n + 1.0) * math.log((n - mode + 1.0) / (n - count + 1.0))
            + (count + 0.5) * math.log(odds * (n - count + 1.0) / (count + 1.0))
            - _correction(count)
            - _correction(n - count)
        )
        if math.log(v * alpha / (a / (edge * edge) + b)) <= density:
            return int(count)


def _correction(n: float) -> float:
    """By how much ln n! is above Stirling's formula in n + 1."""
    m = n + 1.0
    if n < 10.0:
        return math.lgamma(m) - (n + 0.5) * math.log(m) + m - 0.5 * math.log(2.0 * math.pi)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * m * m)) / (m * m)) / m


def beta(rng: Any, a: float, b: float) -> float:
    """Beta(a, b)."""
    if a <= 1.0 and b <= 1.0:  # by the method of Johnk, in logarithms
        while True:
            x, y = math.log(1.0 - rng.random()) / a, math.log(1.0 - rng.random()) / b
            if max(x, y) < -1.0 or math.exp(x) + math.exp(y) <= 1.0:
                return 1.0 / (1.0 + math.exp(min(y - x, 700.0)))
    first: float = _gamma(rng, a)
    return first / (first + _gamma(rng, b))


def _gamma(rng: Any, shape: float) -> float:
    """By the method of Marsaglia and Tsang (2000)."""
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x: float = rng.standard_normal()
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        cube = root * root * root
        if math.log(1.0 - rng.random()) < 0.5 * x * x + d - d * cube + d * math.log(cube):
            break
    if shape >= 1.0:
        return d * cube
    return d * cube * math.exp(math.log(1.0 - rng.random()) / shape)


#: What streams can draw, by the name of the method of a NumPy generator.
METHODS: dict[str, Callable[..., Any]] = {
    "random": random,
    "standard_normal": standard_normal,
    "binomial": binomial,
    "beta": beta,
}


class Stream:
    """A stream outside of a GPU.

    Examples
    --------
    >>> from aftereffect._core import POLICY
    >>> stream = Stream(np.array([seed_key(7), 3, POLICY, 0, 0], dtype=np.uint64))
    >>> round(stream.random(), 6), round(stream.random(), 6)
    (0.029947, 0.881946)
    """

    def __init__(self, words: Words) -> None:
        self.words = words

    def random(self) -> float:
        """Draw a uniform number."""
        return random(self.words)

    def standard_normal(self) -> float:
        """Draw a normal number."""
        return standard_normal(self)

    def binomial(self, n: int, p: float) -> int:
        """Draw a number of successes."""
        return binomial(self, n, p)

    def beta(self, a: float, b: float) -> float:
        """Draw a number from a beta law."""
        return beta(self, a, b)
