"""Whether the storage can be read and written, asked for seldom however often somebody wants to know."""

import asyncio
import time

from aftereffect.errors import StorageError
from aftereffect.live import Storage
from aftereffect.service.pools import Pool
from aftereffect.service.problems import RefusalError

#: Seconds for which the last answer holds.
_FRESH = 1.0


class Health:
    """The last answer of the storage, and its time."""

    def __init__(self, storage: Storage, pool: Pool) -> None:
        self._storage, self._pool = storage, pool
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._refusal: RefusalError | None = None

    async def check(self) -> None:
        """Refuse (503) if the storage is away, does not answer, or cannot be written; why is said in the log alone."""
        async with self._lock:
            if time.monotonic() > self._until:
                self._refusal = await self._asked()
                self._until = time.monotonic() + _FRESH
        if self._refusal is not None:
            raise self._refusal

    async def _asked(self) -> RefusalError | None:
        try:
            await self._pool.run(self._storage.prepare)
        except StorageError as error:
            message = "the storage cannot be reached, read or written: the log of the service says why"
            return RefusalError(503, message, reason=" ".join(str(error).split()))
        except RefusalError as refusal:
            return refusal
        return None
