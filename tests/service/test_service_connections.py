"""Bodies, paths and connections of every kind, several processes, and how the service starts and ends."""

import http.client
import http.server
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.service import _access, create_token, server_for
from services import BANNER, EXPERIMENT, Process, call, log_of, wait_until


def test_bodies_that_are_too_large_or_something_else(banner):
    big = b'{"total": ' + b"1" * _access.MAX_BODY + b"}"
    status, answer, _ = call(
        banner,
        "PUT",
        f"{BANNER}/slots/0/total",
        raw=big,
        headers={"Content-Type": "application/json"},
    )
    assert (status, answer["message"]) == (
        413,
        f"a body may have 1,048,576 bytes at most, got {len(big):,}",
    )
    place = urlsplit(banner)
    with closing(http.client.HTTPConnection(place.hostname, place.port, timeout=30)) as connection:
        chunks = (b"x" * 65_536 for _ in range(40))
        connection.request(
            "PUT",
            f"{BANNER}/slots/0/total",
            chunks,
            {"Content-Type": "application/json"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 413
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
        "",
    ):
        assert (
            call(
                banner,
                "PUT",
                f"{BANNER}/slots/0/total",
                raw=b"value=1",
                headers={"Content-Type": kind},
            )[0]
            == 415
        )
    for raw in (
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"null",
        b'{"total": NaN}',
        b'{"total": 1e999}',
        b"[" * 100_000,
    ):
        status, _, _ = call(
            banner,
            "PUT",
            f"{BANNER}/slots/0/total",
            raw=raw,
            headers={"Content-Type": "application/json"},
        )
        assert status in (400, 422)
    assert call(banner, "GET", BANNER)[1]["slots"] == 0


def test_a_client_that_is_too_slow(banner, monkeypatch):
    monkeypatch.setattr(_access, "BODY_SECONDS", 0.3)
    place = urlsplit(banner)
    with closing(socket.create_connection((place.hostname, place.port), timeout=30)) as slow:
        kind = "Content-Type: application/json\r\nContent-Length: 50"
        head = f"PUT {BANNER}/slots/0/total HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}\r\n\r\n"
        slow.sendall(head.encode() + b'{"val')
        assert call(banner, "GET", "/healthz")[0] == 200  # others do not wait for it
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/experiments/..%2f..%2fetc%2fpasswd",
        "/v1/experiments/%00",
        "/v1/experiments/a%20b",
        "/v1/experiments/%F0%9F%98%80",
        "/v1/experiments/%ff%fe",
        "/v1/experiments/" + "x" * 5_000,
        "/v1/experiments/<script>",
        "/v1/experiments/'; DROP TABLE aftereffect_events; --".replace(" ", "%20"),
        "/v1/experiments//slots",
        "//v1/experiments",
        "/page/../../app.py",
        "/%2e%2e/app.py",
        f"/v1/experiments/banner/slots/{10**40}/decision",
    ],
)
def test_odd_paths(banner, path):
    status, answer, _ = call(banner, "GET", path)
    assert status in (404, 405, 422), answer
    assert answer["message"]
    assert call(banner, "GET", BANNER)[0] == 200


def test_a_thousand_open_connections(banner):
    place = urlsplit(banner)
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)) if hard > 0 else 4_096, hard)
    )
    idle = []
    try:
        for number in range(1_000):
            idle.append(socket.create_connection((place.hostname, place.port), timeout=30))
            if number % 2:
                idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # and no end
        start = time.monotonic()
        for slot in range(20):
            assert call(banner, "PUT", f"{BANNER}/slots/{slot}/decision")[0] == 201
        assert time.monotonic() - start < 20
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert call(banner, "GET", "/healthz")[0] == 200


def test_health_and_metrics(banner, storage):
    assert call(banner, "GET", "/healthz")[:2] == (200, {"status": "ok", "version": ae.__version__})
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    call(banner, "GET", "/somewhere/else")
    status, text, headers = call(banner, "GET", "/metrics")
    assert (status, headers.get_content_type()) == (200, "text/plain")
    assert (
        'aftereffect_requests_total{method="PUT",route="/v1/experiments/{name}/slots/{n}/decision",status="201"} 1.0'
        in text
    )
    assert 'aftereffect_events_total{kind="decision"} 1.0' in text
    assert 'route="other"' in text
    assert 'aftereffect_slots_outstanding{experiment="banner"} 1.0' in text
    assert "aftereffect_last_total_seconds{" not in text  # nothing was told yet


def test_a_port_that_is_taken(service, storage, capsys):
    port = urlsplit(service).port
    assert main(["serve", "--port", str(port), "--storage", storage]) == 2
    assert (
        capsys.readouterr().err
        == f"aftereffect: cannot listen on 127.0.0.1 port {port}: Address already in use: "
        "choose another port\n"
    )


def test_stopping_lets_requests_end(storage):
    service = Process(storage)
    assert call(service.address, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
    answers, stopping = [], threading.Event()

    def asking():
        experiment = ae.Client(service.address, retry_for=0).experiment("banner")
        try:
            while True:
                answers.append(experiment.ask().slot)
        except ae.ServiceError:
            stopping.set()

    threads = [threading.Thread(target=asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 20)
    assert service.end() in (0, -signal.SIGTERM)
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == list(range(len(answers)))
    assert len([event for event in log_of(storage) if event.kind == "decision"]) == len(answers)
    requests = [json.loads(line) for line in service.lines if '"message": "request"' in line]
    assert {line["method"] for line in requests} == {"POST"}
    assert all(
        set(line) == {"time", "level", "message", "method", "path", "status", "ms", "client"}
        for line in requests
    )


def test_several_processes_on_one_postgresql(postgres):
    url = postgres.url()
    services = [Process(url) for _ in range(2)]
    try:
        ae.Client(services[0].address).create(**EXPERIMENT)

        def pairs(number):
            experiment = ae.Client(services[number % 2].address).experiment("banner")
            numbers = []
            for _ in range(15):
                slot = experiment.ask().slot
                experiment.tell(slot, 1)
                numbers.append(slot)
            return numbers

        with ThreadPoolExecutor(4) as four:
            numbers = [number for part in four.map(pairs, range(4)) for number in part]
        assert sorted(numbers) == list(range(60))
        one, two = (ae.Client(each.address).experiment("banner").status() for each in services)
        assert one == two
        assert call(services[0].address, "GET", f"{BANNER}/verify")[1]["whole"] is True
    finally:
        for each in services:
            each.end()


def test_a_demo_moves_within_ten_seconds():
    start = time.monotonic()
    demo = subprocess.Popen(
        [sys.executable, "-m", "aftereffect", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = re.search(r"http://\S+", demo.stdout.readline())[0].rstrip("/")
        wait_until(lambda: len(call(address, "GET", "/v1/experiments")[1]["experiments"]) == 4)

        def slots():
            return call(address, "GET", "/v1/experiments/checkout-banner")[1]["slots"]

        wait_until(lambda: slots() > 100)
        before = slots()
        wait_until(lambda: slots() > before)
        assert time.monotonic() - start < 10
        assert call(address, "GET", "/")[0] == 200
    finally:
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=30)
    assert "Traceback" not in err


def test_server_for_refuses_before_it_listens(storage):
    with pytest.raises(ae.ParameterError, match="65,535, got 70000"):
        server_for(storage, "127.0.0.1", 70_000)
    with ae.open_storage(storage) as place:
        create_token(place, "read")
    with pytest.raises(ae.OutputError, match=r"cannot listen on 256\.256\.256\.256 port 0"):
        server_for(storage, "256.256.256.256", 0)
