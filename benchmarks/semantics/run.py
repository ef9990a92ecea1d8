"""The run: one process, one core. Sides that are compared match the same events by turns.

Rates are of the processor's time, so that other programs disturb less; latencies are of the clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

from benchmarks.machine import OWN_PACKAGES, describe
from benchmarks.records import Rate
from benchmarks.semantics import published, workload
from benchmarks.semantics.plan import Plan
from benchmarks.semantics.records import AnyRecord, Loading, Many, NewShape, Subscribers
from benchmarks.semantics.targets import targets
from benchmarks.timing import process_bytes
from experiments.semantics.dataset import Dataset
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher

BATCH = 256
"""As many events as the service dispatches together."""
CHECKED = 200
LEAST = 3
PACKAGES = (*OWN_PACKAGES, "wn", "scipy")


def run_plan(plan: Plan, announce: Callable[[str], None]) -> Iterator[AnyRecord]:
    """The machine, the records of all parts as they come, and the targets."""
    records: list[AnyRecord] = []
    for record in _records(plan, announce):
        records.append(record)
        yield record
    yield from targets(records)


def _records(plan: Plan, announce: Callable[[str], None]) -> Iterator[AnyRecord]:
    yield describe(PACKAGES)
    announce("the lexicon")
    semantics = Semantics(cache=SimilarityCache())
    yield _loading(semantics)
    data = published.dataset(quick=plan.events < 1_000)
    for count in plan.subscribers:
        announce(f"{count} subscribers, as in the work")
        yield _subscribers(data, count, plan, semantics)
    for count in plan.subscriptions:
        announce(f"{count:,} subscriptions")
        yield from _many(count, plan, semantics)


def _loading(semantics: Semantics) -> Loading:
    before, started = process_bytes(), time.perf_counter()
    SemanticMatcher(semantics).check(next(workload.subscriptions(1, semantic=True)))
    return Loading(time.perf_counter() - started, process_bytes() - before)


# -- as in the work ----------------------------------------------------------------------------------------------------


def _subscribers(data: Dataset, count: int, plan: Plan, semantics: Semantics) -> Subscribers:
    """Shapes and values are known, as the work's cache was filled."""
    wanted = published.subscribers(data, count)
    events = published.published_events(data, plan.events)
    matcher = SemanticMatcher(semantics)
    matcher.add_many(wanted)
    found = sum(len(matcher.match(event)) for event in events)
    [rate] = rates([lambda: _one_by_one(matcher, events)], len(events), plan.seconds)
    plain = _plain_rate(events[: plan.plain], wanted) if wanted else None
    cached, uncached = published.PUBLISHED.get(count, (None, None))
    return Subscribers(count, cached, uncached, rate, plain, found / len(events))


def _plain_rate(events: list[Event], subscriptions: list[Subscription]) -> float:
    """The oracle with no cache, one subscription after another."""
    semantics = Semantics()
    semantic_match(events[0], subscriptions[0], semantics=semantics)
    started = time.perf_counter()
    for event in events:
        for subscription in subscriptions:
            semantic_match(event, subscription, semantics=semantics)
    return len(events) / (time.perf_counter() - started)


# -- many --------------------------------------------------------------------------------------------------------------


def _many(count: int, plan: Plan, semantics: Semantics) -> Iterator[AnyRecord]:
    exact, semantic = SemanticMatcher(semantics), SemanticMatcher(semantics)
    exact_seconds, exact_bytes = _fill(exact, count, semantic=False)
    semantic_seconds, semantic_bytes = _fill(semantic, count, semantic=True)
    events, shaped = workload.events(plan.events), workload.shaped_events(plan.events)
    wanted = exact.match_many(events[:CHECKED])
    agreed = [sorted(ids) for ids in semantic.match_many(events[:CHECKED])] == [sorted(ids) for ids in wanted]
    for event in shaped:
        semantic.match(event)  # all shapes are known
    sides = [(exact, events), (semantic, events), (semantic, shaped)]
    single = rates([partial(_one_by_one, *side) for side in sides], len(events), plan.seconds)
    batched = rates([partial(_batches, *side) for side in sides], len(events), plan.seconds)
    yield Many(
        subscriptions=count,
        matches_per_event=sum(map(len, wanted)) / CHECKED,
        agreed=agreed,
        exact=single[0],
        exact_batch=batched[0],
        semantic=single[1],
        semantic_batch=batched[1],
        shaped=single[2],
        shaped_batch=batched[2],
        shapes=semantic.shapes,
        exact_seconds=exact_seconds,
        semantic_seconds=semantic_seconds,
        exact_bytes=exact_bytes,
        semantic_bytes=semantic_bytes,
    )
    yield _new_shape(count, semantic, plan)


def _fill(matcher: SemanticMatcher, count: int, *, semantic: bool) -> tuple[float, int]:
    """Seconds and bytes; making the subscriptions, and what of them is kept, is part of both."""
    before, started = process_bytes(), time.process_time()
    matcher.add_many(workload.subscriptions(count, semantic=semantic))
    seconds = time.process_time() - started
    return seconds, process_bytes() - before


def _one_by_one(matcher: SemanticMatcher, events: list[Event]) -> None:
    for event in events:
        matcher.match(event)


def _batches(matcher: SemanticMatcher, events: list[Event]) -> None:
    for at in range(0, len(events), BATCH):
        matcher.match_many(events[at : at + BATCH])


def rates(sides: Sequence[Callable[[], None]], events: int, seconds: float) -> list[Rate]:
    """Each side's rate, the sides taken by turns for about ``seconds`` each; at least twice, after warming up."""
    for side in sides:
        side()
    taken: list[list[float]] = [[] for _ in sides]
    while len(taken[0]) < LEAST or sum(taken[0]) < seconds:
        for times, side in zip(taken, sides, strict=True):
            started = time.process_time()
            side()
            times.append(time.process_time() - started)
    return [Rate(events / min(times), events / median(times)) for times in taken]


def _new_shape(count: int, matcher: SemanticMatcher, plan: Plan) -> NewShape:
    """The first event of a shape: names nobody used, then the same names for a matcher that has forgotten shapes."""
    numbers = [count * 1_000 + number for number in range(plan.new_shapes)]
    unknown = [_first(matcher, workload.new_shape(number)) for number in numbers]
    matcher.forget_shapes()
    known = [_first(matcher, workload.new_shape(number)) for number in numbers]
    names = sum(map(len, workload.SAID.values()))
    return NewShape(count, names, len(workload.SAID), median(unknown), median(known))


def _first(matcher: SemanticMatcher, event: Event) -> float:
    started = time.perf_counter()
    matcher.match(event)
    return time.perf_counter() - started
