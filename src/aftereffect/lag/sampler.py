"""Draws from what is likely given totals: a population that moves from what is likely beforehand in steps.

Sequential Monte Carlo: the evidence counts with a power that grows from 0 to 1; at each step draws are taken again in
proportion to what they gained, and moved by differences of other draws (differential evolution).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Matrix, Vector

Score = Callable[[Matrix], Vector]

POPULATION = 256
MOVES, LAST_MOVES, KEPT_MOVES = 2, 12, 6
#: The share of the population that a step keeps effective.
EFFECTIVE = 0.4


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws, a row each, and the logarithm of the evidence: the mean of the likelihood over what is likely beforehand."""

    rows: Matrix
    log_evidence: float


class _Population:
    def __init__(self, rows: Matrix, log_prior: Score, log_likelihood: Score, rng: np.random.Generator) -> None:
        self.log_prior, self.log_likelihood, self.rng = log_prior, log_likelihood, rng
        self.rows, self.prior, self.likelihood = rows, log_prior(rows), log_likelihood(rows)

    def step(self, power: float) -> tuple[float, float]:
        """Take draws again; the next power, and the logarithm of the mean gain."""
        above = self.likelihood - self.likelihood.max()
        low, high = power, 1.0
        if self._effective(above, 1.0 - power) >= EFFECTIVE:
            low = 1.0
        else:
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (middle, high) if self._effective(above, middle - power) >= EFFECTIVE else (low, middle)
        gain = np.exp((low - power) * above)
        size = len(self.rows)
        places = (np.arange(size) + self.rng.random()) / size
        taken = np.minimum(np.searchsorted(np.cumsum(gain / gain.sum()), places), size - 1)
        log_gain = math.log(float(gain.mean())) + (low - power) * float(self.likelihood.max())
        self.rows, self.prior, self.likelihood = self.rows[taken], self.prior[taken], self.likelihood[taken]
        return low, log_gain

    def move(self, power: float) -> None:
        """Propose to move each draw by a multiple of the difference of two others, in some of its parameters."""
        size, width = self.rows.shape
        one, other = ((np.arange(size) + self.rng.integers(1, size, size)) % size for _ in range(2))
        usual = 2.38 / math.sqrt(2 * width) * np.exp(self.rng.normal(-0.5, 0.7, size))
        reach = np.where(self.rng.random(size) < 0.15, 1.0, usual)[:, None]
        steps = reach * (self.rows[one] - self.rows[other]) * (self.rng.random((size, width)) < 0.7)
        rows = self.rows + steps + self.rng.normal(0, 1e-3, (size, width))
        prior, likelihood = self.log_prior(rows), np.full(size, -np.inf)
        possible = np.isfinite(prior)
        if possible.any():
            likelihood[possible] = self.log_likelihood(rows[possible])
        odds = np.where(possible, power * (likelihood - self.likelihood) + prior - self.prior, -np.inf)
        accepted = np.log(self.rng.random(size)) < odds
        self.rows = np.where(accepted[:, None], rows, self.rows)
        self.prior = np.where(accepted, prior, self.prior)
        self.likelihood = np.where(accepted, likelihood, self.likelihood)

    @staticmethod
    def _effective(above: Vector, power: float) -> float:
        gain = np.exp(power * above)
        return float(gain.sum() ** 2 / np.square(gain).sum() / len(gain))


def sample(beforehand: Matrix, log_prior: Score, log_likelihood: Score, rng: np.random.Generator, moves: int = MOVES) -> Draws:
    """Draws from prior times likelihood, beginning with draws from the prior."""
    population = _Population(beforehand.copy(), log_prior, log_likelihood, rng)
    power = log_evidence = 0.0
    while power < 1:
        power, gain = population.step(power)
        log_evidence += gain
        for _ in range(moves if power < 1 else 0):
            population.move(power)
    kept = []
    for _ in range(LAST_MOVES):
        population.move(1.0)
        kept.append(population.rows)
    return Draws(np.concatenate(kept[-KEPT_MOVES:]), log_evidence)
