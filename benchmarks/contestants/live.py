"""Ask and tell of a live experiment, and plain SQLite storing the same events as durably."""

import random
import sqlite3
from pathlib import Path

from aftereffect.live import Event, Experiment, Storage, open_storage
from aftereffect.live.storage._schema import events
from contestants.pace import WARM_UP_PAIRS, Pace, paced
from contestants.world import World

NAME, ARMS, MEANS = "bench", ["A", "B", "C"], (0.9, 0.5, 0.1)


def begun(storage: Storage, policy: str = "ars-ucb") -> Experiment:
    """The experiment that everybody plays."""
    return Experiment.create(
        NAME, arms=ARMS, policy=policy, reward_range=(0, 1), seed=1, storage=storage
    )


class Player:
    """Who asks, plays, and tells."""

    def __init__(self) -> None:
        self._world = World(MEANS, random.Random(1))

    def total(self, arm: str) -> float:
        """What a slot brings."""
        return self._world.play(ARMS.index(arm))

    def pair(self, experiment: Experiment) -> None:
        """One slot."""
        slot = experiment.ask()
        experiment.tell(slot.slot, self.total(slot.arm))


def pace_in(url: str, pairs: int) -> Pace:
    """The library's pace on a new storage."""
    player = Player()
    with open_storage(url) as storage:
        experiment = begun(storage)
        return paced(lambda: player.pair(experiment), pairs)


def raw_pace(path: Path, pairs: int) -> Pace:
    """The pace of SQLite alone with the same events and table; one commit per event."""
    with open_storage(f"sqlite:///{path}") as storage:
        begun(storage)
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")
    columns = ("experiment", *Event._fields)
    names, marks = ", ".join(map(_quoted, columns)), ", ".join("?" * len(columns))
    insert = f"INSERT INTO {events.name} ({names}) VALUES ({marks})"
    rows = iter(_same_events(WARM_UP_PAIRS + pairs))

    def pair() -> None:
        for _ in range(2):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(insert, (1, *next(rows)))
            connection.execute("COMMIT")

    pace = paced(pair, pairs)
    connection.close()
    return pace


def _quoted(column: str) -> str:
    return f'"{column}"'


def _same_events(pairs: int) -> list[Event]:
    """What the library records of so many pairs."""
    player = Player()
    with open_storage("memory://") as storage:
        experiment = begun(storage)
        for _ in range(pairs):
            player.pair(experiment)
        with storage.reading(storage.find(NAME).id) as view:
            return list(view.events(0, 2 * pairs))
