"""The log of an experiment: decisions and outcomes, each with a hash chained to the one before."""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.provenance import __version__

Kind = Literal["decision", "outcome", "skip", "close"]


class Event(NamedTuple):
    """One line of the log; what does not apply to its kind is None.

    - decision: for `slot` an `arm` is advised, in `round`, which is planned up to slot `until` and looks at its last `window`.
      Who asked may have given a `key`, to get the same slot when asking again.
    - outcome: `slot`, in which `arm` was really played, brought the total `value`, or is missing where that is None. A
      revision has the number of those before it.
    - skip: nothing was decided for the slots from `slot` to `until`.
    - close: the experiment ended when `slot` would have been next.
    """

    seq: int
    kind: Kind
    slot: int
    revision: int
    round: int | None
    arm: int | None
    until: int | None
    window: int | None
    value: float | None
    key: str | None
    version: str
    at: str
    hash: bytes


class Link(NamedTuple):
    """A place in the log: how many events there are up to it, and the hash of the last."""

    seq: int
    hash: bytes

    def next(
        self,
        kind: Kind,
        slot: int,
        *,
        revision: int = 0,
        round: int | None = None,
        arm: int | None = None,
        until: int | None = None,
        window: int | None = None,
        value: float | None = None,
        key: str | None = None,
    ) -> Event:
        """The event that follows, made now by this version."""
        fields = (self.seq + 1, kind, slot, revision, round, arm, until, window, value, key, __version__, now())
        return Event(*fields, hash=_digest(self.hash, fields))

    def follow(self, event: Event) -> "Link":
        """The place after an event, if it is the one that was written to follow this."""
        if event.seq != self.seq + 1 or not proves(event, self.hash):
            raise CorruptionError(f"event {self.seq + 1} of the log is not what was recorded")
        return Link(event.seq, event.hash)


def proves(event: Event, previous: bytes) -> bool:
    """Whether an event is as it was recorded, given the hash of the one before."""
    try:
        return event.hash == _digest(previous, event[:-1])
    except TypeError:  # a flipped bit can turn text into bytes
        return False


def now() -> str:
    """The time, for people: nothing is decided by it, so a clock may jump."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def fingerprint(*texts: str) -> bytes:
    """The hash of some texts."""
    return _digest(b"", texts)


def is_fingerprint(digest: bytes, *texts: str) -> bool:
    """Whether that is the hash of those texts."""
    try:
        return digest == fingerprint(*texts)
    except TypeError:  # a flipped bit can turn text into bytes
        return False


def _refused(field: object) -> object:
    raise TypeError(f"{type(field).__name__} cannot be hashed")


#: As ``json.dumps`` writes, which makes an encoder anew for every call and takes twice as long.
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_encode = _make and _make(None, _refused, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True)


def _digest(previous: bytes, fields: Iterable[object]) -> bytes:
    given = tuple(fields)
    text = "".join(_encode(given, 0)) if _encode else json.dumps(given)
    return hashlib.sha256(previous + text.encode()).digest()
