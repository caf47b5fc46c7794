"""Pairs of ask and tell that the service answers per second: ``make bench-service``.

Eight clients in two processes ask and tell on one experiment, each one request after the other,
with and without a reader who has the page open. Every promise is printed with its result; the exit
status is 1 if one does not hold.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aftereffect as ae
from aftereffect._core import text_table
from measure import verdict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import postgres
from services import Process

CLIENTS, PROCESSES = 8, 2
EXPERIMENT = {"arms": ["A", "B", "C"], "policy": "ars-ucb", "reward_range": (0, 10)}
#: Pairs per second at least, and milliseconds that all but one in a hundred requests stay below.
PROMISED = {"SQLite": (300, 50.0), "PostgreSQL": (150, None)}
#: The share of the pairs per second that a reader may cost.
MAX_SLOWER = 0.10
#: The page asks this often.
LOOK_SECONDS = 1.0


def client_process(address: str, name: str, seconds: float) -> None:
    """Run some of the clients; prints the time of each request, and the slots that were told."""
    took: list[float] = []
    told: list[int] = []

    def play() -> None:
        experiment = ae.Client(address).experiment(name)
        while time.monotonic() < end:
            start = time.perf_counter()
            slot = experiment.ask().slot
            between = time.perf_counter()
            experiment.tell(slot, 1)
            took.extend((between - start, time.perf_counter() - between))
            told.append(slot)

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=play) for _ in range(CLIENTS // PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"took": took, "told": told}))


@contextmanager
def read_along(address: str, name: str) -> Iterator[None]:
    """Read as the page does, while the block runs."""
    stop = threading.Event()

    def look() -> None:
        import http.client
        from urllib.parse import urlsplit

        url = urlsplit(address)
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        while not stop.wait(LOOK_SECONDS):
            for path in (
                "/v1/experiments",
                f"/v1/experiments/{name}",
                f"/v1/experiments/{name}/timeline",
            ):
                connection.request("GET", path)
                connection.getresponse().read()
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Pace:
    """The result of some seconds of work."""

    def __init__(self, address: str, name: str, seconds: float) -> None:
        ae.Client(address).create(name, **EXPERIMENT)
        command = [sys.executable, __file__, "--client", address, name, str(seconds)]
        processes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
        ]
        answers = [json.loads(each.communicate()[0]) for each in processes]
        self.took = sorted(1e3 * second for answer in answers for second in answer["took"])
        self.told = [slot for answer in answers for slot in answer["told"]]
        self.pairs = len(self.told) / seconds
        status = ae.Client(address).experiment(name).status()
        self.lost = len(self.told) - len(set(self.told)) + abs(status.received - len(self.told))

    def row(self, title: str) -> tuple[str, ...]:
        """Its line in the table."""
        return (
            title,
            f"{self.pairs:,.0f}",
            *(f"{self.quantile(q):.1f}" for q in (0.5, 0.95, 0.99)),
            str(self.lost),
        )

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of the requests was answered."""
        return self.took[min(int(share * len(self.took)), len(self.took) - 1)]


def find_median(paces: list[Pace]) -> Pace:
    """The one in the middle."""
    return sorted(paces, key=lambda pace: pace.pairs)[len(paces) // 2]


def measure(title: str, storage: str, seconds: float, times: int) -> Iterator[bool]:
    """Measure one storage, in turn without and with a reader, as the machine's speed drifts."""
    service = Process(storage)
    try:
        Pace(service.address, "warm", 1.0)
        alone, watched = [], []
        for repetition in range(times):
            alone.append(Pace(service.address, f"alone-{repetition}", seconds))
            with read_along(service.address, f"watched-{repetition}"):
                watched.append(Pace(service.address, f"watched-{repetition}", seconds))
    finally:
        service.end()
    heads = ("", "pairs/s", "median ms", "95 %", "99 %", "lost")
    print(
        text_table(
            [heads, find_median(alone).row(title), find_median(watched).row("with a reader")]
        )
    )
    min_pairs, max_ms = PROMISED[title]
    pairs, late = find_median(alone).pairs, find_median(alone).quantile(0.99)
    holds = pairs >= min_pairs
    print(f"at least {min_pairs} pairs per second on {title}: {pairs:,.0f} {verdict(holds)}")
    yield holds
    if max_ms is not None:
        print(f"99 % of the requests within {max_ms:g} ms: {late:.1f} ms {verdict(late < max_ms)}")
        yield late < max_ms
    lost = sum(pace.lost for pace in (*alone, *watched))
    print(f"none lost: {lost} {verdict(lost == 0)}")
    yield lost == 0
    slower = 1 - statistics.median(
        with_reader.pairs / without.pairs
        for with_reader, without in zip(watched, alone, strict=True)
    )
    holds = slower < MAX_SLOWER
    print(f"with a reader less than {MAX_SLOWER:.0%} slower: {slower:.1%} {verdict(holds)}")
    yield holds


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description="the service under eight clients")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of each measurement (default: 5)"
    )
    parser.add_argument("--times", type=int, default=3, help="that each is repeated (default: 3)")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        client_process(given.client[0], given.client[1], float(given.client[2]))
        return 0
    print(f"ask and tell over HTTP, {CLIENTS} clients, {os.cpu_count()} cores for all of it")
    with tempfile.TemporaryDirectory() as folder:
        results = list(measure("SQLite", f"sqlite:///{folder}/live.db", given.seconds, given.times))
    if postgres.programs() is None:
        print("PostgreSQL is not installed: not measured")
        return 1
    server = postgres.Server()
    try:
        results += measure("PostgreSQL", server.url(), given.seconds, given.times)
    finally:
        server.remove()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
