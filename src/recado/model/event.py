"""Events: what happened, as an envelope and a flat set of attributes.

The envelope names ``id``, ``type``, ``source`` and ``time`` are read by filters like any attribute; an empty or
missing one is absent. ``attributes`` maps dotted names to a value, or to a tuple of values where the event had an
array. **An array stands for one of its elements**: the event matches a filter if it would match with some choice of
one element for every array. So each array is expanded before evaluation, all rules about filters speak of single
values, and ``x > 1 and x < 5`` asks for one element that satisfies both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import product
from math import prod

import msgspec

from recado.errors import EventError, RecadoError
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value, check_value

ENVELOPE = ("id", "type", "source", "time")

Attributes = Mapping[str, Value | tuple[Value, ...]]


class Event(msgspec.Struct, frozen=True, eq=True):
    """One event: what happened. Frozen, and not checked when it is made; ``read_event`` checks what it reads.

    An empty ``type`` or ``source`` is absent. ``attributes`` maps dotted names to a value, or to a tuple of values
    where the event has an array: it then matches a filter if it does with one element of each. ``extensions`` names
    the attributes that CloudEvents writes beside the envelope, not into data.
    """

    id: str
    type: str = ""
    source: str = ""
    time: datetime | None = None
    attributes: dict[str, Value | tuple[Value, ...]] = {}
    extensions: tuple[str, ...] = ()

    def items(self) -> Iterator[tuple[str, Value | tuple[Value, ...]]]:
        """Everything a filter can name, envelope first; absent names are left out."""
        yield "id", self.id
        if self.type:
            yield "type", self.type
        if self.source:
            yield "source", self.source
        if self.time is not None:
            yield "time", self.time
        yield from self.attributes.items()


def only_view(event: Event) -> dict[str, Value]:
    """The single-valued view of an event without arrays: what ``items`` gives."""
    view: dict[str, Value] = {"id": event.id, **event.attributes}  # type: ignore[dict-item]  # no value is a tuple
    if event.type:
        view["type"] = event.type
    if event.source:
        view["source"] = event.source
    if event.time is not None:
        view["time"] = event.time
    return view


def expansions(event: Event, names: Collection[str] | None = None) -> Iterator[dict[str, Value]]:
    """The single-valued views of an event: one for each choice of array elements.

    ``names`` restricts the views to what a filter can see, so that other arrays do not multiply the work.
    """
    return expand(event.items(), names)


def expand(
    items: Iterable[tuple[str, Value | tuple[Value, ...]]], names: Collection[str] | None = None
) -> Iterator[dict[str, Value]]:
    """The same for names and values that are not yet an event."""
    single: dict[str, Value] = {}
    arrays: dict[str, tuple[Value, ...]] = {}
    for name, value in items:
        if names is not None and name not in names:
            continue
        if type(value) is not tuple:
            single[name] = value  # type: ignore[assignment]  # not a tuple, so a Value
        elif value:  # an empty array is absent: it has no element to stand for it
            arrays[name] = value
    if not arrays:
        yield single
        return
    for choice in product(*arrays.values()):
        yield {**single, **dict(zip(arrays, choice, strict=True))}


def check_event(event: Event, limits: Limits = LIMITS) -> Event:
    """The event itself, or an EventError that names what is wrong with it."""
    if not event.id:
        raise EventError("the event has no id")
    if len(event.attributes) > limits.attributes:
        raise EventError(f"the event has {len(event.attributes):,} attributes; the limit is {limits.attributes:,}")
    combinations = prod(len(v) for v in event.attributes.values() if type(v) is tuple and v)
    if combinations > limits.array_combinations:
        raise EventError(
            f"the event's arrays have {combinations:,} combinations of elements; "
            f"the limit is {limits.array_combinations:,}"
        )
    try:
        for name, value in event.items():
            _check_attribute(name, value, limits)
    except RecadoError as error:
        raise EventError(str(error)) from None
    for name in event.attributes:
        if name in ENVELOPE:
            raise EventError(f"attribute {name!r} has the name of an envelope field; call it data.{name}")
    return event


def _check_attribute(name: str, value: Value | tuple[Value, ...], limits: Limits) -> None:
    if not name:
        raise EventError("an attribute has an empty name")
    if len(name) > limits.name_chars:
        raise EventError(f"an attribute name has {len(name):,} characters; the limit is {limits.name_chars:,}")
    check_value(name, "attribute name", limits.name_chars)
    if type(value) is not tuple:
        check_value(value, f"attribute {name!r}", limits.string_chars)  # type: ignore[arg-type]
        return
    if len(value) > limits.array_elements:
        raise EventError(f"attribute {name!r} has {len(value):,} elements; the limit is {limits.array_elements:,}")
    for element in value:
        check_value(element, f"attribute {name!r}", limits.string_chars)
