"""The tables of a run, made from its records: the same ones for the terminal and for a page of documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from benchmarks.records import (
    AnyRecord,
    Churn,
    FromText,
    Load,
    Machine,
    Matching,
    Peer,
    Rate,
    Record,
    Snapshot,
    Target,
    Updates,
)

R = TypeVar("R")


class Grid(msgspec.Struct, frozen=True):
    """A table as text: its title, its heads and its rows. Columns after the first ``words`` hold numbers."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 1


def tables(records: Sequence[AnyRecord]) -> list[Grid]:
    """All tables that have rows."""
    makers = (engines, peers, growth, operations, target_table)
    return [grid for grid in (maker(records) for maker in makers) if grid.rows]


def engines(records: Sequence[AnyRecord]) -> Grid:
    heads = (
        "workload", "matches/event", "single events/s", "without ids", "batch events/s", "events/batch", "x single",
        "naive events/s", "x naive", "candidates/match", "build s", "bytes/subscription",
    )  # fmt: skip
    rows = [
        (
            r.case, number(r.matches_per_event), rate(r.single), rate(r.slots), rate(r.batch), number(r.batch_size),
            number(r.batch_gain), rate(r.naive), number(r.single.best / r.naive.best), number(r.candidates_per_match),
            number(r.build_seconds), number(r.bytes_per_subscription),
        )
        for r in _all(records, Matching)
        if r.workload != "growth"
    ]  # fmt: skip
    return Grid("Engines", heads, rows)


def peers(records: Sequence[AnyRecord]) -> Grid:
    heads = ("workload", "peer", "events/s", "ours, batch", "ours, single", "build s", "MB")
    rows = [(peer.case, f"{peer.peer} {peer.version}".strip(), *_peer_cells(peer)) for peer in _all(records, Peer)]
    return Grid("Peers in the same run", heads, rows, words=2)


def _peer_cells(peer: Peer) -> tuple[str, ...]:
    if peer.rate is None:
        return (peer.note, "", "", "", "")
    return (
        rate(peer.rate),
        f"{number(peer.batch_ratio)} x",
        f"{number(peer.single_ratio)} x",
        number(peer.build_seconds),
        number(peer.bytes and peer.bytes / 1e6),
    )


def growth(records: Sequence[AnyRecord]) -> Grid:
    heads = ("subscriptions", "matches/event", "candidates/event", "single: us/event", "batch: us/event")
    rows = [
        (
            f"{r.subscriptions:,}", number(r.matches_per_event), number(r.candidates_per_event),
            number(1e6 / r.slots.best), number(1e6 / r.batch.best),
        )
        for r in _all(records, Matching)
        if r.workload == "growth"
    ]  # fmt: skip
    return Grid("Growth at equal matches per event", heads, rows)


def operations(records: Sequence[AnyRecord]) -> Grid:
    rows: list[tuple[str, ...]] = []
    for record in records:
        match record:
            case Updates():
                rows += [
                    (record.case, "one insert, median / 99%", _micro(record.insert_p50, record.insert_p99)),
                    (record.case, "one delete, median / 99%", _micro(record.delete_p50, record.delete_p99)),
                ]
            case Snapshot():
                rows += [
                    (record.case, "save a snapshot", f"{record.save_seconds:.2f} s, {record.file_bytes / 1e6:,.0f} MB"),
                    (record.case, "load it by memory map", f"{record.load_seconds:.3f} s"),
                    (record.case, "first event after that", f"{record.first_match_seconds * 1e3:.1f} ms"),
                ]
            case Load():
                rows.append((record.case, "load from NDJSON", f"{record.seconds:.1f} s"))
            case FromText():
                rates = f"{number(record.columns.best)} / {number(record.with_ids.best)} a second"
                rows.append((record.case, "events from NDJSON, numbers / ids of matches", rates))
                rows.append((record.case, "each line read as an event", f"{number(record.one_by_one.best)} a second"))
            case Churn():
                rows += _churn_rows(record)
    return Grid("Changes, snapshots, loading", ("workload", "what", "measured"), rows, words=2)


def _churn_rows(record: Churn) -> list[tuple[str, ...]]:
    return [
        (record.case, "changes applied", f"{record.changes_per_second:,.0f} a second"),
        (record.case, "single, while changing / left alone", _pair(record.single, record.single_undisturbed)),
        (record.case, "batch, while changing / left alone", _pair(record.batch, record.batch_undisturbed)),
    ]


def target_table(records: Sequence[Record]) -> Grid:
    words = {True: "yes", False: "no", None: "not measured in this run"}
    rows = [(t.name, t.required, t.measured, words[t.met]) for t in _all(records, Target)]
    return Grid("Targets", ("target", "required", "measured", "met"), rows, words=4)


def machine_line(machine: Machine, used: str = " (one used)") -> str:
    """The machine in a sentence."""
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    return (
        f"{machine.cpu}, {machine.cores} cores{used}, {machine.memory_gb:g} GB, {machine.system}, "
        f"Python {machine.python}, {packages}"
    )


def number(value: float | None) -> str:
    """Three digits that matter, thousands apart."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def rate(value: Rate) -> str:
    return number(value.best)


def _micro(median: float, slow: float) -> str:
    return f"{median * 1e6:,.0f} / {slow * 1e6:,.0f} us"


def _pair(disturbed: float, undisturbed: float) -> str:
    return f"{disturbed:,.0f} / {undisturbed:,.0f} events/s"


def _all(records: Iterable[Record], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]
