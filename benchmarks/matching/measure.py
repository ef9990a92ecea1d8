"""One case from beginning to end: check, build, time our engines, time the oracle, time the peers, then the extras.

The oracle is timed on all subscriptions, in chunks so that they never stand in memory at once, and its answers are
compared with the index's at full size. Compilation is not part of any figure: the check before has compiled all that
the case needs. A case runs in a process of its own, on one core, with every library held to one thread: a fresh process
gives honest memory figures and keeps one case's leftovers out of the next one's caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.baselines import BATCH_BASELINES, EVENT_BASELINES, UnsuitableError, package_of
from benchmarks.harness import Rate, Record, version_of
from benchmarks.matching.report import Churn, FromText, Load, Matching, Peer, Snapshot, Updates
from benchmarks.oracle import Answers, check, compare, grouped
from benchmarks.timing import Stopwatch, measure, process_bytes, run_alone
from benchmarks.workloads import Workload, subscription_id, to_events
from recado.filters import expression
from recado.filters.records import KnownFilters, read_subscription
from recado.matching.batch import MatchedTexts, Pairs, match_batch, match_events, match_texts
from recado.matching.index import Index
from recado.matching.json_texts import from_lines
from recado.matching.naive import NaiveMatcher
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.subscription import Subscription

Extra = Literal["updates", "snapshot", "load", "churn", "texts"]
NAIVE_CHUNK = 10_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One workload with what is to be measured on it."""

    name: str
    workload: Workload
    peers: tuple[str, ...] = ()
    extras: tuple[Extra, ...] = ()
    naive_events: int = 3
    single_events: int = 4_096
    batch_events: int = 65_536
    batch_size: int = 8_192

    @property
    def title(self) -> str:
        """As the first column of the results has it."""
        return f"churn, {self.workload.title}" if "churn" in self.extras else self.workload.title


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how thoroughly: seconds a measurement, and the sample for the oracle."""

    seconds: float = 2.0
    sample_subscriptions: int = 2_000
    sample_events: int = 20
    updates: int = 2_000
    churn_seconds: float = 5.0
    churn_rate: int = 10_000


def run_apart(case: Plan, settings: Settings, _: Path) -> list[Record]:
    """The records of one case, measured in a process of its own."""
    return run_alone(_run, case, settings)


def _run(case: Plan, settings: Settings) -> list[Record]:
    return list(run_case(case, settings))


class Inputs(msgspec.Struct, frozen=True):
    """The events of a case, in both forms; the single events are the first of the batches."""

    events: list[Event]
    batches: list[pa.RecordBatch]

    @property
    def batch_size(self) -> int:
        return len(self.batches[0])


def run_case(case: Plan, settings: Settings) -> Iterator[Record]:
    """All records of a case; a DisagreementError if an engine is wrong."""
    peers = [peer for peer in case.peers if version_of(package_of(peer))]
    checked = check(case.workload, peers, settings.sample_subscriptions, settings.sample_events)
    before = process_bytes()
    index, build_seconds = build(case.workload.subscriptions())
    held = process_bytes() - before
    inputs = make_inputs(case)
    if "churn" in case.extras:
        yield churn(case, settings, index, inputs.events, inputs.batches[0])
        return
    result = _time_engines(case, settings, index, inputs)
    matching = msgspec.structs.replace(result, checked=checked, build_seconds=build_seconds, process_bytes=held)
    yield matching
    yield from run_extras(case, settings, index, inputs.events)
    del index
    for peer in case.peers:
        yield _time_peer(case, settings, peer, inputs, matching)


def make_inputs(case: Plan) -> Inputs:
    """Whole batches only, so that every unit of work has the same size."""
    batch = case.workload.events(case.batch_events)
    size = min(case.batch_size, len(batch))
    batches = [batch.slice(start, size) for start in range(0, len(batch) - size + 1, size)]
    return Inputs(to_events(batch.slice(0, case.single_events)), batches)


def build(subscriptions: Iterable[Subscription]) -> tuple[Index, float]:
    """An index and the seconds it took, without those for drawing the subscriptions."""
    whole, drawing = Stopwatch(), Stopwatch()
    index = Index()

    def drawn() -> Iterator[Subscription]:
        source = iter(subscriptions)
        while True:
            with drawing:
                chunk = list(islice(source, 1_000))
            if not chunk:
                return
            yield from chunk

    with whole:
        index.add_many(drawn())
    return index, whole.seconds - drawing.seconds


def _time_engines(case: Plan, settings: Settings, index: Index, inputs: Inputs) -> Matching:
    events, batches = inputs.events, inputs.batches
    naive, expected = time_naive(case.workload, events[: case.naive_events])
    compare(case.workload.title, "index", expected, [index.match(event) for event in events[: case.naive_events]])
    pairs = match_batch(index, batches[0].slice(0, case.naive_events))
    compare(case.workload.title, "batch", expected, grouped(len(expected), pairs.events, pairs.ids(index).to_pylist()))
    single = measure(lambda number: index.match(events[number]), len(events), 1, settings.seconds)
    slots = measure(lambda number: index.match_slots(events[number]), len(events), 1, settings.seconds)
    batch, batch_ids = (
        measure(step, len(batches), inputs.batch_size, settings.seconds)
        for step in (
            lambda number: match_batch(index, batches[number]).events,
            lambda number: _with_ids(index, batches[number]),
        )
    )
    matches, candidates, per_match = count_work(index, events[:1_000])
    return Matching(
        case=case.workload.title,
        workload=case.name,
        subscriptions=case.workload.size,
        checked=0,
        matches_per_event=matches,
        candidates_per_event=candidates,
        candidates_per_match=per_match,
        build_seconds=0.0,
        bytes=int(index.statistics()["bytes"]),
        process_bytes=0,
        batch_size=inputs.batch_size,
        single=single,
        slots=slots,
        batch=batch,
        batch_ids=batch_ids,
        naive=naive,
    )


def _with_ids(index: Index, batch: pa.RecordBatch) -> None:
    pairs = match_batch(index, batch)
    _ = pairs.events, pairs.ids(index)


def count_work(index: Index, events: list[Event]) -> tuple[float, float, float]:
    """Matches an event, candidates verified an event, and candidates a matching entry (equal filters share one)."""
    before = index.statistics()
    matches = sum(len(index.match_slots(event)) for event in events)
    after = index.statistics()
    candidates, entries = after["candidates"] - before["candidates"], after["matches"] - before["matches"]
    return matches / len(events), candidates / len(events), candidates / max(1, entries)


def time_naive(workload: Workload, events: list[Event]) -> tuple[Rate, Answers]:
    """The oracle's rate on all subscriptions, and its answers."""
    answers: Answers = [[] for _ in events]
    watch = Stopwatch()
    subscriptions = workload.subscriptions()
    while chunk := list(islice(subscriptions, NAIVE_CHUNK)):
        naive = NaiveMatcher()
        for subscription in chunk:
            naive.add(subscription)
        with watch:
            found = [naive.match(event) for event in events]
        for answer, ids in zip(answers, found, strict=True):
            answer += ids
    rate = len(events) / watch.seconds
    return Rate(best=rate, median=rate), answers


