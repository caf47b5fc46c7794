"""Error responses: one JSON form for all of them, and a status that says which kind it is."""

import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from aftereffect.errors import (
    AftereffectError,
    ConflictError,
    CorruptionError,
    MissingExtraError,
    NotFoundError,
    ParameterError,
    SpecError,
    StorageError,
    UnlikelyTotalError,
)

#: The first that matches counts, so subclasses come before their bases.
STATUS: dict[type[AftereffectError], int] = {
    ConflictError: 409,
    NotFoundError: 404,
    UnlikelyTotalError: 428,
    ParameterError: 422,
    SpecError: 422,
    MissingExtraError: 501,
    CorruptionError: 500,
    StorageError: 503,
}
#: Errors that any operation may answer with, and those of operations that take a body.
_ANY: dict[int, str] = {
    401: "The request has no token, or one that is not valid.",
    403: "The token's scope does not allow this, or the request comes from another origin.",
    422: "A part of the request is not valid; `field` names it.",
    429: "Too many requests of this kind are waiting; try again after `Retry-After` seconds.",
    500: "The stored data are damaged, or the service failed.",
    503: "The storage cannot be reached, read or written, or there is no answer in time; try again "
    "after `Retry-After` seconds.",
}
_WITH_BODY: dict[int, str] = {
    400: "The request cannot be read.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
}
NOT_FOUND = {404: "There is no experiment of that name."}
CONFLICT = {409: "The request contradicts what is `recorded`; nothing was changed."}
UNLIKELY = {
    428: "The total is far from all earlier totals: if it is right, send it with `confirm`."
}

#: All that an answer says of a failed storage: its own message may name its address, user or path.
_STORAGE_FAILED = (
    "the storage cannot be reached, read or written: try again; the service's log has the reason"
)
#: The key in a request's scope of what the log says about a failure.
REASON = "aftereffect.reason"
#: The name of a form in the path of a field that may have several: ``NewTotal``, ``list[...]``.
_FORM = re.compile(r"New\w+|Listed\w+|PastTotal|\w+\[.*")
#: What texts with a pattern look like, by the last part of their path.
_EXPECTED = {
    "name": "1 to 100 letters, digits, '-', '_' or '.'",
    "start": "a time such as 2026-03-02T14:00",
    "time": "a time such as 2026-03-02T14:00",
    "idempotency-key": "visible characters of ASCII, without spaces around them",
}


class Problem(BaseModel):
    """Why a request was refused.

    `field` names the part of the request that is wrong. On a conflict, `recorded` is what is in the
    log, and `given` is what was in the request.
    """

    message: str
    field: str | None = None
    recorded: dict[str, Any] | None = None
    given: dict[str, Any] | None = None


class RefusalError(Exception):
    """A request that the service refuses before it reaches an experiment."""

    def __init__(
        self, status: int, message: str, field: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field
        #: For the log, where it may say more than the answer.
        self.reason = reason or message


def refuse_for_storage(status: int, error: StorageError) -> RefusalError:
    """The refusal of a request whose storage has failed; the reason is only logged."""
    return RefusalError(status, _STORAGE_FAILED, reason=" ".join(str(error).split()))


def document_errors(
    *further: dict[int, str], has_body: bool = False
) -> dict[int | str, dict[str, Any]]:
    """The errors of an operation, for the OpenAPI document."""
    known = _ANY | (_WITH_BODY if has_body else {})
    for more in further:
        known |= more
    return {
        status: {"model": Problem, "description": text} for status, text in sorted(known.items())
    }


def error_response(
    status: int, message: str, field: str | None = None, **further: Any
) -> JSONResponse:
    """The answer to a request that failed."""
    headers = {
        401: {"WWW-Authenticate": "Bearer"},
        429: {"Retry-After": "1"},
        503: {"Retry-After": "1"},
    }.get(status)
    body = {"message": message, "field": field, "recorded": None, "given": None} | further
    return JSONResponse(body, status, headers)


def install_error_handlers(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Make an app with these routes answer every error in this form."""

    @app.exception_handler(RefusalError)
    def answer_refusal(request: Request, error: RefusalError) -> JSONResponse:
        request.scope[REASON] = error.reason
        return error_response(error.status, error.message, error.field)

    @app.exception_handler(AftereffectError)
    def answer_library_error(request: Request, error: AftereffectError) -> JSONResponse:
        status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
        further = (
            {"recorded": error.recorded, "given": error.given}
            if isinstance(error, ConflictError)
            else {}
        )
        text = " ".join(str(error).split())
        request.scope[REASON] = text
        if isinstance(error, StorageError) and not isinstance(error, CorruptionError):
            message = _STORAGE_FAILED
        else:
            message = text.replace(request.app.state.experiments.storage.url, "the storage")
        return error_response(status, message, getattr(error, "field", None), **further)

    @app.exception_handler(RequestValidationError)
    def answer_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first, (place, *path) = _find_best(error.errors())
        field = ".".join(part for part in path if not _FORM.fullmatch(part)) or place
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":  # nobody should have to read the pattern
            message = f"expected {_EXPECTED.get(path[-1], 'other characters')}"
        return error_response(422, f"{field}: {message}", field)

    @app.exception_handler(HTTPException)
    def answer_http_error(request: Request, error: HTTPException) -> JSONResponse:
        response = error_response(error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        if error.status_code == 405:  # a path may have several operations, each a route of its own
            here = (route for route in routes if route.matches(request.scope)[0] != Match.NONE)
            allowed = {method for route in here for method in getattr(route, "methods", ())}
            response.headers["Allow"] = ", ".join(
                sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)
            )
        return response


def _find_best(errors: Sequence[Any]) -> tuple[Any, list[str]]:
    """The first error, and its path.

    A value may have one of several forms, and the errors are then of all of them. Those of the form
    that fits best count: it has the fewest errors, or the deepest.
    """
    paths = [[str(part) for part in error["loc"]] for error in errors]
    forms = [next(filter(_FORM.fullmatch, path), None) for path in paths]
    best = min(
        reversed(dict.fromkeys(forms)),
        key=lambda form: (forms.count(form), -len(paths[forms.index(form)])),
    )
    at = forms.index(best)
    return errors[at], paths[at]
