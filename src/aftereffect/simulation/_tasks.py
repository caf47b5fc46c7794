"""A task is data: which policy, in which bandit, which replications. Running it gives arrays."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect._core import Engine, Matrix, Slots, State, describe_code
from aftereffect.bandits import Bandit
from aftereffect.policies import AttributedPolicy, Policy, check_one_unit
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._driver import BATCH
from aftereffect.simulation._engine_choice import EngineChoice, recipe_of


def describe_data(bandit: Bandit) -> str:
    """Describe the files that a bandit reads; nothing if it reads none.

    >>> import aftereffect as ae
    >>> describe_data(ae.StochasticBandit([0.9, 0.5]))
    ''
    """
    return f" with data {bandit.data_digest}" if bandit.data_digest else ""


def give_facts(policy: Policy, bandit: Bandit) -> Policy:
    """Return a policy that knows the facts about a bandit that it needs.

    >>> import aftereffect as ae
    >>> print(give_facts(ae.Clw(), ae.StochasticBandit([0.9, 0.5], ae.Interval(3, 7))))
    clw(d=8, variant=jmlr, base=tsallis)
    """
    known = (
        check_one_unit(policy).with_delay_facts(bandit.delay_facts).with_calendar(bandit.calendar)
    )
    if isinstance(known, AttributedPolicy):
        bandit.count_pending()  # refuses bandits that have totals only
        return known.with_delay(bandit.delay, bandit.arms)
    return known


@dataclass(frozen=True)
class Task:
    """Some replications of one policy in one bandit.

    Of those from number `keep` on, a GPU leaves a digest only.

    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5])
    >>> task = Task(ae.RoundRobin(), bandit, "roundwise", 10, (10,), 1, range(200))
    >>> [len(batch.replications) for batch in task.batches()]
    [64, 64, 64, 8]
    """

    policy: Policy
    bandit: Bandit
    engine: EngineChoice
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: range
    keep: int | None = None

    def count_whole(self) -> int:
        """How many of its replications are kept, which are the first."""
        count = len(self.replications)
        if self.keep is None:
            return count
        return min(max(self.keep - self.replications.start, 0), count)

    @property
    def made_by(self) -> str:
        """What plays it here: the same wherever the same code and data are loaded."""
        code = describe_code() + describe_own_code(self.policy, self.bandit, constants=False)
        return code + describe_data(self.bandit)

    def initial_state(self) -> State:
        """A fresh state of the policy for one run."""
        if isinstance(self.policy, AttributedPolicy):
            return self.policy.initial_within(self.bandit.arms, self.bandit.count_pending())
        slots = self.horizon + self.bandit.history_slots
        return self.policy.initial_for(self.bandit.arms, slots, self.bandit.covariate_count)

    def bandit_engine(self) -> Engine:
        """The bandit, prepared for the policy."""
        if isinstance(self.policy, AttributedPolicy):
            return self.bandit.attributed(self.horizon)
        return self.bandit.engine(recipe_of(self.engine), self.horizon)

    def only(self, replications: range) -> "Task":
        """Return the same task for some of the replications."""
        return replace(self, replications=replications)

    def batches(self) -> Iterator["Task"]:
        """Split it into parts that one call of the driver takes."""
        for first in range(0, len(self.replications), BATCH):
            yield self.only(self.replications[first : first + BATCH])


class Runs(NamedTuple):
    """By replication: regret at each checkpoint, pulls of each arm, number of rounds."""

    regret: Matrix
    pulls: Matrix
    rounds: Slots

    @classmethod
    def zeros(cls, task: Task) -> "Runs":
        """Return arrays for the replications of a task that are kept."""
        count = task.count_whole()
        return cls(
            regret=np.zeros((count, len(task.checkpoints))),
            pulls=np.zeros((count, task.bandit.arms)),
            rounds=np.zeros(count, dtype=np.int64),
        )