def _time_peer(case: Plan, settings: Settings, name: str, inputs: Inputs, ours: Matching) -> Peer:
    package = package_of(name)
    blank = Peer(
        case=ours.case,
        workload=case.name,
        subscriptions=ours.subscriptions,
        peer=name,
        version=version_of(package),
    )
    if not blank.version:
        return msgspec.structs.replace(blank, note=f"{package} is not installed; --peers installs it")
    try:
        rate, build_seconds, size = _run_peer(case, settings, name, inputs)
    except UnsuitableError as reason:
        return msgspec.structs.replace(blank, note=str(reason))
    return msgspec.structs.replace(
        blank,
        rate=rate,
        single_ratio=ours.single.best / rate.best,
        batch_ratio=ours.batch.best / rate.best,
        build_seconds=build_seconds,
        bytes=size,
    )


def _run_peer(case: Plan, settings: Settings, name: str, inputs: Inputs) -> tuple[Rate, float, int | None]:
    watch = Stopwatch()
    subscriptions = list(case.workload.subscriptions())
    if name in BATCH_BASELINES:
        joined = BATCH_BASELINES[name]()
        with watch:
            joined.build(subscriptions)
        batches = [inputs.batches[0].slice(0, joined.batch_size)] if joined.batch_size else inputs.batches
        rate = measure(
            lambda number: joined.match_batch(batches[number]), len(batches), len(batches[0]), settings.seconds
        )
        return rate, watch.seconds, joined.bytes_used()
    asked = EVENT_BASELINES[name]()
    with watch:
        asked.build(subscriptions)
    rate = measure(lambda number: asked.match(inputs.events[number]), len(inputs.events), 1, settings.seconds)
    return rate, watch.seconds, None


