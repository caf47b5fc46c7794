"""The operations of version 1: on experiments and slots, on long parts of logs, and monitoring."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from aftereffect._core import __version__, as_spec
from aftereffect.errors import ParameterError, name_field
from aftereffect.live import (
    MAX_LIVE_SLOTS,
    Decision,
    Experiment,
    TotalRecord,
    prepare_decide,
    remove_exported,
)
from aftereffect.policies import Policy
from aftereffect.service import _schemas as schemas
from aftereffect.service._access import AdminAccess, ReadAccess, WriteAccess
from aftereffect.service._errors import CONFLICT, NOT_FOUND, UNLIKELY, document_errors
from aftereffect.service._experiments import OpenExperiments, PooledRoute
from aftereffect.service._monitoring import CONTENT_TYPE, Metrics

Name = Annotated[schemas.Name, InPath()]
Slot = Annotated[schemas.SlotInPath, InPath()]
#: An answer in the types of JSON; FastAPI checks it against the model in the OpenAPI document.
Answer: TypeAlias = dict[str, Any]


def document_repeat(
    answer: type, links: dict[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The answers of an operation that may be repeated, and the operations that can follow it."""
    return {
        200: {
            "model": answer,
            "description": "The same was recorded before; nothing was changed.",
            "links": links or {},
        },
        201: {"model": answer, "description": "Recorded.", "links": links or {}},
    }


def link_to(*operations: str, **parameters: str) -> dict[str, Any]:
    """OpenAPI links to operations that take these parameters from an answer."""
    return {
        operation: {"operationId": operation, "parameters": parameters} for operation in operations
    }


_EXPERIMENT_LINKS = link_to(
    *("status", "ask", "skip", "change_arms", "history", "timeline", "lag", "results", "verify"),
    *("export", "end"),
    name="$response.body#/name",
)
_SLOT_LINKS = link_to("decide", "tell", name="$request.path.name", n="$response.body#/slot")

router = APIRouter(prefix="/v1", route_class=PooledRoute)


@router.post(
    "/experiments",
    status_code=201,
    operation_id="create",
    response_model=schemas.StatusAnswer,
    responses=document_errors(CONFLICT, has_body=True)
    | document_repeat(schemas.StatusAnswer, _EXPERIMENT_LINKS),
)
def create(
    given: schemas.NewExperiment, experiments: AdminAccess, request: Request, response: Response
) -> Answer:
    """Create an experiment. A second request with the same settings changes nothing."""
    settings = given.model_dump()
    if given.policy is not None:
        with name_field("policy"):
            settings["policy"] = as_spec(given.policy, Policy)
    if isinstance(given.history, dict):
        settings["history"] = {unit: _list_past(past) for unit, past in given.history.items()}
    elif given.history is not None:
        settings["history"] = _list_past(given.history)
    experiment = Experiment.create(**settings, storage=experiments.storage)
    response.status_code = 201 if experiment.is_new else 200
    response.headers["Location"] = (
        f"{request.scope.get('root_path', '')}/v1/experiments/{experiment.name}"
    )
    return experiment.status().to_dict()


def _list_past(past: Sequence[schemas.PastTotal | float | None]) -> list[Any]:
    """A history as `Experiment.create` takes it."""
    return [
        (each.time, each.total, each.covariates) if isinstance(each, schemas.PastTotal) else each
        for each in past
    ]


@router.get(
    "/experiments",
    operation_id="list",
    response_model=schemas.ExperimentsAnswer,
    responses=document_errors(),
)
def list_experiments(experiments: ReadAccess) -> Answer:
    """List the names of all experiments, except those whose stored name is damaged."""
    return {"experiments": experiments.storage.readable_names()}


@router.get(
    "/plans",
    operation_id="plans",
    response_model=schemas.PlansAnswer,
    responses=document_errors(),
)
def list_plans(experiments: ReadAccess) -> Answer:
    """The saved plans that the service was started with, in texts and tables."""
    return {"plans": experiments.plans}


