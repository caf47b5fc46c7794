"""The client: requests that are repeated, answers of newer services, errors, deletion."""

import http.server
import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate

import pytest

import aftereffect as ae
from aftereffect.client import RemoteExperiment
from aftereffect.client._transport import Answer
from playing import LATE, played
from services import EXPERIMENT, Process, in_thread, log_of


@contextmanager
def answering(answer):
    """A server that gives the answer of a function of method and path: status, headers, body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            status, headers, content = answer(self.command, self.path, body, self.headers)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_PUT(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_experiments_of_a_client(service):
    with ae.Client(service) as client:
        banner = client.create(**EXPERIMENT)
        assert (banner.name, banner.is_new) == ("banner", True)
        assert client.create(**EXPERIMENT).is_new is False
        assert client.create(**EXPERIMENT | {"name": "other", "policy": ae.ArsUcb(alpha=1)}).is_new
        assert client.experiments() == ["banner", "other"]
        assert repr(client.experiment("banner")) == f"<RemoteExperiment 'banner' at {service}>"
        with pytest.raises(ae.ConflictError) as conflict:
            client.create(**EXPERIMENT | {"policy": "ucb1"})
        assert list(conflict.value.recorded) == ["policy"]
        unknown = client.experiment("nothing")  # sends nothing
        for call in (unknown.status, unknown.ask, unknown.lag, unknown.verify, unknown.end):
            with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
                call()
    assert client.experiments() == ["banner", "other"]  # a new connection is opened


def test_numbers_that_json_does_not_have(service):
    banner = ae.Client(service).create(**EXPERIMENT)
    banner.ask(0)
    for wrong in (float("nan"), 1j):
        with pytest.raises(ae.ParameterError, match="cannot be sent as JSON"):
            banner.tell(0, wrong)
    for wrong in ([(0, True)], [("0", 1)], [(0, "1")], [(0, 1j)]):
        with pytest.raises(ae.ParameterError):
            banner.tell_many(wrong)
    assert banner.history()[0].total is None


def test_a_key_that_http_would_change(service):
    banner = ae.Client(service).create(**EXPERIMENT)
    for key in (" a", "a "):
        with pytest.raises(ae.ParameterError, match="must not begin or end with a space"):
            banner.ask(key=key)
    assert banner.status().slots == 0


def test_the_lag_is_that_of_the_history(service, storage):
    client = ae.Client(service)
    with ae.open_storage(storage) as opened:
        for name, slots in (("late", 150), ("new", 12)):
            local = played(opened, name, ["A", "B"], slots, shares=LATE)
            remote = client.experiment(name)
            for level in (0.9, 0.5):
                assert str(remote.lag(level=level)) == str(local.lag(level=level))
                assert repr(remote.lag(level=level)) == repr(local.lag(level=level))


def test_a_file_is_written_only_with_what_is_there(service, tmp_path):
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        ae.Client(service).experiment("nothing").export(tmp_path / "x.csv")
    assert list(tmp_path.glob("x*")) == []


# Deletion


def test_deleting_over_http(service, storage, tmp_path):
    client = ae.Client(service)
    banner = client.create(**EXPERIMENT)
    banner.tell(banner.ask().slot, 37)
    before = log_of(storage)
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
        client.delete("nothing", tmp_path / "x.jsonl")
    once, changed = client._transport.send_once, []

    def send_and_change(method, *rest):
        if method == "DELETE" and not changed:
            changed.append(ae.Client(service).experiment("banner").ask())
        return once(method, *rest)

    client._transport.send_once = send_and_change
    with pytest.raises(ae.ConflictError):
        client.delete("banner", tmp_path / "first.jsonl")
    assert banner.status().slots == 2
    with pytest.raises(ae.OutputError):
        client.delete("banner", tmp_path / "first.jsonl")
    client.delete("banner", tmp_path / "second.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "second.jsonl").read_text().splitlines()]
    assert [line["hash"] for line in lines[1:3]] == [event.hash.hex() for event in before]
    assert len(lines) == 4
    assert client.experiments() == []


def test_an_answer_to_delete_that_got_lost(service, tmp_path):
    client = ae.Client(service)
    client.create(**EXPERIMENT)
    once, lost = client._transport.send_once, []

    def lose_first(method, *rest):
        answer = once(method, *rest)
        if method == "DELETE" and not lost:
            lost.append(answer)
            raise ConnectionResetError("lost")
        return answer

    client._transport.send_once = lose_first
    client.delete("banner", tmp_path / "x.jsonl")
    assert lost[0].status == 200
    assert client.experiments() == []


# Repetition


def test_a_client_waits_for_a_service_that_is_down(storage):
    first = Process(storage)
    banner = ae.Client(first.address, retry_for=30).create(**EXPERIMENT)
    assert banner.ask().slot == 0
    first.end("kill")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(banner.ask()))
    waiting.start()
    second = Process(storage, port=first.port)
    waiting.join(30)
    assert [decision.slot for decision in answers] == [1]
    second.end()
    with pytest.raises(
        ae.ServiceError, match=rf"no answer from {first.address} within 0\.2 s: .*refused"
    ):
        ae.Client(first.address, retry_for=0.2).experiment("banner").ask()


def test_an_answer_that_got_lost_is_asked_for_again(service, storage):
    """A proxy that swallows every second answer: what was recorded is not recorded twice."""
    client = ae.Client(service)
    banner = client.create(**EXPERIMENT)
    once, lost = client._transport.send_once, []

    def lose_every_second(*request):
        answer = once(*request)
        lost.append(len(lost) % 2 == 0)
        if lost[-1]:
            raise ConnectionResetError("lost")
        return answer

    client._transport.send_once = lose_every_second
    for slot in range(5):
        assert banner.ask().slot == slot
        assert banner.tell(slot, 1).slot == slot
    assert [event.kind for event in log_of(storage)] == ["decision", "total"] * 5


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(status, as_date):
    """A client that came back after 50 ms would be refused again."""
    times = []

    def answer(*_):
        times.append(time.monotonic())
        if len(times) > 1:
            return 200, {}, b'{"experiments": []}'
        wait = formatdate(time.time() + 2, usegmt=True) if as_date else "1"
        return status, {"Retry-After": wait}, b'{"message": "busy"}'

    with answering(answer) as url:
        assert ae.Client(url, retry_for=30).experiments() == []
    assert len(times) == 2
    assert times[1] - times[0] >= (0.9 if as_date else 1.0)  # a date has whole seconds


def test_a_longer_wait_than_retry_for_is_given_up_at_once():
    def answer(*_):
        return 503, {"Retry-After": "600"}, b'{"message": "busy"}'

    with answering(answer) as url:
        start = time.monotonic()
        with pytest.raises(ae.ServiceError, match=r"within 20 s: it answered 503: busy .*600 s"):
            ae.Client(url, retry_for=20).experiments()
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("given", ["soon", "-1", "", "Wed, 99 Foo"])
def test_a_retry_after_that_cannot_be_read_is_ignored(given):
    answers = [(429, {"Retry-After": given}, b"{}"), (200, {}, b'{"experiments": ["a"]}')]
    with answering(lambda *_: answers.pop(0)) as url:
        assert ae.Client(url).experiments() == ["a"]


# Newer services, other servers


def test_fields_of_a_newer_service_are_ignored(service, tmp_path):
    """A service that adds a field to every object of every answer."""

    def add(value):
        if isinstance(value, dict):
            return {name: add(each) for name, each in value.items()} | {"brand_new": {"x": [1]}}
        return [add(each) for each in value] if isinstance(value, list) else value

    client = ae.Client(service)
    newer = ae.Client(service)
    once = newer._transport.send_once

    def send_to_newer(method, path, *rest):
        answer = once(method, path, *rest)
        if not answer.body.startswith(b"{") or "/log" in path:
            return answer
        return Answer(answer.status, json.dumps(add(json.loads(answer.body))).encode())

    newer._transport.send_once = send_to_newer
    theirs = newer.create(**EXPERIMENT)
    assert isinstance(theirs, RemoteExperiment)
    assert newer.experiments() == ["banner"]
    ours = client.experiment("banner")
    assert theirs.ask(0) == ours.ask(0)
    assert theirs.tell(0, 1)._replace(change="") == ours.tell(0, 1)._replace(change="")
    theirs.ask(1)
    assert theirs.tell_many({1: None}) == [ours.mark_missing(1)._replace(change="recorded")]
    assert theirs.skip(2, 3) == ours.status() == theirs.status()
    assert theirs.history() == ours.history()
    assert theirs.verify() == ours.verify()
    assert repr(theirs.lag()) == repr(ours.lag())
    theirs.export(tmp_path / "x.csv")
    with pytest.raises(ae.ConflictError):
        theirs.tell(0, 2)
    assert theirs.end() == ours.status()
    newer.delete("banner", tmp_path / "x.jsonl")


def test_a_field_that_an_older_service_lacks():
    with (
        answering(lambda *_: (200, {}, b'{"slot": 0, "arm": "A"}')) as url,
        pytest.raises(
            ae.ServiceError,
            match="the answer lacks arms, hold, probabilities, round, time, unit_probabilities, until",
        ),
    ):
        ae.Client(url).experiment("banner").ask(0)


def test_a_client_with_a_token(storage, tokens):
    with in_thread(storage) as service:
        with pytest.raises(ae.ServiceError, match="a valid token is needed"):
            ae.Client(service).experiments()
        with pytest.raises(ae.ServiceError, match="needs the scope admin, the token has read"):
            ae.Client(service, tokens["read"]).create(**EXPERIMENT)
        assert ae.Client(service, tokens["admin"]).create(**EXPERIMENT).name == "banner"
        assert tokens["admin"] not in repr(ae.Client(service, tokens["admin"]))


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8750", "ftp://host", "http://", "http://user:secret@host", ""]
)
def test_addresses_that_cannot_be(url):
    with pytest.raises(ae.ParameterError, match="must be like http://") as caught:
        ae.Client(url)
    assert "secret" not in str(caught.value)


def test_an_address_of_something_else():
    with (
        answering(lambda *_: (404, {}, b"<html>not found</html>")) as url,
        pytest.raises(ae.ServiceError, match="answered 404, but not as the service does"),
    ):
        ae.Client(url).experiments()


def test_the_client_loads_nothing_heavy():
    program = (
        "import sys; from aftereffect.client import Client; "
        "print(*{'numba', 'fastapi', 'uvicorn', 'pydantic', 'sqlalchemy', 'polars', 'matplotlib', "
        "'scipy', 'cyclopts', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_names_of_the_service_load_nothing_heavy():
    program = (
        "import sys; from aftereffect.service import DEFAULT_HOST, DEFAULT_PORT, create_token; "
        "print(*{'numba', 'fastapi', 'uvicorn', 'pydantic', 'prometheus_client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
