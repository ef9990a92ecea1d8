"""Choosing rows by a filter, and leaving out segments in which no row can be chosen.

A filter is evaluated on each event by the plain evaluator. If it asks only for the envelope, the columns of the log
have all it needs and the event's JSON is not parsed. Otherwise it mostly asks for plain strings and numbers, which
the flat form holds as they are; only an event with something else there (an array, an instant) is read as an event.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from recado.filters.covering import overlaps
from recado.filters.evaluate import evaluate, matches, names_of, walk
from recado.model.codec import read_event
from recado.model.event import ENVELOPE
from recado.model.filter import And, Between, Compare, Exists, Filter, Not, Or, Sql
from recado.model.flatten import SCALARS
from recado.model.limits import Limits
from recado.store.log.settings import Segment

_ANY = 2**62
_decode = msgspec.json.Decoder().decode
TRUSTED = Limits(
    event_bytes=_ANY,
    attributes=_ANY,
    name_chars=_ANY,
    string_chars=_ANY,
    array_elements=_ANY,
    array_combinations=_ANY,
)
"""What is in the log was checked when it was appended, perhaps with other limits than the reader's."""


def choose(batch: pa.RecordBatch, where: Filter) -> pa.RecordBatch:
    """The rows whose event matches."""
    names = [name for name in ENVELOPE if name in names_of(where)]
    if names and len(names) == len(names_of(where)) and not _reads_time(where):
        columns = [batch.column(name).to_pylist() for name in names]
        kept = [evaluate(where, _view(names, row)) for row in zip(*columns, strict=True)]
    else:
        kept = [_matches(where, text) for text in batch.column("event").to_pylist()]
    return batch.filter(pa.array(np.array(kept, bool)))


def _reads_time(where: Filter) -> bool:
    """Does CESQL look at the time? Its text has the offset of the event, which the column has not."""
    return any(isinstance(node, Sql) and "time" in names_of(node) for node in walk(where))


def _matches(where: Filter, text: str) -> bool:
    members = _decode(text)
    view = {name: members[name] for name in names_of(where) if name in members}
    if "time" not in view and all(type(value) in SCALARS for value in view.values()):
        return evaluate(where, view)
    return matches(where, read_event(text, limits=TRUSTED))


def _view(names: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, row, strict=True) if value is not None and value != ""}


def may_hold(segment: Segment, where: Filter) -> bool:
    """Could an event of the segment match? A False is certain."""
    time = _within("time", segment.time_min, segment.time_max, segment.untimed)
    type_ = _within("type", segment.type_min, segment.type_max, segment.untyped)
    return overlaps(And((time, type_)), where)


def _within(name: str, low: Any, high: Any, some_absent: bool) -> Filter:
    """What is known of an attribute of all events."""
    if low is None:
        return Not(Exists(name))
    present = Compare(name, ">=", low) if high is None else Between(name, low, high)
    return Or((present, Not(Exists(name)))) if some_absent else present
