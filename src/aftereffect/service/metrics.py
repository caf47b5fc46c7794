"""Numbers for Prometheus."""

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from aftereffect.service.feeds import Feed

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """What a service counts about itself; each app has a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "aftereffect_requests_total",
            "Requests by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "aftereffect_request_seconds", "How long requests took.", ("method", "route"), registry=self._registry
        )
        self._recorded = Counter(
            "aftereffect_events_total", "Decisions and outcomes that were recorded.", ("kind",), registry=self._registry
        )

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def recorded(self, kind: str) -> None:
        """One decision or outcome."""
        self._recorded.labels(kind).inc()

    def written(self, feeds: Iterable[Feed], unreadable: int) -> bytes:
        """As Prometheus reads it, with how the totals of experiments come in and how many experiments cannot be read."""
        of_feeds, now = CollectorRegistry(), time.time()
        waiting = Gauge("aftereffect_slots_waiting", "Slots played and not told.", ("experiment",), registry=of_feeds)
        last = Gauge(
            "aftereffect_last_total_seconds", "Seconds since a total was last told.", ("experiment",), registry=of_feeds
        )
        Gauge("aftereffect_experiments_unreadable", "Experiments that cannot be read.", registry=of_feeds).set(unreadable)
        for feed in feeds:
            waiting.labels(feed.experiment).set(feed.untold)
            seconds = feed.seconds(now)
            if seconds is not None:
                last.labels(feed.experiment).set(seconds)
        return generate_latest(self._registry) + generate_latest(of_feeds)
