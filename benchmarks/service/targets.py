"""What the service has to reach, next to what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from benchmarks.records import Target
from benchmarks.service.records import AnyRecord, Attack, Away, Filtered, Handover, Publishing, Restart

ACKS, MANY, SLOWEST_MS, GAP_MS = 10_000, 16, 20.0, 500.0
ABOUT_SECONDS = 2.0
ATTACKED_MS = 250.0
R = TypeVar("R", Publishing, Filtered, Away, Handover, Restart, Attack)


def targets(records: Sequence[AnyRecord]) -> list[Target]:
    """All targets; one whose part did not run says so."""
    parts = (_publishing, _filtered, _lost, _handover, _restart, _attack)
    return [target for part in parts for target in part(records)]


def _publishing(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = [r for r in _ours(records, Publishing) if r.publishers == MANY]
    rate = found[0].rate if found else None
    slowest = found[0].p99_ms if found else None
    name, required = f"durable acknowledgements/s, {MANY} publishers", f"at least {ACKS:,}"
    yield Target(name, required, "" if rate is None else f"{rate:,.0f}", None if rate is None else rate >= ACKS)
    name, required = f"p99 of their latency, {MANY} publishers", f"under {SLOWEST_MS:g} ms"
    shown = "" if slowest is None else f"{slowest:.1f} ms"
    yield Target(name, required, shown, None if slowest is None else slowest < SLOWEST_MS)


def _filtered(records: Sequence[AnyRecord]) -> Iterator[Target]:
    ours = _ours(records, Filtered)
    peers = [r for r in records if isinstance(r, Filtered) and r.system != "recado" and r.useful]
    if not ours or not peers:
        yield Target("useful notifications/s against each peer", "more than 1 x", "", None)
    for peer in peers if ours else ():
        ratio = ours[0].rate / peer.rate
        name = f"useful notifications/s against {peer.system}, {peer.setting}"
        yield Target(name, "more than 1 x", f"{ratio:.2f} x", ratio > 1)


def _lost(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _ours(records, Filtered):
        yield _none("filtered delivery: lost", found.lost)
    for gone in _ours(records, Away):
        yield _none(f"{gone.notifications:,} while away: lost", gone.lost)
    for move in _ours(records, Handover):
        yield _none(f"{move.moves:,} hand-overs, {move.transport}: lost", move.lost)
    for attacked in _ours(records, Attack):
        yield _none(f"{attacked.filters:,} costly filters, {attacked.kind}: lost of another client", attacked.lost)
    for again in _ours(records, Restart):
        yield _none(f"killed with {again.notifications:,} notifications: lost", again.lost)


def _none(name: str, lost: int) -> Target:
    return Target(name, "0", f"{lost:,}", lost == 0)


def _handover(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _ours(records, Handover):
        name = f"hand-over, {found.transport}: p95 of the time without delivery"
        yield Target(name, f"under {GAP_MS:g} ms", f"{found.gap_p95_ms:.0f} ms", found.gap_p95_ms < GAP_MS)


def _restart(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _ours(records, Restart):
        name = f"accepting again with {found.notifications:,} notifications and subscriptions"
        seconds = found.accepting_seconds
        yield Target(name, f"about {ABOUT_SECONDS:g} s", f"{seconds:.1f} s", seconds < 1.5 * ABOUT_SECONDS)


def _attack(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _ours(records, Attack):
        if not found.filters:
            continue
        figures = {
            "p99 of another client's publications": found.publish_p99_ms,
            "/healthz, at worst": found.health_max_ms,
        }
        for what, took in figures.items():
            name = f"{found.filters:,} costly filters, {found.kind}: {what}"
            yield Target(name, f"under {ATTACKED_MS:g} ms", f"{took:,.0f} ms", took < ATTACKED_MS)


def _ours(records: Sequence[AnyRecord], kind: type[R]) -> list[R]:
    """Recado's own records that have figures."""
    found = [record for record in records if isinstance(record, kind)]
    return [r for r in found if getattr(r, "system", "recado") == "recado" and _has_figures(r)]


def _has_figures(record: Publishing | Filtered | Away | Handover | Restart | Attack) -> bool:
    match record:
        case Publishing():
            return record.acks > 0
        case Filtered():
            return record.useful > 0
        case Restart():
            return record.accepting_seconds > 0
        case _:
            return record.published > 0
