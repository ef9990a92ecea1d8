"""The tables of a run, for the terminal and for a page of documentation."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.records import Machine
from benchmarks.report import markdown_table
from benchmarks.sim.records import AnyRecord, Peer, Queue, Speed
from benchmarks.tables import Grid, machine_line, number, rate, target_table

NOTE = (
    "A step is one stimulus that a machine handled, with all its effects carried out. *tokens*: a token for each node, "
    "handed on for ever by a machine that does nothing else. *trees*: subscriptions, publications and cancellations on "
    "a random graph of degree 4."
)


def tables(records: Sequence[AnyRecord]) -> list[Grid]:
    """All tables that have rows."""
    return [grid for grid in (speeds(records), queues(records), peers(records), target_table(records)) if grid.rows]


def speeds(records: Sequence[AnyRecord]) -> Grid:
    heads = ("protocol", "network", "nodes", "steps/s", "median", "us/step", "x smallest", "pending at the end")
    found = [record for record in records if isinstance(record, Speed)]
    rows = [
        (
            r.protocol, r.network, f"{r.nodes:,}", rate(r.rate), number(r.rate.median), number(r.microseconds),
            f"{r.microseconds / _smallest(found, r).microseconds:.2f}", f"{r.pending:,}",
        )
        for r in found
    ]  # fmt: skip
    return Grid("Steps a second, one core", heads, rows, words=2)


def _smallest(speeds: Sequence[Speed], like: Speed) -> Speed:
    same = [speed for speed in speeds if (speed.protocol, speed.network) == (like.protocol, like.network)]
    return min(same, key=lambda speed: speed.nodes)


def queues(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            f"{r.entries:,}", number(r.heap_seconds * 1e6), number(r.agenda_seconds * 1e6),
            f"{r.heap_seconds / r.agenda_seconds:.2f}",
        )
        for r in records
        if isinstance(r, Queue)
    ]  # fmt: skip
    heads = ("entries", "plain heap, us", "agenda, us", "x faster")
    return Grid("Taking the next entry and putting one back", heads, rows, words=0)


def peers(records: Sequence[AnyRecord]) -> Grid:
    rows = [
        (
            f"{r.peer} {r.version}".strip(), f"{r.nodes:,}", rate(r.rate) if r.rate else r.note,
            f"{r.ratio:.1f}" if r.ratio is not None else "",
        )
        for r in records
        if isinstance(r, Peer)
    ]  # fmt: skip
    return Grid("The same tokens on another simulator", ("peer", "nodes", "steps/s", "recado is x faster"), rows)


def markdown(records: Sequence[AnyRecord], command: str) -> str:
    """The page of a run: the command, the machine, the tables. Nothing in it is typed by hand."""
    machines = [machine_line(record) for record in records if isinstance(record, Machine)]
    parts = [
        "# The simulator, measured",
        f"```\n{command}\n```",
        *machines,
        NOTE,
        *map(markdown_table, tables(records)),
    ]
    return "\n\n".join(parts) + "\n"
