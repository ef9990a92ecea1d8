"""What the benchmark of the service finds out, as records: a line of NDJSON each, and the source of every table.

``system`` is recado, nats or mosquitto; ``setting`` says how it was told to keep things; ``note`` says why a row has no
figures, or what is odd about them.
"""

from __future__ import annotations

from benchmarks.records import Machine, Record, Target


class Disk(Record, frozen=True, tag="disk"):
    """How long the folder of the run takes for one write of 4 KiB with fsync: what every durable figure rests on.

    ``load`` is the machine's load average when the run began: above a small part of the cores, figures are too low.
    """

    fsync_p50_ms: float
    fsync_p99_ms: float
    load: float = 0.0


class Publishing(Record, frozen=True, tag="publishing"):
    """Acknowledged publications: ``in_flight`` of each publisher at a time, latency from the call to the answer."""

    system: str
    setting: str
    publishers: int
    in_flight: int
    event_bytes: int
    acks: int = 0
    seconds: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        return self.acks / self.seconds if self.seconds else 0.0


class Filtered(Record, frozen=True, tag="filtered"):
    """Content-filtered delivery: ``useful`` notifications of ``expected`` that reached who was interested.

    ``bytes`` is what came in on the subscribers' connections.
    """

    system: str
    setting: str
    connections: int
    interests: int
    events: int
    expected: int
    useful: int = 0
    seconds: float = 0.0
    bytes: int = 0
    note: str = ""

    @property
    def rate(self) -> float:
        return self.useful / self.seconds if self.seconds else 0.0

    @property
    def lost(self) -> int:
        return self.expected - self.useful


class Away(Record, frozen=True, tag="away"):
    """Notifications for a subscriber who is away and comes back: of ``published`` acknowledged ones, those received."""

    system: str
    setting: str
    notifications: int
    published: int = 0
    publish_seconds: float = 0.0
    received: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    drain_seconds: float = 0.0
    note: str = ""

    @property
    def lost(self) -> int:
        return self.published - self.received

    @property
    def drain_rate(self) -> float:
        return self.received / self.drain_seconds if self.drain_seconds else 0.0


class Handover(Record, frozen=True, tag="handover"):
    """A subscriber that changes its address while events come: how long nothing is delivered, and what is lost."""

    transport: str
    moves: int
    events_per_second: float
    published: int = 0
    received: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    gap_p50_ms: float = 0.0
    gap_p95_ms: float = 0.0
    gap_max_ms: float = 0.0
    note: str = ""

    @property
    def lost(self) -> int:
        return self.published - self.received


class Restart(Record, frozen=True, tag="restart"):
    """The service killed with so much stored, and started again: seconds from its start to what works again."""

    notifications: int
    subscriptions: int
    accepting_seconds: float = 0.0
    delivering_seconds: float = 0.0
    lost: int = 0
    note: str = ""


class Attack(Record, frozen=True, tag="attack"):
    """One user's costly filters and large events, and what others see meanwhile: times in milliseconds.

    ``told`` is how often the attacker was told that an event was not matched with one of its subscriptions; ``lost``
    counts the others' events that did not arrive.
    """

    kind: str
    filters: int
    event_bytes: int
    published: int = 0
    seconds: float = 0.0
    publish_p50_ms: float = 0.0
    publish_p99_ms: float = 0.0
    publish_max_ms: float = 0.0
    health_p50_ms: float = 0.0
    health_p99_ms: float = 0.0
    health_max_ms: float = 0.0
    delivery_p99_ms: float = 0.0
    lost: int = 0
    told: int = 0
    note: str = ""


AnyRecord = Machine | Disk | Publishing | Filtered | Away | Handover | Restart | Attack | Target
"""All records of this benchmark."""
