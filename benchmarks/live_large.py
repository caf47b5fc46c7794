"""A live experiment with very many slots: how long it takes to ask it, and to get back to it."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from aftereffect.columns import aligned
from aftereffect.live import Experiment, Storage, open_storage
from aftereffect.live.ledger import Ledger, Saved
from aftereffect.live.reading import start_of
from aftereffect.live.rules import Telling, decide, tell
from aftereffect.live.snapshot import is_due, taken
from contestants.live import NAME, Player, begun
from measure import duration, verdict

#: Slots that one commit keeps: two commits for each slot would take hours on a slow disk, and give the same log.
PIECE = 50_000
PAIRS, REOPENINGS = 300, 3
SLOWEST_ASK, SLOWEST_REOPENING = 5e-3, 2


def build(storage: Storage, slots: int, player: Player) -> Ledger:
    """Play so many slots by the library's own rules, with fewer commits than it makes; the ledger in the end."""
    settings, record = begun(storage).settings, storage.find(NAME)
    ledger = Ledger(settings, start_of(record))
    while ledger.next_slot < slots:
        with storage.writing(record.id) as log:
            for _ in range(min(PIECE, slots - ledger.next_slot)):
                slot = decide(log, ledger, None, None)
                telling = Telling(slot.number, player.total(slot.arm))
                tell(log, ledger, record, telling, revise=False, confirm=False)
                if is_due(ledger):
                    log.save(taken(ledger))
                    ledger.saved = Saved(ledger.place.seq, ledger.rounds)
    return ledger


def reopened(url: str) -> float:
    """Seconds to get back through a storage that knows nothing of it yet; the file may be in the system's cache."""
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
        experiment.tell(slot.number, player.total(slot.arm))
        asks.append(answered - start)
        tells.append(time.perf_counter() - answered)
    return asks, tells


def with_many_slots(folder: Path, slots: int) -> Iterator[bool]:
    """Neither asking nor getting back may take long, however much has happened; and all of it must be true."""
    player, url = Player(), f"sqlite:///{folder / 'large.db'}"
    start = time.perf_counter()
    with open_storage(url) as storage:
        ledger = build(storage, slots, player)
    print(
        f"\n{ledger.next_slot:,} slots, built in {duration(time.perf_counter() - start)} with {PIECE:,} per commit; "
        f"{ledger.next_slot - ledger.round.first:,} of them are younger than the snapshot"
    )
    reopenings = [reopened(url) for _ in range(REOPENINGS)]
    experiment = Experiment.open(NAME, storage=url)
    asks, tells = asked_and_told(experiment, player)
    measured = {"ask": asks, "tell": tells, "reopen": reopenings}
    rows = [(what, duration(statistics.median(seconds)), duration(max(seconds))) for what, seconds in measured.items()]
    print(aligned([("", "median", "slowest"), *rows]))
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
