"""Which random numbers a seed stands for. Policy and environment of each replication have streams of their own."""

import secrets

import numpy as np

from aftereffect.checks import whole

#: The largest that every integer column can hold.
LARGEST_SEED = 2**63 - 1
#: Small enough also for JSON readers that keep numbers as doubles.
_DRAWN_BITS = 53

POLICY, WORLD = range(2)


def seed_or_drawn(seed: object) -> int:
    """A seed that was given, checked, or a new one."""
    return secrets.randbits(_DRAWN_BITS) if seed is None else whole("seed", seed, at_most=LARGEST_SEED)


def stream(seed: int, replication: int, part: int) -> np.random.SeedSequence:
    """The seeds of the policy's or the environment's numbers in one replication, whatever else runs, wherever."""
    return np.random.SeedSequence(seed, spawn_key=(replication, part))
