"""What a bandit is: rewards, and a delay that says when they arrive."""

from abc import ABC, abstractmethod
from typing import Literal, NoReturn, TypeAlias, get_args

from aftereffect._core import (
    Calendar,
    CountRegret,
    Engine,
    Matrix,
    RewardSource,
    Slots,
    Spec,
    World,
    WorldKernels,
    readable_bytes,
    shorten,
)
from aftereffect.delays import (
    TRACE_ROWS,
    Delay,
    DelayFacts,
    play_slots,
    record_slots,
)
from aftereffect.errors import ParameterError

EngineName: TypeAlias = Literal["roundwise", "slotwise"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

#: Of the tables of a delay and what one replication remembers; each thread has its own of the
#: latter.
MAX_TABLE_BYTES = 128 * 2**20
#: The most pulls that an oracle can wait for at a time: it may keep much of each.
MAX_PENDING = 2**12


class Bandit(Spec, ABC):
    """Arms whose rewards arrive late: a simulated world that turns pulls into totals.

    Examples
    --------
    Every bandit is one:

    >>> import aftereffect as ae
    >>> bandit = ae.parse("stochastic-bandit([0.9, 0.1], delay=interval(30, 39))", ae.Bandit)
    >>> bandit.arms, bandit.delay_facts.mean_lag
    (2, 34.5)
    """

    kind = "bandit"

    delay: Delay

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms."""

    @property
    def calendar(self) -> Calendar:
        """How the slots lie in days and weeks; an empty calendar if the bandit knows no time."""
        return Calendar()

    @property
    def history_slots(self) -> int:
        """The number of slots before the first whose totals policies may see."""
        return 0

    @property
    def covariate_count(self) -> int:
        """The number of covariates of each slot."""
        return 0

    @property
    def data_digest(self) -> str:
        """A digest of files that the spec string only names: results depend on what is in them."""
        return ""

    @property
    def delay_facts(self) -> DelayFacts:
        """The truth about the delay, for policies that must know it."""
        return self.delay.facts(self.arms)

    @abstractmethod
    def check(self, engine: EngineName, horizon: int) -> None:
        """Raise an error if the bandit cannot be played, without the work of preparing it."""

    @abstractmethod
    def engine(self, name: EngineName, horizon: int) -> Engine:
        """Prepare runs of so many slots.

        ``"slotwise"`` is literal: it plays every slot and adds every reward to the slots where it
        arrives. ``"roundwise"`` has the same law and draws only what a round's total needs.
        """

    def count_pending(self) -> int:
        """The most pulls whose rewards an oracle waits for at a time, the latest among them.

        Raises an error if the bandit cannot tell from which pull a reward comes.
        """
        self._refuse_oracles()

    def attributed(self, horizon: int) -> Engine:
        """Prepare runs of an oracle, which learns from which pull each part of a total comes.

        It plays every slot, with the random numbers of the slotwise engine.
        """
        self._refuse_oracles()

    def _refuse_oracles(self) -> NoReturn:
        raise ParameterError(
            f"{shorten(str(self))} has totals only and cannot say from which pull a reward comes: "
            "use a stochastic-bandit or an adversarial-bandit, or a policy that learns from totals"
        )

    @abstractmethod
    def tracer(self, horizon: int) -> Engine:
        """The slotwise engine, with a record of every slot in the last rows of its memory.

        `aftereffect.delays` names the rows: ARM, TOTAL, REWARD.
        """


class RewardBandit(Bandit):
    """A bandit with a source of rewards for each pull; its delay says how engines deliver them."""

    def check(self, engine: EngineName, horizon: int) -> None:
        check_horizon(self, horizon)
        self._check_memory(engine, horizon)

    def engine(self, name: EngineName, horizon: int) -> Engine:
        self._check_memory(name, horizon)
        rewards, count_regret = self._kernels(horizon)
        if name == "roundwise":
            collect, rows, tables, memory = self.delay.roundwise(self.arms, rewards, horizon)
        else:
            step, rows, tables, memory = self.delay.slotwise(self.arms, rewards, horizon)
            collect = play_slots(step)
        world = self._world(horizon, rows, tables)
        return Engine(WorldKernels(collect, count_regret), world, memory)

    def count_pending(self) -> int:
        pending = self.delay.count_pending(self.arms)
        if pending > MAX_PENDING:
            raise ParameterError(
                f"{shorten(str(self.delay))} leaves {pending:,} pulls pending at a time, "
                f"but an oracle can wait for at most {MAX_PENDING:,}: use shorter lags"
            )
        return pending

    def attributed(self, horizon: int) -> Engine:
        rewards, count_regret = self._kernels(horizon)
        collect, parts, rows, tables, memory = self.delay.attributed(self.arms, rewards)
        kernels = WorldKernels(collect, count_regret, parts=parts)
        return Engine(kernels, self._world(horizon, rows, tables), memory)

    def tracer(self, horizon: int) -> Engine:
        self._check_memory("slotwise", horizon)
        rewards, count_regret = self._kernels(horizon)
        step, rows, tables, memory = self.delay.slotwise(self.arms, rewards, horizon)
        kernels = WorldKernels(play_slots(record_slots(step)), count_regret)
        trace_run = (memory[0] + len(TRACE_ROWS), max(memory[1], horizon))
        return Engine(kernels, self._world(horizon, rows, tables), trace_run)

    @abstractmethod
    def _kernels(self, horizon: int) -> tuple[RewardSource, CountRegret]:
        """How kernels get rewards, and how they count regret."""

    @abstractmethod
    def _world(self, horizon: int, rows: Slots, tables: Matrix) -> World:
        """The arrays that the kernels read; `rows` and `tables` are those of the delay."""

    def _check_memory(self, engine: EngineName, horizon: int) -> None:
        needed = self.delay.count_bytes(engine, self.arms, horizon)
        self._check_bytes(needed, f"on the {engine} engine")

    def _check_bytes(self, needed: int, where: str) -> None:
        if needed > MAX_TABLE_BYTES:
            raise ParameterError(
                f"{shorten(str(self.delay))} needs {readable_bytes(needed)} of memory {where}, "
                f"but at most {readable_bytes(MAX_TABLE_BYTES)} are allowed: "
                "use shorter lags, or fewer different delays"
            )


def check_horizon(bandit: Bandit, horizon: int) -> None:
    """Refuse runs in which not every arm could be played."""
    if horizon < bandit.arms:
        raise ParameterError(
            f"horizon must be at least the number of arms, {bandit.arms}, got {horizon}"
        )
