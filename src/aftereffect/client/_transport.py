"""The way to a service: connections, requests that are repeated, and answers that are errors."""

import http.client
import json
import random
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aftereffect._core import atomic_write
from aftereffect.errors import (
    AftereffectError,
    ConflictError,
    CorruptionError,
    NotFoundError,
    ParameterError,
    ServiceError,
    UnlikelyTotalError,
)

#: The service, or a proxy before it, could not answer: the request is repeated.
_REPEATED = (408, 429, 502, 503, 504)
#: Seconds between repetitions: the first pause, which doubles each time, and the longest.
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 2.0
NOT_A_SERVICE = "{} answered {}, but not as the service does: is this its address?"
#: Statuses as the errors that an `Experiment` would raise.
_ERRORS: Mapping[int, type[AftereffectError]] = {
    404: NotFoundError,
    422: ParameterError,
    428: UnlikelyTotalError,
    500: CorruptionError,
}


class Answer(NamedTuple):
    """An answer as it arrived."""

    status: int
    body: bytes
    retry_after: str | None = None


class Transport:
    """The way to one service; threads may share it, each has a connection of its own.

    Parameters are those of `Client`.
    """

    def __init__(self, url: str, token: str | None, retry_for: float, timeout: float) -> None:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname
        if scheme not in ("http", "https") or not host or parts.query or parts.username:
            raise ParameterError(
                f"the service's address must be like http://127.0.0.1:8750, got {scheme or url!r}"
            )
        self.url = url.rstrip("/")
        self._secure, self._host, self._port = scheme == "https", host, parts.port
        self._prefix = parts.path.rstrip("/")
        self._token, self._retry_for, self._timeout = token, retry_for, timeout
        self._local = threading.local()
        self._connections: weakref.WeakSet[http.client.HTTPConnection] = weakref.WeakSet()

    def send(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; returns the status and the JSON object of the answer."""
        answer = self._request(method, path, given, headers)
        return answer.status, _read_answer(self.url, answer)

    def save(self, path: str, target: Path) -> None:
        """Write the body of an answer into a file."""
        answer = self._request("GET", path, None, {"Accept": "*/*"})
        if answer.status != 200:
            _read_answer(self.url, answer)
        with atomic_write(target) as draft:
            draft.write_bytes(answer.body)

    def close(self) -> None:
        """Close the connections of all threads; a later request opens a new one."""
        for connection in list(self._connections):
            connection.close()

    def _request(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        """The answer to a request, repeated while the service cannot answer."""
        try:
            body = None if given is None else json.dumps(given, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ParameterError(f"this cannot be sent as JSON: {error}") from None
        sent = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        end, pause = time.monotonic() + self._retry_for, _FIRST_PAUSE
        while True:
            wait = 0.0
            try:
                answer = self.send_once(method, self._prefix + path, body, sent)
            except (OSError, http.client.HTTPException) as error:
                self._local.connection = None
                problem = str(error) or type(error).__name__
            else:
                if answer.status not in _REPEATED:
                    return answer
                problem = f"it answered {answer.status}: {_read_message(answer.body)}"
                if answer.status in (429, 503) and answer.retry_after is not None:
                    wait = _read_seconds(answer.retry_after)
                    problem += f" (it asks to wait {wait:g} s)"
            if time.monotonic() + wait + pause > end:
                raise ServiceError(
                    f"no answer from {self.url} within {self._retry_for:g} s: {problem}"
                )
            # The random part keeps many clients from coming back all at once.
            time.sleep(wait + pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _MAX_PAUSE)

    def send_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request once, over the connection of this thread."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), answer.getheader("Retry-After"))

    def _connect(self) -> http.client.HTTPConnection:
        if not self._secure:
            connection = _Connection(self._host, self._port, timeout=self._timeout)
        else:
            connection = _SecureConnection(
                self._host, self._port, timeout=self._timeout, context=ssl.create_default_context()
            )
        self._connections.add(connection)
        return connection


class _Connection(http.client.HTTPConnection):
    """Is closed when its thread ends."""

    def __del__(self) -> None:
        self.close()


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """The same, encrypted."""


def _read_seconds(retry_after: str) -> float:
    """The seconds of a Retry-After header, which may also be a date; 0 if it cannot be read."""
    try:
        if retry_after.strip().isdigit():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _read_message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]


def _read_answer(url: str, answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer, or the error that it stands for."""
    try:
        content = json.loads(answer.body)
        if answer.status < 300 and isinstance(content, dict):
            return content
        message = content["message"]
    except (ValueError, KeyError, TypeError):
        raise ServiceError(NOT_A_SERVICE.format(url, answer.status)) from None
    if answer.status == 409:
        raise ConflictError(message, content.get("recorded"), content.get("given"))
    if answer.status in _ERRORS:
        error = _ERRORS[answer.status](message)
        if isinstance(error, ParameterError):
            error.field = content.get("field")
        raise error
    raise ServiceError(f"{url} refuses: {message}")
