"""A ledger between two rounds, written down: it only saves the time of folding the log again."""

import base64
import json
from typing import NamedTuple

import numpy as np

from aftereffect.errors import CorruptionError
from aftereffect.kernels import Vector
from aftereffect.live.events import Link, fingerprint, is_fingerprint
from aftereffect.live.ledger import Ledger, Plan, Tally
from aftereffect.live.randomness import Draws
from aftereffect.live.settings import Settings
from aftereffect.policies import State
from aftereffect.provenance import __version__


class Snapshot(NamedTuple):
    """A text that `restored` reads, and its fingerprint."""

    text: str
    digest: bytes

    def check(self) -> None:
        """Refuse a text that is not as it was recorded."""
        if not is_fingerprint(self.digest, self.text):
            raise CorruptionError("its snapshot is not what was recorded")


def taken(ledger: Ledger) -> Snapshot:
    """A ledger whose last round is closed; between rounds there is nothing that is kept slot by slot."""
    text = json.dumps(
        {
            "version": __version__,
            "seq": ledger.place.seq,
            "hash": ledger.place.hash.hex(),
            "next_slot": ledger.next_slot,
            "rounds": ledger.rounds,
            "told": ledger.told,
            "missing": ledger.missing,
            "drawn": ledger.draws.drawn,
            "again": ledger.again,
            "state": [_packed(array) for array in ledger.state],
            "tally": {name: _packed(array) for name, array in vars(ledger.tally).items()},
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
    ledger.next_slot, ledger.rounds = kept["next_slot"], kept["rounds"]
    ledger.told, ledger.missing = kept["told"], kept["missing"]
    ledger.draws = Draws(settings.seed, kept["drawn"])
    ledger.again = None if kept["again"] is None else Plan(*kept["again"])
    arms, own = map(_unpacked, kept["state"])
    ledger.state = State(arms.reshape(ledger.state.arms.shape), own)
    ledger.tally = Tally(**{name: _unpacked(text) for name, text in kept["tally"].items()})
    return ledger


def _packed(array: Vector) -> str:
    return base64.b64encode(array.astype("<f8").tobytes()).decode()


def _unpacked(text: str) -> Vector:
    return np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)
