"""What every environment offers to a driver."""

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias, get_args

from aftereffect.errors import ParameterError
from aftereffect.kernels import Engine
from aftereffect.knowledge import Knowledge
from aftereffect.spec import Spec

EngineName: TypeAlias = Literal["roundwise", "slotwise"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

#: The last rows of a tracer's memory, with one column per slot.
RECORD = ARM, OBSERVED, GENERATED = range(-3, 0)


class Environment(Spec, ABC):
    """A world that turns plays into totals."""

    kind = "environment"

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms."""

    @property
    @abstractmethod
    def knowledge(self) -> Knowledge:
        """The truth about the delays, for policies that must be told."""

    def check(self, engine: EngineName, horizon: int) -> None:
        """Refuse what cannot be played, without the work of making it ready."""
        if horizon < self.arms:
            raise ParameterError(f"horizon must be at least the number of arms, {self.arms}, got {horizon}")

    @abstractmethod
    def engine(self, name: EngineName, horizon: int) -> Engine:
        """Made ready for runs of that many slots.

        ``"slotwise"`` is literal: every slot is played and every reward added to the slots where it lands. ``"roundwise"``
        has the same law and draws only what a round's total needs.
        """

    @abstractmethod
    def tracer(self, horizon: int) -> Engine:
        """The slotwise engine, with a record of every slot in the last rows of its memory: ARM, OBSERVED, GENERATED."""
