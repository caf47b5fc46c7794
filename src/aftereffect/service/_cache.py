"""What the service computes from long logs, and keeps in memory: timeline, lag, results and more.

`Scans` compute in Python, which holds up every other thread of the process. So the service runs
them in a process of their own (see `_worker`). Their results are the answers, already as JSON.
"""

import json
import math
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from aftereffect.errors import AftereffectError, CorruptionError, NotFoundError
from aftereffect.inference import Results
from aftereffect.lag import MAX_SLOTS, LagEstimate, estimate_lag
from aftereffect.live import (
    Event,
    Experiment,
    Record,
    Storage,
    Verification,
    chain_start,
    check_lag,
    check_log_end,
    export_log,
    read_arms,
    read_events,
    read_unit_totals,
)
from aftereffect.service._monitoring import Feed, read_feed

#: In place of a total that did not arrive, and of the arm and round of a skipped slot.
_NO_TOTAL, _NO_ARM = math.nan, -1
#: A lag estimate is renewed when there are more totals by this share.
RENEWAL_SHARE = 1 / 20
#: Seconds that the request which starts a renewal waits for it; after that, it gets the last one.
MAX_WAIT = 2.0
#: Seconds after which a verification is repeated though nothing was recorded: the storage medium
#: may have been damaged since.
MAX_AGE = 60.0
#: Experiments that stay open; others are opened again from their snapshot.
MAX_OPEN = 256
#: Names that are compared with an unknown one, and those that are suggested instead.
_MAX_COMPARED, _MAX_SUGGESTED = 10_000, 3
#: The share of an unknown name that a suggestion must begin with.
_MIN_COMMON = 0.5
#: Seconds for which the state of the feeds is cached, however often somebody asks.
_FEEDS_SECONDS = 5.0
#: Seconds that reading the feeds may take; experiments that come later in the list are left out.
_MAX_FEEDS_SECONDS = 10.0


T = TypeVar("T")


class Piece(NamedTuple):
    """Some consecutive slots: mean and range of their totals, and pulls of each arm so far.

    `arm` and `round` are those of the last slot of the piece, or None if that slot was skipped.
    With several units, there is no `arm`, the total of a slot is the mean over its units, and each
    unit has a pull. `pulls` counts from the first slot of the experiment to the last slot of the
    piece.
    """

    first: int
    last: int
    arm: int | None
    round: int | None
    mean: float | None
    low: float | None
    high: float | None
    pulls: list[int]


