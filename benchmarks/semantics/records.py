"""What the benchmark of semantic matching finds out, as records: a line of NDJSON each, the source of every table."""

from __future__ import annotations

from benchmarks.records import Machine, Rate, Record, Target


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

    ``agreed`` says that both gave the same notifications. ``shaped`` rates are of events from many publishers.
    """

    subscriptions: int
    matches_per_event: float
    agreed: bool
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


AnyRecord = Machine | Loading | Subscribers | Many | NewShape | Target
"""All records of this benchmark."""
