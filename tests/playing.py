"""Experiments that were played into a storage, in bulk; and a reverse proxy to look at them through."""

import http.client
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from aftereffect import Experiment
from aftereffect.live.ledger import Ledger
from aftereffect.live.reading import start_of
from aftereffect.live.rules import Telling, decide, tell
from aftereffect.live.snapshot import taken

#: What lands of a reward in the slot of its pull and those after it: a mean lag of 7.5.
LATE = (0.0,) * 4 + (1 / 8,) * 8
#: Slots that one commit keeps.
_PIECE = 50_000


def played(storage, name, arms, slots, *, late=0, shares=(1.0,), policy="ars-ucb", **settings):
    """An experiment in which so many slots were played by the library's own rules, with fewer commits than it makes.

    Arms bring the more the later they stand in the list, and these shares of it in the slot and those after it; of the last
    so many slots the totals are not told.
    """
    experiment = Experiment.create(name, arms=arms, policy=policy, reward_range=(0, 100), seed=1, storage=storage, **settings)
    record, worth, rng = storage.find(name), {arm: 10 + 40 * at / len(arms) for at, arm in enumerate(arms)}, random.Random(1)
    ledger, totals = Ledger(experiment.settings, start_of(record)), [0.0] * (slots + len(shares))
    while ledger.next_slot < slots:
        with storage.writing(record.id) as log:
            for number in range(ledger.next_slot, min(slots, ledger.next_slot + _PIECE)):
                slot = decide(log, ledger, None, None)
                if number < slots - late:
                    brought = worth[slot.arm] + rng.random()
                    for lag, share in enumerate(shares):
                        totals[number + lag] += share * brought
                    tell(log, ledger, record, Telling(number, totals[number]), revise=False, confirm=False)
            log.save(taken(ledger))
    return experiment


@contextmanager
def under(prefix, address):
    """A reverse proxy that shows a service under a path, which it takes off; gives its own address."""
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