class Timeline:
    """Arm, round and total of every slot, in memory, updated with what was recorded since.

    Every event is checked against the hash of the one before it, from the settings on. If the log
    is no longer the one that was read, for example after a backup was restored, it is read again
    from its start.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._begin()

    def summarize(self, max_pieces: int) -> tuple[int, int, list[Piece]]:
        """The number of slots, the slots per piece, and at most so many pieces."""
        with self._lock:
            self._catch_up()
            return self._split(max_pieces)

    def first_slots(self, count: int) -> "tuple[array[int], array[float]]":
        """Arms and totals of the first slots: arm -1 where a slot was skipped, NaN for no total."""
        with self._lock:
            self._catch_up()
            return self._arms[:count], self._totals[:count]

    def _begin(self) -> None:
        self._head = chain_start(self._experiment.record)
        self._arms, self._rounds, self._totals = array("i"), array("q"), array("d")
        #: With several units, the arm and the total of each, by slot.
        self._unit_arms: dict[int, list[int]] = {}
        self._unit_totals: dict[int, list[float]] = {}
        self._arm_count = len(self._experiment.settings.arms)

    def _catch_up(self) -> None:
        with self._experiment.read_log() as view:
            seq, known = self._head
            events = read_events(view, max(seq - 1, 0))
            if seq > 0:
                last = next(events, None)
                if last is None or last.hash != known:
                    self._begin()
                    events = read_events(view, 0)
            for event in events:
                head = self._head.follow(event)
                self._add(event)
                self._head = head
            check_log_end(view, self._head)

    def _add(self, event: Event) -> None:
        decided, slot = len(self._arms), event.slot
        is_next = event.kind in ("decision", "skip")
        if slot != decided if is_next else slot > decided - (event.kind == "total"):
            raise CorruptionError(
                f"event {event.seq} of the log is about slot {slot}, "
                f"but {decided} slots were decided before it"
            )
        if event.kind == "decision":
            if event.units is not None:
                self._unit_arms[slot] = list(read_arms(event.units))
            self._arms.append(_NO_ARM if event.units is not None else event.arm or 0)
            self._rounds.append(event.round or 0)
            self._totals.append(_NO_TOTAL)
        elif event.kind == "skip":
            gap = (event.until or 0) - slot + 1
            self._arms.extend([_NO_ARM] * gap)
            self._rounds.extend([_NO_ARM] * gap)
            self._totals.extend([_NO_TOTAL] * gap)
        elif event.kind == "total" and event.units is not None:
            self._add_units(event)
        elif event.kind == "total":
            self._totals[slot] = _NO_TOTAL if event.total is None else event.total
            if event.arm is not None and event.total is not None:
                self._arms[slot] = event.arm
        elif event.kind == "arm":
            self._arm_count = max(self._arm_count, (event.arm or 0) + 1)

    def _add_units(self, event: Event) -> None:
        """The total of a slot is the mean over the units that have one."""
        units = len(self._experiment.settings.units)
        arms = self._unit_arms.setdefault(event.slot, [_NO_ARM] * units)
        totals = self._unit_totals.setdefault(event.slot, [_NO_TOTAL] * units)
        for unit, arm, total, _ in read_unit_totals(event.units):
            totals[unit] = _NO_TOTAL if total is None else total
            arms[unit] = arms[unit] if arm is None or total is None else arm
        known = [total for total in totals if not math.isnan(total)]
        self._totals[event.slot] = sum(known) / len(known) if known else _NO_TOTAL

    def _split(self, max_pieces: int) -> tuple[int, int, list[Piece]]:
        slots = len(self._arms)
        width = max(1, -(-slots // max_pieces))
        pulls = [0] * self._arm_count
        pieces = []
        for first in range(0, slots, width):
            last = min(first + width, slots) - 1
            played = [*self._arms[first : last + 1]]
            for slot in range(first, last + 1):
                played += self._unit_arms.get(slot, ())
            for arm in played:
                if arm != _NO_ARM:
                    pulls[arm] += 1
            totals = [total for total in self._totals[first : last + 1] if not math.isnan(total)]
            pieces.append(
                Piece(
                    first,
                    last,
                    arm=None if self._arms[last] == _NO_ARM else self._arms[last],
                    round=None if self._rounds[last] == _NO_ARM else self._rounds[last],
                    mean=sum(totals) / len(totals) if totals else None,
                    low=min(totals, default=None),
                    high=max(totals, default=None),
                    pulls=list(pulls),
                )
            )
        return slots, width, pieces


class LagCache:
    """The last lag estimate of an experiment.

    An estimate takes a few seconds and changes slowly. So it is renewed only when the number of
    totals has grown by a twentieth, in the background, while requests get the last one. Requests
    wait for the first estimate, which is made once however many wait; and the request that starts
    a renewal waits a moment for it. A total that is revised in between counts in the next one.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._first = threading.Lock()
        self._renewing = threading.Lock()
        self._last: tuple[LagEstimate, int] | None = None

    def estimate(self) -> LagEstimate:
        """The estimate from the totals of now, or of a little before."""
        with self._first:
            if self._last is None:
                self._last = self._compute()
            estimate, used = self._last
        grown = self._count_totals() - used >= max(1, RENEWAL_SHARE * used)
        if grown and self._renewing.acquire(blocking=False):
            renewal = threading.Thread(target=self._renew, name="lag", daemon=True)
            renewal.start()
            renewal.join(MAX_WAIT)
            last = self._last
            return estimate if last is None else last[0]
        return estimate

    def _count_totals(self) -> int:
        return int(np.isfinite(self._timeline.first_slots(MAX_SLOTS)[1]).sum())

    def _compute(self) -> tuple[LagEstimate, int]:
        arms, totals = self._timeline.first_slots(MAX_SLOTS)
        return estimate_lag(arms, totals), int(np.isfinite(totals).sum())

    def _renew(self) -> None:
        try:
            self._last = self._compute()
        except AftereffectError:
            self._last = None  # the next request computes it again, and gets the error
        finally:
            self._renewing.release()


