"""Kill -9 the service under load, again and again, and count what was lost or changed: part of ``make crash-test``.

Clients ask and tell without end, and try again while a service is away. Whatever they were answered must be there afterwards.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter

import postgres
from services import Process

import aftereffect as ae

EXPERIMENT = {"arms": ["A", "B", "C"], "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 10)}
CLIENTS = 6
LONGEST_LIFE = 0.6


def total(slot):
    """What a slot brings, whoever tells it."""
    return float(slot * 7 % 10)


class Clients:
    """Several that ask and tell through some services, and what they were answered."""

    def __init__(self, addresses):
        self.asked, self.told, self.errors = [], [], []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._pairs, args=(addresses[number % len(addresses)],)) for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _pairs(self, address):
        client = ae.Client(address, patience=60)
        try:
            while not self._stop.is_set():
                slot = client.ask("crash")
                self.asked.append((slot.number, slot.arm))
                client.tell("crash", slot.number, total(slot.number))
                self.told.append(slot.number)
        except ae.AftereffectError as error:
            self.errors.append(str(error))

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def crash(storage, services, kills, seed):
    """Kill one of the services that many times; says what came of it, and whether all is well."""
    rng, start = random.Random(seed), time.monotonic()
    running = [Process(storage) for _ in range(services)]
    ae.Client(running[0].address).create("crash", **EXPERIMENT)
    clients = Clients([each.address for each in running])
    for _ in range(kills):
        time.sleep(rng.random() * LONGEST_LIFE)
        victim = rng.randrange(services)
        running[victim].end("kill")
        running[victim] = Process(storage, port=running[victim].port)
    clients.end()
    for each in running:
        each.end()
    counted = check(storage, clients)
    print(
        f"{services} service{'s' * (services > 1)} on {storage.partition(':')[0]}: {kills:,} kills in "
        f"{time.monotonic() - start:.0f} s; answered {len(clients.asked):,} decisions and {len(clients.told):,} outcomes; "
        f"outcomes lost {counted['lost']}, decisions changed {counted['changed']}, doubled {counted['doubled']}, "
        f"experiments damaged {counted['damaged']}, errors {len(clients.errors)}",
        *clients.errors[:3],
        flush=True,
    )
    return not sum(counted.values()) and not clients.errors


def check(storage, clients):
    """Count what is not as it was answered."""
    counted = Counter()
    with ae.open_storage(storage) as place:
        experiment = ae.Experiment.open("crash", storage=place)
        lines = {line.slot: line for line in experiment.history()}
        counted["changed"] += sum(number not in lines or lines[number].arm != arm for number, arm in clients.asked)
        counted["lost"] += sum(slot not in lines or lines[slot].value != total(slot) for slot in clients.told)
        counted["doubled"] += len(clients.asked) - len({number for number, _ in clients.asked})
        counted["damaged"] += not experiment.verify().whole
    return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sqlite", type=int, default=200, metavar="KILLS")
    parser.add_argument("--postgresql", type=int, default=50, metavar="KILLS")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    good = True
    if given.sqlite:
        with tempfile.TemporaryDirectory() as folder:
            good &= crash(f"sqlite:///{folder}/crash.db", 1, given.sqlite, given.seed)
    if given.postgresql:
        server = postgres.Server()
        try:
            good &= crash(server.url(), 2, given.postgresql, given.seed)
        finally:
            server.remove()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
