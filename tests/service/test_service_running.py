"""Starting the service, its log, and a storage that fails or hangs."""

import json
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.live import _slot_state
from aftereffect.service import _experiments
from aftereffect.service._monitoring import Feed, JsonFormatter, log_to_stderr, read_feed
from services import BANNER, EXPERIMENT, Lines, Process, call, in_thread, wait_until


@pytest.fixture
def notes():
    """What the service logs, read as JSON."""
    lines = Lines(JsonFormatter())
    logger = logging.getLogger("aftereffect.service")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in lines.lines]
    logger.removeHandler(lines)


# Starting


def test_a_storage_that_cannot_be_opened_is_told_at_the_start(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: pytest.fail("it serves"))
    url = f"sqlite:///{tmp_path}/nowhere/live.db"
    assert main(["serve", "--port", "0", "--storage", url]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"aftereffect: {url}: it cannot be opened")
    assert said.count("\n") == 1
    (tmp_path / "other.db").write_text("something else, and not short: " + "x" * 1_000)
    assert main(["serve", "--port", "0", "--storage", f"sqlite:///{tmp_path}/other.db"]) == 2
    assert "SQLite" in capsys.readouterr().err
    assert (
        main(["serve", "--port", "0", "--storage", "postgresql+psycopg://nobody@127.0.0.1:1/none"])
        == 2
    )
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "the server cannot be reached" in printed


