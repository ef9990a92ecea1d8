"""One case from beginning to end: check, build, time our engines, time the oracle, time the peers, then the extras.

The oracle is timed on all subscriptions, in chunks so that they never stand in memory at once, and its answers are
compared with the index's at full size. Compilation is not part of any figure: the check before has compiled all that
the case needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa

from benchmarks import extras
from benchmarks.cases import Case, Settings
from benchmarks.churn import churn
from benchmarks.machine import version_of
from benchmarks.oracle import Answers, check, compare, grouped
from benchmarks.records import AnyRecord, Matching, Peer, Rate
from benchmarks.timing import Stopwatch, measure, process_bytes
from benchmarks.workloads import Workload, to_events
from benchmarks.yardsticks import BATCH_YARDSTICKS, EVENT_YARDSTICKS, UnsuitableError
from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.subscription import Subscription

NAIVE_CHUNK = 10_000


class Inputs(msgspec.Struct, frozen=True):
    """The events of a case, in both forms; the single events are the first of the batches."""

    events: list[Event]
    batches: list[pa.RecordBatch]

    @property
    def batch_size(self) -> int:
        return len(self.batches[0])


def run_case(case: Case, settings: Settings) -> Iterator[AnyRecord]:
    """All records of a case; a DisagreementError if an engine is wrong."""
    peers = [peer for peer in case.peers if version_of(_package(peer))]
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
    yield from extras.run(case, settings, index, inputs.events)
    del index
    for peer in case.peers:
        yield _time_peer(case, settings, peer, inputs, matching)


def make_inputs(case: Case) -> Inputs:
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


def _time_engines(case: Case, settings: Settings, index: Index, inputs: Inputs) -> Matching:
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


def _time_peer(case: Case, settings: Settings, name: str, inputs: Inputs, ours: Matching) -> Peer:
    package = _package(name)
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


def _run_peer(case: Case, settings: Settings, name: str, inputs: Inputs) -> tuple[Rate, float, int | None]:
    watch = Stopwatch()
    subscriptions = list(case.workload.subscriptions())
    if name in BATCH_YARDSTICKS:
        joined = BATCH_YARDSTICKS[name]()
        with watch:
            joined.build(subscriptions)
        batches = [inputs.batches[0].slice(0, joined.batch_size)] if joined.batch_size else inputs.batches
        rate = measure(
            lambda number: joined.match_batch(batches[number]), len(batches), len(batches[0]), settings.seconds
        )
        return rate, watch.seconds, joined.bytes_used()
    asked = EVENT_YARDSTICKS[name]()
    with watch:
        asked.build(subscriptions)
    rate = measure(lambda number: asked.match(inputs.events[number]), len(inputs.events), 1, settings.seconds)
    return rate, watch.seconds, None


def _package(peer: str) -> str:
    return (BATCH_YARDSTICKS.get(peer) or EVENT_YARDSTICKS[peer]).package
