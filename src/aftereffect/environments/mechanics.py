"""How plays become totals: what spreads or an adversary do with the rewards of an environment, by rounds and by slots."""

from abc import abstractmethod
from functools import singledispatch
from typing import NamedTuple

from aftereffect.environments import roundwise, slotwise
from aftereffect.environments.base import RECORD, EngineName, Environment
from aftereffect.environments.pulls import Pulls
from aftereffect.environments.sizes import check_memory
from aftereffect.environments.slotwise import Step
from aftereffect.environments.world import arranged
from aftereffect.kernels import Collect, Engine, Lose, Matrix, Slots, World, WorldKernels
from aftereffect.spreads import Delaying, Spreading


class ByRounds(NamedTuple):
    """The fast way: a round in one call. Rows and laws go into the world; memory is the shape of what it remembers."""

    collect: Collect
    rows: Slots
    laws: Matrix
    memory: tuple[int, int]


class BySlots(NamedTuple):
    """The literal way: a slot in one call."""

    step: Step
    rows: Slots
    laws: Matrix
    memory: tuple[int, int]


@singledispatch
def by_rounds(delays: Delaying, arms: int, pulls: Pulls, horizon: int) -> ByRounds:
    """How rewards of pulls become the totals of rounds."""
    raise TypeError(f"no fast way is registered for {type(delays).__name__}")


@singledispatch
def by_slots(delays: Delaying, arms: int, pulls: Pulls, horizon: int) -> BySlots:
    """How rewards of pulls become the totals of slots."""
    raise TypeError(f"no literal way is registered for {type(delays).__name__}")


@by_rounds.register
def _(delays: Spreading, arms: int, pulls: Pulls, horizon: int) -> ByRounds:
    rows, laws, groups, memory = arranged(delays.by_arm(arms), lambda spread: roundwise.recipe(spread, pulls, horizon))
    return ByRounds(roundwise.collected(groups, pulls), rows, laws, (len(laws), memory))


@by_slots.register
def _(delays: Spreading, arms: int, pulls: Pulls, horizon: int) -> BySlots:
    rows, laws, groups, memory = arranged(delays.by_arm(arms), lambda spread: slotwise.recipe(spread, horizon))
    return BySlots(slotwise.slot_step(pulls, slotwise.landed(groups)), rows, laws, (len(slotwise.ROWS), memory))


class DelayedEnvironment(Environment):
    """An environment made of rewards, and of delays that do something with them."""

    @property
    @abstractmethod
    def _delays(self) -> Delaying:
        """What delays rewards."""

    @abstractmethod
    def _parts(self, horizon: int) -> tuple[Pulls, Lose]:
        """How rewards are had, and how regret is counted."""

    @abstractmethod
    def _world(self, horizon: int, rows: Slots, laws: Matrix) -> World:
        """The arrays that the kernels read."""

    def check(self, engine: EngineName, horizon: int) -> None:
        super().check(engine, horizon)
        check_memory(self._delays, self.arms, engine, horizon)

    def engine(self, name: EngineName, horizon: int) -> Engine:
        check_memory(self._delays, self.arms, name, horizon)
        pulls, lose = self._parts(horizon)
        if name == "roundwise":
            collect, rows, laws, memory = by_rounds(self._delays, self.arms, pulls, horizon)
        else:
            step, rows, laws, memory = by_slots(self._delays, self.arms, pulls, horizon)
            collect = slotwise.literal(step)
        return Engine(WorldKernels(collect, lose), self._world(horizon, rows, laws), memory)

    def tracer(self, horizon: int) -> Engine:
        check_memory(self._delays, self.arms, "slotwise", horizon)
        pulls, lose = self._parts(horizon)
        step, rows, laws, memory = by_slots(self._delays, self.arms, pulls, horizon)
        recorded = (memory[0] + len(RECORD), max(memory[1], horizon))
        return Engine(WorldKernels(slotwise.traced(step), lose), self._world(horizon, rows, laws), recorded)
