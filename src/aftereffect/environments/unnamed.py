"""An environment that is known by its label only."""

import math
from dataclasses import dataclass

from aftereffect.environments.base import EngineName, Environment
from aftereffect.errors import ParameterError
from aftereffect.kernels import Engine
from aftereffect.knowledge import Knowledge


@dataclass(frozen=True)
class Unnamed(Environment):
    """Where a saved study was played, if its label is no spec string: rewards that were given as an array."""

    label: str
    number_of_arms: int

    def __str__(self) -> str:
        """The label."""
        return self.label

    @property
    def arms(self) -> int:
        return self.number_of_arms

    @property
    def knowledge(self) -> Knowledge:
        return Knowledge(math.inf, math.inf, math.inf)

    def check(self, engine: EngineName, horizon: int) -> None:
        self.engine(engine, horizon)

    def engine(self, name: EngineName, horizon: int) -> Engine:
        raise ParameterError(f"{self.label} is not a spec string, so it cannot be played again from a file")

    def tracer(self, horizon: int) -> Engine:
        return self.engine("slotwise", horizon)
