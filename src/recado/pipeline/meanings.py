"""Semantic subscriptions in executors: the library's own matcher on the rows of a batch.

In a subscription set a semantic subscription has an entry that matches nothing, so that it has a slot and details, and
its filter and settings stand in its details. A worker makes a ``SemanticMatcher`` of them when it first meets the set;
``Knowledge`` says what it knows of words besides the lexicon, and what settings leave open. Results are those of
``recado.semantics.match``.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import SparkFiles

from recado.errors import EventError, RecadoError
from recado.filters import expression
from recado.matching.batch import Pairs
from recado.matching.encode import fields_of, is_attribute_type, normal
from recado.model.codec import write_flat
from recado.model.event import ENVELOPE, Event
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import Array, Form, Matched, row_reader, with_text_ids
from recado.pipeline.locations import Location, digest_of, keep, locate
from recado.semantics.engine import Knowledge, Semantics
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.settings import read_settings


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
        read_settings(subscription.semantic)
    except RecadoError as error:
        raise PipelineError(f"subscription {subscription.id!r}: {error}") from None
    text = expression.format_expression(subscription.filter)
    return msgspec.json.encode(_Record(text, subscription.type, subscription.semantic)).decode()


class SlotMatcher(SemanticMatcher):
    """A matcher whose subscriptions go by their slots; call-backs are told their ids."""

    def __init__(self, knowledge: Knowledge, ids: Sequence[str]) -> None:
        super().__init__(semantics(knowledge), knowledge.default)
        self._ids = ids

    def _tell(self, event: Event, ids: Iterable[str]) -> None:
        super()._tell(event, (self._ids[int(slot)] for slot in ids))


TABLES = "frequencies", "similarities"
"""The members of ``Knowledge`` that are files."""
SENT = "sent:"
"""How the path of a table begins that came with the job."""


def pack_tables(knowledge: Knowledge, scratch: Path) -> tuple[Path, Knowledge] | None:
    """The tables in one file to be sent, named after its content, and the knowledge that finds them in it.

    None if there are no tables. They may be at URLs.
    """
    given = {name: locate(path) for name in TABLES if (path := getattr(knowledge, name))}
    if not given:
        return None
    packed = scratch / "tables.zip"
    try:
        with zipfile.ZipFile(packed, "w") as archive:
            for name, place in given.items():
                for inside, file in _files_of(place, name):
                    content = file.read_bytes()
                    archive.writestr(zipfile.ZipInfo(inside), content)
    except OSError as error:
        raise PipelineError(f"{error.filename} cannot be read: {error.strerror}") from None
    digest = digest_of(packed)
    named = packed.rename(scratch / f"{digest}-tables.zip")
    return named, msgspec.structs.replace(knowledge, **{name: f"{SENT}{digest}/{name}" for name in given})


def _files_of(place: Location, inside: str) -> Iterator[tuple[str, Location]]:
    if place.is_dir():
        inner: list[Location] = [*place.iterdir()]
        for path in sorted(inner, key=str):
            if not path.name.startswith((".", "_")):
                yield from _files_of(path, f"{inside}/{path.name}")
    else:
        yield inside, place


def unpack_tables(knowledge: Knowledge, find: Callable[[str], str] = SparkFiles.get) -> Knowledge:
    """The knowledge with the tables of this host; ``find`` gives the path of what was sent under a name."""

    def here(path: str) -> str:
        if not path.startswith(SENT):
            return path
        digest, _, name = path.removeprefix(SENT).partition("/")
        folder = keep(digest, lambda draft: shutil.unpack_archive(find(f"{digest}-tables.zip"), draft))
        return str(folder / name)

    return msgspec.structs.replace(knowledge, **{name: here(getattr(knowledge, name)) for name in TABLES})


@lru_cache(4)
def semantics(knowledge: Knowledge) -> Semantics:
    """What this process knows of words."""
    return unpack_tables(knowledge).semantics()


def matcher_of(details: pa.Table, knowledge: Knowledge) -> SemanticMatcher | None:
    """The semantic subscriptions of a set by slot; None if there are none."""
    column = details.column("semantic")
    if column.null_count == len(column):
        return None
    matcher = SlotMatcher(knowledge, details.column("id").to_pylist())
    matcher.add_many(
        Subscription(str(slot), expression.read_back(record.filter), record.type, semantic=record.semantic)
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


def renamed_texts(matcher: SemanticMatcher, batch: pa.RecordBatch, form: Form, column: str, slots: Array) -> pa.Array:
    """For each row, which is an event: as the service sends it to a subscription that wants its own names; else null.

    ``slots`` are the subscriptions that the rows matched.
    """
    wanted = [matcher.renames(str(slot)) for slot in slots.tolist()]
    events = events_of(batch.filter(pa.array(wanted, pa.bool_())), form, column)
    texts = (
        write_flat(matcher.renamed(next(events), str(slot))).decode() if wants else None
        for slot, wants in zip(slots.tolist(), wanted, strict=True)
    )
    return pa.array(texts, pa.string())


def events_of(batch: pa.RecordBatch, form: Form, column: str, names: Container[str] | None = None) -> Iterator[Event]:
    """The rows as events; an EventError for one that is none.

    Of typed columns only those of ``names`` count, and the id, if names are given; the others may be of any type.
    """
    if form != "columns":
        read = row_reader(batch, form, column)
        yield from map(read, range(batch.num_rows))
        return
    fields = fields_of(with_text_ids(batch))
    wanted = [(name, array) for name, array in fields if names is None or name in names or name == "id"]
    columns = [(name, normal(name, array).to_pylist()) for name, array in wanted]
    for row in range(batch.num_rows):
        members = {name: _value(values[row]) for name, values in columns if values[row] is not None}
        envelope = {name: members.pop(name) for name in ENVELOPE if name in members}
        yield Event(**envelope, attributes=members)


def good_events(batch: pa.RecordBatch, form: Form, column: str) -> Iterator[Event]:
    """The same, without the rows that are no events, and without the columns of a type that no attribute can have."""
    names = None
    if form == "columns":
        names = {name for name, array in fields_of(batch) if is_attribute_type(name, array.type)}
    for row in range(batch.num_rows):
        try:
            yield from events_of(batch.slice(row, 1), form, column, names)
        except EventError:
            continue


def _value(value: Any) -> Any:
    return tuple(element for element in value if element is not None) if isinstance(value, list) else value
