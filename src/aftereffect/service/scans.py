"""What reads long stretches of logs: history, timelines, estimates, verifications, exports, feeds.

All of it is computing in Python, which keeps every other thread of its process waiting: the service has it done by a process of
its own (see `worker`). Answers are what is sent, or what is sent can be made of at once.
"""

import json
import time
from pathlib import Path
from typing import Any

from aftereffect.live import Experiment, Storage
from aftereffect.live.deletion import export_log
from aftereffect.service.feeds import Feed, read_feeds
from aftereffect.service.kept import Kept, opened
from aftereffect.service.lingering import Lingering
from aftereffect.service.timeline import Timeline
from aftereffect.service.verifications import Verifying

#: Seconds for which feeds are not looked at again, however often somebody asks.
_FEEDS_SECONDS = 5.0


class Scans:
    """Operations on the experiments of a storage; may be shared by threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._experiments: Kept[Experiment] = Kept(storage, lambda name: opened(name, storage))
        self._timelines = Kept(storage, lambda name: Timeline(opened(name, storage)))
        self._lags = Kept(storage, lambda name: Lingering(self._timelines[name]))
        self._verifications = Kept(storage, lambda name: Verifying(lambda: opened(name, storage, check=False)))
        self._feeds: tuple[float, tuple[list[Feed], int]] | None = None

    def call(self, operation: str, *given: Any) -> Any:
        """What one of the operations below answers."""
        return getattr(self, operation)(*given)

    def history(self, name: str, after: int, limit: int) -> bytes:
        """Slots after one, at most so many."""
        lines = self._experiments[name].history(after, limit)
        return _written({"slots": [line._asdict() for line in lines], "last": lines[-1].slot if lines else after})

    def timeline(self, name: str, pieces: int) -> bytes:
        """All slots in at most so many pieces."""
        slots, width, summed = self._timelines[name].summary(pieces)
        return _written({"slots": slots, "width": width, "pieces": [piece._asdict() for piece in summed]})

    def lag(self, name: str) -> bytes:
        """How long effects linger."""
        return _written(self._lags[name].estimate().plain())

    def verify(self, name: str, asked: float) -> bytes:
        """A verification that began after this moment of `time.monotonic`, or holds since before."""
        return _written(self._verifications[name].verify(asked).plain())

    def export(self, name: str, path: str) -> None:
        """The whole history into a file."""
        self._experiments[name].export(Path(path))

    def log(self, name: str, path: str) -> None:
        """The whole log into a file, also of a damaged experiment."""
        export_log(self._storage, name, path)

    def feeds(self) -> tuple[list[Feed], int]:
        """How totals come in, and how many experiments cannot be read."""
        if self._feeds is None or time.monotonic() - self._feeds[0] > _FEEDS_SECONDS:
            self._feeds = time.monotonic(), read_feeds(self._storage, self._experiments)
        return self._feeds[1]

    def close(self) -> None:
        """Nothing of its own to let go of."""


def _written(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()
