"""Services for tests: in a thread of this process, or in a process of their own."""

import contextlib
import http.client
import json
import logging
import re
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import aftereffect as ae
from aftereffect.service import address_of, server_for

EXPERIMENT = {
    "name": "banner",
    "arms": ["A", "B", "C"],
    "policy": "ars-ucb",
    "reward_range": [0, 200],
    "seed": 1,
}
BANNER = "/v1/experiments/banner"


@contextlib.contextmanager
def in_thread(storage, host="127.0.0.1", port=0, root_path="", plans=()):
    """Run a service until the block ends; yields its address."""
    server, listener = server_for(storage, host, port, root_path, plans=plans)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield address_of(listener).rstrip("/")
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


class Process:
    """``aftereffect serve`` as a user starts it."""

    def __init__(self, storage, *options, port=0):
        command = [
            sys.executable,
            "-m",
            "aftereffect",
            "serve",
            "--storage",
            storage,
            "--port",
            str(port),
            *options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines = []
        first = self.process.stderr.readline()
        found = re.search(r"http://[^\s\"]+", first)
        if found is None:
            raise RuntimeError(first + self.process.stderr.read())
        self.address = found[0].rstrip("/")
        self._reader = threading.Thread(
            target=lambda: self.lines.extend(self.process.stderr), daemon=True
        )
        self._reader.start()

    @property
    def port(self):
        return urlsplit(self.address).port

    def end(self, how="terminate"):
        """Stop it, and wait; its exit status."""
        getattr(self.process, how)()
        status = self.process.wait(30)
        self._reader.join(30)
        self.process.stderr.close()
        return status


def call(address, method, path, body=None, token=None, headers=None, raw=None):
    """Send one request; returns status, answer (parsed if it is JSON) and headers."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    sent = dict(headers or {})
    if body is not None:
        raw, sent = json.dumps(body).encode(), {"Content-Type": "application/json"} | sent
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, url.path + path, raw, sent)
        answer = connection.getresponse()
        text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return (
            answer.status,
            json.loads(text) if is_json and text else text.decode("utf-8", "replace"),
            answer.headers,
        )
    finally:
        connection.close()


def wait_until(condition, seconds=30.0):
    """Wait until a condition holds; an error if it does not within this time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.02)


class Lines(logging.Handler):
    """Log lines as they would be printed."""

    def __init__(self, formatter):
        super().__init__()
        self.setFormatter(formatter)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


def log_of(storage):
    """The events of the first experiment there."""
    with ae.open_storage(storage) as opened, opened.reading(1) as view:
        return view.events(0, 10**6)
