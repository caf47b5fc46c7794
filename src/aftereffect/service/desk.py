"""The experiments that a service has open."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from aftereffect.live import Experiment, Storage
from aftereffect.live.storage import Record
from aftereffect.service.lingering import Lingering
from aftereffect.service.metrics import Metrics
from aftereffect.service.timeline import Timeline

T = TypeVar("T")

#: Experiments that are kept open; others are opened again from their snapshot.
_MOST = 256


class Kept(Generic[T]):
    """Things by the name of their experiment, the latest few, each made once.

    Made anew when the name stands for another experiment: it was deleted, perhaps by another process, and created again.
    """

    def __init__(self, storage: Storage, make: Callable[[str], T]) -> None:
        self._storage, self._make = storage, make
        self._lock = threading.Lock()
        self._things: OrderedDict[str, tuple[Record | None, T]] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        record = self._storage.find(name)
        with self._lock:
            if name in self._things and self._things[name][0] == record:
                self._things.move_to_end(name)
                return self._things[name][1]
            self._things.pop(name, None)
        made = self._make(name)  # may take a while, and others need not wait for it
        with self._lock:
            _, thing = self._things.setdefault(name, (record, made))
            while len(self._things) > _MOST:
                self._things.popitem(last=False)
            return thing


class Desk:
    """Experiments to write to and, apart from them, to read from: no reader holds a lock that a writer waits for."""

    def __init__(self, storage: Storage, metrics: Metrics) -> None:
        self.storage, self.metrics = storage, metrics
        self.writers = Kept(storage, lambda name: Experiment.open(name, storage=storage))
        self.readers = Kept(storage, lambda name: Experiment.open(name, storage=storage))
        self.timelines = Kept(storage, lambda name: Timeline(Experiment.open(name, storage=storage)))
        self.lags = Kept(storage, lambda name: Lingering(self.timelines[name]))
