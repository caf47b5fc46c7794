"""What tests of adversarial bandits share: rewards, and the driver as it is written."""

import numpy as np
import pytest

from aftereffect.policies import named_arrays
from aftereffect.simulation import Task, interpret_driver, prepare, run_batch

ENGINES = ("roundwise", "slotwise")
each_engine = pytest.mark.parametrize("engine", ENGINES)
both_ways = pytest.mark.parametrize("reset", [False, True], ids=["across rounds", "reset on round"])


def binary(horizon, means, seed):
    """A table of zeros and ones."""
    return (np.random.default_rng(seed).random((horizon, len(means))) < means).astype(int)


def one_hot(horizon, shares, seed):
    """The paying arm of each slot, and the same as a table."""
    paying = np.random.default_rng(seed).choice(len(shares), size=horizon, p=shares)
    return paying, np.eye(len(shares), dtype=int)[paying]


def played(policy, bandit, engine, horizon, runs=1, seed=1):
    """The driver as it is written, without a compiler."""
    task = Task(
        policy.with_delay_facts(bandit.delay_facts),
        bandit,
        engine,
        horizon,
        (horizon // 2, horizon),
        seed,
        range(runs),
    )
    return run_batch(task, prepare(task, interpret_driver))


def arrays(states):
    return [array for _, array in named_arrays(states)]
