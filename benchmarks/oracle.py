"""Before anything is timed: every engine gives what the naive matcher gives, or the benchmark stops.

The sample has events of the workload and, since on selective workloads those rarely match anything, events made to
satisfy a subscription: its equalities and patterns met, its ranges met at a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines import BATCH_BASELINES, EVENT_BASELINES, UnsuitableError
from benchmarks.harness import DisagreementError
from benchmarks.workloads import Workload, to_events
from recado.filters.evaluate import walk
from recado.filters.patterns import like_tokens
from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import Between, Compare, Filter, In, Text
from recado.model.subscription import Subscription

Answers = list[list[str]]


def check(workload: Workload, peers: Iterable[str], subscriptions: int, events: int) -> int:
    """Compare our engines and the peers with the oracle on a sample; the number of matches that were compared."""
    sample = list(workload.subscriptions(0, min(subscriptions, workload.size)))
    batch = sample_events(workload, sample, events)
    rows = to_events(batch)
    expected = naive_answers(sample, rows)
    for name, answer in _engines(peers).items():
        try:
            found = answer(sample, batch, rows)
        except UnsuitableError:
            continue
        compare(workload.title, name, expected, found)
    return sum(map(len, expected))


def compare(case: str, engine: str, expected: Answers, found: Answers) -> None:
    """Raise a DisagreementError that names the first event with another answer."""
    for number, (right, given) in enumerate(zip(expected, found, strict=True)):
        missing, extra = sorted(set(right) - set(given)), sorted(set(given) - set(right))
        if missing or extra or len(given) != len(set(given)):
            raise DisagreementError(
                f"{case}: {engine} disagrees with the oracle on event {number}: "
                f"{len(right)} expected, {len(given)} given; missing {missing[:5]}, too many {extra[:5]}"
            )


def sample_events(workload: Workload, subscriptions: Sequence[Subscription], count: int) -> pa.RecordBatch:
    """Events of the workload, then as many that are bent to satisfy one of the subscriptions."""
    batch = workload.events(count)
    rows: list[dict[str, Any]] = batch.to_pylist()
    step = max(1, len(subscriptions) // count)
    bent = [row | satisfying(s.filter) for row, s in zip(rows, islice(subscriptions, 0, None, step), strict=False)]
    return pa.RecordBatch.from_pylist(rows + bent, schema=batch.schema)


def satisfying(condition: Filter) -> dict[str, Any]:
    """Attribute values that meet each predicate of the filter: enough for a conjunction."""
    values: dict[str, Any] = {}
    for node in walk(condition):
        match node:
            case Compare(name, "==", value):
                values[name] = value
            case In(name, (first, *_)):
                values[name] = first
            case Between(name, _, high):
                values[name] = high
            case Text(name, "like", pattern):
                values[name] = "".join(token or "x" for token in like_tokens(pattern))
            case Text(name, _, pattern):
                values[name] = pattern
    return values


def naive_answers(subscriptions: Iterable[Subscription], events: Sequence[Event]) -> Answers:
    naive = NaiveMatcher()
    for subscription in subscriptions:
        naive.add(subscription)
    return [naive.match(event) for event in events]


Answer = Callable[[Sequence[Subscription], pa.RecordBatch, Sequence[Event]], Answers]


def _engines(peers: Iterable[str]) -> dict[str, Answer]:
    engines: dict[str, Answer] = {"index": index_answers, "batch": batch_answers}
    for name in peers:
        engines[name] = _batch_peer(name) if name in BATCH_BASELINES else _event_peer(name)
    return engines


def index_answers(sample: Sequence[Subscription], batch: pa.RecordBatch, events: Sequence[Event]) -> Answers:
    index = Index()
    index.add_many(sample)
    return [index.match(event) for event in events]


def batch_answers(sample: Sequence[Subscription], batch: pa.RecordBatch, events: Sequence[Event]) -> Answers:
    index = Index()
    index.add_many(sample)
    pairs = match_batch(index, batch)
    return grouped(len(batch), pairs.events, pairs.ids(index).to_pylist())


def _batch_peer(name: str) -> Answer:
    def answers(sample: Sequence[Subscription], batch: pa.RecordBatch, events: Sequence[Event]) -> Answers:
        peer = BATCH_BASELINES[name]()
        peer.build(sample)
        numbers, owners = peer.match_batch(batch)
        return grouped(len(batch), numbers, [sample[owner].id for owner in owners.tolist()])

    return answers


def _event_peer(name: str) -> Answer:
    def answers(sample: Sequence[Subscription], batch: pa.RecordBatch, events: Sequence[Event]) -> Answers:
        peer = EVENT_BASELINES[name]()
        peer.build(sample)
        return [[sample[owner].id for owner in peer.match(event)] for event in events]

    return answers


def grouped(count: int, events: np.ndarray[Any, Any], ids: Iterable[str]) -> Answers:
    """Pairs as a list of ids for each event."""
    answers: Answers = [[] for _ in range(count)]
    for event, id in zip(events.tolist(), ids, strict=True):
        answers[event].append(id)
    return answers
