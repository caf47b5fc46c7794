"""The application on one storage: its routes, and the files of its web page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, FastAPI, Response

from aftereffect._core import __version__
from aftereffect.live import Storage
from aftereffect.service import _routes
from aftereffect.service._access import Guard
from aftereffect.service._errors import install_error_handlers
from aftereffect.service._experiments import OpenExperiments
from aftereffect.service._monitoring import Metrics
from aftereffect.service._scans import Scans
from aftereffect.service._worker import Worker

_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
#: The page may load only its own files, and talk only to this service.
_CONTENT_POLICY = (
    "default-src 'self'; style-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def create_app(
    storage: Storage,
    scans: Scans | Worker,
    *,
    local: bool = True,
    plans: Sequence[dict[str, Any]] = (),
) -> FastAPI:
    """The application on a storage.

    Parameters
    ----------
    storage
        Where the experiments are stored; closed when the service stops.
    scans
        Reads long logs of the same storage; closed as well.
    local
        Whether only this machine can reach the service: then it is open until a token is created.
    plans
        Saved plans to show, as `Plan.lay_out` gives them.
    """
    metrics = Metrics()
    experiments = OpenExperiments(storage, metrics, scans, plans)

    @asynccontextmanager
    async def close_at_end(app: FastAPI) -> AsyncIterator[None]:
        yield
        experiments.close()

    app = FastAPI(
        title="aftereffect",
        summary="Live experiments whose rewards arrive late, spread over time, and anonymously.",
        version=__version__,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        lifespan=close_at_end,
        telemetry={  # /metrics has it all
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
        },
    )
    app.state.experiments, app.state.local = experiments, local
    routers = (_routes.router, _routes.scan_router, _routes.monitoring, _page_routes())
    for router in routers:
        app.include_router(router)
    install_error_handlers(app, [route for router in routers for route in router.routes])
    app.add_middleware(Guard, metrics=metrics)
    return app


def page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the web page: media type and content by path."""
    return {
        "/" if file.name == "index.html" else f"/{file.name}": (
            f"{_MEDIA_TYPES[PurePath(file.name).suffix]}; charset=utf-8",
            file.read_bytes(),
        )
        for file in (files("aftereffect.service") / "page").iterdir()
        if PurePath(file.name).suffix in _MEDIA_TYPES
    }


def _page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, (media_type, content) in page_files().items():
        router.add_api_route(path, _serve_file(content, media_type), methods=["GET"])
    return router


def _serve_file(content: bytes, media_type: str) -> Callable[[], Awaitable[Response]]:
    headers = {"Content-Security-Policy": _CONTENT_POLICY, "Cache-Control": "no-cache"}

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers=headers)

    return serve
