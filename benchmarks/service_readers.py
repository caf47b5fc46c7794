"""What sixty readers cost those who write: ``make bench-service``.

Eight clients ask and tell, as in ``service.py``. Beside them, kind by kind, sixty readers ask for the status, history,
timeline, lag, verification or export of an experiment with a long log, each again as soon as it is answered; who is told to
wait (429) waits as long as it is told. Alone and with readers in turn, as the machine's speed drifts. The exit status is
1 if with readers of some kind 99 % of the pairs take more than five times as long as without.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aftereffect as ae
from aftereffect.columns import aligned
from measure import verdict
from service import EXPERIMENT, PROCESSES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from playing import played
from services import Process

READERS = 60
#: The slots of the experiment that is read, each told: twice as many events.
SLOTS = 60_000
MOST_SLOWER = 5.0
PATHS = {
    "status": "",
    "history": "/slots?limit=1000",
    "timeline": "/timeline",
    "lag": "/lag",
    "verify": "/verify",
    "export": "/export",
}


def reader_process(address: str, path: str) -> None:
    """All readers of a kind, until the input ends; prints how many answers of each status they got."""
    os.nice(10)  # they stand for other machines, so they give way to what is measured
    place, statuses, stop = urlsplit(address), Counter[int](), threading.Event()

    def read() -> None:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=300)
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
def readers(address: str, path: str, statuses: Counter[str]) -> Iterator[None]:
    """Sixty who read, and what they were answered."""
    command = [sys.executable, __file__, "--readers", address, path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1)
    try:
        yield
    finally:
        statuses.update(json.loads(process.communicate("")[0]))


def pairs(address: str, name: str, seconds: float) -> list[float]:
    """Milliseconds that each pair of ask and tell took, sorted."""
    ae.Client(address).create(name, **EXPERIMENT)
    client = Path(__file__).with_name("service.py")
    command = [sys.executable, str(client), "--client", address, name, str(seconds)]
    begun = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    answers = [json.loads(each.communicate()[0])["took"] for each in begun]
    return sorted(1e3 * (ask + tell) for took in answers for ask, tell in zip(took[::2], took[1::2], strict=True))


def quantile(took: list[float], share: float) -> float:
    """Milliseconds that this share of the pairs stay below."""
    return took[min(int(share * len(took)), len(took) - 1)]


def measured(address: str, kind: str, seconds: float, times: int) -> tuple[tuple[str, ...], bool]:
    """One kind of readers: its line in the table, and whether the promise was kept."""
    alone, beside, statuses = [], [], Counter[str]()
    for repetition in range(times):
        alone.append(pairs(address, f"alone-{kind}-{repetition}", seconds))
        with readers(address, f"/v1/experiments/long{PATHS[kind]}", statuses):
            beside.append(pairs(address, f"{kind}-{repetition}", seconds))
    late = [statistics.median(quantile(took, 0.99) for took in each) for each in (alone, beside)]
    slower = statistics.median(
        quantile(with_, 0.99) / quantile(without, 0.99) for with_, without in zip(beside, alone, strict=True)
    )
    rate = [statistics.median(len(took) for took in each) / seconds for each in (alone, beside)]
    said = ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    row = (kind, *(f"{number:,.0f}" for number in (*rate, *late)), f"{slower:.1f}", said)
    return row, slower <= MOST_SLOWER


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description="asking and telling beside sixty readers")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default: 5)")
    parser.add_argument("--times", type=int, default=3, help="that each is repeated (default: 3)")
    parser.add_argument("--kinds", nargs="+", choices=PATHS, default=list(PATHS), help="of readers (default: all)")
    parser.add_argument("--readers", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.readers:
        reader_process(*given.readers)
    print(f"ask and tell beside {READERS} readers of {2 * SLOTS:,} events, {os.cpu_count()} cores for all of it")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/live.db"
        with ae.open_storage(url) as storage:
            played(storage, "long", ["A", "B", "C"], SLOTS)
        service = Process(url)
        try:
            pairs(service.address, "warm", 1.0)
            rows, kept = zip(
                *(measured(service.address, kind, given.seconds, given.times) for kind in given.kinds), strict=True
            )
        finally:
            service.end()
    heads = ("readers of", "pairs/s alone", "with", "99 % ms alone", "with", "times", "answers to readers")
    print(aligned([heads, *rows]))
    print(f"99 % of the pairs within {MOST_SLOWER:g} times as long as alone: {verdict(all(kept))}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
