"""The interface, version 1."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from aftereffect.errors import ParameterError, about
from aftereffect.live import Experiment, Outcome, Slot
from aftereffect.live.deletion import remove_exported
from aftereffect.provenance import __version__
from aftereffect.service import bodies
from aftereffect.service.access import allowed
from aftereffect.service.desk import Desk
from aftereffect.service.metrics import CONTENT_TYPE, Metrics
from aftereffect.service.pooled import PooledRoute

PROBLEMS: dict[int, str] = {
    400: "The request cannot be read.",
    401: "No token, or one that is not valid.",
    403: "The token's scope is too small, or the request comes from another origin.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    422: "Something cannot be; `field` says what.",
    429: "Too many requests of this kind wait already.",
    500: "The storage holds something else than was recorded.",
    503: "The storage cannot be reached, read or written.",
}
_NOT_FOUND, _CONFLICT = {404: "No such experiment."}, {409: "Something else is recorded; both are told."}
_UNLIKELY = {428: "The total is far from all that was seen: `confirm` it if it is right."}
MOST_LINES = 10_000

Name = Annotated[bodies.Name, InPath()]
Number = Annotated[bodies.Number, InPath()]


def told(*further: dict[int, str], changing: bool = False) -> dict[int | str, dict[str, Any]]:
    """The problems that an operation may answer with, for the OpenAPI document."""
    only_changing = (400, 408, 413, 415)
    known = {status: text for status, text in PROBLEMS.items() if changing or status not in only_changing}
    for more in further:
        known |= more
    return {status: {"model": bodies.Problem, "description": text} for status, text in sorted(known.items())}


def replayed(answer: type, links: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """The answers of an operation that is new, or had happened before; and what can follow it."""
    return {
        200: {"model": answer, "description": "It is so already; nothing was changed.", "links": links or {}},
        201: {"model": answer, "description": "Recorded.", "links": links or {}},
    }


def links(operations: tuple[str, ...], **parameters: str) -> dict[str, Any]:
    """Operations that take these parameters from an answer."""
    return {operation: {"operationId": operation, "parameters": parameters} for operation in operations}


_ON_EXPERIMENT = links(
    ("status", "ask", "skip", "history", "timeline", "lag", "verify", "export", "close"), name="$response.body#/name"
)
_ON_SLOT = links(("decide", "tell"), name="$request.path.name", n="$response.body#/slot")


router = APIRouter(prefix="/v1", route_class=PooledRoute)
#: By name, in the types that JSON has; FastAPI checks it against the model that the document shows.
Plain: TypeAlias = dict[str, Any]
#: The desk, for those who may.
Reading = Annotated[Desk, Depends(allowed("read"))]
Writing = Annotated[Desk, Depends(allowed("write"))]
Leading = Annotated[Desk, Depends(allowed("admin"))]


@router.post(
    "/experiments",
    status_code=201,
    operation_id="create",
    response_model=bodies.StatusAnswer,
    responses=told(_CONFLICT, changing=True) | replayed(bodies.StatusAnswer, _ON_EXPERIMENT),
)
def create(given: bodies.NewExperiment, desk: Leading, request: Request, response: Response) -> Plain:
    """Begin an experiment; with the same settings again, nothing changes."""
    experiment = Experiment.create(**given.model_dump(), storage=desk.storage)
    response.status_code = 201 if experiment.is_new else 200
    response.headers["Location"] = f"{request.scope.get('root_path', '')}/v1/experiments/{experiment.name}"
    return experiment.status().plain()


@router.get("/experiments", operation_id="list", response_model=bodies.ExperimentsAnswer, responses=told())
def experiments(desk: Reading) -> Plain:
    """All experiments; one whose name is damaged does not keep the others from being listed."""
    return {"experiments": desk.storage.readable_names()}


@router.get("/experiments/{name}", operation_id="status", response_model=bodies.StatusAnswer, responses=told(_NOT_FOUND))
def status(name: Name, desk: Reading) -> Plain:
    """How an experiment stands, and what comes next."""
    return desk.readers[name].status().plain()


@router.post(
    "/experiments/{name}/slots",
    status_code=201,
    operation_id="ask",
    response_model=bodies.SlotAnswer,
    responses=told(_NOT_FOUND, _CONFLICT, changing=True) | replayed(bodies.SlotAnswer, _ON_SLOT),
)
def ask(name: Name, idempotency_key: Annotated[bodies.Key, Header()], desk: Writing, response: Response) -> Plain:
    """Decide the next slot; asked again with the same key, the answer is the same."""
    return _answered(*desk.writers[name].decide(key=idempotency_key), desk.metrics, response)


@router.put(
    "/experiments/{name}/slots/{n}/decision",
    status_code=201,
    operation_id="decide",
    response_model=bodies.SlotAnswer,
    responses=told(_NOT_FOUND, _CONFLICT, changing=True) | replayed(bodies.SlotAnswer, _ON_SLOT),
)
def decide(name: Name, n: Number, desk: Writing, response: Response) -> Plain:
    """Decide slot n, which must be the next one, or tell again what was decided."""
    return _answered(*desk.writers[name].decide(slot=n), desk.metrics, response)


@router.put(
    "/experiments/{name}/slots/{n}/outcome",
    status_code=201,
    operation_id="tell",
    response_model=bodies.OutcomeAnswer,
    responses=told(_NOT_FOUND, _CONFLICT, _UNLIKELY, changing=True) | replayed(bodies.OutcomeAnswer),
)
def tell(name: Name, n: Number, given: bodies.NewOutcome, desk: Writing, response: Response) -> Plain:
    """Record a slot's total, or that it is missing."""
    if isinstance(given, bodies.NewTotal):
        outcome = desk.writers[name].tell(n, given.value, arm=given.arm, revise=given.revise, confirm=given.confirm)
    else:
        outcome = desk.writers[name].missing(n, revise=given.revise)
    return _told(outcome, desk.metrics, response)


