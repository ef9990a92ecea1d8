"""What the benchmark of the service finds out: records, tables, targets.

``system`` is recado, nats or mosquitto; ``setting`` says how it was told to keep things; ``note`` says why a row has no
figures, or what is odd about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from benchmarks.harness import Grid, Record, Target, at_least, of_kind, table, under

# --- records ----------------------------------------------------------------------------------------------------------


class Disk(Record, frozen=True, tag="disk"):
    """How long the folder of the run takes for one write of 4 KiB with fsync: what every durable figure rests on.

    ``load`` is the machine's load average when the run began: above a small part of the cores, figures are too low.
    """

    fsync_p50_ms: float
    fsync_p99_ms: float
    load: float = 0.0

    @property
    def sentence(self) -> str:
        return (
            f"One write of 4 KiB with fsync takes {self.fsync_p50_ms:.2f} ms here (p99 {self.fsync_p99_ms:.2f} ms). "
            f"The load average was {self.load:.1f} when the run began; other work on the machine makes all figures "
            "worse."
        )


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


R = TypeVar("R", Publishing, Filtered, Away, Handover, Restart, Attack)


def is_measured(record: Record) -> bool:
    """Does the record have figures? One without them has a note."""
    match record:
        case Publishing():
            return record.acks > 0
        case Filtered():
            return record.useful > 0
        case Restart():
            return record.accepting_seconds > 0
        case Away() | Handover() | Attack():
            return record.published > 0
    return False


def ours(records: Sequence[Record], kind: type[R]) -> list[R]:
    """Recado's own records that have figures."""
    return [r for r in of_kind(records, kind) if getattr(r, "system", "recado") == "recado" and is_measured(r)]


# --- tables -----------------------------------------------------------------------------------------------------------


def _rows(
    title: str, kind: type[R], columns: Mapping[str, Callable[[R], object]], keys: int, words: int
) -> Callable[[Sequence[Record]], Grid]:
    return table(title, kind, columns, keys=keys, words=words, measured=is_measured)


def _times(mine: float | None, theirs: float) -> str:
    return f"{mine / theirs:.2f}" if mine and theirs else ""


def _publishing(records: Sequence[Record]) -> Grid:
    rates = {r.publishers: r.rate for r in ours(records, Publishing)}
    columns: Mapping[str, Callable[[Publishing], object]] = {
        "system": lambda r: r.system,
        "setting": lambda r: r.setting,
        "publishers": lambda r: r.publishers,
        "in flight, each": lambda r: r.in_flight,
        "acks/s": lambda r: r.rate,
        "p50 ms": lambda r: r.p50_ms,
        "p99 ms": lambda r: r.p99_ms,
        "x": lambda r: _times(rates.get(r.publishers), r.rate),
    }
    return _rows("Durable publications of 200 bytes", Publishing, columns, 4, 2)(records)


def _filtered(records: Sequence[Record]) -> Grid:
    found, mine = of_kind(records, Filtered), [r.rate for r in ours(records, Filtered)]
    title = "Content-filtered delivery"
    if found:
        title += f": {found[0].interests:,} interests on {found[0].connections} connections, each in 1 of 1,000 events"
    columns: Mapping[str, Callable[[Filtered], object]] = {
        "system": lambda r: r.system,
        "setting": lambda r: r.setting,
        "useful notifications/s": lambda r: r.rate,
        "events/s": lambda r: r.events / r.seconds,
        "lost": lambda r: r.lost,
        "MB received": lambda r: r.bytes / 1e6,
        "bytes/useful": lambda r: r.bytes / r.useful,
        "x": lambda r: _times(mine[0] if mine else None, r.rate),
    }
    return _rows(title, Filtered, columns, 2, 2)(records)


def _away(records: Sequence[Record]) -> Grid:
    rates = {r.notifications: r.drain_rate for r in ours(records, Away)}
    columns: Mapping[str, Callable[[Away], object]] = {
        "system": lambda r: r.system,
        "setting": lambda r: r.setting,
        "events": lambda r: r.notifications,
        "acknowledged": lambda r: r.published,
        "lost": lambda r: r.lost,
        "duplicated": lambda r: r.duplicated,
        "out of order": lambda r: r.out_of_order,
        "drained/s": lambda r: r.drain_rate,
        "x": lambda r: _times(rates.get(r.notifications), r.drain_rate),
        "": lambda r: r.note,
    }
    return _rows("A subscriber who is away and comes back", Away, columns, 3, 2)(records)


