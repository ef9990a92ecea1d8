"""The braces syntax: ``{umidade, GT, 60; temperatura média, LE, 25}``, a conjunction of constraints on attributes.

A constraint is a name, an operator code and a value, separated by commas; constraints are separated by semicolons.
Only the first two commas separate, so a value may hold commas. The value of ``ANY`` may be left out and is not read.

- ``PF``, ``SF`` and ``SS`` (prefix, suffix, substring) ignore case, and with ``SM`` (similar) take their value as text.
- ``NE`` holds for every present value that is not equal, also for one of another kind: it is "exists and not equal",
  which is wider than ``!=`` of the expression syntax.

The data-file form ``{type=..., country=...}`` is recognised too; see ``recado.filters.braces``.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Literal

from recado.errors import EventError, FilterError
from recado.filters.scanner import Scanner, quote
from recado.model.event import Event, check_event
from recado.model.filter import And, Compare, CompareOp, Exists, Filter, Not, Similar, Text, TextOp
from recado.model.limits import LIMITS, Limits
from recado.model.values import INT_MAX, INT_MIN, Value

# --- Values inside braces: typed by how they look, unless quoted -----------------------------------------------------
#
# The order of recognition is boolean (any case), integer, double, and otherwise a string. An integer that does not fit
# 64 bits is a double. Double quotes make a string of anything.


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BARE = re.compile(r'[^\s";{}=,](?:[^;{}=,\n\r]*[^\s;{}=,])?')


def read_typed(scanner: Scanner, text: str, position: int) -> Value:
    """The value that an unquoted text stands for."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if _INTEGER.fullmatch(text) and len(text) < 64:
        integer = int(text)
        if INT_MIN <= integer <= INT_MAX:
            return integer
    if _DOUBLE.fullmatch(text):
        double = float(text)
        if math.isinf(double):
            scanner.fail("the number is too large for 64 bits", 'put quotes around it for a text: "..."', position)
        return double
    return text


def format_value(value: Value) -> str:
    """A value that reads back as the same; a FilterError for what braces cannot hold."""
    if isinstance(value, str):
        return _format_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        raise FilterError("the braces syntax has no timestamps", hint='the expression syntax has: t"..."')
    if isinstance(value, float) and math.isinf(value):
        raise FilterError("the braces syntax has no infinity", hint="the expression syntax has")
    return repr(value)


def _format_string(text: str) -> str:
    looks_typed = text.lower() in ("true", "false") or _DOUBLE.fullmatch(text)
    if _BARE.fullmatch(text) and not looks_typed:
        return text
    return quote(text)


# --- The data-file form of the braces syntax: ``{type=pressure event, country=Germany}``, and the lines of its files
#
# Subscription and event files hold ``id<TAB>body`` a line, label files ``id<TAB>[event-id, event-id, ...]``. A pair is
# separated from the next by a comma; a piece without ``=`` continues the value before it, since values such as
# addresses hold commas of their own. In a subscription ``name=value`` means that the attribute equals the value or,
# with ``values="similar"``, that it is similar to it if the value is a string.


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
    return name, read_typed(scanner, raw, start)


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


# --- The braces syntax: ``{umidade, GT, 60; temperatura média, LE, 25}``, a conjunction of constraints on attributes

_COMPARE: dict[str, CompareOp] = {"EQ": "==", "GT": ">", "LT": "<", "GE": ">=", "LE": "<="}
_TEXT: dict[str, TextOp] = {"PF": "prefix", "SF": "suffix", "SS": "contains"}
_CODES = {op: code for code, op in (_COMPARE | _TEXT).items()}
_OPERATORS = frozenset({*_COMPARE, *_TEXT, "NE", "SM", "ANY"})
_ALL_CODES = "EQ NE GT LT GE LE PF SF SS SM ANY"

_DATA_FORM = re.compile(r"\s*\{[^,;{}=]*=")
_CONSTRAINT_FORM = re.compile(r"\s*\{[^,;{}]*,\s*([A-Za-z]+)\s*[,;}]")
_NAME = re.compile(r"[^\s,;{}](?:[^,;{}]*[^\s,;{}])?")


