"""A client of the service: the methods of an experiment, over HTTP. Needs nothing but Python."""

import http.client
import json
import math
import os
import random
import ssl
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from aftereffect.checks import whole
from aftereffect.errors import (
    AftereffectError,
    ConflictError,
    CorruptionError,
    NotFoundError,
    ParameterError,
    ServiceError,
    UnlikelyTotalError,
)
from aftereffect.lag import LagEstimate, Quantity
from aftereffect.live.deletion import LOG_SUFFIXES, check_new, last_hash_in
from aftereffect.live.history import SUFFIXES, Line
from aftereffect.live.ledger import Difference
from aftereffect.live.rules import Outcome, Slot, Telling, tellings
from aftereffect.live.status import ArmStatus, Next, Status
from aftereffect.live.verification import Verification
from aftereffect.outputs import replacing, writable

#: Worth trying again: the service, or what stands before it, was not able to answer.
_AGAIN = (408, 429, 502, 503, 504)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Slots that the history has in one answer.
_PAGE = 10_000


class Client:
    """Live experiments on a service.

    Everything may be asked twice and happens once, so what was not answered is asked again, for up to `patience` seconds.
    May be shared by threads.

    Parameters
    ----------
    url
        Where the service is, such as ``http://127.0.0.1:8750``; a path prefix of a reverse proxy included.
    token
        Of ``aftereffect token create``, if the service wants one.
    patience
        How many seconds to go on trying while the service is away.
    timeout
        How many seconds to wait for one answer.
    """

    def __init__(self, url: str, token: str | None = None, *, patience: float = 30.0, timeout: float = 30.0) -> None:
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname or place.query or place.username:
            raise ParameterError(f"a service is an address such as http://127.0.0.1:8750, got {place.scheme or url!r}")
        self.url = url.rstrip("/")
        self._secure, self._host, self._port = place.scheme == "https", place.hostname, place.port
        self._prefix = place.path.rstrip("/")
        self._token, self._patience, self._timeout = token, patience, timeout
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    def create(
        self,
        name: str,
        *,
        arms: Sequence[str],
        policy: object,
        reward_range: Sequence[float],
        max_total: float | None = None,
        horizon: int | None = None,
        seed: int | None = None,
    ) -> Status:
        """Begin an experiment, as `Experiment.create` does; a policy is sent as its spec string."""
        given: dict[str, Any] = {"name": name, "arms": list(arms), "policy": str(policy), "reward_range": list(reward_range)}
        given |= {"max_total": max_total, "horizon": horizon, "seed": seed}
        return _status(self._send("POST", "/v1/experiments", given))

    def experiments(self) -> list[str]:
        """The names of all experiments."""
        return list(self._send("GET", "/v1/experiments")["experiments"])

    def ask(self, name: str, slot: int | None = None, *, key: str | None = None) -> Slot:
        """Decide the next slot of an experiment, or tell again what was decided; as `Experiment.ask`.

        Asked with neither a number nor a key, a key is made up for this call, so that trying again decides nothing twice.
        """
        if slot is not None and key is not None:
            raise ParameterError("ask with the number of a slot or with a key, not with both")
        if slot is not None:
            answer = self._send("PUT", f"{_path(name)}/slots/{_number(slot)}/decision")
        else:
            answer = self._send("POST", f"{_path(name)}/slots", headers={"Idempotency-Key": key or uuid.uuid4().hex})
        return Slot(answer["slot"], answer["arm"], answer["round"], answer["until"], answer["hold"])

    def tell(
        self, name: str, slot: int, value: float, *, arm: str | None = None, revise: bool = False, confirm: bool = False
    ) -> Outcome:
        """Record the total of a slot; as `Experiment.tell`."""
        return self._tell(name, slot, {"value": _number_of(value), "arm": arm, "revise": revise, "confirm": confirm})

    def missing(self, name: str, slot: int, *, revise: bool = False) -> Outcome:
        """Record that the total of a slot will never be known; as `Experiment.missing`."""
        return self._tell(name, slot, {"missing": True, "revise": revise})

    def tell_many(
        self,
        name: str,
        outcomes: Mapping[int, float | None] | Iterable[tuple[int, float | None] | tuple[int, float | None, str | None]],
        *,
        revise: bool = False,
        confirm: bool = False,
    ) -> list[Outcome]:
        """Record many at once, all or nothing; as `Experiment.tell_many`. A service takes 10,000 at a time."""
        given = {"outcomes": [_listed(each) for each in tellings(outcomes)], "revise": revise, "confirm": confirm}
        return [Outcome(**each) for each in self._send("POST", f"{_path(name)}/outcomes", given)["outcomes"]]

    def skip(self, name: str, first: int, last: int | None = None) -> Status:
        """Record that nothing was decided for some slots; as `Experiment.skip`."""
        return _status(self._send("POST", f"{_path(name)}/skip", {"first": first, "last": first if last is None else last}))

    def history(self, name: str, after: int = -1, limit: int | None = None) -> list[Line]:
        """What happened in the slots after one; as `Experiment.history`. Read in pieces, while the experiment may go on."""
        first, most = whole("after", after, at_least=-1), math.inf if limit is None else whole("limit", limit)
        lines: list[Line] = []
        while len(lines) < most:
            wanted = int(min(_PAGE, most - len(lines)))
            answer = self._send("GET", f"{_path(name)}/slots?after={first}&limit={wanted}")
            lines += [Line(**line) for line in answer["slots"]]
            first = answer["last"]
            if len(answer["slots"]) < wanted:
                break
        return lines

    def export(self, name: str, path: str | os.PathLike[str]) -> None:
        """Write the history into a .csv or a .parquet file; as `Experiment.export`."""
        target = writable(path, SUFFIXES)
        self._save(f"{_path(name)}/export?format={target.suffix.lower()[1:]}", target)

    def verify(self, name: str) -> Verification:
        """Check every event and derive every decision again; as `Experiment.verify`."""
        answer = self._send("GET", f"{_path(name)}/verify")
        difference = answer["difference"] and Difference(**answer["difference"])
        problems = tuple(answer["problems"])
        return Verification(
            **{field: answer[field] for field in Verification._fields} | {"problems": problems, "difference": difference}
        )

    def delete(self, name: str, export_to: str | os.PathLike[str]) -> None:
        """Remove an experiment for good, after writing its whole log to a new .jsonl file; as `delete_experiment`.

        If something is recorded between the two, the experiment stays, and so does the file.
        """
        target = writable(export_to, LOG_SUFFIXES)
        check_new(target)
        self._save(f"{_path(name)}/log", target)
        try:
            last = last_hash_in(target.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError):
            raise ServiceError(f"{self.url} answers, and not as the service does: is that its address?") from None
        with suppress(NotFoundError):  # it was removed, and the answer that said so got lost
            self._send("DELETE", f"{_path(name)}?confirm={quote(name, safe='')}&last={quote(last, safe='')}")

    def status(self, name: str) -> Status:
        """How an experiment stands; as `Experiment.status`."""
        return _status(self._send("GET", _path(name)))

    def lag(self, name: str) -> LagEstimate:
        """How long effects linger; as `estimate_lag` of the history, made anew when the totals have grown by a twentieth."""
        return _lag(self._send("GET", f"{_path(name)}/lag"))

    def close(self, name: str) -> Status:
        """End an experiment; as `Experiment.close`."""
        return _status(self._send("POST", f"{_path(name)}/close"))

    def _tell(self, name: str, slot: int, given: Mapping[str, Any]) -> Outcome:
        return Outcome(**self._send("PUT", f"{_path(name)}/slots/{_number(slot)}/outcome", given))

    def _send(
        self, method: str, path: str, given: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """What the service answers."""
        return _understood(self.url, *self._answer(method, path, given, headers))

    def _save(self, path: str, target: Path) -> None:
        """Write what the service answers into a file."""
        status, content = self._answer("GET", path, None, {"Accept": "*/*"})
        if status != 200:
            _understood(self.url, status, content)
        with replacing(target) as draft:
            draft.write_bytes(content)

    def _answer(
        self, method: str, path: str, given: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> tuple[int, bytes]:
        """Status and body of an answer, asked for again while the service is away."""
        try:
            body = None if given is None else json.dumps(given, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ParameterError(f"this cannot be sent: {error}") from None
        sent = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        until, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                status, text = self._once(method, self._prefix + path, body, sent)
            except (OSError, http.client.HTTPException) as error:
                self._local.connection = None
                problem = str(error) or type(error).__name__
            else:
                if status not in _AGAIN:
                    return status, text
                problem = f"it answers {status}: {_message(text)}"
            if time.monotonic() + pause > until:
                raise ServiceError(f"the service at {self.url} is away: {problem}; tried for {self._patience:g} seconds")
            time.sleep(pause * random.uniform(0.5, 1.0))  # so that many clients do not come back all at once
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connection()
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            return _SecureConnection(self._host, self._port, timeout=self._timeout, context=ssl.create_default_context())
        return _Connection(self._host, self._port, timeout=self._timeout)


class _Connection(http.client.HTTPConnection):
    """Ends with the thread that had it."""

    def __del__(self) -> None:
        self.close()


class _SecureConnection(http.client.HTTPSConnection):
    """The same, encrypted."""

    def __del__(self) -> None:
        self.close()


def _path(name: str) -> str:
    return f"/v1/experiments/{quote(str(name), safe='')}"


def _number(slot: int) -> str:
    return quote(str(slot), safe="")


def _listed(telling: Telling) -> dict[str, Any]:
    """A slot and what it brought, as the service takes them; what cannot be is refused there."""
    slot = {"slot": _number_of(telling.slot)}
    if telling.value is None:
        return slot | {"missing": True}
    return slot | {"value": _number_of(telling.value), "arm": telling.arm}


def _number_of(given: object) -> object:
    """A number of any kind in the types that JSON has."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return given
    return int(given) if isinstance(given, Integral) else float(given)


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")[:200]


#: What the service says, as the errors that an `Experiment` would raise.
_ERRORS: Mapping[int, type[AftereffectError]] = {
    404: NotFoundError,
    422: ParameterError,
    428: UnlikelyTotalError,
    500: CorruptionError,
}


def _understood(url: str, status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
        if status < 300 and isinstance(answer, dict):
            return answer
        message = answer["message"]
    except (ValueError, KeyError, TypeError):
        raise ServiceError(f"{url} answers {status}, and not as the service does: is that its address?") from None
    if status == 409:
        raise ConflictError(message, answer.get("recorded"), answer.get("given"))
    if status in _ERRORS:
        error = _ERRORS[status](message)
        if isinstance(error, ParameterError):
            error.field = answer.get("field")
        raise error
    raise ServiceError(f"the service at {url} refuses: {message}")


def _status(answer: dict[str, Any]) -> Status:
    return Status(
        **answer
        | {
            "arms": tuple(ArmStatus(**arm) for arm in answer["arms"]),
            "next": answer["next"] and Next(**answer["next"]),
            "awaited": tuple(answer["awaited"]),
            "notes": tuple(answer["notes"]),
        }
    )


def _lag(answer: dict[str, Any]) -> LagEstimate:
    known = _known(answer)
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return LagEstimate(**known | lists | {"lingers": Quantity(**_known(answer["lingers"]))})


def _known(answer: dict[str, Any]) -> dict[str, Any]:
    """Numbers that JSON has no words for: an upper end that is nowhere, and what is not a number."""
    return {name: value if value is not None else math.inf if name == "high" else math.nan for name, value in answer.items()}
