"""Kill a process between any two statements of a request: it must be stored as a whole or not at all.

Takes the URL of an empty storage. It forks one child for each point at which it kills, until a
child finishes, so it runs in a process of its own."""

import itertools
import os
import signal
import sys

import sqlalchemy as sa

import aftereffect as ae
from aftereffect.live import CommandHook, Notifier, _results
from aftereffect.live.storage import _schema
from aftereffect.live.storage._schema import execute
from playing import find_harm

#: A policy that learns from rounds, and one that looks at every slot, with floors and a guardrail
#: that may stop an arm; by the names of experiments.
SETTINGS = {
    "rounds": {"arms": ["A", "B"], "policy": "ars-ucb", "reward_range": (0, 10), "seed": 1},
    "slots": {
        "arms": ["A", "B"],
        "policy": "floors(fixed-switchback(block=5), [0.2, 0])",
        "guardrails": ["guardrail(complaints, stops=true)"],
        "seed": 1,
    },
}
#: Events of SQLAlchemy; a connection is checked in after the commit.
MOMENTS = ("begin", "before_cursor_execute", "after_cursor_execute", "commit", "checkin")


def count(live):
    """Numbers of the guardrails, if there are some."""
    return dict.fromkeys(live.settings.guarded, 2)


OPERATIONS = {
    "ask": lambda live: live.ask(),
    "ask again": lambda live: live.ask(live.status().slots),
    "tell": lambda live: live.tell(live.status().awaited[0], 3, guardrails=count(live)),
    "tell, and a round closes": lambda live: live.tell_many(
        (slot, 3, None, None, count(live)) for slot in live.status().awaited
    ),
    "mark missing": lambda live: live.mark_missing(
        live.status().awaited[0], guardrails=count(live)
    ),
    "replace a learned total": lambda live: live.tell(0, 7, revise=True),
    "record a batch once": lambda live: live.tell_many({0: 8, 4: 2}, revise=True, key="monday"),
    "notify": lambda live: list(Notifier(live, CommandHook("true")).deliver_new()),
    "end": lambda live: live.end(),
}


def kill_at(engine, point):
    """Kill this process at that point, counted from now on."""
    left = [point]

    def passed(*_, **__):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def between(*given):
        passed()
        execute(*given)
        passed()

    for moment in MOMENTS:
        sa.event.listen(engine, moment, passed)
    _schema.execute = between


def is_killed(url, name, operation, point):
    """Whether a child that does the operation is killed at that point, or finishes before."""
    process = os.fork()
    if process == 0:
        try:
            _results.analyse = find_harm
            live = ae.Experiment.open(name, storage=url)
            live.status()
            kill_at(live.storage.engine, point)
            OPERATIONS[operation](live)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, f"{operation} failed, to be killed at point {point}"
    return False


def read_events(url, name):
    """All events, after verifying them."""
    with ae.open_storage(url) as storage:
        live = ae.Experiment.open(name, storage=storage)
        assert live.verify().whole, live.verify()
        with storage.reading(storage.find(name).id) as view:
            return [event._replace(at="", hash=b"") for event in view.events(0, 10**6)]


def prepare(url, name):
    """Five slots are decided, four of them have totals; another one is decided if totals follow."""
    live = ae.Experiment.create(name, **SETTINGS[name.partition("-")[0]], storage=url)
    for slot in range(2):
        live.ask()
        live.tell(slot, slot, guardrails=count(live))
    for slot in range(2, 5):
        live.ask()
        if slot < 4:
            live.tell(slot, 1, guardrails=count(live))
    if "-tell" in name or "-mark" in name:
        live.ask()
    live.storage.close()


def main(url):
    for kind, operation in itertools.product(SETTINGS, OPERATIONS):
        names = (
            f"{kind}-{operation.replace(', ', '-').replace(' ', '-')}-{number}"
            for number in range(10**3)
        )
        reference = next(names)
        prepare(url, reference)
        before = read_events(url, reference)
        assert not is_killed(url, reference, operation, 0)
        whole = read_events(url, reference)
        assert len(whole) > len(before)
        stored, killed, name = [], True, None
        while killed:
            if name is None:
                name = next(names)
                prepare(url, name)
            killed = is_killed(url, name, operation, len(stored) + 1)
            after = read_events(url, name)
            assert after in (before, whole), (
                f"killed at point {len(stored) + 1}, {operation} was stored in part: "
                f"{after[len(before) :]}"
            )
            stored.append(after == whole)
            if stored[-1]:  # else the same experiment goes on, up to the next point
                again = "ask again" if operation != "end" else "end"
                assert not is_killed(url, name, again, 0), "it does not go on"
                name = None
        assert stored == sorted(stored), "what is stored at one point must be stored at later ones"
        assert not stored[0]
        first = stored.index(True) + 1
        print(f"{operation}: killed at {len(stored) - 1} points, stored from point {first} on")
        assert first <= len(stored)


if __name__ == "__main__":
    main(sys.argv[1])
