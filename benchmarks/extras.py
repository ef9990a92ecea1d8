"""What else is asked of an index of a million: changes one by one, a snapshot, and loading from NDJSON."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from benchmarks.cases import Case, Settings
from benchmarks.oracle import compare, grouped
from benchmarks.records import AnyRecord, FromText, Load, Snapshot, Updates
from benchmarks.timing import Stopwatch, measure
from benchmarks.workloads import Workload, to_events
from recado.filters import expression
from recado.filters.records import KnownFilters, read_subscription
from recado.matching.batch import MatchedTexts, Pairs, match_events, match_texts
from recado.matching.index import Index
from recado.matching.json_texts import from_lines
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.subscription import Subscription


def run(case: Case, settings: Settings, index: Index, events: list[Event]) -> Iterator[AnyRecord]:
    """The extras that the case asks for."""
    with TemporaryDirectory(prefix="recado-bench-") as folder:
        if "updates" in case.extras:
            yield updates(case.workload, settings, index)
        if "snapshot" in case.extras:
            yield snapshot(case.workload, index, events[0], Path(folder) / "index.snapshot")
        if "load" in case.extras:
            yield load(case.workload, Path(folder) / "subscriptions.ndjson")
    if "texts" in case.extras:
        yield from_text(case, settings, index)


def from_text(case: Case, settings: Settings, index: Index) -> FromText:
    """Blocks of lines, as ``recado match`` takes them."""
    events = to_events(case.workload.events(case.batch_events))
    lines = [write_flat(event) for event in events]
    blocks = [lines[start : start + case.batch_size] for start in range(0, len(lines), case.batch_size)]
    texts = [b"\n".join(block) + b"\n" for block in blocks]

    def by_columns(number: int) -> MatchedTexts:
        return match_texts(index, from_lines(texts[number]), lambda line: read_event(blocks[number][line]))

    def with_ids(number: int) -> tuple[list[str | None], list[str]]:
        found = by_columns(number)
        return found.ids(), found.pairs.ids(index).to_pylist()

    def one_by_one(number: int) -> Pairs:
        return match_events(index, [read_event(line) for line in blocks[number]])

    both = one_by_one(0), by_columns(0).pairs
    expected, given = (grouped(len(blocks[0]), one.events, one.ids(index).to_pylist()) for one in both)
    compare(case.workload.title, "texts", expected, given)
    ways = (by_columns, with_ids, one_by_one)
    rates = (measure(way, len(blocks), case.batch_size, settings.seconds) for way in ways)
    return FromText(case.workload.title, case.workload.size, *rates)


def updates(workload: Workload, settings: Settings, index: Index) -> Updates:
    """Insert new subscriptions one by one, then delete them again."""
    fresh = list(workload.subscriptions(workload.size, settings.updates))
    inserts, deletes = [], []
    for subscription in fresh:
        started = time.perf_counter()
        index.add(subscription)
        inserts.append(time.perf_counter() - started)
    for subscription in fresh:
        started = time.perf_counter()
        index.remove(subscription.id)
        deletes.append(time.perf_counter() - started)
    return Updates(
        case=workload.title,
        subscriptions=workload.size,
        insert_p50=float(np.percentile(inserts, 50)),
        insert_p99=float(np.percentile(inserts, 99)),
        delete_p50=float(np.percentile(deletes, 50)),
        delete_p99=float(np.percentile(deletes, 99)),
    )


def snapshot(workload: Workload, index: Index, event: Event, path: Path) -> Snapshot:
    """Save, load by memory map, and match one event with what was loaded."""
    saving, loading, matching = Stopwatch(), Stopwatch(), Stopwatch()
    with saving:
        index.save(path)
    with loading:
        loaded = Index.load(path)
    with matching:
        found = loaded.match(event)
    compare(workload.title, "the loaded snapshot", [index.match(event)], [found])
    return Snapshot(
        case=workload.title,
        subscriptions=workload.size,
        file_bytes=path.stat().st_size,
        save_seconds=saving.seconds,
        load_seconds=loading.seconds,
        first_match_seconds=matching.seconds,
    )


def load(workload: Workload, path: Path) -> Load:
    """All subscriptions as text, one JSON object a line, read into a new index."""
    write_records(workload.subscriptions(), path)
    index, watch, known = Index(), Stopwatch(), KnownFilters()
    with watch, path.open("rb") as lines:
        index.add_many((read_subscription(line, known=known) for line in lines), checked=True)
    return Load(case=workload.title, subscriptions=len(index), file_bytes=path.stat().st_size, seconds=watch.seconds)


def write_records(subscriptions: Iterator[Subscription], path: Path) -> None:
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for subscription in subscriptions:
            record = {"id": subscription.id, "filter": expression.format_expression(subscription.filter)}
            file.write(encode(record) + b"\n")
