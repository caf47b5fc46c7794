"""Hooks: a web address or a command is told when the arm changes, or when the rule says stop.

Every notice is delivered at least once: the log keeps which were delivered, and what was not is
tried again until it is. A notice may come twice, with the same id, if the process ends between its
delivery and the record of it. Web addresses get requests as the specification of Standard Webhooks
has them, signed with HMAC-SHA256.
"""

import base64
import hashlib
import hmac
import http.client
import json
import math
import os
import shlex
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from aftereffect._core import __version__
from aftereffect.errors import ConflictError, ParameterError, ServiceError
from aftereffect.live._rules import find_notice, record_notice
from aftereffect.live.events import fingerprint
from aftereffect.live.experiment import Experiment

#: Seconds that an address and a command may take.
_TIMEOUT, _COMMAND_TIMEOUT = 15.0, 60.0
#: Seconds between two attempts: the first pause, which doubles each time, and the longest.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 300.0
#: Results are derived again after so many times as long as that took.
_REST = 20.0
_SECRET_PREFIX = "whsec_"
#: The units that a sentence names.
_MAX_NAMED = 10
#: The arm that is played, or that of each unit.
Played: TypeAlias = str | dict[str, str]
NoticeKind: TypeAlias = Literal["decision.changed", "rule.stop"]


