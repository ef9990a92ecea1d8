"""Semantic matching on one core, against what the work published and against exact matching.

One process; sides that are compared match the same events by turns. Rates are of the processor's time, so that other
programs disturb less; latencies are of the clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.harness import (
    OWN_PACKAGES,
    Case,
    DisagreementError,
    Grid,
    Rate,
    Record,
    Subject,
    Target,
    at_least,
    cell,
    of_kind,
    table,
)
from benchmarks.timing import process_bytes
from experiments.semantics.dataset import FULL, QUICK, Dataset, Item, generate
from experiments.semantics.speed import spread
from recado.model.event import Event
from recado.model.filter import And, Compare, CompareOp, Filter, Similar
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.sim.kernel import stream

BATCH = 256
"""As many events as the service dispatches together."""
CHECKED = 200
LEAST = 3

# --- records ----------------------------------------------------------------------------------------------------------


class Subscribers(Record, frozen=True, tag="subscribers"):
    """The work's own experiment: events a second with few subscribers, published and here.

    ``plain`` is Algorithm 1 for each subscription without a cache, on a few events.
    """

    subscribers: int
    published_cache: float | None
    published_no_cache: float | None
    rate: Rate
    plain: float | None
    matches_per_event: float


class Many(Record, frozen=True, tag="many"):
    """Many subscriptions in other words, against as many in the publisher's own, on the same events.

    Both gave the same notifications before. ``shaped`` rates are of events from many publishers.
    """

    subscriptions: int
    matches_per_event: float
    exact: Rate
    exact_batch: Rate
    semantic: Rate
    semantic_batch: Rate
    shaped: Rate
    shaped_batch: Rate
    shapes: int
    exact_seconds: float
    semantic_seconds: float
    exact_bytes: int
    semantic_bytes: int

    @property
    def ratio(self) -> float:
        return self.semantic.best / self.exact.best

    @property
    def batch_ratio(self) -> float:
        return self.semantic_batch.best / self.exact_batch.best


class NewShape(Record, frozen=True, tag="new shape"):
    """Seconds that the first event of a shape waits: with names that nobody used before, and with known ones.

    ``names`` is how many different names the subscriptions have, ``attributes`` how many the event has.
    """

    subscriptions: int
    names: int
    attributes: int
    unknown_seconds: float
    known_seconds: float


class Loading(Record, frozen=True, tag="loading"):
    """What the first semantic subscription waits for, and what the process grows by: lexicon, vectors, measures."""

    seconds: float
    process_bytes: int


# --- the work's data set and its published rates (tables 7.1 and 7.2 of the semantics document), events a second ------

PUBLISHED = {
    0: (303.303, 301.714),
    1: (314.416, 311.744),
    2: (316.427, 286.316),
    3: (312.133, 293.796),
    6: (312.431, 250.440),
    10: (301.160, 177.271),
    20: (293.212, 97.250),
    50: (286.100, 44.068),
}
"""Subscribers: with the cache, without it."""
SEMANTIC = {
    "measure": "mean",
    "options": {"word": "jcn", "mode": "all"},
    "threshold": 0.15,
    "unmatched": "ignore",
}
"""The setting of the highest published F: mean over all pairs of words, Jiang & Conrath."""


def make_dataset(quick: bool) -> Dataset:
    return generate(QUICK if quick else FULL)


def subscribers(data: Dataset, count: int) -> list[Subscription]:
    """So many subscribers: 2 to 4 constraints each, names and values in their own words."""
    items = spread(data.subscriptions, count)
    return [Subscription(f"{number}", _filter(item), semantic=SEMANTIC) for number, item in enumerate(items)]


def _filter(item: Item) -> And:
    return And(tuple(Similar(name, value) for name, value in item.pairs))


def published_events(data: Dataset, count: int) -> list[Event]:
    return [Event(item.id, attributes=dict(item.pairs)) for item in spread(data.events, count)]


# --- readings of stations ---------------------------------------------------------------------------------------------
#
# Publishers say ``temperature``, subscribers say it otherwise. A subscription asks for one station and a range of one
# or two readings. It exists twice, in its subscriber's words (semantic) and in the publisher's (exact), so both sides
# match the same events and, where all names find their counterpart, give the same notifications. ``shaped`` events have
# names of many publishers, which no exact subscription can reach.

SEED = 6
STATIONS = 2_000
STATION = "measuring station"
SAID: dict[str, tuple[str, ...]] = {
    STATION: ("station", "measurement station", "measuring site"),
    "solar radiation": ("solar irradiance", "sun radiation", "solarRadiation"),
    "wind speed": ("wind velocity", "speed of the wind", "wind_speed"),
    "temperature": ("average temperature", "mean temperature", "air temperature"),
    "relative humidity": ("humidity", "moisture", "air humidity"),
    "atmospheric pressure": ("air pressure", "barometric pressure", "pressure"),
    "rainfall": ("precipitation", "rain", "amount of rainfall"),
}
READINGS = tuple(name for name in SAID if name != STATION)
PLACES = ("", "roof", "garden", "harbour", "tower", "bridge", "field", "valley", "airport", "school", "street", "lake")
"""Publishers that say of each reading where it was taken, as in ``roof temperature``."""


def subscriptions(count: int, *, semantic: bool) -> Iterator[Subscription]:
    """The same interests in either kind of words."""
    rng = stream(SEED, "subscriptions")
    for number in range(count):
        interest = _interest(rng, semantic)
        yield Subscription(f"s-{number}", interest, semantic={} if semantic else None)


def _interest(rng: Random, semantic: bool) -> Filter:
    station = f"station {rng.randrange(STATIONS)}"
    parts: list[Filter] = [Compare(_name(STATION, rng, semantic), "==", station)]
    for reading in rng.sample(READINGS, rng.choice((1, 2))):
        op: CompareOp = rng.choice((">", "<"))
        parts.append(Compare(_name(reading, rng, semantic), op, rng.randrange(1_000) / 10))
    return And(tuple(parts))


def _name(name: str, rng: Random, semantic: bool) -> str:
    said = rng.choice(SAID[name])  # drawn in either case, so that both kinds are of one stream
    return said if semantic else name


def events(count: int) -> list[Event]:
    """Readings in the plain words: one shape."""
    rng = stream(SEED, "events")
    return [_event(number, rng, "") for number in range(count)]


def shaped_events(count: int) -> list[Event]:
    """The same from publishers with names of their own, their attributes in any order."""
    rng = stream(SEED, "shapes")
    return [_event(number, rng, PLACES[number % len(PLACES)], shuffled=True) for number in range(count)]


def new_shape(number: int) -> Event:
    """An event whose names nobody has used."""
    return _event(number, stream(SEED, "new", number), f"sector {number}")


def _event(number: int, rng: Random, place: str, shuffled: bool = False) -> Event:
    readings = [f"{place} {name}".strip() for name in READINGS]
    values: dict[str, str | float] = {STATION: f"station {rng.randrange(STATIONS)}"}
    values |= {name: rng.randrange(1_000) / 10 for name in readings}
    names = list(values)
    if shuffled:
        rng.shuffle(names)
    return Event(f"e-{number}", "Reading", attributes={name: values[name] for name in names})


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Size:
    """``seconds`` for each rate; ``plain`` events for the slow side; ``new_shapes`` to take the middle one of."""

    subscribers: tuple[int, ...] = (0, 1, 2, 3, 6, 10, 20, 50, 200)
    subscriptions: tuple[int, ...] = (200, 10_000, 100_000)
    seconds: float = 3.0
    events: int = 4_096
    plain: int = 20
    new_shapes: int = 21


FULL_SIZE = Size()
QUICK_SIZE = Size(subscribers=(0, 10, 50), subscriptions=(200, 10_000), seconds=0.3, events=512, plain=2, new_shapes=3)


@dataclass
class Fixture:
    """What the cases share: the lexicon with its cache of similarities, and the work's data set."""

    size: Size
    semantics: Semantics = field(default_factory=lambda: Semantics(cache=SimilarityCache()))

    @cached_property
    def data(self) -> Dataset:
        return make_dataset(quick=self.size.events < 1_000)


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    return make_cases(QUICK_SIZE if quick else FULL_SIZE)


