"""How much sixty readers slow down the writers: ``make bench-service``.

Eight clients ask and tell, as in ``service.py``. Beside them sixty readers ask for the status,
history, timeline, lag, results, verification or export of an experiment with a long log, one kind
after the other, each again as soon as it is answered. A reader that is refused (429) waits for the
time of ``Retry-After``. Each kind is measured in turn without and with readers, as the speed of the
machine drifts. The exit status is 1 if, with readers of some kind, the 99 % quantile of the pairs
is more than five times as large as without.

Each measurement has a new service. In the first and the last one readers find nothing cached, and
may get no answer while it lasts: the results of the long log take seconds to compute. In the other
one they find the answer cached. All kinds together take about three minutes on two idle cores:
twice two seconds, three times, for each of seven kinds, and about as long to start services and
readers.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aftereffect as ae
from aftereffect._core import text_table
from measure import verdict
from service import EXPERIMENT, PROCESSES, client_process

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from playing import played
from services import Process

READERS = 60
#: Slots of the experiment that is read; with its totals, it has twice as many events.
SLOTS = 60_000
MAX_SLOWER = 5.0
PATHS = {
    "status": "",
    "history": "/slots?limit=1000",
    "timeline": "/timeline",
    "lag": "/lag",
    "results": "/results",
    "verify": "/verify",
    "export": "/export",
}


def reader_process(address: str, path: str) -> None:
    """Run all readers of a kind until the input ends; prints the number of answers by status."""
    os.nice(10)  # they stand for other machines, so they must not slow down what is measured
    url, statuses, stop = urlsplit(address), Counter[int](), threading.Event()

    def read() -> None:
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=300)
        while not stop.is_set():
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                statuses[0] += 1
                continue
            statuses[answer.status] += 1
            stop.wait(float(answer.headers.get("Retry-After", 0)))

    for _ in range(READERS):
        threading.Thread(target=read, daemon=True).start()
    print("reading", flush=True)
    sys.stdin.read()
    stop.set()
    print(json.dumps(statuses), flush=True)
    os._exit(0)


@contextmanager
def read_along(address: str, path: str, statuses: Counter[str]) -> Iterator[None]:
    """Sixty readers, while the block runs; counts their answers."""
    command = [sys.executable, __file__, "--readers", address, path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.5)
    try:
        yield
    finally:
        statuses.update(json.loads(process.communicate("")[0]))


def serve_commands() -> None:
    """Run some of the clients, as `service.py` does, for each line of the input."""
    for line in sys.stdin:
        address, name, seconds = line.split()
        client_process(address, name, float(seconds))
        sys.stdout.flush()


@contextmanager
def start_clients() -> Iterator["list[subprocess.Popen[str]]"]:
    """The processes of the clients; they end with the block."""
    command = [sys.executable, __file__, "--clients"]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        yield processes
    finally:
        for each in processes:
            each.communicate()


def time_pairs(
    clients: "Sequence[subprocess.Popen[str]]", address: str, name: str, seconds: float
) -> list[float]:
    """Milliseconds that each pair of ask and tell took, sorted."""
    ae.Client(address).create(name, **EXPERIMENT)
    for each in clients:
        assert each.stdin is not None
        print(address, name, seconds, file=each.stdin, flush=True)
    answers = [json.loads(each.stdout.readline())["took"] for each in clients if each.stdout]
    return sorted(
        1e3 * (ask + tell)
        for took in answers
        for ask, tell in zip(took[::2], took[1::2], strict=True)
    )


def read_once(address: str, path: str) -> None:
    """Wait for one answer, so that the service has computed and cached it."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=300)
    connection.request("GET", f"/v1/experiments/long{path}")
    connection.getresponse().read()
    connection.close()


def quantile(took: list[float], share: float) -> float:
    """Milliseconds that this share of the pairs stay below."""
    return took[min(int(share * len(took)), len(took) - 1)]


def measure(
    clients: "Sequence[subprocess.Popen[str]]", storage: str, kind: str, seconds: float, times: int
) -> tuple[tuple[str, ...], bool]:
    """Measure one kind of readers: its line in the table, and whether the promise holds.

    Each time with a new service, so nothing is left of readers before. It has cached nothing, and
    every other time it has answered one reader before. The worse of both counts.
    """
    begin = time.monotonic()
    print(f"beside readers of {kind} ...", end=" ", flush=True)
    alone, beside, statuses = [], [], Counter[str]()
    for repetition in range(times):
        service, name = Process(storage), f"{kind}-{repetition}"
        try:
            time_pairs(clients, service.address, f"warm-{name}", 0.5)
            if repetition % 2:
                read_once(service.address, PATHS[kind])
            alone.append(time_pairs(clients, service.address, f"alone-{name}", seconds))
            with read_along(service.address, f"/v1/experiments/long{PATHS[kind]}", statuses):
                beside.append(time_pairs(clients, service.address, name, seconds))
        finally:
            service.end("kill")
    print(f"{time.monotonic() - begin:.0f} s", flush=True)
    late = [statistics.median(quantile(took, 0.99) for took in each) for each in (alone, beside)]
    ratios = [
        quantile(with_, 0.99) / quantile(without, 0.99)
        for with_, without in zip(beside, alone, strict=True)
    ]
    slower = max(statistics.median(each) for each in (ratios[::2], ratios[1::2]) if each)
    rate = [statistics.median(len(took) for took in each) / seconds for each in (alone, beside)]
    answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    row = (kind, *(f"{number:,.0f}" for number in (*rate, *late)), f"{slower:.1f}", answers)
    return row, slower <= MAX_SLOWER


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description="asking and telling beside sixty readers")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of each measurement (default: 2)"
    )
    parser.add_argument("--times", type=int, default=3, help="that each is repeated (default: 3)")
    parser.add_argument(
        "--kinds", nargs="+", choices=PATHS, default=list(PATHS), help="of readers (default: all)"
    )
    parser.add_argument("--readers", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--clients", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.readers:
        reader_process(*given.readers)
    if given.clients:
        serve_commands()
        return 0
    print(
        f"ask and tell beside {READERS} readers of {2 * SLOTS:,} events, "
        f"{os.cpu_count()} cores for all of it"
    )
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/live.db"
        with ae.open_storage(url) as storage:
            played(storage, "long", ["A", "B", "C"], SLOTS, control="A", control_share=0.1)
        with start_clients() as clients:
            measured = [
                measure(clients, url, kind, given.seconds, given.times) for kind in given.kinds
            ]
    rows, results = zip(*measured, strict=True)
    heads = (
        "readers of",
        "pairs/s alone",
        "with",
        "99 % ms alone",
        "with",
        "times",
        "answers to readers",
    )
    print(text_table([heads, *rows]))
    print(f"99 % of the pairs within {MAX_SLOWER:g} times the time alone: {verdict(all(results))}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
