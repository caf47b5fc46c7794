"""What the service computes from long logs, and answers as JSON.

`Scans` compute in Python, which holds up every other thread of the process. So the service runs
them in a process of their own (see `_worker`).
"""

import json
import time
from pathlib import Path
from typing import Any

from aftereffect.errors import AftereffectError
from aftereffect.live import Experiment, Storage, check_lag, export_log
from aftereffect.service._cache import LagCache, ResultsCache, VerificationCache
from aftereffect.service._monitoring import Feed, read_feed
from aftereffect.service._opening import MAX_OPEN, NamedCache, open_experiment
from aftereffect.service._timeline import Timeline

#: Seconds for which the state of the feeds is cached, however often somebody asks.
_FEEDS_SECONDS = 5.0
#: Seconds that reading the feeds may take; experiments that come later in the list are left out.
_MAX_FEEDS_SECONDS = 10.0


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