_HANDOVER: Mapping[str, Callable[[Handover], object]] = {
    "transport": lambda r: r.transport,
    "moves": lambda r: r.moves,
    "events/s": lambda r: r.events_per_second,
    "published": lambda r: r.published,
    "lost": lambda r: r.lost,
    "duplicated": lambda r: r.duplicated,
    "out of order": lambda r: r.out_of_order,
    "gap p50 ms": lambda r: r.gap_p50_ms,
    "gap p95 ms": lambda r: r.gap_p95_ms,
    "longest ms": lambda r: r.gap_max_ms,
}
_RESTART: Mapping[str, Callable[[Restart], object]] = {
    "notifications": lambda r: r.notifications,
    "subscriptions": lambda r: r.subscriptions,
    "accepting again, s": lambda r: f"{r.accepting_seconds:.2f}",
    "delivering again, s": lambda r: f"{r.delivering_seconds:.2f}",
    "lost": lambda r: r.lost,
}
_ATTACK: Mapping[str, Callable[[Attack], object]] = {
    "attack": lambda r: r.kind,
    "filters": lambda r: r.filters,
    "large events": lambda r: r.published,
    "publication p50 ms": lambda r: r.publish_p50_ms,
    "p99 ms": lambda r: r.publish_p99_ms,
    "delivery p99 ms": lambda r: r.delivery_p99_ms,
    "/healthz p50 ms": lambda r: r.health_p50_ms,
    "worst ms": lambda r: r.health_max_ms,
    "lost": lambda r: r.lost,
    "not matched, told": lambda r: r.told,
}
TABLES = (
    _publishing,
    _filtered,
    _away,
    _rows("A subscriber whose address changes from 127.0.0.2 to 127.0.0.3 and back", Handover, _HANDOVER, 3, 1),
    _rows("Recado killed and started again", Restart, _RESTART, 2, 0),
    _rows("One user's costly filters and large events, seen by another client", Attack, _ATTACK, 3, 1),
)

# --- targets ----------------------------------------------------------------------------------------------------------

ACKS, MANY, SLOWEST_MS, GAP_MS = 10_000, 16, 20.0, 500.0
ABOUT_SECONDS = 2.0
ATTACKED_MS = 250.0


def _publishing_targets(records: Sequence[Record]) -> Iterator[Target]:
    found = [r for r in ours(records, Publishing) if r.publishers == MANY]
    rate, slowest = (found[0].rate, found[0].p99_ms) if found else (None, None)
    yield at_least(f"durable acknowledgements/s, {MANY} publishers", rate, ACKS, "")
    yield under(f"p99 of their latency, {MANY} publishers", slowest, SLOWEST_MS, "ms")


def _filtered_targets(records: Sequence[Record]) -> Iterator[Target]:
    mine = ours(records, Filtered)
    peers = [r for r in of_kind(records, Filtered) if r.system != "recado" and r.useful]
    if not mine or not peers:
        yield Target("useful notifications/s against each peer", "more than 1 x", "", None)
    for peer in peers if mine else ():
        ratio = mine[0].rate / peer.rate
        name = f"useful notifications/s against {peer.system}, {peer.setting}"
        yield Target(name, "more than 1 x", f"{ratio:.2f} x", ratio > 1)


def _lost_targets(records: Sequence[Record]) -> Iterator[Target]:
    lost = [("filtered delivery: lost", r.lost) for r in ours(records, Filtered)]
    lost += [(f"{r.notifications:,} while away: lost", r.lost) for r in ours(records, Away)]
    lost += [(f"{r.moves:,} hand-overs, {r.transport}: lost", r.lost) for r in ours(records, Handover)]
    lost += [(f"{r.filters:,} costly filters, {r.kind}: lost of another client", r.lost) for r in ours(records, Attack)]
    lost += [(f"killed with {r.notifications:,} notifications: lost", r.lost) for r in ours(records, Restart)]
    for name, count in lost:
        yield Target(name, "0", f"{count:,}", count == 0)


def _time_targets(records: Sequence[Record]) -> Iterator[Target]:
    for move in ours(records, Handover):
        yield under(f"hand-over, {move.transport}: p95 of the time without delivery", move.gap_p95_ms, GAP_MS, "ms")
    for again in ours(records, Restart):
        name = f"accepting again with {again.notifications:,} notifications and subscriptions"
        seconds = again.accepting_seconds
        yield Target(name, f"about {ABOUT_SECONDS:g} s", f"{seconds:.1f} s", seconds < 1.5 * ABOUT_SECONDS)
    for attack in ours(records, Attack):
        if attack.filters:
            name = f"{attack.filters:,} costly filters, {attack.kind}"
            yield under(f"{name}: p99 of another client's publications", attack.publish_p99_ms, ATTACKED_MS, "ms")
            yield under(f"{name}: /healthz, at worst", attack.health_max_ms, ATTACKED_MS, "ms")


TARGETS = (_publishing_targets, _filtered_targets, _lost_targets, _time_targets)
