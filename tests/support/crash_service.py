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
#: Seconds that a service lives at most, after what is waited for. Of so many kills, one comes after
#: every client was answered, one while the service starts, and the others after any answer.
MAX_LIFE, TURN = 0.6, 5
#: Seconds within which clients must be answered while nothing is killed; on a busy machine, a
#: service needs ten of them to start, and as many for its first decision by a slot policy.
PATIENCE = 60
#: Clients never give up by themselves, however often services are killed.
RETRY_FOR = 36_000


def total_of(slot):
    """The total of a slot, for every client."""
    return float(slot * 7 % 10)


class Clients:
    """Several clients that ask and tell through some services, and the answers they got."""

    def __init__(self, addresses):
        self.asked, self.told, self.errors = [], [], []
        self._answers = Counter()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._play,
                args=(addresses[number % len(addresses)], name),
                name=f"client {number} of {name}",
                daemon=True,
            )
            for name in EXPERIMENTS
            for number in range(CLIENTS // len(EXPERIMENTS))
        ]
        for thread in self._threads:
            thread.start()

    def _play(self, address, name):
        experiment = ae.Client(address, retry_for=RETRY_FOR).experiment(name)
        try:
            while not self._stop.is_set():
                decision = experiment.ask()
                self.asked.append((name, decision.slot, decision.arm))
                self._answers[threading.current_thread().name] += 1
                experiment.tell(decision.slot, total_of(decision.slot))
                self.told.append((name, decision.slot))
        except ae.AftereffectError as error:
            self.errors.append(f"{threading.current_thread().name}: {error}")

    def wait_for(self, how_many):
        """Wait until all, or any, were answered once more; whoever was not is an error."""
        before, end = Counter(self._answers), time.monotonic() + PATIENCE
        while not self.errors:
            waiting = [
                each.name for each in self._threads if self._answers[each.name] == before[each.name]
            ]
            if not how_many(waiting):
                return
            if time.monotonic() > end:
                self.errors.append(f"no answer within {PATIENCE} s: {', '.join(waiting)}")
            time.sleep(0.02)

    def wait_for_all(self):
        """Wait until every client was answered once more."""
        self.wait_for(lambda waiting: waiting)

    def wait_for_any(self):
        """Wait until one of the clients was answered once more."""
        self.wait_for(lambda waiting: len(waiting) == len(self._threads))

    def end(self):
        """Stop; whoever waits for an answer must get it now, as nothing is killed any more."""
        self._stop.set()
        end = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                self.errors.append(f"no answer within {PATIENCE} s at the end: {thread.name}")


def crash(storage, services, kills, seed):
    """Kill one of the services so many times; prints the result, returns whether nothing was lost."""
    rng, start = random.Random(seed), time.monotonic()
    running = [Process(storage) for _ in range(services)]
    for name, settings in EXPERIMENTS.items():  # the first use of a policy may compile it
        ae.Client(running[0].address, retry_for=600).create(name, **settings)
    clients, killed = Clients([each.address for each in running]), 0
    try:
        for number in range(kills):
            if number % TURN == 0:
                clients.wait_for_all()
            elif number % TURN > 1:
                clients.wait_for_any()
            if clients.errors:
                break
            time.sleep(rng.random() * MAX_LIFE)
            victim = rng.randrange(services)
            running[victim].end("kill")
            killed += 1
            running[victim] = Process(storage, port=running[victim].port)
        clients.end()
    finally:
        for each in running:
            each.end()
    counted, answered = check(storage, clients), Counter(name for name, *_ in clients.asked)
    print(
        f"{services} service{'s' * (services > 1)} on {storage.partition(':')[0]}: {killed:,} kills in "
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