@router.get(
    "/experiments/{name}",
    operation_id="status",
    response_model=schemas.StatusAnswer,
    responses=document_errors(NOT_FOUND),
)
def status(name: Name, experiments: ReadAccess) -> Answer:
    """The status of an experiment, arm by arm, and its next decision."""
    return experiments.readers[name].status().to_dict()


@router.post(
    "/experiments/{name}/slots",
    status_code=201,
    operation_id="ask",
    response_model=schemas.DecisionAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, has_body=True)
    | document_repeat(schemas.DecisionAnswer, _SLOT_LINKS),
)
def ask(
    name: Name,
    idempotency_key: Annotated[schemas.Key, Header()],
    experiments: WriteAccess,
    response: Response,
) -> Answer:
    """Decide the next slot. A second request with the same key gets the same answer."""
    found = _open_to_ask(experiments, name).find_or_decide(key=idempotency_key)
    return _answer_decision(*found, experiments.metrics, response)


@router.put(
    "/experiments/{name}/slots/{n}/decision",
    status_code=201,
    operation_id="decide",
    response_model=schemas.DecisionAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, has_body=True)
    | document_repeat(schemas.DecisionAnswer, _SLOT_LINKS),
)
def decide(name: Name, n: Slot, experiments: WriteAccess, response: Response) -> Answer:
    """Decide slot n, which must be the next slot. If it was decided before, repeat the decision."""
    found = _open_to_ask(experiments, name).find_or_decide(slot=n)
    return _answer_decision(*found, experiments.metrics, response)


@router.put(
    "/experiments/{name}/slots/{n}/total",
    status_code=201,
    operation_id="tell",
    response_model=schemas.TotalAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, UNLIKELY, has_body=True)
    | document_repeat(schemas.TotalAnswer),
)
def tell(
    name: Name,
    n: Slot,
    given: schemas.NewTotal | schemas.NewMissing,
    experiments: WriteAccess,
    response: Response,
) -> Answer:
    """Record the total of a slot, or that it is missing."""
    experiment = experiments.writers[name]
    if isinstance(given, schemas.NewTotal):
        record = experiment.tell(
            n,
            given.total,
            unit=given.unit,
            arm=given.arm,
            covariates=given.covariates,
            guardrails=given.guardrails,
            revise=given.revise,
            confirm=given.confirm,
        )
    else:
        record = experiment.mark_missing(
            n,
            unit=given.unit,
            covariates=given.covariates,
            guardrails=given.guardrails,
            revise=given.revise,
        )
    response.status_code = 201 if _count_if_new(record, experiments.metrics) else 200
    return record.to_dict()


@router.post(
    "/experiments/{name}/totals",
    status_code=201,
    operation_id="tell_many",
    response_model=schemas.TotalsAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, UNLIKELY, has_body=True)
    | document_repeat(schemas.TotalsAnswer),
)
def tell_many(
    name: Name,
    given: schemas.NewTotals,
    experiments: WriteAccess,
    response: Response,
    idempotency_key: Annotated[schemas.BatchKey | None, Header()] = None,
) -> Answer:
    """Record for several slots the total, or that it is missing. All are recorded, or none.

    With a key, the batch is recorded once. A later request with that key records nothing, whatever
    was recorded in between, and is answered with an empty list.
    """
    rows = [
        (each.slot, each.total, each.arm, each.covariates, each.guardrails, each.unit)
        if isinstance(each, schemas.ListedTotal)
        else (each.slot, None, None, each.covariates, each.guardrails, each.unit)
        for each in given.totals
    ]
    records = experiments.writers[name].tell_many(
        rows, revise=given.revise, confirm=given.confirm, key=idempotency_key
    )
    new = [_count_if_new(record, experiments.metrics) for record in records]
    response.status_code = 201 if any(new) else 200
    return {"totals": [record.to_dict() for record in records]}


@router.post(
    "/experiments/{name}/skip",
    operation_id="skip",
    response_model=schemas.StatusAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, has_body=True),
)
def skip(name: Name, given: schemas.NewGap, experiments: WriteAccess) -> Answer:
    """Record that nothing was decided for some slots, from the next slot on.

    A second request with the same slots changes nothing.
    """
    return experiments.writers[name].skip(given.first, given.last).to_dict()


