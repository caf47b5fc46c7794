"""The operations of version 1 that read long parts of a log, and those for monitoring."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from aftereffect._core import __version__
from aftereffect.live import MAX_LIVE_SLOTS
from aftereffect.service import _schemas as schemas
from aftereffect.service._access import AdminAccess, ReadAccess
from aftereffect.service._errors import NOT_FOUND, document_errors
from aftereffect.service._experiments import OpenExperiments, PooledRoute
from aftereffect.service._monitoring import CONTENT_TYPE
from aftereffect.service._routes import Answer, Name

MAX_HISTORY = 10_000
EXPORT_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
LOG_TYPE = "application/jsonl"

router = APIRouter(prefix="/v1/experiments/{name}", route_class=PooledRoute)


@router.get(
    "/slots",
    operation_id="history",
    response_model=schemas.HistoryAnswer,
    responses=document_errors(NOT_FOUND),
)
async def history(
    name: Name,
    experiments: ReadAccess,
    after: Annotated[
        int, Query(ge=-1, le=MAX_LIVE_SLOTS, description="Return only slots after this one.")
    ] = -1,
    limit: Annotated[
        int, Query(ge=1, le=MAX_HISTORY, description="Return at most this many slots.")
    ] = 1_000,
) -> Response:
    """The history: the decision and the total of each slot."""
    return _json(await experiments.scan("scan", "history", name, after, limit, about=name))


@router.get(
    "/timeline",
    operation_id="timeline",
    response_model=schemas.TimelineAnswer,
    responses=document_errors(NOT_FOUND),
)
async def timeline(
    name: Name,
    experiments: ReadAccess,
    pieces: Annotated[
        int, Query(ge=1, le=2_000, description="Return at most this many pieces.")
    ] = 400,
) -> Response:
    """The whole history in a few hundred pieces of consecutive slots, for charts."""
    return _json(await experiments.scan("scan", "timeline", name, pieces, about=name))


@router.get(
    "/lag",
    operation_id="lag",
    response_model=schemas.LagAnswer,
    responses=document_errors(NOT_FOUND),
)
async def lag(name: Name, experiments: ReadAccess) -> Response:
    """The estimated lag between a pull and its reward, or the reason why there is no estimate.

    The service caches the estimate until the number of totals has grown by a twentieth.
    """
    return _json(await experiments.scan("heavy", "lag", name, about=name))


@router.get(
    "/results",
    operation_id="results",
    response_model=schemas.ResultsAnswer,
    responses=document_errors(
        NOT_FOUND, {409: "Arms were not drawn with recorded probabilities, or are too many."}
    ),
)
async def results(
    name: Name,
    experiments: ReadAccess,
    level: Annotated[
        Literal["0.8", "0.9", "0.95", "0.99"],
        Query(description="The probability with which all intervals hold, at all looks."),
    ] = "0.95",
    stop_when_loss_below: Annotated[
        float | None,
        Query(
            gt=0,
            allow_inf_nan=False,
            description="Say whether the expected loss per slot is below this number, in the unit "
            "of the totals. By default, the number that the experiment was created with.",
        ),
    ] = None,
) -> Response:
    """Who won: the effect of each arm, with intervals that hold at every look.

    The service caches the answer until something is recorded. Requests that wait while it computes
    share the next answer.
    """
    given = (float(level), stop_when_loss_below, time.monotonic())
    return _json(await experiments.scan("heavy", "results", name, *given, about=name))


@router.get(
    "/verify",
    operation_id="verify",
    response_model=schemas.VerificationAnswer,
    responses=document_errors(NOT_FOUND),
)
async def verify(name: Name, experiments: ReadAccess) -> Response:
    """Check every event, and derive every decision again.

    The answer is cached for a minute, or until something is recorded.
    """
    return _json(await experiments.scan("heavy", "verify", name, time.monotonic(), about=name))


@router.get(
    "/export",
    operation_id="export",
    response_class=FileResponse,
    responses={
        **document_errors(NOT_FOUND, {501: "This format needs an extra that is not installed."}),
        200: {
            "description": "The whole history.",
            "content": {kind.partition(";")[0]: {} for kind in EXPORT_TYPES.values()},
        },
    },
)
async def export(
    name: Name,
    experiments: ReadAccess,
    format: Annotated[Literal["csv", "parquet"], Query()] = "csv",
) -> FileResponse:
    """The whole history as a file."""
    return await _send_file(experiments, "export", name, f"{name}.{format}", EXPORT_TYPES[format])


@router.get(
    "/log",
    operation_id="log",
    response_class=FileResponse,
    responses={
        **document_errors(NOT_FOUND),
        200: {"description": "The whole log.", "content": {LOG_TYPE: {}}},
    },
)
async def log(name: Name, experiments: AdminAccess) -> FileResponse:
    """The whole log in lines of JSON: the settings, then every event.

    This works for a damaged experiment too.
    """
    return await _send_file(experiments, "log", name, f"{name}.jsonl", LOG_TYPE)


async def _send_file(
    experiments: OpenExperiments, operation: str, name: str, filename: str, media_type: str
) -> FileResponse:
    """Send a file that an operation of `Scans` writes; it is removed after that."""
    folder = Path(tempfile.mkdtemp())
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    try:
        await experiments.scan("heavy", operation, name, str(folder / filename), about=name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(
        folder / filename, media_type=media_type, filename=filename, background=remove
    )


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json")


monitoring = APIRouter()


@monitoring.get(
    "/healthz",
    operation_id="health",
    response_model=schemas.HealthAnswer,
    responses=document_errors(),
)
async def health(request: Request) -> Answer:
    """Whether the service answers and its storage can be read and written."""
    await request.app.state.experiments.check_health()
    return {"status": "ok", "version": __version__}


@monitoring.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **document_errors(),
        200: {"description": "Metrics in Prometheus' text format.", "content": {"text/plain": {}}},
    },
)
async def metrics(experiments: ReadAccess) -> Response:
    """Metrics for Prometheus."""
    feeds, unreadable = await experiments.scan("scan", "feeds", about="/metrics")
    return Response(experiments.metrics.render(feeds, unreadable), media_type=CONTENT_TYPE)