@router.post(
    "/experiments/{name}/outcomes",
    status_code=201,
    operation_id="tell_many",
    response_model=bodies.OutcomesAnswer,
    responses=told(_NOT_FOUND, _CONFLICT, _UNLIKELY, changing=True) | replayed(bodies.OutcomesAnswer),
)
def tell_many(name: Name, given: bodies.NewOutcomes, desk: Writing, response: Response) -> Plain:
    """Record the totals of several slots, or that they are missing: all of them, or none."""
    rows = [
        (each.slot, each.value, each.arm) if isinstance(each, bodies.ListedTotal) else (each.slot, None)
        for each in given.outcomes
    ]
    answers = desk.writers[name].tell_many(rows, revise=given.revise, confirm=given.confirm)
    new = [_is_new(outcome, desk.metrics) for outcome in answers]
    response.status_code = 201 if any(new) else 200
    return {"outcomes": [outcome._asdict() for outcome in answers]}


@router.post(
    "/experiments/{name}/skip",
    operation_id="skip",
    response_model=bodies.StatusAnswer,
    responses=told(_NOT_FOUND, _CONFLICT, changing=True),
)
def skip(name: Name, given: bodies.NewGap, desk: Writing) -> Plain:
    """Record that nothing was decided for some slots, from the next one on; the same again changes nothing."""
    return desk.writers[name].skip(given.first, given.last).plain()


@router.get(
    "/experiments/{name}/slots", operation_id="history", response_model=bodies.HistoryAnswer, responses=told(_NOT_FOUND)
)
async def history(
    name: Name,
    desk: Reading,
    after: Annotated[int, Query(ge=-1, le=bodies.MOST_LIVE_SLOTS, description="Slots after this one.")] = -1,
    limit: Annotated[int, Query(ge=1, le=MOST_LINES, description="At most so many.")] = 1_000,
) -> Response:
    """What happened, slot by slot."""
    return _json(await desk.scan("scan", "history", name, after, limit, about=name))


@router.get(
    "/experiments/{name}/timeline", operation_id="timeline", response_model=bodies.TimelineAnswer, responses=told(_NOT_FOUND)
)
async def timeline(
    name: Name, desk: Reading, pieces: Annotated[int, Query(ge=1, le=2_000, description="At most so many.")] = 400
) -> Response:
    """An experiment from its beginning to now in a few hundred pieces, for pictures."""
    return _json(await desk.scan("scan", "timeline", name, pieces, about=name))


@router.get("/experiments/{name}/lag", operation_id="lag", response_model=bodies.LagAnswer, responses=told(_NOT_FOUND))
async def lag(name: Name, desk: Reading) -> Response:
    """How long effects linger, as the totals tell; or why they do not. Estimated anew when they have grown by a twentieth."""
    return _json(await desk.scan("heavy", "lag", name, about=name))


