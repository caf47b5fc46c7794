"""What operators watch: the log of the service, and metrics for Prometheus."""

import json
import logging
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from aftereffect.live import Experiment

CONTENT_TYPE = CONTENT_TYPE_LATEST


class JsonFormatter(logging.Formatter):
    """Formats every log record as one line of JSON, without tokens, queries or bodies."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of ASCII: control characters and line breaks are escaped."""
        moment = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z"
        )
        line = {
            "time": moment,
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
        }
        line |= getattr(record, "note", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr() -> None:
    """Log the whole process as JSON to standard error: service, server and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for name in ("aftereffect.service", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)


class Feed(NamedTuple):
    """Whether the totals of an experiment still arrive: outstanding slots, time of the last."""

    experiment: str
    outstanding: int
    last_total_at: str | None

    def seconds_since_total(self, now: float) -> float | None:
        """Seconds since the last total arrived; None if none has."""
        if self.last_total_at is None:
            return None
        return max(0.0, now - datetime.fromisoformat(self.last_total_at).timestamp())


def read_feed(experiment: Experiment) -> Feed | None:
    """The feed of an experiment; None if it has ended."""
    status = experiment.status()
    if status.ended:
        return None
    return Feed(status.name, status.outstanding, status.last_total_at)


class Metrics:
    """What a service counts about itself; each app has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "aftereffect_requests_total",
            "Requests by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "aftereffect_request_seconds",
            "Duration of requests.",
            ("method", "route"),
            registry=self._registry,
        )
        self._events = Counter(
            "aftereffect_events_total",
            "Decisions and totals that were recorded.",
            ("kind",),
            registry=self._registry,
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def count_event(self, kind: str) -> None:
        """Count one recorded decision or total."""
        self._events.labels(kind).inc()

    def render(self, feeds: Iterable[Feed], unreadable: int) -> bytes:
        """All metrics in Prometheus' text format.

        Parameters
        ----------
        feeds
            The experiments whose totals are watched.
        unreadable
            How many experiments cannot be read.
        """
        registry, now = CollectorRegistry(), time.time()
        outstanding = Gauge(
            "aftereffect_slots_outstanding",
            "Decided slots whose total has not arrived.",
            ("experiment",),
            registry=registry,
        )
        last = Gauge(
            "aftereffect_last_total_seconds",
            "Seconds since the last total arrived.",
            ("experiment",),
            registry=registry,
        )
        Gauge(
            "aftereffect_experiments_unreadable",
            "Experiments that cannot be read.",
            registry=registry,
        ).set(unreadable)
        for feed in feeds:
            outstanding.labels(feed.experiment).set(feed.outstanding)
            seconds = feed.seconds_since_total(now)
            if seconds is not None:
                last.labels(feed.experiment).set(seconds)
        return generate_latest(self._registry) + generate_latest(registry)
