"""How many pairs of ask and tell the service answers per second, and how fast: ``make bench-service``.

Eight clients, in two processes beside that of the service, each asking and telling one after the other, on one experiment. With
and without somebody who has the page open. Every promise says whether it was kept; the exit status is 1 if one was not.
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
from aftereffect.columns import aligned
from measure import verdict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import postgres
from services import Process

CLIENTS, PROCESSES = 8, 2
EXPERIMENT = {"arms": ["A", "B", "C"], "policy": "ars-ucb", "reward_range": (0, 10)}
#: Pairs per second at least, and milliseconds that all but one in a hundred requests stay below.
PROMISED = {"SQLite": (300, 50.0), "PostgreSQL": (150, None)}
MOST_LOST = 0.10
#: As often as the page asks.
LOOK_SECONDS = 1.0


def client_process(address: str, name: str, seconds: float) -> None:
    """Some of the clients; prints how long each request took, and which slots were told."""
    took: list[float] = []
    told: list[int] = []

    def pairs() -> None:
        client = ae.Client(address)
        while time.monotonic() < end:
            start = time.perf_counter()
            slot = client.ask(name)
            between = time.perf_counter()
            client.tell(name, slot.number, 1)
            took.extend((between - start, time.perf_counter() - between))
            told.append(slot.number)

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=pairs) for _ in range(CLIENTS // PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"took": took, "told": told}))


@contextmanager
def reader(address: str, name: str) -> Iterator[None]:
    """Somebody who has the page open."""
    stop = threading.Event()

    def look() -> None:
        import http.client
        from urllib.parse import urlsplit

        place = urlsplit(address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        while not stop.wait(LOOK_SECONDS):
            for path in ("/v1/experiments", f"/v1/experiments/{name}", f"/v1/experiments/{name}/timeline"):
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
    """What came of some seconds of work."""

    def __init__(self, address: str, name: str, seconds: float) -> None:
        ae.Client(address).create(name, **EXPERIMENT)
        command = [sys.executable, __file__, "--client", address, name, str(seconds)]
        begun = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
        answers = [json.loads(each.communicate()[0]) for each in begun]
        self.took = sorted(1e3 * second for answer in answers for second in answer["took"])
        self.told = [slot for answer in answers for slot in answer["told"]]
        self.pairs = len(self.told) / seconds
        status = ae.Client(address).status(name)
        self.lost = len(self.told) - len(set(self.told)) + abs(status.told - len(self.told))

    def row(self, title: str) -> tuple[str, ...]:
        """Its line in the table."""
        return title, f"{self.pairs:,.0f}", *(f"{self.quantile(q):.1f}" for q in (0.5, 0.95, 0.99)), str(self.lost)

    def quantile(self, share: float) -> float:
        """Milliseconds that this share of the requests stay below."""
        return self.took[min(int(share * len(self.took)), len(self.took) - 1)]


def typical(paces: list[Pace]) -> Pace:
    """The one in the middle."""
    return sorted(paces, key=lambda pace: pace.pairs)[len(paces) // 2]


def measured(title: str, storage: str, seconds: float, times: int) -> Iterator[bool]:
    """One storage: alone and watched in turn, as the machine's speed drifts."""
    service = Process(storage)
    try:
        Pace(service.address, "warm", 1.0)
        alone, watched = [], []
        for repetition in range(times):
            alone.append(Pace(service.address, f"alone-{repetition}", seconds))
            with reader(service.address, f"watched-{repetition}"):
                watched.append(Pace(service.address, f"watched-{repetition}", seconds))
    finally:
        service.end()
    heads = ("", "pairs/s", "median ms", "95 %", "99 %", "lost")
    print(aligned([heads, typical(alone).row(title), typical(watched).row("with a reader")]))
    least, slowest = PROMISED[title]
    pairs, late = typical(alone).pairs, typical(alone).quantile(0.99)
    print(f"at least {least} pairs per second on {title}: {pairs:,.0f} {verdict(pairs >= least)}")
    yield pairs >= least
    if slowest is not None:
        print(f"99 % of the requests within {slowest:g} ms: {late:.1f} ms {verdict(late < slowest)}")
        yield late < slowest
    lost = sum(pace.lost for pace in (*alone, *watched))
    print(f"none lost: {lost} {verdict(lost == 0)}")
    yield lost == 0
    slower = 1 - statistics.median(
        with_reader.pairs / without.pairs for with_reader, without in zip(watched, alone, strict=True)
    )
    print(f"with a reader less than {MOST_LOST:.0%} slower: {slower:.1%} {verdict(slower < MOST_LOST)}")
    yield slower < MOST_LOST


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description="the service under eight clients")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default: 5)")
    parser.add_argument("--times", type=int, default=3, help="that each is repeated (default: 3)")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        client_process(given.client[0], given.client[1], float(given.client[2]))
        return 0
    print(f"ask and tell over HTTP, {CLIENTS} clients, {os.cpu_count()} cores for all of it")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(measured("SQLite", f"sqlite:///{folder}/live.db", given.seconds, given.times))
    if postgres.programs() is None:
        print("PostgreSQL is not installed: not measured")
        return 1
    server = postgres.Server()
    try:
        outcomes += measured("PostgreSQL", server.url(), given.seconds, given.times)
    finally:
        server.remove()
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