def make_cases(size: Size) -> list[Case]:
    """The lexicon is loaded first, whatever is measured then."""
    fixture = Fixture(size)
    return [
        Case("", "the lexicon", partial(_loading, fixture)),
        *(
            Case("published", f"{count} subscribers, as in the work", partial(_subscribers, fixture, count))
            for count in size.subscribers
        ),
        *(Case("exact", f"{count:,} subscriptions", partial(_many, fixture, count)) for count in size.subscriptions),
    ]


def _loading(fixture: Fixture, _: Path) -> Iterator[Loading]:
    before, started = process_bytes(), time.perf_counter()
    SemanticMatcher(fixture.semantics).check(next(subscriptions(1, semantic=True)))
    yield Loading(time.perf_counter() - started, process_bytes() - before)


def _subscribers(fixture: Fixture, count: int, _: Path) -> Iterator[Subscribers]:
    """Shapes and values are known, as the work's cache was filled."""
    size = fixture.size
    wanted = subscribers(fixture.data, count)
    said = published_events(fixture.data, size.events)
    matcher = SemanticMatcher(fixture.semantics)
    matcher.add_many(wanted)
    found = sum(len(matcher.match(event)) for event in said)
    [rate] = rates([lambda: _one_by_one(matcher, said)], len(said), size.seconds)
    plain = _plain_rate(said[: size.plain], wanted) if wanted else None
    cached, uncached = PUBLISHED.get(count, (None, None))
    yield Subscribers(count, cached, uncached, rate, plain, found / len(said))


