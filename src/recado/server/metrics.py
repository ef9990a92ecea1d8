"""What the service counts, and its exposition in the text format of Prometheus.

The hot paths add to plain attributes (``metrics.published += n``): one thread owns them, so no lock is taken, nothing
is looked up by name. ``GET /metrics`` turns them into families when it is asked; figures that are states rather than
counts (queues, sessions, positions) are asked from the engine at that moment. What the process uses of the machine is
read then, too (``process_*``). Every service has its own registry, so
several can live in one process.

``by`` holds the rare counts that have labels: ``metrics.by["refused"]["denied"] += 1``.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from recado.version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """Durations in seconds, counted by bucket."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += times
        self.sum += seconds * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as the exposition wants them."""
        result, total = [], 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            result.append((bound, float(total)))
        return result


# attribute -> what it counts
COUNTS = {
    "published": "events stored and acknowledged",
    "published_bytes": "bytes of the events stored, as JSON",
    "held_back": "events that waited until names or values not met before were compared",
    "slowed": "events that waited because their publishers had used up their share of matching time",
    "commits": "commits of the event log",
    "dispatched": "events matched and given to the mailboxes",
    "verified": "filters that the kernels left to the plain evaluator, by event",
    "matched": "notifications generated",
    "canary_agreements": "pairs of an event and a subscription on which the index and the plain evaluator agreed",
    "canary_disagreements": "such pairs on which they differed",
    "index_rebuilds": "indexes built anew after such a difference",
    "notified": "notifications given to connections, repeats included",
    "acknowledged": "notifications acknowledged",
    "subscribed": "subscriptions accepted",
    "cancelled": "subscriptions cancelled by their owners",
    "expired": "subscriptions that expired",
    "frames_in": "WebSocket frames received",
    "frames_out": "WebSocket frames sent",
    "bytes_in": "bytes received in WebSocket frames",
    "bytes_out": "bytes sent in WebSocket frames",
    "slow_consumers": "connections closed because they took too little too slowly",
    "failed_logins": "requests and sessions with a wrong token",
    "webhooks_delivered": "notifications that a webhook took",
    "webhooks_failed": "attempts at a webhook that failed",
    "webhooks_dead": "notifications given up after the last attempt",
}
# key of ``by`` -> (label, what it counts)
LABELLED = {
    "refused": ("reason", "publications refused"),
    "dropped": ("reason", "notifications dropped from mailboxes"),
    "connections_refused": ("reason", "connections closed before they were authenticated"),
    "datagrams_refused": ("reason", "datagrams to the port of RUDP that were dropped, without an answer"),
    "sessions_closed": ("reason", "sessions that the service ended"),
}
# attribute -> what it measures
DURATIONS = {
    "publish_seconds": "from the arrival of an event to its acknowledgement",
    "commit_seconds": "one commit of the event log, with its fsync",
    "match_seconds": "matching of one group of events",
    "verify_seconds": "verification of one event, in another thread, of filters that take long",
    "turn_seconds": "one turn of matching and delivery on the event loop",
    "delivery_seconds": "from an event's acceptance to the acknowledgement of a notification",
    "webhook_seconds": "one attempt at a webhook",
}
# member of the service's status -> (name, what it is at this moment); 0 and 1 stand for no and yes
STATES = {
    "ready": ("ready", "whether publications and subscriptions are accepted"),
    "loaded": ("loaded", "whether what was stored is loaded"),
    "kernels": ("kernels_compiled", "whether matching uses the compiled index"),
    "first": ("first_position", "position of the oldest event that is kept"),
    "end": ("end_position", "position that the next event gets"),
    "dispatched": ("dispatched_position", "position up to which events have been matched and given to mailboxes"),
    "subscriptions": ("subscriptions", "active subscriptions"),
    "users": ("users", "users of whom something is known"),
    "sessions": ("sessions", "connected devices and webhooks"),
    "waiting": ("waiting_notifications", "notifications in mailboxes that nobody has acknowledged"),
    "waiting_bytes": ("waiting_bytes", "bytes of the events of those notifications"),
    "in_flight": ("in_flight_notifications", "notifications given to consumers that have not acknowledged them"),
    "over_budget": ("users_over_budget", "users whose filters have used up their share of matching time"),
    "connections": ("connections", "open connections of all kinds"),
    "damage": ("damaged", "things in the files that could not be used, as the status lists them"),
}
# member of the status that only grows -> what it counts
GROWING = {
    "faults": "unexpected errors inside the service",
    "redelivered": "notifications given to a device or webhook that had been given them before",
}


class Metrics:
    """The counts of one service."""

    def __init__(self) -> None:
        self.published = self.published_bytes = self.commits = self.dispatched = 0
        self.verified = self.slowed = self.held_back = self.matched = self.notified = self.acknowledged = 0
        self.canary_agreements = self.canary_disagreements = self.index_rebuilds = 0
        self.subscribed = self.cancelled = self.expired = 0
        self.frames_in = self.frames_out = self.bytes_in = self.bytes_out = 0
        self.slow_consumers = self.failed_logins = 0
        self.webhooks_delivered = self.webhooks_failed = self.webhooks_dead = 0
        self.publish_seconds, self.commit_seconds, self.match_seconds = Histogram(), Histogram(), Histogram()
        self.verify_seconds, self.turn_seconds = Histogram(), Histogram()
        self.delivery_seconds, self.webhook_seconds = Histogram(), Histogram()
        self.by: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.requests: Counter[tuple[str, str, str]] = Counter()  # method, route, status

    def collect(self) -> Iterator[Metric]:
        """The families of everything that is counted here."""
        for name, text in COUNTS.items():
            yield CounterMetricFamily(f"recado_{name}", text, value=getattr(self, name))
        for name, (label, text) in LABELLED.items():
            family = CounterMetricFamily(f"recado_{name}", text, labels=[label])
            for value, count in sorted(self.by[name].items()):
                family.add_metric([value], count)
            yield family
        yield self._requests()
        for name, text in DURATIONS.items():
            held: Histogram = getattr(self, name)
            yield HistogramMetricFamily(f"recado_{name}", text, buckets=held.buckets(), sum_value=held.sum)

    def _requests(self) -> Metric:
        family = CounterMetricFamily("recado_http_requests", "HTTP requests", labels=["method", "route", "status"])
        for labels, count in sorted(self.requests.items()):
            family.add_metric(list(labels), count)
        return family


class _States:
    """Gauges of the status, as it is when they are asked for, and of the kinds of trouble."""

    def __init__(
        self, states: Mapping[str, float], troubles: Mapping[str, str], lags: Mapping[str, tuple[int, float]]
    ) -> None:
        self._states, self._troubles, self._lags = states, troubles, lags

    def collect(self) -> Iterable[Metric]:
        for member, value in self._states.items():
            if member in GROWING:
                yield CounterMetricFamily(f"recado_{member}", GROWING[member], value=value)
            else:
                name, text = STATES[member]
                yield GaugeMetricFamily(f"recado_{name}", text, value=value)
        yield from self._lag()
        trouble = GaugeMetricFamily(
            "recado_trouble", "whether something needs attention; the status says what", labels=["kind"]
        )
        for kind, sentence in self._troubles.items():
            trouble.add_metric([kind], float(bool(sentence)))
        yield trouble
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("recado_build", "version of the service and of Python", value=build)

    def _lag(self) -> Iterable[Metric]:
        oldest = max((seconds for _, seconds in self._lags.values()), default=0.0)
        yield GaugeMetricFamily(
            "recado_lag_seconds", "for how long the oldest notification of all mailboxes has waited", value=oldest
        )
        age = GaugeMetricFamily(
            "recado_mailbox_lag_seconds", "the same, by who reads the mailbox: a connected device, nobody, a webhook",
            labels=["class"],
        )  # fmt: skip
        count = GaugeMetricFamily(
            "recado_mailbox_notifications", "notifications that wait, by who reads the mailbox", labels=["class"]
        )
        for name, (notifications, seconds) in self._lags.items():
            age.add_metric([name], seconds)
            count.add_metric([name], notifications)
        yield age
        yield count


def exposition(
    metrics: Metrics,
    states: Mapping[str, float],
    troubles: Mapping[str, str],
    lags: Mapping[str, tuple[int, float]] | None = None,
) -> bytes:
    """Everything in the text format.

    ``states`` are members of the status, ``troubles`` sentences by kind, ``lags`` how many notifications wait in the
    mailboxes of a class and for how many seconds the oldest.
    """
    registry = CollectorRegistry()
    registry.register(metrics)
    registry.register(_States(states, troubles, lags or {}))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
