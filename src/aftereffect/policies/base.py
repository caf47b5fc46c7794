"""What every policy offers to a driver."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.knowledge import Knowledge
from aftereffect.spec import Spec


class State(NamedTuple):
    """All that a policy remembers: a matrix with one column per arm and named rows, and a vector of named scalars."""

    arms: Matrix
    own: Vector


class Policy(Spec, ABC):
    """A rule for playing rounds: parameters here, behaviour in two kernels.

    ``decide(arms, own, params, t, rng)`` answers which arm to play, for how many slots, and how many of the last of them
    to look at; t is the number of slots played so far. ``absorb(arms, own, params, arm, slots, total)`` learns that `slots` of
    the round were looked at and showed that total. In a simulation these are the ones it asked for. Live there may be fewer,
    where some are missing, or more, where a round waits for its totals; the arm may be another one that was played instead;
    and a total may be below 0. So it learns from the average, by as many slots as were looked at, and plans by what it asked
    for. A round that the horizon cuts short is not absorbed.

    Parameters are checked where they are given: any that the constructor takes must serve any number of arms and slots.
    """

    kind = "policy"

    @property
    def needs_horizon(self) -> bool:
        """Whether its parameters depend on how long it plays; if not, those of a longer run must serve as well."""
        return False

    def told(self, knowledge: Knowledge) -> "Policy":
        """The same policy, told what it must know about the delay and was not given; most need nothing."""
        return self

    @abstractmethod
    def kernels(self) -> PolicyKernels:
        """The two plain functions; equal policies share them, so that they are compiled once."""

    @abstractmethod
    def initial(self, arms: int) -> State:
        """A fresh state before the first slot."""

    @abstractmethod
    def params(self, arms: int, horizon: int) -> Vector:
        """What the kernels read, enough for a run of that many slots."""

    def radii(self, state: State, params: Vector, t: int) -> Vector | None:
        """By how much the policy, after t slots, allows each arm to be better than its average; None if it has no such idea."""
        return None
