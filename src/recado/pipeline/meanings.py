"""Semantic subscriptions in executors: the library's own matcher on the rows of a batch.

In a subscription set a semantic subscription has an entry that matches nothing, so that it has a slot and details, and
its filter and settings stand in its details. A worker makes a ``SemanticMatcher`` of them when it first meets the set;
``Knowledge`` says what it knows of words besides the lexicon. Results are those of ``recado.semantics.match``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from recado.errors import EventError, RecadoError
from recado.filters import expression
from recado.matching.arrow import fields_of, normal
from recado.matching.batch import Pairs
from recado.model.event import ENVELOPE, Event
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import Form, Matched, row_reader
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.overrides import Overrides
from recado.semantics.settings import read_settings, written


class Knowledge(msgspec.Struct, frozen=True):
    """Files that executors can read: similarities that people gave, and ones that ``align`` computed before."""

    overrides: str = ""
    similarities: str = ""


class _Record(msgspec.Struct):
    """A semantic subscription in the details of a set."""

    filter: str
    type: str
    semantic: dict[str, Any]


def semantic_detail(subscription: Subscription) -> str | None:
    """What the details keep of a subscription that is semantic; None of any other."""
    if subscription.semantic is None:
        return None
    try:
        settings = read_settings(subscription.semantic)
    except RecadoError as error:
        raise PipelineError(f"subscription {subscription.id!r}: {error}") from None
    assert settings is not None  # there is an object
    text = expression.format(subscription.filter)
    return msgspec.json.encode(_Record(text, subscription.type, written(settings))).decode()


@lru_cache(4)
def semantics(knowledge: Knowledge) -> Semantics:
    """What this process knows of words."""
    overrides = Overrides.load(knowledge.overrides) if knowledge.overrides else None
    cache = SimilarityCache()
    made = Semantics(overrides=overrides, cache=cache)
    if knowledge.similarities and not cache.load(Path(knowledge.similarities), made.digest):
        raise PipelineError(
            f"{knowledge.similarities} holds no similarities that were made by the lexicon and overrides of this job; "
            "make it with: recado pipeline align"
        )
    return made


def matcher_of(details: pa.Table, knowledge: Knowledge) -> SemanticMatcher | None:
    """The semantic subscriptions of a set by slot; None if there are none."""
    column = details.column("semantic")
    if column.null_count == len(column):
        return None
    matcher = SemanticMatcher(semantics(knowledge))
    matcher.add_many(
        Subscription(str(slot), expression.parse(record.filter), record.type, semantic=record.semantic)
        for slot, text in enumerate(column.to_pylist())
        if text is not None
        for record in (msgspec.json.decode(text, type=_Record),)
    )
    return matcher


def add_meanings(matcher: SemanticMatcher, batch: pa.RecordBatch, form: Form, column: str, matched: Matched) -> Matched:
    """What a batch matched, with what its semantic subscriptions match."""
    bad = dict(matched.rejected)
    good = [row for row in range(batch.num_rows) if row not in bad]
    found = matcher.match_many(list(events_of(batch.take(pa.array(good, pa.int64())), form, column)))
    rows = np.repeat(np.array(good, np.int64), [len(ids) for ids in found])
    slots = np.array([int(id) for ids in found for id in ids], np.int32)
    every = np.concatenate((matched.pairs.events, rows))
    order = np.argsort(every, kind="stable")
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(every, minlength=batch.num_rows))))
    pairs = Pairs(offsets, np.concatenate((matched.pairs.slots, slots))[order])
    return matched._replace(pairs=pairs)


def events_of(batch: pa.RecordBatch, form: Form, column: str) -> Iterator[Event]:
    """The rows as events; an EventError for one that is none."""
    if form != "columns":
        read = row_reader(batch, form, column)
        yield from map(read, range(batch.num_rows))
        return
    columns = [(name, normal(name, array).to_pylist()) for name, array in fields_of(batch)]
    for row in range(batch.num_rows):
        members = {name: _value(values[row]) for name, values in columns if values[row] is not None}
        envelope = {name: members.pop(name) for name in ENVELOPE if name in members}
        yield Event(**envelope, attributes=members)


def good_events(batch: pa.RecordBatch, form: Form, column: str) -> Iterator[Event]:
    """The same, without the rows that are no events."""
    for row in range(batch.num_rows):
        try:
            yield from events_of(batch.slice(row, 1), form, column)
        except EventError:
            continue


def _value(value: Any) -> Any:
    return tuple(element for element in value if element is not None) if isinstance(value, list) else value