# --- extras -----------------------------------------------------------------------------------------------------------
# What else is asked of an index of a million: changes one by one, a snapshot, and loading from NDJSON.


def run_extras(case: Plan, settings: Settings, index: Index, events: list[Event]) -> Iterator[Record]:
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


def from_text(case: Plan, settings: Settings, index: Index) -> FromText:
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


# --- churn ------------------------------------------------------------------------------------------------------------
# *churn*: matching goes on while subscriptions come and go.
#
# One thread does both: it matches a few events, then applies the changes that have become due by the clock, a new
# subscription and an old one's end in turn, so the size stays. The rates count all the time, that of the changes
# included, and are compared with the rates of the same index left alone.


_EVENTS_BETWEEN = 16
_BATCH = 512


def churn(case: Plan, settings: Settings, index: Index, events: list[Event], batch: pa.RecordBatch) -> Churn:
    """Both rates, undisturbed and disturbed."""
    small = batch.slice(0, _BATCH)

    def single(number: int) -> None:
        index.match(events[number % len(events)])

    def several(number: int) -> None:
        for event in range(number * _EVENTS_BETWEEN, (number + 1) * _EVENTS_BETWEEN):
            single(event)

    def whole(number: int) -> None:
        match_batch(index, small)

    undisturbed_single = measure(single, len(events), 1, settings.seconds).best
    undisturbed_batch = measure(whole, 1, len(small), settings.seconds).best
    changes = Changes(case.workload, index, settings)
    rounds, took = _disturbed(several, changes, settings.churn_seconds)
    batch_rounds, batch_took = _disturbed(whole, changes, settings.churn_seconds)
    return Churn(
        case=case.title,
        subscriptions=case.workload.size,
        changes_per_second=changes.applied / (took + batch_took),
        single=rounds * _EVENTS_BETWEEN / took,
        single_undisturbed=undisturbed_single,
        batch=batch_rounds * len(small) / batch_took,
        batch_undisturbed=undisturbed_batch,
    )


class Changes:
    """An endless, steady stream of changes; the new subscriptions are drawn before the clock runs."""

    def __init__(self, workload: Workload, index: Index, settings: Settings) -> None:
        enough = int(settings.churn_rate * settings.churn_seconds)
        self._fresh = iter(list(workload.subscriptions(workload.size, enough + 1)))
        self._oldest: Iterator[int] = count()
        self._index = index
        self._rate = settings.churn_rate
        self.applied = 0

    def apply(self, due: int) -> None:
        """Apply as many changes: an insert and a delete in turn."""
        for _ in range(due):
            if self.applied % 2:
                self._index.remove(subscription_id(next(self._oldest)))
            else:
                self._index.add(next(self._fresh))
            self.applied += 1

    def due_after(self, seconds: float) -> int:
        return int(self._rate * seconds)


def _disturbed(work: Callable[[int], None], changes: Changes, seconds: float) -> tuple[int, float]:
    """How often the work was done between the changes, and the time it all took."""
    rounds, before, elapsed = 0, changes.applied, 0.0
    most = changes.due_after(seconds)
    started = time.perf_counter()
    while elapsed < seconds:
        work(rounds)
        rounds += 1
        elapsed = time.perf_counter() - started
        changes.apply(min(most, changes.due_after(elapsed)) - (changes.applied - before))
        elapsed = time.perf_counter() - started
    return rounds, elapsed
