"""What one who asks for much, or for half, costs the others."""

import asyncio
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import pytest

import aftereffect as ae
from aftereffect.service import Worker, _cache, _connections, _experiments
from aftereffect.service._cache import VerificationCache
from aftereffect.service._errors import RefusalError
from aftereffect.service._experiments import LIMITS, Limits, Pool
from playing import played
from services import BANNER, EXPERIMENT, Process, call, in_thread, wait_until


def connected(address, source="127.0.0.1"):
    place = urlsplit(address)
    return socket.create_connection(
        (place.hostname, place.port), timeout=30, source_address=(source, 0)
    )


def answered(connection):
    """All that comes until the end."""
    answer = b""
    while part := connection.recv(65_536):
        answer += part
    return answer


def closed(connection):
    """Whether the other side has ended it."""
    try:
        return connection.recv(65_536) == b""
    except ConnectionResetError:
        return True


# Heads


def test_a_header_without_end_is_refused_after_some_hundred_kilobytes(banner):
    """100 MB of it took 10 s of computing, in which nobody else was answered."""
    piece, written = b"x" * 65_536, 0
    with closing(connected(banner)) as greedy:
        greedy.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        try:
            while written < 100_000_000:
                written += greedy.send(piece)
        except OSError:
            pass
        assert (
            written < 50_000_000
        )  # the buffers of the system, and what is thrown away while the answer is on its way
    assert call(banner, "PUT", f"{BANNER}/slots/0/decision")[0] == 201
    with closing(connected(banner)) as greedy:
        greedy.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 600_000)
        assert answered(greedy).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (
            b"GET /healthz HTTP/1.1\r\n"
            + b"".join(b"X-%d: 1\r\n" % number for number in range(50_000))
            + b"\r\n",
            431,
        ),
        (
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
            + b"x" * _connections.MAX_HEAD
            + b"\r\n\r\n",
            431,
        ),
        (b"GET /" + b"x" * _connections.MAX_URL + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET /" + b"x" * 2_000_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET /healthz\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
)
def test_heads_that_are_too_large_or_none_at_all(banner, head, status):
    with closing(connected(banner)) as greedy:
        greedy.sendall(head)
        answer = answered(greedy)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b'"message":' in answer
    assert call(banner, "GET", "/healthz")[0] == 200


def test_heads_within_the_limits_are_taken(banner):
    filled = b"".join(b"X-%d: 1\r\n" % number for number in range(_connections.MAX_HEADERS - 2))
    with closing(connected(banner)) as large:
        for filler in (
            filled,
            b"X-Long: " + b"x" * (_connections.MAX_HEAD - 200) + b"\r\n",
        ):  # one after the other
            large.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + filler + b"\r\n")
            assert large.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_what_follows_a_body_is_no_header(storage, tokens):
    """Headers of a trailer were added to those of the request, tokens and hosts included."""
    with in_thread(storage) as service, closing(connected(service)) as sly:
        request = f"PUT {BANNER}/slots/0/decision HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        trailer = f"0\r\nAuthorization: Bearer {tokens['admin']}\r\n\r\n"
        sly.sendall(
            f"{request}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{{}}\r\n{trailer}".encode()
        )
        assert answered(sly).startswith(b"HTTP/1.1 401 ")
    with in_thread(storage) as service, closing(connected(service)) as greedy:
        greedy.sendall(
            f"{request}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nX-Long: ".encode()
        )
        try:
            for _ in range(100):
                greedy.sendall(b"x" * 65_536)
        except OSError:
            pass
        assert closed(greedy)
        assert call(service, "GET", "/healthz")[0] == 200


def test_heads_that_never_come_to_an_end(banner, monkeypatch):
    monkeypatch.setattr(_connections, "HEAD_SECONDS", 0.5)
    with ExitStack() as stack:
        silent, half, second = (stack.enter_context(closing(connected(banner))) for _ in range(3))
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert second.recv(65_536).startswith(b"HTTP/1.1 200 ")
        second.sendall(b"GET /healthz HT")
        assert answered(silent) == b""
        for slow in (half, second):
            assert answered(slow).startswith(b"HTTP/1.1 408 ")


