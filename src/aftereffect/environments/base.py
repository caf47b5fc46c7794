"""What every environment offers to a driver."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, TypeAlias, get_args

from aftereffect.kernels import Collect, Engine, Vector
from aftereffect.spec import Spec

EngineName: TypeAlias = Literal["roundwise", "slotwise"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


class Environment(Spec, ABC):
    """A world that turns plays into totals."""

    kind = "environment"

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms."""

    @abstractmethod
    def engine(self, name: EngineName, horizon: int) -> Engine:
        """Made ready for runs of that many slots.

        ``"slotwise"`` is literal: every slot is played and every reward added to the slots where it lands. ``"roundwise"``
        has the same law and draws only what a round's total needs.
        """

    @abstractmethod
    def tracer(self, horizon: int) -> Engine:
        """The slotwise engine, keeping a record of every slot; see `aftereffect.environments.slotwise`."""


class Recipe(NamedTuple):
    """How one spread's totals are drawn: the kernel, the table of the spread that it reads, the shape of its memory."""

    collect: Collect
    law: Vector
    memory: tuple[int, int]
