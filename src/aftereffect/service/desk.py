"""The experiments that a service has open, and the threads and the process that work on them."""

from typing import Any

from aftereffect.live import Experiment, Storage
from aftereffect.service.kept import Kept, opened
from aftereffect.service.metrics import Metrics
from aftereffect.service.pools import Pool
from aftereffect.service.scans import Scans
from aftereffect.service.worker import Worker


class Desk:
    """Experiments to write to and, apart from them, to read from: no reader holds a lock that a writer waits for.

    Parameters
    ----------
    storage
        Where they are kept.
    metrics
        What is counted.
    scans
        What reads long logs: in this process, or apart from it.
    """

    def __init__(self, storage: Storage, metrics: Metrics, scans: Scans | Worker) -> None:
        self.storage, self.metrics, self._scans = storage, metrics, scans
        self.writers: Kept[Experiment] = Kept(storage, lambda name: opened(name, storage))
        self.readers: Kept[Experiment] = Kept(storage, lambda name: opened(name, storage))
        writing = Pool("write")
        self.pools = {kind: Pool(kind, before=writing) for kind in ("read", "scan", "heavy")}
        self.pools |= {kind: Pool(kind) for kind in ("access", "health")} | {"write": writing}

    async def scan(self, kind: str, operation: str, *given: Any, about: str = "") -> Any:
        """What an operation of `Scans` answers, done apart from those who write."""
        return await self.pools[kind].run(lambda: self._scans.call(operation, *given), about)

    def close(self) -> None:
        """End the process, and let go of the storage."""
        self._scans.close()
        self.storage.close()
