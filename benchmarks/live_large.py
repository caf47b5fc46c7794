"""A live experiment with very many slots: how long it takes to ask it, and to get back to it."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from aftereffect.columns import aligned
from aftereffect.live import Experiment, Storage, open_storage
from aftereffect.live.ledger import Ledger
from aftereffect.live.reading import start_of
from aftereffect.live.rules import decide, tell
from aftereffect.live.snapshot import taken
from contestants.live import NAME, Player, begun
from measure import duration, verdict

#: Slots that one commit keeps: two commits for each slot would take hours on a slow disk, and give the same log.
PIECE = 50_000
PAIRS, REOPENINGS = 300, 3
SLOWEST_ASK, SLOWEST_REOPENING = 5e-3, 2


def build(storage: Storage, slots: int, player: Player) -> Ledger:
    """Play at least so many slots by the library's own rules, with fewer commits than it makes; the ledger in the end.

    It ends where getting back takes longest: one slot before a round closes and gives a new snapshot.
    """
    settings, record = begun(storage).settings, storage.find(NAME)
    ledger = Ledger(settings, start_of(record))
    while not _there(ledger, slots):
        with storage.writing(record.id) as log:
            piece_ends = ledger.next_slot + PIECE
            while ledger.next_slot < piece_ends and not _there(ledger, slots):
                slot, closed = decide(log, ledger, None, None), ledger.rounds
                tell(log, ledger, record, slot.number, player.total(slot.arm), revise=False)
                if ledger.rounds > closed:
                    log.save(taken(ledger))
    return ledger


def _there(ledger: Ledger, slots: int) -> bool:
    return ledger.next_slot >= slots and ledger.round is not None and ledger.round.waiting == 1


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
