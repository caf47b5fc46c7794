"""A live experiment with the default policy: what ask and tell cost, and deriving all decisions."""

import math
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from aftereffect._core import text_table
from aftereffect.live import Experiment, chain_start, make_state, read_events
from measure import duration, verdict

ARMS = ("A", "B", "C", "D")
WEEK = 168
HISTORY, SLOTS, PAIRS, ALL = 8 * WEEK, 5_000, 500, 10_000
SLOWEST_PAIR, SLOWEST_REFOLD = 50e-3, 1.0


def demand(slot: int, arm: str, rng: random.Random) -> float:
    """A total with a season by hour and weekday, and noise."""
    hour, day = slot % 24, slot // 24 % 7
    usual = 100 + 40 * math.sin(2 * math.pi * hour / 24) + 15 * (day > 4)
    return usual * (1 + 0.05 * ARMS.index(arm)) * math.exp(rng.gauss(0, 0.1))


def with_every_slot(folder: Path) -> Iterator[bool]:
    """Four arms, hours, eight weeks of history: pairs after 5,000 slots, and a fold of 10,000."""
    rng = random.Random(1)
    past = [demand(slot, ARMS[0], rng) for slot in range(HISTORY)]
    given = {"slot": "1h", "start": "2026-03-02", "timezone": "Europe/Berlin", "history": past}
    url = f"sqlite:///{folder}/slots.db"
    with Experiment.create("slots", arms=ARMS, seed=1, storage=url, **given) as live:
        pairs = []
        for slot in range(ALL):
            start = time.perf_counter()
            total = demand(slot, live.ask(slot).arm, rng)
            live.tell(slot, total, confirm=True)
            pairs.append(time.perf_counter() - start)
        measured = pairs[SLOTS : SLOTS + PAIRS]
        with live.read_log() as view:
            events = list(read_events(view, 0))
        start = time.perf_counter()
        make_state(live.settings, chain_start(live.record)).fold_all(events)
        refold = time.perf_counter() - start
        start = time.perf_counter()
        Experiment.open("slots", storage=url).close()
        reopening = time.perf_counter() - start
    print(
        f"\nadaptive-switchback, {len(ARMS)} arms, hours, {HISTORY:,} slots of history, on SQLite"
    )
    rows = [
        ("", "median", "slowest"),
        (
            f"ask and tell after {SLOTS:,} slots ({PAIRS} times)",
            duration(statistics.median(measured)),
            duration(max(measured)),
        ),
        (f"derive all decisions of {ALL:,} slots", duration(refold), ""),
        (f"open it with {ALL:,} slots", duration(reopening), ""),
    ]
    print(text_table(rows))
    for what, took, slowest in (
        ("ask and tell", max(measured), SLOWEST_PAIR),
        ("derive all decisions", refold, SLOWEST_REFOLD),
    ):
        kept = took <= slowest
        print(f"{what} in at most {duration(slowest)}: {verdict(kept)}")
        yield kept
