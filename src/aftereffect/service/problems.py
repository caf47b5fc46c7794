"""Errors as answers: one form for all of them, and a status that says what kind it is."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
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

#: The most special first.
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


#: Where a request keeps what the log says about its failure.
REASON = "aftereffect.reason"


class RefusalError(Exception):
    """A request that is refused before it comes to anything."""

    def __init__(self, status: int, message: str, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field
        #: For the log, where it says more than the answer may.
        self.reason = reason or message


def problem(status: int, message: str, field: str | None = None, **further: Any) -> JSONResponse:
    """The answer to a request that is refused."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}.get(status)
    return JSONResponse({"message": message, "field": field, "recorded": None, "given": None} | further, status, headers)


def withheld(error: AftereffectError) -> str | None:
    """What is answered instead of an error that tells of the storage, its address, user or path: the log has all of it."""
    if isinstance(error, StorageError) and not isinstance(error, CorruptionError):
        return "the storage cannot be reached, read or written: try again; the log of the service says why"
    return None


def answer_errors(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Have an app with these routes answer all errors in this form."""

    @app.exception_handler(RefusalError)
    def refused(request: Request, error: RefusalError) -> JSONResponse:
        request.scope[REASON] = error.reason
        return problem(error.status, error.message, error.field)

    @app.exception_handler(AftereffectError)
    def ours(request: Request, error: AftereffectError) -> JSONResponse:
        status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
        further = {"recorded": error.recorded, "given": error.given} if isinstance(error, ConflictError) else {}
        text = " ".join(str(error).split())
        request.scope[REASON] = text
        message = withheld(error) or text.replace(request.app.state.desk.storage.url, "the storage")
        return problem(status, message, getattr(error, "field", None), **further)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        field = ".".join(place[1:]) or place[0]
        return problem(422, f"{field}: {first['msg']}", field)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:  # a path may have several operations, each a route of its own
            here = (route for route in routes if route.matches(request.scope)[0] != Match.NONE)
            allowed = {method for route in here for method in getattr(route, "methods", ())}
            answer.headers["Allow"] = ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))
        return answer
