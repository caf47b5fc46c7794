"""What tests of policies for adversarial bandits share: their variants, and how to drive one without a bandit."""

import numpy as np
import pytest

from aftereffect.policies import named_arrays

VARIANTS, BASES = ("colt", "jmlr", "seed"), ("exp3", "exp3-gain", "tsallis")
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_base = pytest.mark.parametrize("base", BASES)


def made_up(slots, arms, seed):
    """What would be seen in each slot of each arm: delays pile rewards up, so that a slot may show more than 1."""
    rng = np.random.default_rng(1_000 + seed)
    return rng.random((slots, arms)) * np.linspace(0.4, 1.9, arms)


def driven(policy, arms, horizon, seed):
    """A policy's decisions, cut by the horizon as a driver does it, and its random numbers for another to draw."""
    decide, absorb = policy.kernels()
    state, params = policy.initial(arms), policy.params(arms, horizon)
    seen = made_up(horizon, arms, seed)
    rng = np.random.default_rng(seed)
    decisions, t = [], 0
    while t < horizon:
        arm, plan_study, window = decide(state, params, t, rng)
        slots = min(plan_study, horizon - t)
        if slots == plan_study:
            absorb(
                state, params, arm, window, float(seen[t + slots - window : t + slots, arm].sum())
            )
        else:
            window = 0
        decisions.append((arm, slots, window))
        t += slots
    return decisions, rng.random()


def scores(state):
    """The scores and weights of the learner within a state, as a copy."""
    found = {name.rpartition(".")[2]: array for name, array in named_arrays(state)}
    return np.array([found["score"], found["weight"]])