class Notice(NamedTuple):
    """What a hook is told: from `slot` on, `arm` is played, or the rule says to stop and ship it.

    `id` is the same each time that the notice is delivered. `before` is the arm that was played
    before, None for the first notice and for the rule to stop. `time` is when the slot begins, if
    slots have times. With several units, a decision has `arms` by unit, all of them, and
    `arms_before`, in the place of `arm` and `before`.

    Examples
    --------
    >>> notice = Notice("a1", "decision.changed", "shop", 24, None, "B", "A")
    >>> str(notice)
    'shop: from slot 24 on, B is played instead of A'
    """

    id: str
    kind: NoticeKind
    experiment: str
    slot: int
    time: str | None
    arm: str | None
    before: str | None
    arms: dict[str, str] | None = None
    arms_before: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The body of a request: its type, and the other fields as its data."""
        data = self._asdict() | {"sentence": str(self)}
        if self.arms is None:
            del data["arms"], data["arms_before"]
        return {"type": data.pop("kind"), "id": data.pop("id"), "data": data}

    def __str__(self) -> str:
        if self.kind == "rule.stop":
            return f"{self.experiment}: the rule says stop after slot {self.slot}: ship {self.arm}"
        if self.arms is not None:
            return f"{self.experiment}: from slot {self.slot} on, {self._describe_units(self.arms)}"
        instead = "" if self.before is None else f" instead of {self.before}"
        return f"{self.experiment}: from slot {self.slot} on, {self.arm} is played{instead}"

    def _describe_units(self, arms: dict[str, str]) -> str:
        """Which units play another arm than before."""
        before = self.arms_before or {}
        changed = [(unit, arm) for unit, arm in arms.items() if before.get(unit) != arm]
        parts = [
            f"{unit} plays {arm}" + (f" instead of {before[unit]}" if before else "")
            for unit, arm in changed[:_MAX_NAMED]
        ]
        more = len(changed) - len(parts)
        return ", ".join([*parts, f"and {more:,} more units change"] if more else parts)


def sign(secret: str, notice_id: str, moment: int, body: bytes) -> str:
    """The signature of a request, as Standard Webhooks defines it.

    A secret that begins with ``whsec_`` goes on in base64; any other is taken as it is.

    >>> secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    >>> sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = secret.encode()
    if secret.startswith(_SECRET_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
        except ValueError:
            raise ParameterError(
                f"a secret that begins with {_SECRET_PREFIX} must go on in base64"
            ) from None
    text = b".".join((notice_id.encode(), str(moment).encode(), body))
    return f"v1,{base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()}"


class Webhook:
    """Sends notices to a web address.

    Parameters
    ----------
    url
        The address, http or https.
    secret
        What requests are signed with; None for no signature.

    Examples
    --------
    >>> Webhook("https://shop.example:8443/hook?token=secret").name
    'https://shop.example:8443/hook'
    """

    def __init__(self, url: str, secret: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or parts.username or parts.fragment:
            raise ParameterError(
                "a hook must be an address such as https://shop.example/hook, without a password, "
                f"got {parts.scheme or url!r}"
            )
        if secret is not None:
            sign(secret, "", 0, b"")
        self._parts, self._secret = parts, secret
        #: The log has a hash of this name. The query may have a token, so the name lacks it.
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"

    def deliver(self, notice: Notice) -> None:
        """Send a notice; raise `ServiceError` unless the answer is 2xx."""
        body = json.dumps(notice.to_dict(), ensure_ascii=False).encode()
        moment = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"aftereffect/{__version__}",
            "webhook-id": notice.id,
            "webhook-timestamp": str(moment),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign(self._secret, notice.id, moment, body)
        parts = self._parts
        query = f"?{parts.query}" if parts.query else ""
        connection = self._connect()
        try:
            connection.request("POST", f"{parts.path or '/'}{query}", body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise ServiceError(f"{self.name} cannot be reached: {reason}") from None
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise ServiceError(f"{self.name} answered {status}")

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)


class CommandHook:
    """Runs a command for every notice.

    The command gets the notice as JSON on its standard input, and parts of it in the environment
    variables ``AFTEREFFECT_NOTICE``, which is the kind, ``AFTEREFFECT_ARM`` and
    ``AFTEREFFECT_SLOT``. With several units, ``AFTEREFFECT_ARMS`` has the arms by unit, as JSON. It
    is run without a shell, and its exit status must be 0.

    Examples
    --------
    >>> CommandHook("set-price --shop 7").name
    'set-price --shop 7'
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ParameterError(f"the command of a hook cannot be read: {error}") from None
        if not self._words:
            raise ParameterError("the command of a hook must have at least one word, got none")
        #: The log has a hash of this name.
        self.name = command

    def deliver(self, notice: Notice) -> None:
        """Run the command; raise `ServiceError` if it fails."""
        own = {"NOTICE": notice.kind, "SLOT": str(notice.slot)}
        if notice.arm is not None:
            own["ARM"] = notice.arm
        if notice.arms is not None:
            own["ARMS"] = json.dumps(notice.arms, ensure_ascii=False)
        environment = os.environ | {f"AFTEREFFECT_{name}": text for name, text in own.items()}
        text = json.dumps(notice.to_dict(), ensure_ascii=False)
        try:
            ended = subprocess.run(
                self._words,
                input=text.encode(),
                env=environment,
                timeout=_COMMAND_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = getattr(error, "strerror", None) or f"it took over {_COMMAND_TIMEOUT:g} s"
            raise ServiceError(f"the command {self._words[0]!r} failed: {reason}") from None
        if ended.returncode:
            raise ServiceError(
                f"the command {self._words[0]!r} ended with the exit status {ended.returncode}"
            )


class Notifier:
    """Tells one hook what happens in an experiment.

    A new hook is first told which arm is played now. Several processes may run the same hook; then
    notices may come several times.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> hook = CommandHook("true")
    >>> arms = exp.ask(0).arm, exp.tell(0, 5).arm, exp.ask(1).arm
    >>> [str(notice) for notice in Notifier(exp, hook).deliver_new()]
    ['banner: from slot 1 on, B is played']
    """

    def __init__(self, experiment: Experiment, hook: Webhook | CommandHook) -> None:
        self._experiment, self._hook = experiment, hook
        #: The log has no addresses or commands, which may be nobody else's business.
        self._mark = fingerprint(hook.name).hex()[:16]
        #: The slot up to which all changes were delivered.
        self._seen: int | None = None
        #: When results are derived again, and the totals that there were last time.
        self._next_results, self._received = 0.0, -1

    def deliver_new(self) -> Iterator[Notice]:
        """Deliver what has not been delivered, one notice at a time; give each after that.

        Raises `ServiceError` if one cannot be delivered: it is the first at the next call.
        """
        for notice in self._find_changes():
            yield self._deliver(notice)
        stop = self._find_stop()
        if stop is not None:
            yield self._deliver(stop)

    def run(
        self, every: float, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Deliver for ever: look every so many seconds, and wait longer after each failure."""
        failures = 0
        while True:
            try:
                for notice in self.deliver_new():
                    failures = 0
                    say(str(notice))
                pause = every
            except ServiceError as error:
                pause = min(_FIRST_PAUSE * 2.0 ** min(failures, 20), _MAX_PAUSE)
                failures += 1
                say(f"{error}; trying again in {pause:g} s")
            sleep(pause)

    def _deliver(self, notice: Notice) -> Notice:
        self._hook.deliver(notice)
        record_notice(self._experiment._log, self._mark, notice.kind, notice.slot)
        if notice.kind == "decision.changed":
            self._seen = notice.slot
        return notice

    def _find_changes(self) -> Iterator[Notice]:
        """A notice for each decision since the last delivered one that is for another arm."""
        experiment = self._experiment
        if self._seen is None:
            self._seen = find_notice(experiment._log, self._mark, "decision.changed")
        if self._seen is None:
            slots = experiment.status().slots
            decided = list(self._list_decisions(max(slots - 2, -1)))
            if decided:
                yield self._make("decision.changed", *decided[-1], None)
            return
        before: Played | None = None
        last = self._seen
        for slot, played in self._list_decisions(max(last - 1, -1)):
            if before is not None and played != before:
                yield self._make("decision.changed", slot, played, before)
            before, last = played, slot
        self._seen = last

    def _list_decisions(self, after: int) -> Iterator[tuple[int, Played]]:
        """What was decided for each slot after one: an arm, or the arms of all units."""
        for slot, lines in groupby(self._experiment.history(after), lambda line: line.slot):
            arms = {line.unit: line.arm for line in lines if line.arm is not None}
            if arms.keys() == {None}:
                yield slot, arms[None]
            elif arms:
                yield slot, {str(unit): arm for unit, arm in arms.items()}

    def _find_stop(self) -> Notice | None:
        """The notice that the rule says stop, if it does and that was not delivered."""
        experiment = self._experiment
        if experiment.settings.stop_when_loss_below is None or self._next_results == math.inf:
            return None
        status = experiment.status()
        if time.monotonic() < self._next_results or status.received == self._received:
            return None
        if find_notice(experiment._log, self._mark, "rule.stop") is not None:
            self._next_results = math.inf
            return None
        began = time.monotonic()
        with suppress(ConflictError):
            results = experiment.results()
            if results.stops and results.leader is not None:
                return self._make("rule.stop", results.slots - 1, results.leader, None)
        self._received = status.received
        self._next_results = time.monotonic() + _REST * (time.monotonic() - began)
        return None

    def _make(self, kind: NoticeKind, slot: int, played: Played, before: Played | None) -> Notice:
        settings, record = self._experiment.settings, self._experiment.record
        number = fingerprint(record.digest.hex(), self._mark, kind, str(slot)).hex()[:32]
        time = settings.find_time(slot)
        notice = Notice(f"notice_{number}", kind, settings.name, slot, time, None, None)
        if isinstance(played, dict):
            return notice._replace(arms=played, arms_before=cast(dict[str, str] | None, before))
        return notice._replace(arm=played, before=cast(str | None, before))
