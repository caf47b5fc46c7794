"""The log of an experiment: events in a chain of hashes, and snapshots that shorten its reading."""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from aftereffect._core import __version__
from aftereffect.errors import CorruptionError

EventKind = Literal[
    "decision",
    "total",
    "guardrails",
    "stop",
    "judgement",
    "skip",
    "batch",
    "notice",
    "arm",
    "end",
]


class Event(NamedTuple):
    """One line of the log; fields that do not apply to its kind are None.

    - decision: play `arm` in `slot`, in a `round` that is planned up to slot `until`. The policy
      learns from the last `window` planned slots. `key` is the idempotency key of the caller.
      `probabilities` are those with which the arm of the round was drawn, of all arms, as JSON.
    - total: in `slot`, `arm` was played and `total` was observed, or is missing where that is None.
      `revision` counts the totals that were recorded for the slot before. `covariates` are the
      numbers that came with it, as JSON, with null for one that is not known; None if none came.
      If a policy that learns from rounds has learned the total that this one replaces, `until` is
      the last planned slot of the round with which it did.
    - decision and total of an experiment with several units: `units` have the arms that the units
      play, or what some of them observed, as JSON (see `aftereffect.live._units`), in the place of
      `arm`, `total` and `covariates`. `revision` counts the totals that were recorded for the slot.
    - guardrails: `guardrails` are the numbers of the guardrails in `slot`, as JSON, with null for
      one that is not known. `revision` counts those that were recorded for the slot before.
    - stop: before `slot` was decided, `arm` was stopped. `guardrails` say by which one and why, as
      JSON. `revision` is the number of the arm, as several may be stopped at once.
    - judgement: before `slot` was decided, something changed about whether guardrails can be
      judged. `guardrails` have the problem, as JSON; null if there is none any more.
    - skip: nothing was decided for the slots from `slot` to `until`.
    - batch: the totals of a batch, such as a file, were recorded before `slot` was decided. `key`
      names the batch, which is not recorded again. `revision` counts the batches before.
    - notice: a hook was told what happened in `slot`. `guardrails` have the mark of the hook and
      the kind of the notice, as JSON. `revision` counts the notices before.
    - arm: from `slot` on, `arm` may be played, or not any more. `guardrails` have its name and the
      change, as JSON: add, pause, resume or retire. `revision` counts the changes before.
    - end: the experiment ended before `slot` was decided.

    Examples
    --------
    >>> event = Link(0, b"").next("total", 3, arm=0, total=37.0)
    >>> event.seq, event.slot, event.total
    (1, 3, 37.0)
    """

    seq: int
    kind: EventKind
    slot: int
    revision: int
    round: int | None
    arm: int | None
    until: int | None
    window: int | None
    total: float | None
    key: str | None
    version: str
    at: str
    probabilities: str | None
    covariates: str | None
    guardrails: str | None
    units: str | None
    hash: bytes


class Link(NamedTuple):
    """A position in the log: the number of events up to it, and the hash of the last one.

    Examples
    --------
    >>> start = Link(0, b"")
    >>> start.follow(start.next("end", 0)).seq
    1
    """

    seq: int
    hash: bytes

    def next(
        self,
        kind: EventKind,
        slot: int,
        *,
        revision: int = 0,
        round: int | None = None,
        arm: int | None = None,
        until: int | None = None,
        window: int | None = None,
        total: float | None = None,
        key: str | None = None,
        probabilities: str | None = None,
        covariates: str | None = None,
        guardrails: str | None = None,
        units: str | None = None,
    ) -> Event:
        """Make the event that follows this position, with the current time and version."""
        plan = (round, arm, until, window)
        fields = (self.seq + 1, kind, slot, revision, *plan, total, key, __version__, now())
        event = Event(*fields, probabilities, covariates, guardrails, units, b"")
        return event._replace(hash=hash_event(self.hash, event))

    def follow(self, event: Event) -> "Link":
        """Check that an event comes next in the chain, and return the position after it."""
        if event.seq != self.seq + 1 or not is_intact(event, self.hash):
            raise CorruptionError(f"event {self.seq + 1} of the log is not what was recorded")
        return Link(event.seq, event.hash)


class Snapshot(NamedTuple):
    """The state of an experiment as text, and the fingerprint of that text.

    Examples
    --------
    >>> Snapshot("text", fingerprint("text")).check()
    >>> len(fingerprint("text"))
    32
    """

    text: str
    digest: bytes

    def check(self) -> None:
        """Refuse a text that is not what was recorded."""
        if not is_fingerprint(self.digest, self.text):
            raise CorruptionError("its snapshot is not what was recorded")


def is_intact(event: Event, previous: bytes) -> bool:
    """Whether an event is as it was recorded, given the hash of the event before it."""
    try:
        return event.hash == hash_event(previous, event)
    except TypeError:  # a flipped bit can turn text into bytes
        return False


def now() -> str:
    """The current time as text. It is for people: no decision depends on it, so clocks may jump."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def fingerprint(*texts: str) -> bytes:
    """Hash some texts.

    >>> fingerprint("banner").hex()[:8]
    '9a983e6f'
    """
    return hash_fields(b"", texts)


def is_fingerprint(digest: bytes, *texts: str) -> bool:
    """Whether `digest` is the hash of these texts."""
    try:
        return digest == fingerprint(*texts)
    except TypeError:  # a flipped bit can turn text into bytes
        return False


def _refuse(field: object) -> object:
    raise TypeError(f"{type(field).__name__} cannot be hashed")


#: Writes what ``json.dumps`` writes in half the time: that makes a new encoder for every call.
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_encode = _make and _make(
    None, _refuse, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True
)


def hash_event(previous: bytes, event: Event) -> bytes:
    """Hash an event together with the hash of the event before it.

    The last four fields are hashed up to the last one that there is: the first logs had none.
    """
    last = (event.units, event.guardrails, event.covariates, event.probabilities)
    for count, field in enumerate(last, 1):
        if field is not None:
            return hash_fields(previous, event[:-count])
    return hash_fields(previous, event[:-5])


def hash_fields(previous: bytes, fields: Iterable[object]) -> bytes:
    """Hash some fields together with another hash."""
    given = tuple(fields)
    text = "".join(_encode(given, 0)) if _encode else json.dumps(given)
    return hashlib.sha256(previous + text.encode()).digest()
