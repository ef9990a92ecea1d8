"""The data-file form of the braces syntax: ``{type=pressure event, country=Germany}``, and the lines of its files.

Subscription and event files hold ``id<TAB>body`` a line, label files ``id<TAB>[event-id, event-id, ...]``. A pair is
separated from the next by a comma; a piece without ``=`` continues the value before it, since values such as
addresses hold commas of their own. In a subscription ``name=value`` means that the attribute equals the value or,
with ``values="similar"``, that it is similar to it if the value is a string.
"""

from __future__ import annotations

import re
from typing import Literal

from recado.errors import EventError, FilterError
from recado.filters.brace_values import typed
from recado.filters.scanner import Scanner
from recado.model.event import Event, check_event
from recado.model.filter import And, Compare, Filter, Similar
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value

Values = Literal["exact", "similar"]

_NEXT_PAIR = re.compile(r",(?=[^,{}=]*=)|\}|\Z")
_LABELS = re.compile(r"\[([^\[\]]*)\]")


def parse_pairs(text: str, limits: Limits = LIMITS, values: Values = "exact") -> Filter:
    """``{name=value, ...}`` as a conjunction."""
    parts: list[Filter] = []
    for name, value in read_pairs(text, limits):
        similar = values == "similar" and isinstance(value, str)
        parts.append(Similar(name, str(value)) if similar else Compare(name, "==", value))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def read_pairs(text: str, limits: Limits = LIMITS) -> list[tuple[str, Value]]:
    """The names and values between the braces, in order."""
    scanner = Scanner(text, limits)
    scanner.skip_space()
    if scanner.char != "{":
        scanner.fail("expected an opening brace", "write {name=value, name=value}")
    pairs: list[tuple[str, Value]] = []
    while not pairs or scanner.char == ",":
        scanner.position += 1
        if len(pairs) >= limits.filter_predicates:
            scanner.fail(f"there are more than {limits.filter_predicates:,} pairs")
        pairs.append(_read_pair(scanner))
    if scanner.char != "}":
        scanner.fail("the brace is never closed", "end with }")
    scanner.finish()
    return pairs


def _read_pair(scanner: Scanner) -> tuple[str, Value]:
    start = scanner.position
    name = scanner.check_name(scanner.until("=,{}"), start)
    if scanner.char != "=":
        scanner.fail(f"expected '=' and a value after {name!r}", "write {name=value, name=value}")
    scanner.position += 1
    scanner.skip_space()
    start = scanner.position
    if scanner.char == '"':
        value: Value = scanner.quoted()
        scanner.skip_space()
        if scanner.char not in (",", "}"):
            scanner.fail("expected ',' or '}' after the quoted value")
        return name, value
    found = _NEXT_PAIR.search(scanner.text, start)
    scanner.position = found.start() if found else len(scanner.text)
    raw = scanner.text[start : scanner.position].strip()
    if not raw:
        scanner.fail(f"{name!r} has no value", 'an empty text is written ""', start)
    return name, typed(scanner, raw, start)


def subscription_line(line: str, limits: Limits = LIMITS, values: Values = "exact") -> tuple[str, Filter]:
    """The id and the filter of one line of a subscription file."""
    id, body = _split(line, FilterError)
    return id, parse_pairs(body, limits, values)


def event_line(line: str, limits: Limits = LIMITS) -> Event:
    """The event of one line of an event file; ``type`` and ``source`` become its envelope."""
    id, body = _split(line, EventError)
    attributes: dict[str, Value | tuple[Value, ...]] = {}
    try:
        for name, value in read_pairs(body, limits):
            if name in attributes:
                raise EventError(f"the event has two attributes named {name!r}")
            attributes[name] = value
    except FilterError as error:
        raise EventError(str(error)) from None
    type, source = (str(attributes.pop(name, "")) for name in ("type", "source"))
    return check_event(Event(id, type, source, attributes=attributes), limits)


def label_line(line: str) -> tuple[str, tuple[str, ...]]:
    """The subscription id and the ids of the events it expects, from one line of a label file."""
    id, body = _split(line, FilterError)
    found = _LABELS.fullmatch(body.strip())
    if found is None:
        raise FilterError(f"the labels of {id!r} cannot be read", hint="write [event-id, event-id, ...]")
    return id, tuple(label.strip() for label in found[1].split(",") if label.strip())


def _split(line: str, error: type[FilterError | EventError]) -> tuple[str, str]:
    id, tab, body = line.rstrip("\r\n").partition("\t")
    if not tab or not id.strip():
        raise error(f"the line {line[:40]!r} has no id and tab at its beginning: write id<TAB>{{name=value, ...}}")
    return id.strip(), body
