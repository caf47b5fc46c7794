"""The bandit whose rewards were fixed beforehand, with delayed, composite, anonymous feedback."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import aftereffect.environments.hold_back  # noqa: F401  (registers the adversary)
from aftereffect.environments.base import EngineName
from aftereffect.environments.ledger import Ledger, ledger_of, pulls_from, totals
from aftereffect.environments.mechanics import DelayedEnvironment
from aftereffect.environments.pulls import Pulls
from aftereffect.errors import ParameterError
from aftereffect.kernels import Lose, Matrix, Slots
from aftereffect.knowledge import Knowledge, knowledge_of
from aftereffect.schedules import Schedule, as_schedule
from aftereffect.spec import as_spec, register
from aftereffect.spreads import Delaying, HoldBack, Immediate, Spreading


class AdversarialWorld(NamedTuple):
    """What the kernels of an adversarial bandit read; `best` is the arm that brings most over the whole horizon."""

    source: Ledger
    best: int
    rows: Slots
    laws: Matrix


@register
@dataclass(frozen=True)
class AdversarialBandit(DelayedEnvironment):
    """Rewards that were fixed before the game, delayed by a spread or by an adversary that watches the play.

    The regret is against the one arm that brings most over the whole horizon, on generated reward: the sum over slots of what
    that arm brings less what the arm played brings, whenever it lands. Before the horizon it may be negative.

    Parameters
    ----------
    rewards
        A table of rewards in [0, 1] with a row per slot and a column per arm, or the arm that pays 1 in each slot, or a
        schedule such as `DrawnArm`.
    delays
        A spread (or `PerArm` with one for each arm), or `HoldBack`.

    Examples
    --------
    >>> from aftereffect import HoldBack
    >>> env = AdversarialBandit([[0, 1], [1, 0], [.5, .5]], HoldBack(10))
    >>> print(env)
    adversarial-bandit(recorded(3 slots of 2 arms, 299987314aaa), delays=hold-back(10, reset_on_round=false))
    """

    rewards: Schedule
    delays: Delaying = Immediate()

    def __post_init__(self) -> None:
        self._set(rewards=as_schedule(self.rewards), delays=as_spec(self.delays, Delaying))
        if isinstance(self.delays, Spreading):
            self.delays.by_arm(self.arms)  # refuses a wrong number of spreads

    @property
    def arms(self) -> int:
        return self.rewards.arms

    @property
    def knowledge(self) -> Knowledge:
        if isinstance(self.delays, HoldBack):  # who is held back depends on the play: these are bounds
            return Knowledge(self.delays.d, ((self.delays.d - 1) / 2) ** 2, self.delays.d)
        assert isinstance(self.delays, Spreading)
        return knowledge_of(self.delays.by_arm(self.arms))

    def check(self, engine: EngineName, horizon: int) -> None:
        super().check(engine, horizon)
        _check_length(self.rewards, horizon)

    def best_arm(self, horizon: int) -> int:
        """The arm that brings most in that many slots; the smallest number where several do."""
        return _book(self.rewards, horizon).best

    def second_gap(self, horizon: int) -> float:
        """What the second best arm brings less than the best, per slot, in that many slots."""
        return _book(self.rewards, horizon).second_gap

    @property
    def _delays(self) -> Delaying:
        return self.delays

    def _parts(self, horizon: int) -> tuple[Pulls, Lose]:
        pulls = pulls_from(_book(self.rewards, horizon).ledger)
        return pulls, regret_by(pulls)

    def _world(self, horizon: int, rows: Slots, laws: Matrix) -> AdversarialWorld:
        book = _book(self.rewards, horizon)
        return AdversarialWorld(book.ledger, book.best, rows, laws)


class Book(NamedTuple):
    """The first slots of a schedule as kernels read them, the best arm in them, and how far behind the second is."""

    ledger: Ledger
    best: int
    second_gap: float


def _check_length(rewards: Schedule, horizon: int) -> None:
    if horizon > rewards.length:
        raise ParameterError(f"horizon must be at most the {rewards.length:,} slots of {rewards}, got {horizon:,}")


@lru_cache(maxsize=2)  # all policies of a study play the same
def _book(rewards: Schedule, horizon: int) -> Book:
    _check_length(rewards, horizon)
    rows = rewards.rows(horizon)
    brought = totals(rows, rewards.arms)
    second, first = np.sort(brought)[-2:]
    return Book(ledger_of(rows, rewards.arms), int(np.argmax(brought)), float(first - second) / horizon)


@lru_cache
def regret_by(pulls: Pulls) -> Lose:
    """What the best arm brings more than the one played."""
    many: Any = pulls.many  # nothing is drawn, so there is no generator to give

    def regret(world: AdversarialWorld, t: int, arm: int, slots: int) -> float:
        lost: float = many(world.source, world.best, t, slots, None) - many(world.source, arm, t, slots, None)
        return lost

    return regret
