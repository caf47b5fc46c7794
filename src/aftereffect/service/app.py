"""The application: endpoints, guard and page on one storage."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, FastAPI, Response

from aftereffect.live import Storage
from aftereffect.provenance import __version__
from aftereffect.service.desk import Desk
from aftereffect.service.endpoints import health, router
from aftereffect.service.guard import Guard
from aftereffect.service.health import Health
from aftereffect.service.metrics import Metrics
from aftereffect.service.problems import answer_errors
from aftereffect.service.scans import Scans
from aftereffect.service.worker import Worker

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = """
index.html icon.svg page.css overview.css detail.css charts.css
page.js arms.js charts.js detail.js dom.js entrance.js estimates.js landing.js loop.js overview.js service.js shares.js table.js
totals.js words.js
"""
#: The page, by path: where it lies in the package, and what it is.
PAGE = {
    "/" if name == "index.html" else f"/{name}": (name, f"{_KINDS[PurePath(name).suffix]}; charset=utf-8")
    for name in _FILES.split()
}
#: The page loads from here and talks to here, and nothing else does with it.
_POLICY = (
    "default-src 'self'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def create_app(storage: Storage, scans: Scans | Worker, *, local: bool = True) -> FastAPI:
    """The service on a storage.

    Parameters
    ----------
    storage
        Where experiments are kept; closed when the service stops.
    scans
        What reads long logs of the same storage; closed as well.
    local
        Whether only this machine can reach it: then it is open as long as no token was made.
    """
    metrics = Metrics()
    desk = Desk(storage, metrics, scans)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="aftereffect",
        summary="Live experiments whose rewards come late, spread over time, and anonymous.",
        version=__version__,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        lifespan=running,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},  # /metrics has what there is
    )
    app.state.desk, app.state.local, app.state.health = desk, local, Health(storage, desk.pools["health"])
    routers = (router, health, _page())
    for each in routers:
        app.include_router(each)
    answer_errors(app, [route for each in routers for route in each.routes])
    app.add_middleware(Guard, metrics=metrics)
    return app


def _page() -> APIRouter:
    page = APIRouter(include_in_schema=False)
    folder = files("aftereffect.service") / "page"
    for path, (name, kind) in PAGE.items():
        page.add_api_route(path, _served((folder / name).read_bytes(), kind), methods=["GET"])
    return page


def _served(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def served() -> Response:
        return Response(content, media_type=kind, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})

    return served
