"""Numbers for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

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

    def written(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)
