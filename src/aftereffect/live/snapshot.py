"""A ledger written down: it only saves the time of folding the log again."""

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from aftereffect.errors import CorruptionError
from aftereffect.kernels import Vector
from aftereffect.live.events import Link, fingerprint, is_fingerprint
from aftereffect.live.ledger import Ledger, Saved, Tally
from aftereffect.live.randomness import Draws
from aftereffect.live.rounds import Backlog, Plan, Round
from aftereffect.live.settings import Settings
from aftereffect.live.totals import Seen
from aftereffect.policies import State
from aftereffect.provenance import __version__

#: Events after which a snapshot is taken within a round, and how many slots that it lists are as costly to write as one event.
_EVENTS, _SLOTS = 200, 10
#: What is one number or text, by name.
_PLAIN = (
    *("next_slot", "rounds", "told", "missing", "learned", "planned", "lasted"),
    *("last_told_at", "closed"),
)


class Snapshot(NamedTuple):
    """A text that `restored` reads, and its fingerprint."""

    text: str
    digest: bytes

    def check(self) -> None:
        """Refuse a text that is not as it was recorded."""
        if not is_fingerprint(self.digest, self.text):
            raise CorruptionError("its snapshot is not what was recorded")


def is_due(ledger: Ledger) -> bool:
    """Whether it is time for a snapshot: a round has begun, or there are many events since the last.

    Where it lists many slots it is taken less often, so that writing it costs no more than the events do.
    """
    events = ledger.place.seq - ledger.saved.seq
    listed = len(ledger.backlog.arms) + (len(ledger.round.totals) + len(ledger.round.untold) if ledger.round else 0)
    return events * _SLOTS >= listed and (events >= _EVENTS or ledger.rounds > ledger.saved.rounds)


def taken(ledger: Ledger) -> Snapshot:
    """A ledger at its place in the log."""
    text = json.dumps(
        {
            "version": __version__,
            "seq": ledger.place.seq,
            "hash": ledger.place.hash.hex(),
            **{name: getattr(ledger, name) for name in _PLAIN},
            "drawn": ledger.draws.drawn,
            "again": ledger.again,
            "skipped": ledger.skipped,
            "lateness": list(ledger.lateness),
            "seen": asdict(ledger.seen),
            "state": [_packed(array) for array in ledger.state],
            "tally": {name: _packed(array) for name, array in vars(ledger.tally).items()},
            "round": None if ledger.round is None else _round_written(ledger.round),
            "backlog": _backlog_written(ledger.backlog),
        }
    )
    return Snapshot(text, fingerprint(text))


def restored(settings: Settings, start: Link, snapshot: Snapshot | None) -> Ledger:
    """The ledger of a snapshot; a fresh one if there is none, or if another version with other arrays took it."""
    ledger = Ledger(settings, start)
    if snapshot is None:
        return ledger
    snapshot.check()
    kept = json.loads(snapshot.text)
    if kept["version"] != __version__:
        return ledger
    ledger.place = Link(kept["seq"], bytes.fromhex(kept["hash"]))
    ledger.saved = Saved(kept["seq"], kept["rounds"])
    for name in _PLAIN:
        setattr(ledger, name, kept[name])
    ledger.draws = Draws(settings.seed, kept["drawn"])
    ledger.again = None if kept["again"] is None else Plan(*kept["again"])
    ledger.skipped = [(first, last) for first, last in kept["skipped"]]
    ledger.lateness.extend(kept["lateness"])
    ledger.seen = Seen(**kept["seen"])
    arms, own = map(_unpacked, kept["state"])
    ledger.state = State(arms.reshape(ledger.state.arms.shape), own)
    ledger.tally = Tally(**{name: _unpacked(text) for name, text in kept["tally"].items()})
    ledger.round = None if kept["round"] is None else _round_read(kept["round"])
    ledger.backlog = _backlog_read(kept["backlog"])
    return ledger


def _round_written(current: Round) -> dict[str, Any]:
    slots = sorted(current.totals)
    return {
        "number": current.number,
        "plan": current.plan,
        "until": current.until,
        "untold": _packed(current.untold),
        "told": _packed(slots),
        "totals": _packed(_nan_if_none(current.totals[slot]) for slot in slots),
    }


def _round_read(kept: dict[str, Any]) -> Round:
    totals = zip(_slots(kept["told"]), _unpacked(kept["totals"]).tolist(), strict=True)
    return Round(
        kept["number"],
        Plan(*kept["plan"]),
        kept["until"],
        untold=dict.fromkeys(_slots(kept["untold"])),
        totals={slot: None if np.isnan(total) else total for slot, total in totals},
    )


def _backlog_written(backlog: Backlog) -> dict[str, Any]:
    slots = sorted(backlog.arms)
    return {
        "slots": _packed(slots),
        "arms": _packed(backlog.arms[slot] for slot in slots),
        "totals": _packed(_nan_if_none(backlog.total(slot)) for slot in slots),
    }


def _backlog_read(kept: dict[str, Any]) -> Backlog:
    backlog = Backlog()
    for slot, arm, total in zip(_slots(kept["slots"]), _slots(kept["arms"]), _unpacked(kept["totals"]).tolist(), strict=True):
        backlog.add(slot, arm) if np.isnan(total) else backlog.tell(slot, arm, total)
    return backlog


def _nan_if_none(total: float | None) -> float:
    return np.nan if total is None else total


def _slots(text: str) -> list[int]:
    """Whole numbers; slots are below 2^40 and exact as floats."""
    return [int(number) for number in _unpacked(text).tolist()]


def _packed(numbers: Iterable[float] | Vector) -> str:
    array = numbers if isinstance(numbers, np.ndarray) else np.array(list(numbers), dtype=np.float64)
    return base64.b64encode(array.astype("<f8").tobytes()).decode()


def _unpacked(text: str) -> Vector:
    return np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)