class _Found(NamedTuple):
    begun: float
    head: bytes | None
    results: Results


class ResultsCache:
    """The last results of an experiment by level.

    Results of a long log take seconds, and a running experiment records something every moment. So
    results are computed once for all requests that came before that began; and they are cached
    while the log ends with the same event.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._last: dict[float, _Found] = {}

    def find(self, level: float, since: float) -> Results:
        """The results of the log as it was at this moment of `time.monotonic`, or later."""
        with self._lock:
            last = self._last.get(level)
            if last is not None and last.begun >= since:
                return last.results
            begun = time.monotonic()
            with self._experiment.read_log() as view:
                event = view.last_event()
            head = None if event is None else event.hash
            if last is None or last.head != head:
                last = _Found(begun, head, self._experiment.results(level=level))
            self._last[level] = last._replace(begun=begun)
            return last.results


class _Verified(NamedTuple):
    begun: float
    verification: Verification
    head: bytes | None


class VerificationCache:
    """The last verification of an experiment.

    A verification reads the whole log, so one at a time is made, for all requests that came before
    it began; and it is cached while the log ends with the same event.
    """

    def __init__(self, open_again: Callable[[], Experiment]) -> None:
        self._open = open_again
        self._lock = threading.Lock()
        self._last: _Verified | None = None

    def verify(self, since: float) -> Verification:
        """The result for the log as it was at this moment of `time.monotonic`, or later."""
        with self._lock:
            experiment = self._open()  # also a damaged one
            last = self._last
            if last is not None and (last.begun >= since or self._still_holds(experiment, last)):
                return last.verification
            begun = time.monotonic()
            verification = experiment.verify()
            head = self._hash_of(experiment, verification.events)
            self._last = _Verified(begun, verification, head)
            return verification

    def _still_holds(self, experiment: Experiment, last: _Verified) -> bool:
        if not last.verification.whole or time.monotonic() - last.begun > MAX_AGE:
            return False
        count = last.verification.events
        with experiment.read_log() as view:
            tail = view.events(max(count - 1, 0), 2)
        return [(event.seq, event.hash) for event in tail] == (
            [(count, last.head)] if count else []
        )

    @staticmethod
    def _hash_of(experiment: Experiment, count: int) -> bytes | None:
        """The hash of the event with this number."""
        with experiment.read_log() as view:
            return next(
                (event.hash for event in view.events(max(count - 1, 0), 1) if event.seq == count),
                None,
            )


class NamedCache(Generic[T]):
    """One object for each experiment, by name: those used last, each made once.

    An object is made again when its name stands for another experiment: the first was deleted,
    perhaps by another process, and a new one has its name.
    """

    def __init__(self, storage: Storage, make: Callable[[str], T]) -> None:
        self._storage, self._make = storage, make
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, tuple[Record | None, T]] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        record = self._storage.find(name)
        with self._lock:
            if name in self._objects and self._objects[name][0] == record:
                self._objects.move_to_end(name)
                return self._objects[name][1]
            self._objects.pop(name, None)
        made = self._make(name)  # outside the lock, as it may take a while
        with self._lock:
            _, found = self._objects.setdefault(name, (record, made))
            while len(self._objects) > MAX_OPEN:
                self._objects.popitem(last=False)
            return found


def open_experiment(name: str, storage: Storage, *, check: bool = True) -> Experiment:
    """Open an experiment; the error for an unknown name lists a few names, and not the storage."""
    if storage.find(name) is None:
        similar = find_similar_names(name, storage.readable_names())
        hint = (
            f"did you mean {' or '.join(map(repr, similar))}?"
            if similar
            else "GET /v1/experiments lists all experiments"
        )
        raise NotFoundError(f"there is no experiment {name!r}: {hint}")
    return Experiment.open(name, storage=storage, check=check)


def find_similar_names(name: str, names: list[str]) -> list[str]:
    """Names that begin alike; a finer comparison with thousands of names would take too long."""
    wanted = name.lower()
    common = {each: _common_prefix(wanted, each.lower()) for each in islice(names, _MAX_COMPARED)}
    similar = sorted(
        (each for each in common if common[each] >= _MIN_COMMON * len(wanted)),
        key=lambda each: (-common[each], each),
    )
    return similar[:_MAX_SUGGESTED]


def _common_prefix(one: str, other: str) -> int:
    """The number of first letters that two names share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class Scans:
    """The operations on the experiments of a storage; threads may share it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._experiments: NamedCache[Experiment] = NamedCache(
            storage, lambda name: open_experiment(name, storage)
        )
        self._timelines = NamedCache(storage, lambda name: Timeline(open_experiment(name, storage)))
        self._lags = NamedCache(storage, lambda name: LagCache(self._timelines[name]))
        self._results = NamedCache(storage, lambda name: ResultsCache(self._experiments[name]))
        self._verifications = NamedCache(
            storage,
            lambda name: VerificationCache(lambda: open_experiment(name, storage, check=False)),
        )
        self._feeds: tuple[float, tuple[list[Feed], int]] | None = None

    def call(self, operation: str, *given: Any) -> Any:
        """Run one of the operations below."""
        return getattr(self, operation)(*given)

    def history(self, name: str, after: int, limit: int) -> bytes:
        """Slots after one, at most so many; with several units, at most so many records."""
        experiment = self._experiments[name]
        slots = max(limit // max(len(experiment.settings.units), 1), 1)
        records = experiment.history(after, slots)
        return _to_json(
            {
                "slots": [record._asdict() for record in records],
                "last": records[-1].slot if records else after,
            }
        )

    def timeline(self, name: str, max_pieces: int) -> bytes:
        """All slots in at most so many pieces."""
        slots, width, pieces = self._timelines[name].summarize(max_pieces)
        return _to_json(
            {"slots": slots, "width": width, "pieces": [piece._asdict() for piece in pieces]}
        )

    def lag(self, name: str) -> bytes:
        """The lag estimate."""
        check_lag(self._experiments[name].settings)
        return _to_json(self._lags[name].estimate().to_dict())

    def results(
        self, name: str, level: float, stop_when_loss_below: float | None, since: float
    ) -> bytes:
        """Who won, by a log of this moment of `time.monotonic`, or a later one."""
        found = self._results[name].find(level, since)
        if stop_when_loss_below is not None:
            found = found._replace(stop_when_loss_below=stop_when_loss_below)
        return _to_json(found.to_dict())

    def verify(self, name: str, since: float) -> bytes:
        """A verification that holds for this moment of `time.monotonic`, or a later one."""
        return _to_json(self._verifications[name].verify(since).to_dict())

    def export(self, name: str, path: str) -> None:
        """Write the whole history into a file."""
        self._experiments[name].export(Path(path))

    def log(self, name: str, path: str) -> None:
        """Write the whole log into a file, also that of a damaged experiment."""
        export_log(self._storage, name, path)

    def feeds(self) -> tuple[list[Feed], int]:
        """The feeds of the latest experiments, and how many of these cannot be read."""
        if self._feeds is None or time.monotonic() - self._feeds[0] > _FEEDS_SECONDS:
            self._feeds = time.monotonic(), self._read_feeds()
        return self._feeds[1]

    def close(self) -> None:
        """Do nothing: the storage belongs to the caller. `Worker` has the same method."""

    def _read_feeds(self) -> tuple[list[Feed], int]:
        feeds, unreadable, end = [], 0, time.monotonic() + _MAX_FEEDS_SECONDS
        for name in self._storage.readable_names()[-MAX_OPEN:]:
            if time.monotonic() > end:
                break
            try:
                feed = read_feed(self._experiments[name])
            except AftereffectError:
                unreadable += 1
                continue
            if feed is not None:
                feeds.append(feed)
        return feeds, unreadable


def _to_json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
