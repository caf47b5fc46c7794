"""The random numbers of a live policy: recorded by a seed and a count, so that a replay draws the same."""

import numpy as np

from aftereffect.seeds import POLICY, stream


class Draws:
    """The numbers of a policy in replication 0 of a simulation with that seed, from any place on.

    A kernel calls nothing but ``random()``, so its place is the count of these. The 53 bits are taken from the bit generator
    itself, whose numbers numpy keeps for ever, while it may change how others are made of them.
    """

    def __init__(self, seed: int, drawn: int = 0) -> None:
        self.drawn = drawn
        self._bits = np.random.PCG64(stream(seed, 0, POLICY))
        self._bits.advance(drawn)

    def random(self) -> float:
        """The next number in [0, 1)."""
        self.drawn += 1
        return (int(self._bits.random_raw()) >> 11) * 2.0**-53
