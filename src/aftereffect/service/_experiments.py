"""The open experiments of a service, and the threads and the process that work on them."""

import asyncio
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute

from aftereffect.errors import StorageError
from aftereffect.live import Experiment, Storage
from aftereffect.service._errors import RefusalError
from aftereffect.service._monitoring import Metrics
from aftereffect.service._pools import Pool
from aftereffect.service._scans import NamedCache, Scans, open_experiment
from aftereffect.service._worker import Worker

#: Seconds for which the storage's last answer to a health check holds.
_HEALTH_SECONDS = 1.0


class OpenExperiments:
    """Experiments to write to, and separate ones to read from.

    A reader thus never holds a lock that a writer waits for.

    Parameters
    ----------
    storage
        Where the experiments are stored.
    metrics
        What the service counts.
    scans
        Reads long logs, in this process or in another.
    """

    def __init__(self, storage: Storage, metrics: Metrics, scans: Scans | Worker) -> None:
        self.storage, self.metrics, self._scans = storage, metrics, scans
        self.writers: NamedCache[Experiment] = NamedCache(
            storage, lambda name: open_experiment(name, storage)
        )
        self.readers: NamedCache[Experiment] = NamedCache(
            storage, lambda name: open_experiment(name, storage)
        )
        writing = Pool("write")
        self.pools = {kind: Pool(kind, before=writing) for kind in ("read", "scan", "heavy")}
        self.pools |= {kind: Pool(kind) for kind in ("access", "health")} | {"write": writing}
        self._health_lock = asyncio.Lock()
        self._healthy_until = 0.0
        self._health_refusal: RefusalError | None = None

    async def scan(self, kind: str, operation: str, *given: Any, about: str = "") -> Any:
        """Run an operation of `Scans` in the pool of this kind, apart from the writers."""
        return await self.pools[kind].run(lambda: self._scans.call(operation, *given), about)

    async def check_health(self) -> None:
        """Refuse (503) if the storage does not answer or cannot be written.

        The storage is asked at most once a second, however many ask. The reason is only logged.
        """
        async with self._health_lock:
            if time.monotonic() > self._healthy_until:
                self._health_refusal = await self._probe_storage()
                self._healthy_until = time.monotonic() + _HEALTH_SECONDS
        if self._health_refusal is not None:
            raise self._health_refusal

    def close(self) -> None:
        """End the process that reads logs, and close the storage."""
        self._scans.close()
        self.storage.close()

    async def _probe_storage(self) -> RefusalError | None:
        try:
            await self.pools["health"].run(self.storage.prepare)
        except StorageError as error:
            message = (
                "the storage cannot be reached, read or written: the service's log has the reason"
            )
            return RefusalError(503, message, reason=" ".join(str(error).split()))
        except RefusalError as refusal:
            return refusal
        return None


class PooledRoute(APIRoute):
    """A route that runs a plain function in a pool: `read` for a GET, `write` for the rest.

    The function has a parameter `experiments` and, mostly, `name`. Coroutines run as they are.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        kind = "read" if options.get("methods") in (None, ["GET"], {"GET"}) else "write"
        super().__init__(
            path,
            endpoint if inspect.iscoroutinefunction(endpoint) else _run_in_pool(endpoint, kind),
            **options,
        )


def _run_in_pool(operation: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(operation)
    async def run(**given: Any) -> Any:
        pool: Pool = given["experiments"].pools[kind]
        return await pool.run(lambda: operation(**given), given.get("name", ""))

    return run