# Connections


def test_half_requests_shut_nobody_out_where_few_files_may_be_open(storage):
    """239 of them did, in a process that may open 256 files."""
    command = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); {SERVE.format(storage)}"
    process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip().rstrip("/")
    half = []
    try:
        assert call(address, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
        for number in range(400):
            half.append(connected(address, f"127.0.0.{2 + number % 4}"))
            half[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        for slot in range(20):
            assert call(address, "PUT", f"{BANNER}/slots/{slot}/decision")[0] == 201
    finally:
        for each in half:
            each.close()
        process.kill()
        process.communicate()


SERVE = """
from aftereffect.service import address_of, server_for
server, listener = server_for({!r}, "127.0.0.1", 0)
print(address_of(listener), flush=True)
server.run(sockets=[listener])
"""
SERVE = SERVE.strip().replace("\n", "; ")


def test_who_waits_longest_makes_room(service, monkeypatch):
    monkeypatch.setattr(_connections, "MAX_PER_PEER", 3)
    with ExitStack() as stack:
        other = stack.enter_context(closing(connected(service, "127.0.0.2")))
        first, second, third = (stack.enter_context(closing(connected(service))) for _ in range(3))
        for each in (other, second, third, first):  # the first one is heard of last
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")
        fourth = stack.enter_context(closing(connected(service)))
        assert closed(second)
        for each in (other, first, third, fourth):
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")


class FakeConnection:
    """Stands for a connection."""

    def __init__(self):
        self.left = False

    def make_room(self):
        self.left = True


def test_connections_are_counted_and_those_at_work_stay(monkeypatch):
    monkeypatch.setattr(_connections, "MAX_PER_PEER", 3)
    monkeypatch.setattr(_connections, "MAX_CONNECTIONS", 16)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    known = _connections.Connections()
    lines = [FakeConnection() for _ in range(16)]
    assert all(known.add(line, f"peer {number // 2}") for number, line in enumerate(lines))
    for line in lines[:3]:
        known.mark_busy(line)
    known.mark_idle(lines[0])
    assert known.add(FakeConnection(), "peer 9")
    assert [line.left for line in lines[:5]] == [
        True,
        False,
        False,
        False,
        False,
    ]  # of the largest peer that first came
    for line in lines[1:]:
        known.mark_busy(line)
    busy = FakeConnection()
    assert known.add(busy, "peer 10")  # instead of the newcomer before
    known.mark_busy(busy)
    assert not known.add(FakeConnection(), "peer 11")
    known.remove(busy)
    known.remove(busy)
    assert known.add(FakeConnection(), "peer 11")


# Pools


def limited(monkeypatch, **limits):
    monkeypatch.setitem(LIMITS, "read", LIMITS["read"]._replace(**limits))
    return Pool("read")


def test_a_pool_has_so_many_threads_and_so_many_who_wait(monkeypatch):
    pool, go, at_work, most = (
        limited(monkeypatch, threads=3, per_experiment=2, waiting=4),
        threading.Event(),
        [],
        [],
    )

    def work(name):
        at_work.append(name)
        most.append((len(at_work), at_work.count(name)))
        go.wait(30)
        at_work.remove(name)
        return name

    async def all_of_them():
        names = ["a", "a", "a", "a", "b", "c", "c"]
        tasks = [
            asyncio.create_task(pool.run(lambda name=name: work(name), name)) for name in names
        ]
        end = time.monotonic() + 30
        while len(at_work) < 3 and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert sorted(at_work) == ["a", "a", "b"]  # the third thread is kept for others than a
        with pytest.raises(RefusalError, match="4 requests of this kind are waiting") as refused:
            await pool.run(lambda: work("d"), "d")
        assert refused.value.status == 429
        go.set()
        assert await asyncio.gather(*tasks) == names

    asyncio.run(all_of_them())
    assert max(number for number, _ in most) <= 3
    assert max(number for _, number in most) <= 2


def test_work_that_hangs_is_given_up_and_cannot_pile_up(monkeypatch):
    pool, go, begun = limited(monkeypatch, threads=2, waiting=3, seconds=0.3), threading.Event(), []

    def hang():
        begun.append(True)
        go.wait(30)

    async def all_of_them():
        tasks = [asyncio.create_task(pool.run(hang)) for _ in range(5)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert {outcome.status for outcome in outcomes} == {503}
        assert len(begun) == 2  # the others never began
        with pytest.raises(RefusalError):
            await pool.run(hang)
        go.set()
        assert await pool.run(lambda: "again") == "again"

    asyncio.run(all_of_them())
    assert len(begun) == 2


def test_readers_rest_while_writers_are_at_work(monkeypatch):
    writing = Pool("write")
    monkeypatch.setitem(LIMITS, "read", LIMITS["read"]._replace(threads=1))
    reading, go = Pool("read", before=writing), threading.Event()

    async def reads(seconds):
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            await reading.run(lambda: time.sleep(0.01))
            done += 1
        return done

    async def all_of_them():
        writer = asyncio.create_task(writing.run(lambda: go.wait(30)))
        await asyncio.sleep(0)
        beside = await reads(1)
        go.set()
        await writer
        return beside, await reads(1)

    beside, alone = asyncio.run(all_of_them())
    assert beside < 0.5 * alone


def test_what_work_raises_is_raised(monkeypatch):
    def fail():
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        asyncio.run(limited(monkeypatch).run(fail))


def test_a_queue_that_is_full_is_answered_with_429(service, storage, monkeypatch):
    monkeypatch.setitem(_experiments.LIMITS, "heavy", Limits(1, 1, 2, 60.0))
    with ae.open_storage(storage) as place:
        played(place, "long", ["A", "B"], 20_000)
    with in_thread(storage) as another, ThreadPoolExecutor(12) as many:
        answers = list(
            many.map(lambda _: call(another, "GET", "/v1/experiments/long/verify"), range(12))
        )
        assert {status for status, _, _ in answers} == {200, 429}
        assert {headers["Retry-After"] for status, _, headers in answers if status == 429} == {"1"}
        assert call(another, "GET", "/v1/experiments/long/verify")[0] == 200


def test_writers_who_wait_for_one_experiment_stop_neither_readers_nor_other_writers(
    service, storage
):
    """50 of them did, for eleven seconds."""
    for name in ("banner", "other"):
        assert call(service, "POST", "/v1/experiments", EXPERIMENT | {"name": name})[0] == 201
    with ae.open_storage(storage) as place, ThreadPoolExecutor(50) as many:
        with place.writing(1):
            waiting = [
                many.submit(call, service, "PUT", f"{BANNER}/slots/0/decision") for _ in range(50)
            ]
            wait_until(lambda: sum(each.running() for each in waiting) == 50)
            start = time.monotonic()
            for path in (BANNER, f"{BANNER}/slots", f"{BANNER}/timeline", "/v1/experiments"):
                assert call(service, "GET", path)[0] == 200
            assert time.monotonic() - start < 9
            assert not any(each.done() for each in waiting)
        assert {each.result()[0] for each in waiting} == {200, 201}


# Reading long logs


def test_a_verification_is_kept_while_the_log_ends_the_same(monkeypatch):
    with ae.open_storage("memory://") as place:
        experiment = played(place, "late", ["A", "B"], 50)
        made = []
        verify = ae.Experiment.verify
        monkeypatch.setattr(
            ae.Experiment, "verify", lambda self: (made.append(True), verify(self))[1]
        )
        cache = VerificationCache(lambda: experiment)
        begun = time.monotonic()
        first = cache.verify(begun)
        assert (first.whole, first.events) == (True, 100)
        assert cache.verify(time.monotonic()) is first
        experiment.ask()
        assert cache.verify(begun) is first  # it began after that was asked
        second = cache.verify(time.monotonic())
        assert (second.events, len(made)) == (101, 2)
        monkeypatch.setattr(_cache, "MAX_AGE", 0.0)
        cache.verify(time.monotonic())
        assert len(made) == 3


def test_sixty_verifications_at_once_are_two_or_three(service, storage):
    with ae.open_storage(storage) as place:
        played(place, "long", ["A", "B"], 10_000)
    path = "/v1/experiments/long/verify"
    call(service, "GET", path)  # the process that verifies starts
    call(service, "PUT", "/v1/experiments/long/slots/10000/decision")
    start = time.monotonic()
    assert call(service, "GET", path)[1]["events"] == 20_001
    once = time.monotonic() - start
    for slot in range(10_001, 10_003):
        call(service, "PUT", f"/v1/experiments/long/slots/{slot}/decision")
    start = time.monotonic()
    with ThreadPoolExecutor(60) as sixty:
        answers = list(sixty.map(lambda _: call(service, "GET", path)[:2], range(60)))
    assert {(status, answer["whole"], answer["events"]) for status, answer in answers} == {
        (200, True, 20_003)
    }
    assert time.monotonic() - start < 20 * once + 2  # one by one it was 60 times as long


def test_a_worker_that_ends_is_started_again_and_ends_with_the_service(storage):
    with ae.open_storage(storage) as place:
        played(place, "long", ["A", "B"], 100)
    worker = Worker(storage)
    try:
        assert b'"whole":true' in worker.call("verify", "long", time.monotonic())
        with pytest.raises(ae.NotFoundError, match="there is no experiment 'nothing'"):
            worker.call("history", "nothing", -1, 10)
        process = worker._process
        with ThreadPoolExecutor(1) as one:
            process.send_signal(signal.SIGSTOP)  # so that it cannot be faster than we are
            lost = one.submit(worker.call, "history", "long", -1, 10)
            wait_until(lambda: worker._answers)
            process.kill()
            with pytest.raises(
                ae.StorageError, match="the process that reads logs has ended: try again"
            ):
                lost.result(30)
        assert b'"last":9' in worker.call("history", "long", -1, 10)
        assert worker._process.pid != process.pid
    finally:
        worker.close()
    assert worker._process.returncode is not None
    with pytest.raises(ae.StorageError, match="the service is stopping"):
        worker.call("history", "long", -1, 10)


def test_no_process_is_left_when_the_service_is_killed(storage):
    with ae.open_storage(storage) as place:
        played(place, "long", ["A", "B"], 100)
    for how in ("kill", "terminate"):
        service = Process(storage)
        assert call(service.address, "GET", "/v1/experiments/long/slots")[0] == 200
        (child,) = children(service.process.pid)
        service.end(how)
        wait_until(lambda child=child: not running(child))


def children(parent):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True
    ).stdout
    return [int(pid) for pid in found.split()]


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
    ).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_sixty_readers_do_not_stop_who_writes(storage):
    """60 verifications of 120,000 events did so for 78 s, 60 estimates for 6 s; ``make bench-service`` measures all kinds."""
    with ae.open_storage(storage) as place:
        played(place, "long", ["A", "B", "C"], 30_000)
    service, stop, statuses = Process(storage), threading.Event(), set()
    call(service.address, "POST", "/v1/experiments", EXPERIMENT)

    def read(path):
        with suppress(OSError, http.client.HTTPException):  # at the end the service is killed
            while not stop.is_set():
                status, _, headers = call(service.address, "GET", f"/v1/experiments/long{path}")
                statuses.add(status)
                stop.wait(float(headers.get("Retry-After", 0)))

    threads = [
        threading.Thread(target=read, args=(path,))
        for path in ("/verify", "/lag")
        for _ in range(30)
    ]
    try:
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        start = time.monotonic()
        for slot in range(10):
            assert call(service.address, "PUT", f"{BANNER}/slots/{slot}/decision")[0] == 201
            assert (
                call(service.address, "PUT", f"{BANNER}/slots/{slot}/total", {"total": 1})[0] == 201
            )
        assert time.monotonic() - start < 25
        wait_until(lambda: 200 in statuses)
    finally:
        stop.set()
        service.end("kill")
        for thread in threads:
            thread.join(30)
    assert statuses <= {200, 429}