def parse(text: str, limits: Limits = LIMITS, *, values: Values = "exact") -> Filter:
    """The filter that the braces describe; ``values`` concerns the data-file form only."""
    scanner = Scanner(text, limits)
    if _DATA_FORM.match(text):
        form = _CONSTRAINT_FORM.match(text)
        if form is None or form[1].upper() not in _OPERATORS:
            return parse_pairs(text, limits, values)
    scanner.skip_space()
    if scanner.char != "{":
        scanner.fail("expected an opening brace", "write {name, GT, 60; name, LE, 25}")
    parts: list[Filter] = []
    while not parts or scanner.char == ";":
        scanner.position += 1
        if len(parts) >= limits.filter_predicates:
            scanner.fail(f"there are more than {limits.filter_predicates:,} constraints")
        parts.append(_read_constraint(scanner))
    if scanner.char != "}":
        scanner.fail("the brace is never closed", "end with }")
    scanner.finish()
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _read_constraint(scanner: Scanner) -> Filter:
    start = scanner.position
    name = scanner.check_name(scanner.until(",;{}"), start)
    if scanner.char != ",":
        scanner.fail(f"expected ',' and an operator after {name!r}", "a constraint is written: name, GT, 60")
    scanner.position += 1
    scanner.skip_space()
    start = scanner.position
    code = scanner.until(",;{}").upper()
    if code not in _OPERATORS:
        scanner.fail(f"{code[:40]!r} is not an operator", f"the operators are {_ALL_CODES}", start)
    if code == "ANY":
        _skip_value(scanner)
        return Exists(name)
    if scanner.char != ",":
        scanner.fail(f"expected ',' and a value after {code}", "only ANY takes no value")
    scanner.position += 1
    return _constraint(scanner, name, code)


def _constraint(scanner: Scanner, name: str, code: str) -> Filter:
    raw, value = _read_value(scanner)
    if code in _COMPARE:
        return Compare(name, _COMPARE[code], value)
    if code == "NE":
        return And((Exists(name), Not(Compare(name, "==", value))))
    if len(raw) > scanner.limits.pattern_chars:
        scanner.fail(f"the text has {len(raw):,} characters; the limit is {scanner.limits.pattern_chars:,}")
    return Similar(name, raw) if code == "SM" else Text(name, _TEXT[code], raw, fold=True)


def _skip_value(scanner: Scanner) -> None:
    if scanner.char == ",":
        scanner.position += 1
        scanner.skip_space()
        if scanner.char not in (";", "}", ""):
            _read_value(scanner)


def _read_value(scanner: Scanner) -> tuple[str, Value]:
    """The value in sight, as written and typed."""
    scanner.skip_space()
    start = scanner.position
    if scanner.char == '"':
        text = scanner.quoted()
        scanner.skip_space()
        if scanner.char not in (";", "}", ""):
            scanner.fail("expected ';' or '}' after the quoted value")
        return text, text
    raw = scanner.until(";}")
    if not raw:
        scanner.fail("a value is missing", 'an empty text is written ""', start)
    return raw, read_typed(scanner, raw, start)


def format_braces(node: Filter) -> str:
    """The filter in braces; a FilterError names what braces cannot express."""
    parts = node.parts if isinstance(node, And) and _unequal(node) is None else (node,)
    if not parts:
        raise FilterError("the braces syntax needs at least one constraint", hint="the expression syntax writes: all()")
    return "{" + "; ".join(map(_format_constraint, parts)) + "}"


def _format_constraint(part: Filter) -> str:
    match part:
        case And() if (compare := _unequal(part)) is not None:
            return f"{_format_name(compare.name)}, NE, {format_value(compare.value)}"
        case Compare(name, op, value) if op != "!=":
            return f"{_format_name(name)}, {_CODES[op]}, {format_value(value)}"
        case Text(name, op, pattern, True) if op != "like":
            return f"{_format_name(name)}, {_CODES[op]}, {format_value(pattern)}"
        case Similar(name, text, threshold) if threshold == Similar(name, text).threshold:
            return f"{_format_name(name)}, SM, {format_value(text)}"
        case Exists(name):
            return f"{_format_name(name)}, ANY"
    raise FilterError(f"the braces syntax cannot express {_why_not(part)}", hint="use the expression syntax")


def _unequal(node: And) -> Compare | None:
    """The comparison inside what ``NE`` stands for."""
    match node.parts:
        case (Exists(name), Not(Compare(other, "==", _) as compare)) if name == other:
            return compare
    return None


def _why_not(part: Filter) -> str:
    match part:
        case Compare():
            return "'!=', which is false between kinds; NE is true there"
        case Text(_, "like"):
            return "a wildcard pattern"
        case Text():
            return "a match that minds case; PF, SF and SS ignore it"
        case Similar():
            return "a threshold of similarity"
    return f"{type(part).__name__} inside a conjunction"


def _format_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise FilterError(
            f"the braces syntax cannot express the attribute name {name!r}",
            hint="a name there has no , ; { } and no space at its ends",
        )
    return name
