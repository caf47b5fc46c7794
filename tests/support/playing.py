"""Long experiments, written to a storage in bulk; and a reverse proxy for the service."""

import http.client
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np

from aftereffect import Experiment
from aftereffect.inference import Effect
from aftereffect.live import ExperimentState, TotalInput, chain_start
from aftereffect.live._rules import decide
from aftereffect.live._snapshots import take_snapshot
from aftereffect.live._telling import tell_many

#: The shares of a reward that arrive in the slot of its pull and after it: a mean lag of 7.5.
LATE = (0.0,) * 4 + (1 / 8,) * 8
#: The number of slots in one commit.
_PIECE = 50_000


def played(storage, name, arms, slots, *, late=0, shares=(1.0,), policy="ars-ucb", **settings):
    """Make an experiment with that many slots by the library's own rules, but with fewer commits.

    Later arms have larger rewards, which arrive in these `shares`. The totals of the last `late`
    slots are outstanding."""
    experiment = Experiment.create(
        name, arms=arms, policy=policy, reward_range=(0, 100), seed=1, storage=storage, **settings
    )
    record, worth, rng = (
        storage.find(name),
        {arm: 10 + 40 * at / len(arms) for at, arm in enumerate(arms)},
        random.Random(1),
    )
    state, totals = (
        ExperimentState(experiment.settings, chain_start(record)),
        [0.0] * (slots + len(shares)),
    )
    while state.next_slot < slots:
        with storage.writing(record.id) as log:
            for number in range(state.next_slot, min(slots, state.next_slot + _PIECE)):
                decision = decide(log, state, record, None, None)
                if number < slots - late:
                    reward = worth[decision.arm] + rng.random()
                    for lag, share in enumerate(shares):
                        totals[number + lag] += share * reward
                    rows = [TotalInput(number, totals[number])]
                    tell_many(log, state, record, rows, None, revise=False, confirm=False)
            log.save(take_snapshot(state))
    return experiment


@contextmanager
def under(prefix, address):
    """A reverse proxy that serves an address under a path prefix; gives its own address."""
    host = urlsplit(address).netloc

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            upstream = http.client.HTTPConnection(host)
            upstream.request("GET", self.path.removeprefix(prefix))
            answer = upstream.getresponse()
            body = answer.read()
            upstream.close()
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Security-Policy"):
                if answer.headers[name]:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix}/"
        server.shutdown()
        thread.join()


def find_harm(trial, names, level):
    """In place of an analysis, which takes long: the last arm shows harm after three totals."""
    low = 10.0 if np.isfinite(trial.totals).sum() >= 3 else -10.0
    effect = Effect(names[-1], names[0], 30.0, low, None, 3.0, None, None)
    return SimpleNamespace(effects=(effect,), blocks=len(trial.starts), mean=1.0)
