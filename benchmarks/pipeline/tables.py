"""The tables of a run, made from its records: the same ones for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from benchmarks.pipeline.records import RECADO, AnyRecord, Cost, Growth, Kernel, Loading, Side, State
from benchmarks.pipeline.targets import better_rate
from benchmarks.tables import Grid, number, rate, target_table

MB = 1e6
MICRO = 1e6


def tables(records: Sequence[AnyRecord]) -> list[Grid]:
    """All tables that have rows."""
    makers = (compared, kernels, costs, growth, loading, state, target_table)
    return [grid for grid in (maker(records) for maker in makers) if grid.rows]


def compared(records: Sequence[AnyRecord]) -> Grid:
    heads = ("workload", "side", "cores", "events in a run", "events/s", "recado", "pairs checked")
    rows = [row for side in records if isinstance(side, Side) for row in _side_row(records, side)]
    return Grid("Against what a Spark user would write", heads, rows, words=2)


def _side_row(records: Sequence[AnyRecord], side: Side) -> Iterator[tuple[str, ...]]:
    if side.side == RECADO:
        theirs = better_rate(records, side.workload, side.subscriptions)
        ratio = "" if theirs is None else f"{number(side.rate.best / theirs)} x the better one"
    else:
        ours = [r for r in records if isinstance(r, Side) and _same(r, side) and r.side == RECADO]
        ratio = f"{number(ours[0].rate.best / side.rate.best)} x" if ours else ""
    title = f"{side.workload} {side.subscriptions:,}"
    yield title, side.side, str(side.cores), f"{side.events:,}", rate(side.rate), ratio, f"{side.checked:,}"


def _same(one: Side, other: Side) -> bool:
    return (one.workload, one.subscriptions) == (other.workload, other.subscriptions)


def kernels(records: Sequence[AnyRecord]) -> Grid:
    heads = (
        "workload", "notifications/event", "pairs, in memory, 1 core", "whole job, 1 core", "on all cores at once",
        "Spark, all cores", "cores", "of cores x alone", "of all at once",
    )  # fmt: skip
    rows = [
        (
            r.title, number(r.notifications_per_event), rate(r.pairs), rate(r.alone),
            rate(r.together), rate(r.spark), str(r.cores), f"{r.share:.0%}", f"{r.share_of_machine:.0%}",
        )
        for r in records
        if isinstance(r, Kernel)
    ]  # fmt: skip
    return Grid("Against the bare matcher, events/s", heads, rows)


def costs(records: Sequence[AnyRecord]) -> Grid:
    heads = ("workload", "step", "events/s", "JVM CPU us/event", "Python CPU us/event", "both us/event")
    rows = [
        (
            r.title, r.step, rate(r.rate), number(r.jvm_seconds * MICRO), number(r.python_seconds * MICRO),
            number((r.jvm_seconds + r.python_seconds) * MICRO),
        )
        for r in records
        if isinstance(r, Cost)
    ]  # fmt: skip
    return Grid("Where the CPU time of a job goes", heads, rows, words=2)


def growth(records: Sequence[AnyRecord]) -> Grid:
    """A row for each pair of sizes; the number of cores goes across."""
    points = sorted((r for r in records if isinstance(r, Growth)), key=lambda r: (r.subscriptions, r.events, r.cores))
    cores = sorted({point.cores for point in points})
    heads = ["subscriptions", "events"]
    for count in cores:
        heads += [f"s on {_cores(count)}", f"events/s on {_cores(count)}"]
    rows = []
    for (size, events), group in groupby(points, lambda r: (r.subscriptions, r.events)):
        by_cores = {point.cores: point for point in group}
        cells = [_point(by_cores.get(count)) for count in cores]
        rows.append((f"{size:,}", f"{events:,}", *(cell for pair in cells for cell in pair)))
    return Grid("Growth", tuple(heads), rows)


def _point(point: Growth | None) -> tuple[str, str]:
    return ("", "") if point is None else (number(point.seconds), number(point.rate))


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def loading(records: Sequence[AnyRecord]) -> Grid:
    heads = (
        "cores", "sets used", "tasks", "workers", "loads", "most in one worker", "s/load", "index file MB",
        "mapped by all MB", "of it in memory MB", "private, all workers MB",
    )  # fmt: skip
    rows = [
        (
            str(r.cores), str(r.sets), f"{r.tasks:,}", str(r.workers), str(r.loads), str(r.most_loads),
            number(r.seconds_per_load), number(r.file_bytes / MB), number(r.mapped_bytes / MB),
            number(r.mapped_once_bytes / MB), number(r.private_bytes / MB),
        )
        for r in records
        if isinstance(r, Loading)
    ]  # fmt: skip
    return Grid("The index is loaded once a worker, not once a task", heads, rows, words=0)


def state(records: Sequence[AnyRecord]) -> Grid:
    heads = (
        "keys", "micro-batches", "notifications judged", "delivered", "judged/s", "s/micro-batch", "first one s",
        "rows of state", "memory MB", "checkpoint MB",
    )  # fmt: skip
    rows = [
        (
            f"{r.keys:,}", str(r.batches), f"{r.notifications:,}", f"{r.delivered:,}", number(r.rate),
            number(r.batch_seconds), number(r.first_batch_seconds), f"{r.state_rows:,}", number(r.memory_bytes / MB),
            number(r.disk_bytes / MB),
        )
        for r in records
        if isinstance(r, State)
    ]  # fmt: skip
    return Grid("State: delivery constraints on a stream", heads, rows, words=0)
