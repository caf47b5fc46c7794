"""Kill -9 writers at random moments, again and again, and count what was lost, changed or doubled: ``make crash-test``.

Several processes ask and tell on one experiment at once. Whatever a storage acknowledged, its writer says through a pipe; one
writer after the other is killed, at a random moment, and replaced. Then all that was said must be there.
"""

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import postgres

import aftereffect as ae

SETTINGS = {"arms": ["A", "B", "C"], "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 10)}
WRITERS = 3
#: Kills after which a new experiment begins, so that checking does not take longer and longer.
KILLS_EACH = 50
LONGEST_LIFE = 0.12


def total(slot):
    """What a slot brings, whoever tells it."""
    return float(slot * 7 % 10)


def write(url, name, say, seed):
    """Ask and tell until killed; every answer is said."""
    rng = random.Random(seed)
    experiment = ae.Experiment.open(name, storage=url)
    mine = list(experiment.status().awaited)  # of those who were killed before they could tell
    while True:
        if rng.random() < 0.5 or not mine:
            slot = experiment.ask()
            say(f"d {slot.number} {slot.arm}")
            mine.append(slot.number)
        else:
            number = mine.pop(rng.randrange(len(mine)))
            experiment.tell(number, total(number))
            say(f"t {number}")


class Writer:
    """A process that writes, and what it said so far."""

    def __init__(self, url, name, seed):
        self.pipe, theirs = os.pipe()
        self.heard = b""
        self.process = os.fork()
        if self.process == 0:
            os.close(self.pipe)
            try:
                write(url, name, lambda line: os.write(theirs, f"{line}\n".encode()), seed)
            except BaseException as error:
                os.write(theirs, f"e {error}\n".encode())
            finally:
                os._exit(1)
        os.close(theirs)

    def listen(self):
        """Take what is in the pipe, so that it never fills up."""
        while select.select([self.pipe], [], [], 0)[0]:
            heard = os.read(self.pipe, 1 << 16)
            if not heard:
                return
            self.heard += heard

    def kill(self):
        """Its lines, as far as they are whole."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.listen()
        os.close(self.pipe)
        return self.heard.decode().rpartition("\n")[0].splitlines()


def play(url, name, kills, rng):
    """Kill that many writers of one experiment; what all of them said."""
    ae.Experiment.create(name, **SETTINGS, storage=url).storage.close()
    writers = [Writer(url, name, rng.random()) for _ in range(WRITERS)]
    said = []
    for _ in range(kills):
        life = time.monotonic() + rng.random() * LONGEST_LIFE
        while time.monotonic() < life:
            time.sleep(0.002)
            for writer in writers:
                writer.listen()
        victim = rng.randrange(WRITERS)
        said += writers[victim].kill()
        writers[victim] = Writer(url, name, rng.random())
    for writer in writers:
        said += writer.kill()
    return said


def check(url, name, said):
    """Count what was promised and what is there."""
    counted = Counter()
    with ae.open_storage(url) as storage:
        experiment = ae.Experiment.open(name, storage=storage)
        lines = {line.slot: line for line in experiment.history()}
        with storage.reading(storage.find(name).id) as view:
            events = view.events(0, 10**9)
        for line in said:
            what, _, rest = line.partition(" ")
            if what == "e":
                print("a writer failed:", rest)
                counted["errors"] += 1
            elif what == "d":
                number, arm = rest.split()
                counted["decisions"] += 1
                counted["changed"] += int(number) not in lines or lines[int(number)].arm != arm
            else:
                counted["outcomes"] += 1
                counted["lost"] += int(rest) not in lines or lines[int(rest)].value != total(int(rest))
        asked = [line for line in said if line.startswith("d ")]
        counted["doubled"] += len(asked) - len({line.split()[1] for line in asked})
        counted["doubled"] += len(events) - len({(event.kind, event.slot, event.revision) for event in events})
        counted["doubled"] += sum(event.revision > 0 for event in events)
        counted["changed"] += list(lines) != list(range(len(lines)))
        checked = experiment.verify()
        counted["damaged"] += not checked.whole or checked.difference is not None
        counted["rounds"] += checked.rounds
    return counted


def crash(url, kills, seed):
    """The whole count; says what it is of."""
    rng, counted = random.Random(seed), Counter()
    start = time.monotonic()
    for number, first in enumerate(range(0, kills, KILLS_EACH)):
        name = f"crash-{number}"
        counted += check(url, name, play(url, name, min(KILLS_EACH, kills - first), rng))
    print(
        f"{url.partition(':')[0]}: {kills:,} writers killed in {time.monotonic() - start:.0f} s; acknowledged "
        f"{counted['decisions']:,} decisions and {counted['outcomes']:,} outcomes, {counted['rounds']:,} rounds closed; "
        f"outcomes lost {counted['lost']}, decisions changed {counted['changed']}, doubled {counted['doubled']}, "
        f"experiments damaged {counted['damaged']}, errors {counted['errors']}",
        flush=True,
    )
    return all(counted[wrong] == 0 for wrong in ("lost", "changed", "doubled", "damaged", "errors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sqlite", type=int, default=500, metavar="KILLS")
    parser.add_argument("--postgresql", type=int, default=100, metavar="KILLS")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    good = True
    if options.sqlite:
        with tempfile.TemporaryDirectory() as folder:
            good &= crash(f"sqlite:///{Path(folder) / 'crash.db'}", options.sqlite, options.seed)
    if options.postgresql:
        server = postgres.Server()
        try:
            good &= crash(server.url(), options.postgresql, options.seed)
        finally:
            server.remove()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
