"""Kill -9 the service under load, again and again, and count what was lost or changed: part of ``make crash-test``.

Clients ask and tell without end, and retry while a service is down. Whatever they were answered
must be recorded afterwards."""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter

import aftereffect as ae
import postgres
from services import Process

ARMS = ["A", "B", "C"]
#: A policy that learns from rounds, and one that looks at every slot.
EXPERIMENTS = {
    "rounds": {"arms": ARMS, "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 10)},
    "slots": {"arms": ARMS, "slot": "1h", "start": "2026-03-02", "history": [5.0, 0.0, 9.0] * 200},
}
CLIENTS = 6
#: Seconds that a service lives; every so many of them live until all experiments were answered: a
#: new service needs longer than that for its first decision by a policy that looks at every slot.
MAX_LIFE, ANSWERING, PATIENCE = 0.6, 5, 50


def total_of(slot):
    """The total of a slot, for every client."""
    return float(slot * 7 % 10)


class Clients:
    """Several clients that ask and tell through some services, and the answers they got."""

    def __init__(self, addresses):
        self.asked, self.told, self.errors = [], [], []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._play, args=(addresses[number % len(addresses)], name))
            for name in EXPERIMENTS
            for number in range(CLIENTS // len(EXPERIMENTS))
        ]
        for thread in self._threads:
            thread.start()

    def _play(self, address, name):
        experiment = ae.Client(address, retry_for=60).experiment(name)
        try:
            while not self._stop.is_set():
                decision = experiment.ask()
                self.asked.append((name, decision.slot, decision.arm))
                experiment.tell(decision.slot, total_of(decision.slot))
                self.told.append((name, decision.slot))
        except ae.AftereffectError as error:
            self.errors.append(str(error))

    def wait_for_all(self):
        """Wait until each experiment was answered once more."""
        before, deadline = Counter(name for name, *_ in self.asked), time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not self.errors:
            now = Counter(name for name, *_ in self.asked)
            if all(now[name] > before[name] for name in EXPERIMENTS):
                return
            time.sleep(0.05)

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def crash(storage, services, kills, seed):
    """Kill one of the services so many times; prints the result, returns whether nothing was lost."""
    rng, start = random.Random(seed), time.monotonic()
    running = [Process(storage) for _ in range(services)]
    for name, settings in EXPERIMENTS.items():
        ae.Client(running[0].address).create(name, **settings)
    clients = Clients([each.address for each in running])
    for number in range(kills):
        if number % ANSWERING == 0:
            clients.wait_for_all()
        time.sleep(rng.random() * MAX_LIFE)
        victim = rng.randrange(services)
        running[victim].end("kill")
        running[victim] = Process(storage, port=running[victim].port)
    clients.end()
    for each in running:
        each.end()
    counted, answered = check(storage, clients), Counter(name for name, *_ in clients.asked)
    print(
        f"{services} service{'s' * (services > 1)} on {storage.partition(':')[0]}: {kills:,} kills in "
        f"{time.monotonic() - start:.0f} s; answered {len(clients.asked):,} decisions "
        f"({', '.join(f'{answered[name]:,} of {name}' for name in EXPERIMENTS)}) and {len(clients.told):,} totals; "
        f"totals lost {counted['lost']}, decisions changed {counted['changed']}, doubled {counted['doubled']}, "
        f"experiments damaged {counted['damaged']}, errors {len(clients.errors)}",
        *clients.errors[:3],
        flush=True,
    )
    return not sum(counted.values()) and not clients.errors and len(answered) == len(EXPERIMENTS)


def check(storage, clients):
    """Count the records that differ from the answers."""
    counted = Counter()
    with ae.open_storage(storage) as opened:
        records = {}
        for name in EXPERIMENTS:
            experiment = ae.Experiment.open(name, storage=opened)
            records |= {(name, record.slot): record for record in experiment.history()}
            counted["damaged"] += not experiment.verify().whole
        counted["changed"] += sum(
            (name, slot) not in records or records[name, slot].arm != arm
            for name, slot, arm in clients.asked
        )
        counted["lost"] += sum(
            told not in records or records[told].total != total_of(told[1]) for told in clients.told
        )
        counted["doubled"] += len(clients.asked) - len({asked[:2] for asked in clients.asked})
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
