"""Rounds played by the book, and what their totals must be on average: the closed form that engines are tested against."""

from dataclasses import dataclass

import numpy as np

from aftereffect.environments import EngineName, Environment, StochasticBandit
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies import Policy, State
from aftereffect.simulation.driver import BATCH
from aftereffect.simulation.replications import Task, play, ready
from aftereffect.spreads import RandomLag

ROUND_FIELDS = 3


@dataclass(frozen=True)
class Script(Policy):
    """Plays given rounds (arm, slots, window) and remembers the total of each in its own state."""

    rounds: tuple[tuple[int, int, int], ...]

    @property
    def slots(self) -> int:
        """How long the script is."""
        return sum(slots for _, slots, _ in self.rounds)

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return State(np.zeros((1, arms)), np.zeros(1 + len(self.rounds)))

    def params(self, arms: int, horizon: int) -> Vector:
        return np.array(self.rounds, dtype=float).ravel()


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The next line of the script."""
    line = int(own[0]) * ROUND_FIELDS
    return int(params[line]), int(params[line + 1]), int(params[line + 2])


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """Note the total and go on."""
    own[0] += 1
    own[int(own[0])] = total


def totals(script: Script, environment: Environment, engine: EngineName, runs: int, seed: int) -> Matrix:
    """The total of each round of a script, by run and round."""
    batches = [range(first, min(first + BATCH, runs)) for first in range(0, runs, BATCH)]
    tasks = [Task(script, environment, engine, script.slots, (script.slots,), seed, batch) for batch in batches]
    prepared = ready(tasks[0])
    return np.concatenate([play(task, prepared).own[:, 1:] for task in tasks])


def window_moments(script: Script, environment: StochasticBandit) -> tuple[Vector, Vector]:
    """Mean and variance of each round's total, from the spread's tail alone.

    Pull s delivers the expected share w = tail(start-1-s) - tail(end-s) of its reward X in a window start .. end. With fixed
    shares its contribution is w X; with one random lag it is X with probability w, else 0.
    """
    means = np.array(environment.means)
    arms = np.repeat([arm for arm, _, _ in script.rounds], [slots for _, slots, _ in script.rounds])
    mean, variance = means[arms], environment.reward.variance(means)[arms]
    ends = np.cumsum([slots for _, slots, _ in script.rounds]) - 1
    expected, spreads = [], []
    for end, (_, _, window) in zip(ends, script.rounds, strict=True):
        age = end - np.arange(end + 1)
        mu, var = mean[: end + 1], variance[: end + 1]
        total = spread_out = 0.0
        for spread in set(environment.spreads):
            own = np.array([each == spread for each in environment.spreads])[arms[: end + 1]]
            share = np.where(own, spread.tail(age - window) - spread.tail(age), 0.0)
            total += (share * mu).sum()
            each = share * (var + mu**2) - (share * mu) ** 2 if isinstance(spread, RandomLag) else share**2 * var
            spread_out += each.sum()
        expected.append(total)
        spreads.append(spread_out)
    return np.array(expected), np.array(spreads)