def _plain_rate(events: list[Event], subscriptions: list[Subscription]) -> float:
    """The oracle with no cache, one subscription after another."""
    semantics = Semantics()
    semantic_match(events[0], subscriptions[0], semantics=semantics)
    started = time.perf_counter()
    for event in events:
        for subscription in subscriptions:
            semantic_match(event, subscription, semantics=semantics)
    return len(events) / (time.perf_counter() - started)


def _many(fixture: Fixture, count: int, _: Path) -> Iterator[Many | NewShape]:
    """Exact and semantic subscriptions on the same events; both must give the same notifications."""
    size = fixture.size
    exact, semantic = SemanticMatcher(fixture.semantics), SemanticMatcher(fixture.semantics)
    exact_seconds, exact_bytes = _fill(exact, count, semantic=False)
    semantic_seconds, semantic_bytes = _fill(semantic, count, semantic=True)
    plain, shaped = events(size.events), shaped_events(size.events)
    wanted = exact.match_many(plain[:CHECKED])
    if [sorted(ids) for ids in semantic.match_many(plain[:CHECKED])] != [sorted(ids) for ids in wanted]:
        raise DisagreementError(f"{count:,} subscriptions: semantic and exact matching give other notifications")
    for event in shaped:
        semantic.match(event)  # all shapes are known
    sides = [(exact, plain), (semantic, plain), (semantic, shaped)]
    single = rates([partial(_one_by_one, *side) for side in sides], len(plain), size.seconds)
    batched = rates([partial(_batches, *side) for side in sides], len(plain), size.seconds)
    yield Many(
        subscriptions=count,
        matches_per_event=sum(map(len, wanted)) / CHECKED,
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
    yield _new_shape(count, semantic, size)


def _fill(matcher: SemanticMatcher, count: int, *, semantic: bool) -> tuple[float, int]:
    """Seconds and bytes; making the subscriptions, and what of them is kept, is part of both."""
    before, started = process_bytes(), time.process_time()
    matcher.add_many(subscriptions(count, semantic=semantic))
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


def _new_shape(count: int, matcher: SemanticMatcher, size: Size) -> NewShape:
    """The first event of a shape: names nobody used, then the same names for a matcher that has forgotten shapes."""
    numbers = [count * 1_000 + number for number in range(size.new_shapes)]
    unknown = [_first(matcher, new_shape(number)) for number in numbers]
    matcher.forget_shapes()
    known = [_first(matcher, new_shape(number)) for number in numbers]
    names = sum(map(len, SAID.values()))
    return NewShape(count, names, len(SAID), median(unknown), median(known))


def _first(matcher: SemanticMatcher, event: Event) -> float:
    started = time.perf_counter()
    matcher.match(event)
    return time.perf_counter() - started


# --- tables and targets -----------------------------------------------------------------------------------------------

TIMES, HALF = 100, 0.5
TARGET_SUBSCRIBERS, TARGET_SUBSCRIPTIONS = 50, 100_000
WAYS = ("one at a time", f"batches of {BATCH}")


def _against_exact(records: Sequence[Record]) -> Grid:
    heads = (
        "subscriptions", "how", "exact", "semantic", "semantic / exact", "semantic, many publishers", "matches/event",
    )  # fmt: skip
    rows = [
        (
            cell(r.subscriptions), how, cell(exact), cell(semantic), f"{semantic.best / exact.best:.2f}", cell(shaped),
            cell(r.matches_per_event),
        )
        for r in of_kind(records, Many)
        for how, exact, semantic, shaped in (
            (WAYS[0], r.exact, r.semantic, r.shaped),
            (WAYS[1], r.exact_batch, r.semantic_batch, r.shaped_batch),
        )
    ]  # fmt: skip
    return Grid(title="Against exact matching: events a second, known shapes", heads=heads, rows=rows, words=0)


def _memory(records: Sequence[Record]) -> Grid:
    rows: list[tuple[str, ...]] = [
        ("lexicon, vectors, measures", f"{r.seconds:.2f}", f"{r.process_bytes / 1e6:,.0f}", "")
        for r in of_kind(records, Loading)
    ]
    for r in of_kind(records, Many):
        for kind, seconds, size in (
            ("exact", r.exact_seconds, r.exact_bytes),
            ("semantic", r.semantic_seconds, r.semantic_bytes),
        ):
            what = f"{r.subscriptions:,} {kind} subscriptions"
            rows.append((what, f"{seconds:.2f}", f"{size / 1e6:,.1f}", f"{size / r.subscriptions:,.0f}"))
    return Grid(title="Loading and memory", heads=("what", "seconds", "MB", "bytes/subscription"), rows=rows)


def _targets(records: Sequence[Record]) -> Iterator[Target]:
    published = PUBLISHED[TARGET_SUBSCRIBERS][0]
    few = [r.rate.best for r in of_kind(records, Subscribers) if r.subscribers == TARGET_SUBSCRIBERS]
    name = f"{TARGET_SUBSCRIBERS} subscribers: events/s through the matcher, against the published {published:g}"
    yield at_least(name, few[0] / published if few else None, TIMES)
    many = [r for r in of_kind(records, Many) if r.subscriptions == TARGET_SUBSCRIPTIONS]
    ratios = (many[0].ratio, many[0].batch_ratio) if many else (None, None)
    for how, ratio in zip(WAYS, ratios, strict=True):
        name = f"{TARGET_SUBSCRIPTIONS:,} semantic subscriptions, known shapes, {how}: against exact ones"
        yield at_least(name, ratio, HALF)


SUBJECT = Subject(
    name="semantics",
    title="Semantic matching, measured",
    parts=("published", "exact"),
    plan=plan,
    packages=(*OWN_PACKAGES, "wn", "scipy"),
    note=(
        "*As in the work*: its data set, remade with the traits that section 4.3.1 of the semantics document tells, "
        "with the setting of its highest F (mean over all pairs of words, Jiang & Conrath, threshold 0.15, "
        "constraints without counterpart ignored, values compared by meaning); names and values have been seen "
        "before, as the work's cache was filled. Published rates are of a whole server on another machine. *plain, no "
        "cache* is Algorithm 1 for each subscription, every similarity computed anew.\n\n"
        "Rates of matchers are events a second of the processor's time on one core, the best of several rounds, the "
        "sides by turns; *plain* and the times of first events are of the clock on the wall, so they are worse on a "
        "busy machine.\n\n"
        "*Against exact matching*: readings of weather stations, subscriptions with two or three constraints. Both "
        "sides match the same events; exact subscriptions use the publisher's names, semantic ones others (measure "
        "hybrid), and both give the same notifications, which is checked before. *many publishers*: the same readings "
        "under names of twelve publishers, in any order, which exact subscriptions do not reach."
    ),
    tables=(
        table(
            "As in the work: events a second",
            Subscribers,
            {
                "subscribers": lambda r: r.subscribers,
                "published, cache": lambda r: r.published_cache,
                "published, no cache": lambda r: r.published_no_cache,
                "matcher": lambda r: r.rate,
                "x published": lambda r: r.published_cache and r.rate.best / r.published_cache,
                "plain, no cache": lambda r: r.plain,
                "matches/event": lambda r: r.matches_per_event,
            },
            words=0,
        ),
        _against_exact,
        _memory,
        table(
            "The first event of a new shape",
            NewShape,
            {
                "subscriptions": lambda r: r.subscriptions,
                "their names": lambda r: r.names,
                "the event's names": lambda r: r.attributes,
                "names never seen, ms": lambda r: r.unknown_seconds * 1e3,
                "names known, ms": lambda r: r.known_seconds * 1e3,
            },
            words=0,
        ),
    ),
    targets=(_targets,),
)
