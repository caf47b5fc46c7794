"""Operations in the threads of their kind."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute


class PooledRoute(APIRoute):
    """A route whose operation, where it is a plain function, runs in a pool: of readers if it is a GET, else of writers.

    Such a function takes the desk, by that name, and mostly the name of an experiment.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        kind = "read" if options.get("methods") in (None, ["GET"], {"GET"}) else "write"
        super().__init__(path, endpoint if inspect.iscoroutinefunction(endpoint) else _pooled(endpoint, kind), **options)


def _pooled(operation: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(operation)
    async def run(**given: Any) -> Any:
        return await given["desk"].pools[kind].run(lambda: operation(**given), given.get("name", ""))

    return run
