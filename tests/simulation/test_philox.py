"""The random numbers of the engine "cuda": those of the published cipher, and samplers of the right laws."""

import numpy as np
import pytest
import scipy.stats

from aftereffect.simulation import _philox
from aftereffect.simulation._philox import Stream, encrypt, seed_key

#: From the test vectors of Random123 (kat_vectors, philox4x32 with 10 rounds): counter, key, cipher.
KNOWN = (
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
)


def words_of(text):
    return [int(word, 16) for word in text.split()]


def stream(*words):
    return Stream(np.array([*words, 0, 0], dtype=np.uint64))


@pytest.mark.parametrize(("counter", "key", "cipher"), KNOWN)
def test_the_cipher_is_the_published_one(counter, key, cipher):
    a, b, c, d = words_of(counter)
    low, high = words_of(key)
    arguments = (np.uint64(each) for each in (low | high << 32, a | b << 32, c, d))
    first, second = (int(word) for word in encrypt(*arguments))
    assert [first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF, second >> 32] == words_of(cipher)


def test_each_number_is_the_next_word_of_the_stream():
    drawn = stream(seed_key(9), 5, 1)
    numbers = [drawn.random() for _ in range(6)]
    key, part = (np.uint64(each) for each in (seed_key(9), 1))
    blocks = [encrypt(key, np.uint64(block), np.uint64(5), part) for block in range(3)]
    assert numbers == [(int(word) >> 11) / 2**53 for block in blocks for word in block]


def test_streams_of_other_seeds_replications_and_uses_differ():
    first = {
        stream(seed_key(seed), r, part).random()
        for seed in (1, 2)
        for r in (0, 1)
        for part in (0, 1)
    }
    assert len(first) == 8


@pytest.mark.parametrize(
    ("n", "p"),
    [(1, 0.3), (20, 0.4), (30, 0.9), (25, 0.5), (200, 0.06), (1_000, 0.3), (10**6, 0.99)],
)
def test_binomial_has_its_law(n, p):
    rng, count = np.random.default_rng(1), 20_000
    drawn = np.array([_philox.binomial(rng, n, p) for _ in range(count)])
    law = scipy.stats.binom(n, p)
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    found = np.histogram(drawn, [-np.inf, *(edges + 0.5), np.inf])[0]
    kept = expected > 0
    assert drawn.min() >= 0
    assert drawn.max() <= n
    assert scipy.stats.chisquare(found[kept], expected[kept] * count).pvalue > 1e-4


def test_binomial_at_its_edges():
    rng = np.random.default_rng(1)
    edges = [(0, 0.5), (-3, 1.0), (7, 0.0), (7, 1.0)]
    assert [_philox.binomial(rng, n, p) for n, p in edges] == [0, 0, 0, 7]


@pytest.mark.parametrize(
    ("a", "b"),
    [(0.5, 0.5), (1.0, 1.0), (0.1, 0.2), (0.3, 4.0), (2.5, 0.4), (3.0, 5.0), (400.0, 90.0)],
)
def test_beta_has_its_law(a, b):
    rng = Wrapped(np.random.default_rng(2))
    drawn = [_philox.beta(rng, a, b) for _ in range(10_000)]
    assert scipy.stats.kstest(drawn, scipy.stats.beta(a, b).cdf).pvalue > 1e-4


def test_standard_normal_has_its_law():
    rng = np.random.default_rng(3)
    drawn = [_philox.standard_normal(rng) for _ in range(20_000)]
    assert scipy.stats.kstest(drawn, "norm").pvalue > 1e-4


class Wrapped:
    """NumPy's uniform numbers, because drawing those of the cipher in Python takes long."""

    def __init__(self, rng):
        self.random = rng.random

    def standard_normal(self):
        return _philox.standard_normal(self)
