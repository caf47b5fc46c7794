"""Kill -9 between every two statements of ask and tell: each has happened wholly, or not at all.

Takes the URL of an empty storage. A process of its own, as it forks: one child per point, until a child comes to its end.
"""

import os
import signal
import sys

import sqlalchemy as sa

import aftereffect as ae
from aftereffect.live.storage import statements
from aftereffect.live.storage.statements import execute

SETTINGS = {"arms": ["A", "B"], "policy": "ars-ucb", "reward_range": (0, 10), "seed": 1}
#: What SQLAlchemy tells of; a connection is checked in after the commit.
MOMENTS = ("begin", "before_cursor_execute", "after_cursor_execute", "commit", "checkin")

OPERATIONS = {
    "ask": lambda live: live.ask(),
    "ask again": lambda live: live.ask(live.status().slots),
    "tell": lambda live: live.tell(live.status().awaited[0], 3),
    "tell, and a round closes": lambda live: live.tell_many((slot, 3) for slot in live.status().awaited),
    "missing": lambda live: live.missing(live.status().awaited[0]),
    "close": lambda live: live.close(),
}


def kill_at(engine, point):
    """Die at that moment; moments are counted from now on."""
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
    statements.execute = between


def child(url, name, operation, point):
    """Whether a child that does this is killed at that point."""
    process = os.fork()
    if process == 0:
        try:
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


def seen(url, name):
    """All events, and that they are whole."""
    with ae.open_storage(url) as storage:
        live = ae.Experiment.open(name, storage=storage)
        assert live.verify().whole, live.verify()
        with storage.reading(storage.find(name).id) as view:
            return [event[:-2] for event in view.events(0, 10**6)]


def prepared(url, name):
    """Two rounds of one slot are over, and of the next one, of four slots, three are decided and two told."""
    live = ae.Experiment.create(name, **SETTINGS, storage=url)
    for slot in range(2):
        live.ask()
        live.tell(slot, slot)
    for slot in range(2, 5):
        live.ask()
        if slot < 4:
            live.tell(slot, 1)
    if name.startswith(("tell", "missing")):
        live.ask()
    live.storage.close()


def main(url):
    for operation in OPERATIONS:
        whole = None
        names = (f"{operation.replace(', ', '-').replace(' ', '-')}-{point}" for point in range(10**3))
        outcomes, killed, point = [], True, 0
        reference = next(names)
        prepared(url, reference)
        before = seen(url, reference)
        assert not child(url, reference, operation, 0)
        whole = seen(url, reference)
        assert len(whole) > len(before)
        while killed:
            point += 1
            name = next(names)
            prepared(url, name)
            killed = child(url, name, operation, point)
            after = seen(url, name)
            assert after in (before, whole), f"{operation} happened in part, killed at point {point}: {after[len(before) :]}"
            outcomes.append(after == whole)
            assert not child(url, name, "ask again" if operation != "close" else "close", 0), "it does not go on"
        assert outcomes == sorted(outcomes), "what was kept at one point must be kept at later ones"
        assert not outcomes[0]
        kept = outcomes.index(True) + 1
        print(f"{operation}: killed at {point - 1} points, kept from point {kept} on")
        assert kept <= point


if __name__ == "__main__":
    main(sys.argv[1])