@router.get(
    "/experiments/{name}/verify", operation_id="verify", response_model=bodies.VerificationAnswer, responses=told(_NOT_FOUND)
)
async def verify(name: Name, desk: Reading) -> Response:
    """Check every event and derive every decision again; the answer is kept for a minute, while nothing is recorded."""
    return _json(await desk.scan("heavy", "verify", name, time.monotonic(), about=name))


@router.post(
    "/experiments/{name}/close",
    operation_id="close",
    response_model=bodies.StatusAnswer,
    responses=told(_NOT_FOUND, changing=True),
)
def close(name: Name, desk: Leading) -> Plain:
    """End an experiment; its final table."""
    return desk.writers[name].close().plain()


EXPORTS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


@router.get(
    "/experiments/{name}/export",
    operation_id="export",
    response_class=FileResponse,
    responses={
        **told(_NOT_FOUND, {501: "This needs an extra that is not installed."}),
        200: {"description": "The whole history.", "content": {kind.partition(";")[0]: {} for kind in EXPORTS.values()}},
    },
)
async def export(name: Name, desk: Reading, format: Annotated[Literal["csv", "parquet"], Query()] = "csv") -> FileResponse:
    """The whole history as a file."""
    return await _as_file(desk, "export", name, f"{name}.{format}", EXPORTS[format])


LOG_TYPE = "application/jsonl"


@router.get(
    "/experiments/{name}/log",
    operation_id="log",
    response_class=FileResponse,
    responses={**told(_NOT_FOUND), 200: {"description": "The whole log.", "content": {LOG_TYPE: {}}}},
)
async def log(name: Name, desk: Leading) -> FileResponse:
    """Everything there is of an experiment, also of a damaged one, in lines of JSON: its settings, and each event."""
    return await _as_file(desk, "log", name, f"{name}.jsonl", LOG_TYPE)


@router.delete(
    "/experiments/{name}",
    operation_id="delete",
    response_model=bodies.DeletionAnswer,
    responses=told(_NOT_FOUND, {409: "The log does not end with `last`; what it ends with is told."}, changing=True),
)
def delete(
    name: Name,
    desk: Leading,
    confirm: Annotated[str, Query(description="The name again.")],
    last: Annotated[str, Query(description="The hash in the last line of the log, to show that somebody has it.")],
) -> Plain:
    """Remove an experiment for good, also a damaged one. Who does so has its log: nothing else brings it back."""
    with about("confirm"):
        if confirm != name:
            raise ParameterError(f"confirm must be the name of the experiment again, {name!r}, got {confirm[:100]!r}")
    remove_exported(desk.storage, name, last)
    return {"deleted": name}


health = APIRouter()


@health.get("/healthz", operation_id="health", response_model=bodies.Health, responses=told())
async def healthz(request: Request) -> Plain:
    """Whether the service and its storage answer, and the storage can be written."""
    await request.app.state.health.check()
    return {"status": "ok", "version": __version__}


@health.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={**told(), 200: {"description": "Numbers for Prometheus.", "content": {"text/plain": {}}}},
)
async def metrics(desk: Reading) -> Response:
    """Numbers for Prometheus."""
    feeds, unreadable = await desk.scan("scan", "feeds", about="/metrics")
    return Response(desk.metrics.written(feeds, unreadable), media_type=CONTENT_TYPE)


async def _as_file(desk: Desk, operation: str, name: str, filename: str, kind: str) -> FileResponse:
    """What an operation of `Scans` writes into a file, which is removed when it was sent."""
    folder = Path(tempfile.mkdtemp())
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    try:
        await desk.scan("heavy", operation, name, str(folder / filename), about=name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(folder / filename, media_type=kind, filename=filename, background=remove)


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json")


def _answered(slot: Slot, new: bool, counting: Metrics, response: Response) -> Plain:
    if new:
        counting.recorded("decision")
    response.status_code = 201 if new else 200
    return slot.plain()


def _told(outcome: Outcome, counting: Metrics, response: Response) -> Plain:
    response.status_code = 201 if _is_new(outcome, counting) else 200
    return outcome._asdict()


def _is_new(outcome: Outcome, counting: Metrics) -> bool:
    new = outcome.change != "unchanged"
    if new:
        counting.recorded("outcome")
    return new
