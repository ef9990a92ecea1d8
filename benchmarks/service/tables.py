"""The tables of a run, for the terminal and for a page of documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from benchmarks.records import Machine
from benchmarks.report import markdown_table
from benchmarks.service.records import AnyRecord, Attack, Away, Disk, Filtered, Handover, Publishing, Restart
from benchmarks.tables import Grid, machine_line, number, target_table

NOTE = """\
Every broker is a process of its own on loopback with an empty folder, the load is another process, and both share the
machine. The load uses each system's own Python client: Recado's over WebSocket, nats-py with JetStream, paho-mqtt
with quality 1. Publications are measured in three rounds of ten seconds (one of three with `--quick`), and the round
with the most acknowledgements counts, for every broker: another user of the host disturbs some of them.

- nats, *default*: an acknowledged message is written, and synced every two minutes. *sync always*: synced before the
  acknowledgement, as Recado does it.
- mosquitto, *default*: persistence is on, and the database is written every half hour; at most 1,000 messages are kept
  for a client who is away. *safest*: the database is written after every change, and the queue has no bound; the
  acknowledgement still does not wait for that. It keeps events only for clients that are away, so there is one.

*x* is what Recado does against that row, in the same run. In the filtered part the clients of the other brokers get
every event and look up in a table whether they want it; Recado's get what they asked for. NATS and mosquitto deliver
there without acknowledgements, which is their fastest way; Recado's clients acknowledge. *MB received* is what the
kernel counted on the subscribers' connections."""

R = TypeVar("R", Publishing, Filtered, Away, Handover, Restart, Attack)


def tables(records: Sequence[AnyRecord]) -> list[Grid]:
    """All tables that have rows."""
    makers = (publishing, filtered, away, handover, restart, attack, target_table)
    return [grid for grid in (maker(records) for maker in makers) if grid.rows]


def publishing(records: Sequence[AnyRecord]) -> Grid:
    found = _all(records, Publishing)
    ours = {r.publishers: r.rate for r in found if r.system == "recado"}
    rows = [
        (
            r.system, r.setting, str(r.publishers), str(r.in_flight),
            *((number(r.rate), number(r.p50_ms), number(r.p99_ms), _times(ours.get(r.publishers), r.rate))
              if r.acks else (r.note, "", "", "")),
        )
        for r in found
    ]  # fmt: skip
    heads = ("system", "setting", "publishers", "in flight, each", "acks/s", "p50 ms", "p99 ms", "x")
    return Grid("Durable publications of 200 bytes", heads, rows, words=2)


def filtered(records: Sequence[AnyRecord]) -> Grid:
    found = _all(records, Filtered)
    ours = [r.rate for r in found if r.system == "recado"]
    rows = [
        (
            r.system, r.setting,
            *((number(r.rate), number(r.events / r.seconds), f"{r.lost:,}", number(r.bytes / 1e6),
               number(r.bytes / r.useful), _times(ours[0] if ours else None, r.rate))
              if r.useful else (r.note, "", "", "", "", "")),
        )
        for r in found
    ]  # fmt: skip
    heads = ("system", "setting", "useful notifications/s", "events/s", "lost", "MB received", "bytes/useful", "x")
    title = "Content-filtered delivery"
    if found:
        title += f": {found[0].interests:,} interests on {found[0].connections} connections, each in 1 of 1,000 events"
    return Grid(title, heads, rows, words=2)


def away(records: Sequence[AnyRecord]) -> Grid:
    found = _all(records, Away)
    ours = {r.notifications: r.drain_rate for r in found if r.system == "recado"}
    rows = [
        (
            r.system, r.setting, f"{r.notifications:,}",
            *((f"{r.published:,}", f"{r.lost:,}", f"{r.duplicated:,}", f"{r.out_of_order:,}", number(r.drain_rate),
               _times(ours.get(r.notifications), r.drain_rate), r.note)
              if r.published else (r.note, "", "", "", "", "", "")),
        )
        for r in found
    ]  # fmt: skip
    heads = (
        "system", "setting", "events", "acknowledged", "lost", "duplicated", "out of order", "drained/s", "x", "",
    )  # fmt: skip
    return Grid("A subscriber who is away and comes back", heads, rows, words=2)


def handover(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            r.transport, f"{r.moves:,}", number(r.events_per_second),
            *((f"{r.published:,}", f"{r.lost:,}", f"{r.duplicated:,}", f"{r.out_of_order:,}", number(r.gap_p50_ms),
               number(r.gap_p95_ms), number(r.gap_max_ms)) if r.published else (r.note, "", "", "", "", "", "")),
        )
        for r in _all(records, Handover)
    ]  # fmt: skip
    heads = (
        "transport", "moves", "events/s", "published", "lost", "duplicated", "out of order", "gap p50 ms", "gap p95 ms",
        "longest ms",
    )  # fmt: skip
    return Grid("A subscriber whose address changes from 127.0.0.2 to 127.0.0.3 and back", heads, rows)


def restart(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            f"{r.notifications:,}", f"{r.subscriptions:,}",
            *((f"{r.accepting_seconds:.2f}", f"{r.delivering_seconds:.2f}", f"{r.lost:,}")
              if r.accepting_seconds else (r.note, "", "")),
        )
        for r in _all(records, Restart)
    ]  # fmt: skip
    heads = ("notifications", "subscriptions", "accepting again, s", "delivering again, s", "lost")
    return Grid("Recado killed and started again", heads, rows, words=0)


def attack(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            r.kind, f"{r.filters:,}", f"{r.published:,}",
            *((number(r.publish_p50_ms), number(r.publish_p99_ms), number(r.delivery_p99_ms), number(r.health_p50_ms),
               number(r.health_max_ms), f"{r.lost:,}", f"{r.told:,}")
              if r.seconds else (r.note, "", "", "", "", "", "")),
        )
        for r in _all(records, Attack)
    ]  # fmt: skip
    heads = (
        "attack", "filters", "large events", "publication p50 ms", "p99 ms", "delivery p99 ms", "/healthz p50 ms",
        "worst ms", "lost", "not matched, told",
    )  # fmt: skip
    return Grid("One user's costly filters and large events, seen by another client", heads, rows)


def disk_line(disk: Disk) -> str:
    return (
        f"One write of 4 KiB with fsync takes {disk.fsync_p50_ms:.2f} ms here (p99 {disk.fsync_p99_ms:.2f} ms). The "
        f"load average was {disk.load:.1f} when the run began; other work on the machine makes all figures worse."
    )


def markdown(records: Sequence[AnyRecord], command: str) -> str:
    """The page of a run: the command, the machine, the tables. Nothing in it is typed by hand."""
    machines = [machine_line(record, "") for record in records if isinstance(record, Machine)]
    disks = [disk_line(record) for record in records if isinstance(record, Disk)]
    parts = ["# The service, measured", f"```\n{command}\n```", *machines, *disks, NOTE]
    return "\n\n".join([*parts, *map(markdown_table, tables(records))]) + "\n"


def _times(ours: float | None, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if ours and theirs else ""


def _all(records: Iterable[AnyRecord], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]