def test_a_demo_makes_its_folder(tmp_path):
    folder = tmp_path / "new" / "demo"
    command = [sys.executable, "-m", "aftereffect", "demo", "--folder", str(folder)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", demo.stdout.readline())[0].rstrip("/")
        wait_until(lambda: len(call(address, "GET", "/v1/experiments")[1]["experiments"]) >= 3)
    finally:
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    assert (folder / "demo.db").exists()
    assert "Traceback" not in errors
    (tmp_path / "file").write_text("")
    assert main(["demo", "--folder", str(tmp_path / "file")]) == 2


# The log


def test_every_line_of_the_log_is_json_from_the_first_on(storage):
    program = (
        "import logging, sys; from aftereffect.service import _server as run; listen = run.listen\n"
        "def and_warn(*given):\n"
        "    run.log_to_stderr()\n"
        "    try: raise ValueError('two\\nlines')\n"
        "    except ValueError: logging.getLogger('sqlalchemy.pool.impl.QueuePool').error('it broke', exc_info=True)\n"
        "    import warnings; warnings.warn('take care')\n"
        "    return listen(*given)\n"
        "run.listen = and_warn\n"
        f"run.serve_until_stopped({storage!r}, '127.0.0.1', 0, '', run.Worker({storage!r}))"
    )
    service = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    lines = [json.loads(service.stderr.readline()) for _ in range(3)]
    assert (lines[0]["message"], lines[0]["error"].count("\n") > 1) == ("it broke", True)
    assert "take care" in lines[1]["message"]
    assert (lines[2]["message"], lines[2]["address"][:17]) == ("listening", "http://127.0.0.1:")
    call(lines[2]["address"].rstrip("/"), "GET", "/v1/experiments/%C2%9B%E2%80%A8%0A")
    service.terminate()
    rest = service.communicate(timeout=60)[1]
    logged = [json.loads(line) for line in rest.splitlines()]  # which breaks lines at U+2028 too
    (request,) = [line for line in logged if line["message"] == "request"]
    assert request["path"] == "/v1/experiments/\x9b\u2028\n"
    assert rest.isascii()


def test_failures_are_logged_with_their_reason(storage, tokens, notes, tmp_path):
    with in_thread(storage) as service:
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 200
        with sqlite3.connect(tmp_path / "live.db") as connection:
            connection.execute("DROP TABLE aftereffect_tokens")
        connection.close()
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 503
    good, bad = notes()
    assert (good["level"], good["status"], "reason" in good) == ("info", 200, False)
    assert (bad["level"], bad["status"]) == ("warning", 503)
    assert "no such table: aftereffect_tokens" in bad["reason"]
    assert tokens["read"] not in json.dumps(bad)


def test_what_nobody_thought_of_is_answered_as_everything_and_logged_once(
    service, monkeypatch, notes
):
    monkeypatch.setattr(ae.Experiment, "status", lambda self: 1 / 0)
    assert call(service, "POST", "/v1/experiments", EXPERIMENT)[:2] == (
        500,
        {
            "message": "the service failed: see its log",
            "field": None,
            "recorded": None,
            "given": None,
        },
    )
    failed, request = notes()
    assert "ZeroDivisionError" in failed["error"]
    assert (request["status"], request["level"]) == (500, "error")


def test_logging_is_set_up_for_all_of_the_process():
    root, before = logging.getLogger(), (logging.getLogger().handlers, logging.getLogger().level)
    try:
        log_to_stderr()
        assert [type(handler.formatter) for handler in root.handlers] == [JsonFormatter]
        assert not logging.getLogger("sqlalchemy.engine").isEnabledFor(logging.INFO)
        assert logging.getLogger("uvicorn.error").isEnabledFor(logging.INFO)
    finally:
        logging.captureWarnings(False)
        root.handlers, root.level = before


# The first use of a policy


def test_others_write_while_a_policy_is_compiled(storage, monkeypatch):
    """On a busy machine that takes longer than a request may take: the request is then repeated."""
    is_compiled = threading.Event()
    is_compiled.set()

    def compile_slowly(policy):
        is_compiled.wait(60)
        return policy.kernels().decide

    monkeypatch.setattr(_slot_state, "_decides", {})
    monkeypatch.setattr("aftereffect.simulation.load_decide", compile_slowly)
    limits = _experiments.LIMITS["write"]._replace(seconds=2.0)
    monkeypatch.setitem(_experiments.LIMITS, "write", limits)
    shop = {"name": "shop", "arms": ["A", "B"], "policy": "fixed-switchback", "seed": 1}
    for given in (EXPERIMENT, shop):
        with ae.Experiment.create(**given, storage=storage):
            pass
    is_compiled.clear()  # as after an upgrade: there are experiments, but no machine code
    _slot_state._decides.clear()
    ask = ("PUT", "/v1/experiments/shop/slots/0/decision")
    with in_thread(storage) as service:
        status, answer, headers = call(service, *ask)
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "or a policy is compiled, try again" in answer["message"]
        assert call(service, "PUT", f"{BANNER}/slots/0/decision")[0] == 201
        is_compiled.set()
        wait_until(lambda: call(service, *ask)[0] == 200)


# A storage that fails


def test_health_tells_of_a_storage_that_cannot_be_written(storage, monkeypatch, notes):
    monkeypatch.setitem(
        _experiments.LIMITS, "health", _experiments.LIMITS["health"]._replace(seconds=0.5)
    )
    with in_thread(storage) as service:
        assert call(service, "GET", "/healthz")[0] == 200
        connection = sqlite3.connect(storage.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")  # as one who writes and never ends
        try:
            wait_until(
                lambda: call(service, "GET", "/healthz")[0] == 503
            )  # an answer holds for a second
            assert (
                notes()[-1]["reason"]
                == "no answer within 0.5 seconds: the storage is busy or unreachable, try again"
            )
        finally:
            connection.close()
        wait_until(lambda: call(service, "GET", "/healthz")[0] == 200)


def test_a_database_that_hangs(postgres, monkeypatch, notes):
    """A stopped PostgreSQL takes connections and never answers; /healthz did not either."""
    for kind in ("access", "health", "write"):
        monkeypatch.setitem(
            _experiments.LIMITS, kind, _experiments.LIMITS[kind]._replace(seconds=1.0)
        )
    url = postgres.url()
    server = int((postgres.folder / "data" / "postmaster.pid").read_text().split()[0])
    with in_thread(url) as service:
        assert call(service, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
        everybody = [server, *children(server)]
        for process in everybody:
            os.kill(process, signal.SIGSTOP)
        try:
            for method, path in (
                ("GET", "/healthz"),
                ("GET", BANNER),
                ("PUT", f"{BANNER}/slots/0/decision"),
            ):
                status, answer, headers = call(service, method, path)
                assert (status, headers["Retry-After"]) == (503, "1"), path
                assert "within 1 seconds" in answer["message"]
        finally:
            for process in everybody:
                os.kill(process, signal.SIGCONT)
        wait_until(lambda: call(service, "GET", "/healthz")[0] == 200)
        wait_until(lambda: call(service, "PUT", f"{BANNER}/slots/0/decision")[0] in (200, 201))
        assert call(service, "GET", BANNER)[1]["slots"] == 1


def test_a_service_whose_database_hangs_can_be_stopped(postgres):
    """SIGTERM did not end it: the interpreter waits for threads that are at work."""
    url = postgres.url()
    server = int((postgres.folder / "data" / "postmaster.pid").read_text().split()[0])
    service = Process(url)
    assert call(service.address, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
    everybody = [server, *children(server)]
    for process in everybody:
        os.kill(process, signal.SIGSTOP)
    try:
        assert call(service.address, "GET", "/healthz")[0] == 503
        assert service.end() in (0, -signal.SIGTERM)
    finally:
        for process in everybody:
            os.kill(process, signal.SIGCONT)


def children(parent):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True
    ).stdout
    return [int(pid) for pid in found.split()]


def test_a_connection_to_postgresql_has_limits(postgres):
    with (
        ae.open_storage(postgres.url(), lock_timeout=2.0) as place,
        place.engine.connect() as connection,
    ):
        limits = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("lock_timeout", "statement_timeout")
        ]
        assert limits == ["2s", "62s"]
        dsn = connection.connection.dbapi_connection.info.get_parameters()
        assert (dsn["connect_timeout"], dsn["tcp_user_timeout"]) == ("10", "30000")
    with (
        ae.open_storage(postgres.url() + "?connect_timeout=3") as place,
        place.engine.connect() as connection,
    ):
        assert (
            connection.connection.dbapi_connection.info.get_parameters()["connect_timeout"] == "3"
        )


# Feeds


def test_metrics_tell_of_feeds_that_have_stopped(service, storage):
    for name in ("banner", "other", "ended", "broken"):
        call(service, "POST", "/v1/experiments", EXPERIMENT | {"name": name})
    for slot in range(3):
        call(service, "PUT", f"{BANNER}/slots/{slot}/decision")
    call(service, "PUT", f"{BANNER}/slots/1/total", {"total": 1})
    call(service, "POST", "/v1/experiments/ended/end")
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute(
            "UPDATE aftereffect_experiments SET settings = '{}' WHERE name = 'broken'"
        )
    connection.close()
    status, text, _ = call(service, "GET", "/metrics")
    assert status == 200
    assert 'aftereffect_slots_outstanding{experiment="banner"} 2.0' in text
    assert 'aftereffect_slots_outstanding{experiment="other"} 0.0' in text
    assert 'experiment="ended"' not in text
    assert "aftereffect_experiments_unreadable 1.0" in text
    (seconds,) = [
        line for line in text.splitlines() if line.startswith("aftereffect_last_total_seconds{")
    ]
    assert seconds.startswith('aftereffect_last_total_seconds{experiment="banner"} ')
    assert 0 <= float(seconds.rpartition(" ")[2]) < 60


def test_how_long_ago_a_total_was_told():
    assert Feed("banner", 0, "2026-01-01T00:00:00+00:00").seconds_since_total(1767225660.0) == 60.0
    assert (
        Feed("banner", 0, "2026-01-01T00:00:00+00:00").seconds_since_total(0.0) == 0.0
    )  # clocks differ
    assert Feed("banner", 0, None).seconds_since_total(0.0) is None
    experiment = ae.Experiment.create(
        "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 1), storage="memory://"
    )
    assert read_feed(experiment) == Feed("banner", 0, None)
    experiment.ask()
    experiment.tell(0, 1)
    assert read_feed(experiment) == Feed("banner", 0, experiment.history()[0].received_at)
    experiment.end()
    assert read_feed(experiment) is None
