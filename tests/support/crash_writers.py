"""Kill writers at random moments and count what was lost, changed or doubled: ``make crash-test``.

Several processes ask and tell on one experiment at once, replace totals that they told, and add, pause and resume arms where the policy
bears it. Some experiments have several units, whose totals are told one by one or together. Each reports through a pipe what the storage acknowledged. One after another is killed at a random moment and replaced. In the end
everything that was reported must be stored."""

import argparse
import json
import math
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aftereffect as ae
import postgres
from aftereffect.live import _results
from playing import find_harm

ARMS = ["A", "B", "C"]
#: For one experiment after the other: a policy that learns from rounds, one that looks at every slot,
#: and both with floors and guardrails, which stop arms.
SETTINGS = [
    {"arms": ARMS, "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 10)},
    {"arms": ARMS, "slot": "1h", "start": "2026-03-02", "history": [5.0, 0.0, 9.0] * 200},
    {
        "arms": ARMS,
        "policy": "floors(ucb1, [0.3, 0.2, 0.2])",
        "reward_range": (0, 10),
        "guardrails": ["guardrail(complaints, stops=true)", "guardrail(refunds, harm=less)"],
    },
    {
        "arms": ARMS,
        "policy": "floors(fixed-switchback(block=2), [0.3, 0.2, 0.2])",
        "guardrails": ["guardrail(complaints, stops=true)"],
    },
    {"arms": ARMS, "units": ["north", "south", "west"], "policy": "fixed-unit-switchback(block=3)"},
]
#: Arms that may be added, and how often a writer changes one, as a part of what it does.
NEW_ARMS, CHANGES = ["D", "E"], 0.15
WRITERS = 3
#: The number of kills per experiment, so that checking does not take longer and longer.
KILLS_EACH = 50
MAX_LIFE = 0.12
#: On a busy machine writers need longer: each kill waits for so many answers, up to so many seconds.
MIN_ANSWERS, MAX_START = 8, 5.0


def total(slot):
    """The total of a slot, whichever writer tells it."""
    return float(slot * 7 % 10)


def later_total(slot):
    """What replaces it."""
    return total(slot) + 0.5


def count(experiment, slot):
    """The numbers of its guardrails in a slot."""
    return dict.fromkeys(experiment.settings.guarded, float(slot % 7))


def write(url, name, report, seed):
    """Ask and tell until killed, and report every answer."""
    _results.analyse = find_harm
    rng = random.Random(seed)
    experiment = ae.Experiment.open(name, storage=url)
    mine = list(experiment.status().awaited)  # of writers that were killed before they could tell
    told = []
    while True:
        if told and rng.random() < 0.1:
            number = told.pop(rng.randrange(len(told)))
            tell(experiment, number, later_total(number), rng, revise=True)
            report(f"r {number}")
        elif experiment.settings.policy.allows_new_arms and rng.random() < CHANGES:
            report(f"a {change_arm(experiment, rng)}")
        elif rng.random() < 0.5 or not mine:
            decision = experiment.ask()
            report(f"d {decision.slot} {name_arms(decision.arms or {None: decision.arm})}")
            mine.append(decision.slot)
        else:
            number = mine.pop(rng.randrange(len(mine)))
            try:
                tell(experiment, number, total(number), rng, guardrails=count(experiment, number))
            except ae.ConflictError as error:
                # Another writer had it too, and has replaced its total already.
                if error.recorded != {"total": later_total(number)}:
                    raise
                continue
            report(f"t {number}")
            told.append(number)


def tell(experiment, slot, number, rng, **options):
    """Tell the total of a slot; with several units of each of them, at once or one after another."""
    units = [unit.unit for unit in experiment.status().units]
    if not units:
        experiment.tell(slot, number, **options)
    elif rng.random() < 0.5:
        experiment.tell(slot, dict.fromkeys(units, number), revise=options.get("revise", False))
    else:
        for unit in rng.sample(units, len(units)):
            experiment.tell(slot, number, unit=unit, **options)


def name_arms(arms):
    """The arms of a decision in one word."""
    return "+".join(arms.values())


def change_arm(experiment, rng):
    """Add an arm, or pause or resume one but the first; return its name. Another writer may do the same."""
    known = [arm.arm for arm in experiment.status().arms]
    arm = rng.choice([*ARMS[1:], *NEW_ARMS])
    change = rng.choice(["pause", "resume"]) if arm in known else "add"
    try:
        experiment.change_arms(**{change: arm})
    except ae.ConflictError:  # another writer has added it and paused it since
        if change != "add":
            raise
    return arm


class Writer:
    """A process that writes, and what it has reported."""

    def __init__(self, url, name, seed):
        self.pipe, theirs = os.pipe()
        self.received = b""
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
        """Read the pipe, so that it never fills up."""
        while select.select([self.pipe], [], [], 0)[0]:
            received = os.read(self.pipe, 1 << 16)
            if not received:
                return
            self.received += received

    def kill(self):
        """Kill the process, and return the complete lines that it reported."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.listen()
        os.close(self.pipe)
        return self.received.decode().rpartition("\n")[0].splitlines()


def count_answers(writers):
    """Count what the running writers have reported."""
    return sum(writer.received.count(b"\n") for writer in writers)


def play(url, name, settings, kills, rng):
    """Kill that many writers of one experiment, and return what all of them reported."""
    ae.Experiment.create(name, **settings, storage=url).storage.close()
    writers = [Writer(url, name, rng.random()) for _ in range(WRITERS)]
    reported = []
    for _ in range(kills):
        begun, life = time.monotonic(), rng.random() * MAX_LIFE
        answers = count_answers(writers)
        while (passed := time.monotonic() - begun) < life or (
            passed < MAX_START and count_answers(writers) < answers + MIN_ANSWERS
        ):
            time.sleep(0.002)
            for writer in writers:
                writer.listen()
        victim = rng.randrange(WRITERS)
        reported += writers[victim].kill()
        writers[victim] = Writer(url, name, rng.random())
    for writer in writers:
        reported += writer.kill()
    return reported


def check(url, name, reported):
    """Count what was acknowledged and what is stored."""
    counted = Counter()
    with ae.open_storage(url) as storage:
        experiment = ae.Experiment.open(name, storage=storage)
        lines = {}  # by slot: one, or one for each unit
        for line in experiment.history():
            lines.setdefault(line.slot, []).append(line)
        with storage.reading(storage.find(name).id) as view:
            events = view.events(0, 10**9)
        replaced = {int(line[2:]) for line in reported if line.startswith("r ")}
        for line in reported:
            what, _, rest = line.partition(" ")
            if what == "e":
                print("a writer failed:", rest)
                counted["errors"] += 1
            elif what == "d":
                number, arm = rest.split()
                counted["decisions"] += 1
                known = {line.unit: line.arm for line in lines.get(int(number), ())}
                counted["changed"] += name_arms(known) != arm
            elif what == "t":
                counted["totals"] += 1
                slot = int(rest)
                known = lines.get(slot, ())
                # A writer may have been killed after it replaced a total, and before it said so.
                possible = {later_total(slot), *([] if slot in replaced else [total(slot)])}
                counted["lost"] += not {line.total for line in known} <= possible or not known
                told = [line.guardrails or {} for line in known]
                counted["lost"] += any(each != count(experiment, slot) for each in told)
            elif what == "a":
                counted["lost"] += rest not in {arm.arm for arm in experiment.status().arms}
        asked = [line for line in reported if line.startswith("d ")]
        counted["doubled"] += len(asked) - len({line.split()[1] for line in asked})
        counted["doubled"] += len(events) - len(
            {(event.kind, event.slot, event.revision) for event in events}
        )
        # Each writer tells a slot once, and replaces its total once at most.
        most = {"total": 1, "guardrails": 0}
        units = len(experiment.settings.units)
        counted["doubled"] += sum(
            event.revision > most.get(event.kind, math.inf) for event in events if not units
        )
        counted["doubled"] += sum(line.revisions > 1 for each in lines.values() for line in each)
        counted["replaced"] += len(replaced)
        counted["learned"] += sum(
            event.kind == "total" and event.until is not None for event in events
        )
        counted["stops"] += sum(event.kind == "stop" for event in events)
        # No arm is played in a round that began after its stop.
        stopped, rounds = {}, {}
        for event in events:
            if event.kind == "stop":
                stopped[event.arm] = event.slot
            elif event.kind == "decision":
                begun = rounds.setdefault(event.round, event.slot)
                counted["changed"] += stopped.get(event.arm, math.inf) <= begun
        # No arm is played while it is paused, also not in a round that was begun before.
        paused = set()
        for event in events:
            if event.kind == "arm":
                counted["arm changes"] += 1
                pauses = json.loads(event.guardrails)["change"] == "pause"
                (paused.add if pauses else paused.discard)(event.arm)
            elif event.kind == "decision":
                counted["changed"] += event.arm in paused
        counted["changed"] += list(lines) != list(range(len(lines)))
        checked = experiment.verify()
        counted["damaged"] += not checked.whole or checked.difference is not None
        counted["rounds"] += checked.rounds
    return counted


def crash(url, kills, seed):
    """Kill writers, print the counts, and return whether nothing went wrong."""
    rng, counted = random.Random(seed), Counter()
    start = time.monotonic()
    each = min(KILLS_EACH, kills // len(SETTINGS))
    for number, first in enumerate(range(0, kills, each)):
        name, settings = f"crash-{number}", SETTINGS[number % len(SETTINGS)]
        counted += check(url, name, play(url, name, settings, min(each, kills - first), rng))
    print(
        f"{url.partition(':')[0]}: {kills:,} writers killed in {time.monotonic() - start:.0f} s; acknowledged "
        f"{counted['decisions']:,} decisions and {counted['totals']:,} totals, {counted['rounds']:,} rounds closed, {counted['stops']:,} arms stopped, "
        f"{counted['arm changes']:,} arms added, paused or resumed, "
        f"{counted['replaced']:,} totals replaced, {counted['learned']:,} of them after they were learned; "
        f"totals lost {counted['lost']}, decisions changed {counted['changed']}, doubled {counted['doubled']}, "
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
