"""A live experiment with very many slots: how long it takes to ask it, and to get back to it."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from aftereffect._core import text_table
from aftereffect.live import Experiment, Storage, TotalInput, chain_start, open_storage
from aftereffect.live._rules import decide, tell
from aftereffect.live._snapshots import is_snapshot_due, take_snapshot
from aftereffect.live._state import ExperimentState, SnapshotMark
from contestants.live import NAME, Player, begun
from measure import duration, verdict

#: Slots that one commit keeps: two commits for each slot would take hours on a slow disk, and give
#: the same log.
PIECE = 50_000
PAIRS, REOPENINGS = 300, 3
SLOWEST_ASK, SLOWEST_REOPENING = 5e-3, 2
#: Of an ask after a total has been replaced.
SLOWEST_ASK_AFTER = 20e-3


def build(storage: Storage, slots: int, player: Player, policy: str = "ars-ucb") -> ExperimentState:
    """Play so many slots by the library's own rules, with fewer commits; return the final state."""
    settings, record = begun(storage, policy).settings, storage.find(NAME)
    state = ExperimentState(settings, chain_start(record))
    while state.next_slot < slots:
        with storage.writing(record.id) as log:
            for _ in range(min(PIECE, slots - state.next_slot)):
                slot = decide(log, state, record, None, None)
                telling = TotalInput(slot.slot, player.total(slot.arm))
                tell(log, state, record, telling, revise=False, confirm=False)
                if is_snapshot_due(state):
                    log.save(take_snapshot(state))
                    state.last_snapshot = SnapshotMark(state.head.seq, state.rounds)
    return state


def reopened(url: str) -> float:
    """Seconds to open it through a new storage; the file may be in the system's cache."""
    start = time.perf_counter()
    experiment = Experiment.open(NAME, storage=url)
    seconds = time.perf_counter() - start
    experiment.storage.close()
    return seconds


def asked_and_told(experiment: Experiment, player: Player) -> tuple[list[float], list[float]]:
    """Seconds of every ask, and of every tell that followed it."""
    asks, tells = [], []
    for _ in range(PAIRS):
        start = time.perf_counter()
        slot = experiment.ask()
        answered = time.perf_counter()
        experiment.tell(slot.slot, player.total(slot.arm))
        asks.append(answered - start)
        tells.append(time.perf_counter() - answered)
    return asks, tells


def replace(experiment: Experiment, slot: int) -> None:
    """Replace the total of a slot by another one."""
    (line,) = experiment.history(slot - 1, 1)
    experiment.tell(slot, 1.0 - (line.total or 0.0), revise=True)


def with_replaced_totals(folder: Path, slots: int = 10_000, age: int = 72) -> Iterator[bool]:
    """A feed that corrects each total once, so many slots later."""
    player, url = Player(), f"sqlite:///{folder / 'replaced.db'}"
    with open_storage(url) as storage:
        build(storage, slots, player, "ucb1")  # whose rounds are as short as can be
    experiment = Experiment.open(NAME, storage=url)
    start = time.perf_counter()
    replace(experiment, 0)
    first = time.perf_counter() - start
    asks = []
    for slot in range(slots, slots + PAIRS):
        start = time.perf_counter()
        decision = experiment.ask(slot)
        asks.append(time.perf_counter() - start)
        experiment.tell(slot, player.total(decision.arm))
        replace(experiment, slot - age)
    print(
        f"\n{slots:,} slots, and then {PAIRS:,}, in each of which the total of {age} slots before "
        f"is replaced:\nthe first replaced total took {duration(first)}, as it reads the log"
    )
    kept = statistics.median(asks) < SLOWEST_ASK_AFTER
    print(f"ask after that: median {duration(statistics.median(asks))}: {verdict(kept)}")
    yield kept
    found = experiment.verify()
    experiment.storage.close()
    print(f"{verdict(found.whole and found.difference is None)}, {found}")
    yield found.whole and found.difference is None


def with_many_slots(folder: Path, slots: int) -> Iterator[bool]:
    """Asking and opening must stay fast however long the log is, and the log must verify."""
    player, url = Player(), f"sqlite:///{folder / 'large.db'}"
    start = time.perf_counter()
    with open_storage(url) as storage:
        state = build(storage, slots, player)
    print(
        f"\n{state.next_slot:,} slots, built in {duration(time.perf_counter() - start)} "
        f"with {PIECE:,} per commit; "
        f"{state.head.seq - state.last_snapshot.seq:,} events are younger than the snapshot"
    )
    reopenings = [reopened(url) for _ in range(REOPENINGS)]
    experiment = Experiment.open(NAME, storage=url)
    asks, tells = asked_and_told(experiment, player)
    measured = {"ask": asks, "tell": tells, "reopen": reopenings}
    rows = [
        (what, duration(statistics.median(seconds)), duration(max(seconds)))
        for what, seconds in measured.items()
    ]
    print(text_table([("", "median", "slowest"), *rows]))
    for what, slowest in (("ask", SLOWEST_ASK), ("reopen", SLOWEST_REOPENING)):
        kept = statistics.median(measured[what]) < slowest
        print(f"{what} in less than {duration(slowest)}: {verdict(kept)}")
        yield kept
    start = time.perf_counter()
    found = experiment.verify()
    experiment.storage.close()
    kept = found.whole and found.difference is None
    print(f"verified in {duration(time.perf_counter() - start)}: {verdict(kept)}, {found}")
    yield kept
