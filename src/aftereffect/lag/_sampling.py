"""Draws from a posterior by sequential Monte Carlo.

The likelihood counts with a power that grows from 0 to 1. At each step the population is resampled
in proportion to what it gained, and moved by differences of other draws (differential evolution).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Vector

Score = Callable[[Matrix], Vector]
Draw = Callable[[int], Matrix]

#: Draws at a time.
POPULATION = 256
#: Moves in each step, and in the last one; of the last moves, those whose draws are returned.
MOVES, LAST_MOVES, RETURNED_MOVES = 2, 12, 6
#: The share of the population that stays effective in a step.
MIN_EFFECTIVE = 0.4


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws, a row each, and the log-evidence: the log of the mean likelihood over the prior."""

    rows: Matrix
    log_evidence: float


class _Population:
    def __init__(
        self, draw: Draw, log_prior: Score, log_likelihood: Score, rng: np.random.Generator
    ) -> None:
        self.draw, self.log_prior, self.log_likelihood, self.rng = (
            draw,
            log_prior,
            log_likelihood,
            rng,
        )
        self.rows = draw(POPULATION)
        self.prior, self.likelihood = log_prior(self.rows), log_likelihood(self.rows)

    def step(self, power: float) -> tuple[float, float]:
        """Resample; return the next power, and the logarithm of the mean gain."""
        above = self.likelihood - self.likelihood.max()
        low, high = power, 1.0
        if self._effective(above, 1.0 - power) >= MIN_EFFECTIVE:
            low = 1.0
        else:
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (
                    (middle, high)
                    if self._effective(above, middle - power) >= MIN_EFFECTIVE
                    else (low, middle)
                )
        gain = np.exp((low - power) * above)
        size = len(self.rows)
        points = (np.arange(size) + self.rng.random()) / size
        chosen = np.minimum(np.searchsorted(np.cumsum(gain / gain.sum()), points), size - 1)
        log_gain = math.log(float(gain.mean())) + (low - power) * float(self.likelihood.max())
        self.rows, self.prior, self.likelihood = (
            self.rows[chosen],
            self.prior[chosen],
            self.likelihood[chosen],
        )
        return low, log_gain

    def move(self, power: float) -> None:
        """Propose to move each draw by a multiple of the difference of two others."""
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
        self._accept(
            rows, prior, likelihood, np.where(possible, prior - self.prior, -np.inf), power
        )

    def refresh(self, power: float) -> None:
        """Propose a new first or last half of the parameters of each draw, from the prior.

        So draws jump between modes. As the prior proposes, only the likelihood decides.
        """
        size, width = self.rows.shape
        last = np.arange(width) >= width // 2
        chosen = self.rng.random((size, 1)) < 0.5
        rows = np.where(np.equal(chosen, last), self.draw(size), self.rows)
        self._accept(rows, self.log_prior(rows), self.log_likelihood(rows), np.zeros(size), power)

    def _accept(
        self, rows: Matrix, prior: Vector, likelihood: Vector, odds: Vector, power: float
    ) -> None:
        odds = odds + power * (likelihood - self.likelihood)
        accepted = np.log(self.rng.random(len(rows))) < odds
        self.rows = np.where(accepted[:, None], rows, self.rows)
        self.prior = np.where(accepted, prior, self.prior)
        self.likelihood = np.where(accepted, likelihood, self.likelihood)

    @staticmethod
    def _effective(above: Vector, power: float) -> float:
        gain = np.exp(power * above)
        return float(gain.sum() ** 2 / np.square(gain).sum() / len(gain))


def sample(draw: Draw, log_prior: Score, log_likelihood: Score, rng: np.random.Generator) -> Draws:
    """Draw from prior times likelihood; the two halves of the prior must be independent."""
    population = _Population(draw, log_prior, log_likelihood, rng)
    power = log_evidence = 0.0
    while power < 1:
        power, gain = population.step(power)
        log_evidence += gain
        population.refresh(power)
        for _ in range(MOVES if power < 1 else 0):
            population.move(power)
    draws = []
    for _ in range(LAST_MOVES):
        population.move(1.0)
        draws.append(population.rows)
    return Draws(np.concatenate(draws[-RETURNED_MOVES:]), log_evidence)