@router.post(
    "/experiments/{name}/arms",
    operation_id="change_arms",
    response_model=schemas.StatusAnswer,
    responses=document_errors(NOT_FOUND, CONFLICT, has_body=True),
)
def change_arms(name: Name, given: schemas.ArmChanges, experiments: AdminAccess) -> Answer:
    """Add, pause, resume or retire arms, from the next slot on.

    What is known of the other arms is kept. A second request with the same changes changes nothing.
    """
    return experiments.writers[name].change_arms(**given.model_dump()).to_dict()


@router.post(
    "/experiments/{name}/end",
    operation_id="end",
    response_model=schemas.StatusAnswer,
    responses=document_errors(NOT_FOUND, has_body=True),
)
def end(name: Name, experiments: AdminAccess) -> Answer:
    """End an experiment for good. The answer is its final status."""
    return experiments.writers[name].end().to_dict()


@router.delete(
    "/experiments/{name}",
    operation_id="delete",
    response_model=schemas.DeletionAnswer,
    responses=document_errors(
        NOT_FOUND,
        {409: "The log does not end with the hash `last`; `recorded` has the hash at its end."},
        has_body=True,
    ),
)
def delete(
    name: Name,
    experiments: AdminAccess,
    confirm: Annotated[str, Query(description="The name of the experiment, once more.")],
    last: Annotated[
        str,
        Query(description="The hash in the last line of the log, as proof that you have the log."),
    ],
) -> Answer:
    """Delete an experiment for good, even a damaged one.

    Download its log first: after this request, the service has no copy of it.
    """
    with name_field("confirm"):
        if confirm != name:
            raise ParameterError(
                f"confirm must repeat the experiment's name, {name!r}, got {confirm[:100]!r}"
            )
    remove_exported(experiments.storage, name, last)
    return {"deleted": name}


def _open_to_ask(experiments: OpenExperiments, name: str) -> Experiment:
    """The experiment, with a policy that is compiled: nobody else could write meanwhile."""
    experiment = experiments.writers[name]
    if experiment.settings.looks_at_slots and not experiment.settings.units:
        prepare_decide(experiment.settings.policy)
    return experiment


def _answer_decision(
    decision: Decision, is_new: bool, metrics: Metrics, response: Response
) -> Answer:
    if is_new:
        metrics.count_event("decision")
    response.status_code = 201 if is_new else 200
    return decision.to_dict()


def _count_if_new(record: TotalRecord, metrics: Metrics) -> bool:
    is_new = record.change != "unchanged"
    if is_new:
        metrics.count_event("total")
    return is_new


MAX_HISTORY = 10_000
EXPORT_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
LOG_TYPE = "application/jsonl"

#: Operations that read long parts of a log.
scan_router = APIRouter(prefix="/v1/experiments/{name}", route_class=PooledRoute)


@scan_router.get(
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
        int,
        Query(
            ge=1,
            le=MAX_HISTORY,
            description="Return at most this many slots; with several units so many rows, but "
            "those of at least one slot.",
        ),
    ] = 1_000,
) -> Response:
    """The history: the decision and the total of each slot."""
    return _json(await experiments.scan("scan", "history", name, after, limit, about=name))


@scan_router.get(
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


@scan_router.get(
    "/lag",
    operation_id="lag",
    response_model=schemas.LagAnswer,
    responses=document_errors(NOT_FOUND, {409: "The experiment has several units."}),
)
async def lag(name: Name, experiments: ReadAccess) -> Response:
    """The estimated lag between a pull and its reward, or the reason why there is no estimate.

    The service caches the estimate until the number of totals has grown by a twentieth.
    """
    return _json(await experiments.scan("heavy", "lag", name, about=name))


@scan_router.get(
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


@scan_router.get(
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


@scan_router.get(
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


@scan_router.get(
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


#: What operators watch.
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
