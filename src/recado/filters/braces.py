"""The braces syntax: ``{umidade, GT, 60; temperatura média, LE, 25}``, a conjunction of constraints on attributes.

A constraint is a name, an operator code and a value, separated by commas; constraints are separated by semicolons.
Only the first two commas separate, so a value may hold commas. The value of ``ANY`` may be left out and is not read.

- ``PF``, ``SF`` and ``SS`` (prefix, suffix, substring) ignore case, and with ``SM`` (similar) take their value as text.
- ``NE`` holds for every present value that is not equal, also for one of another kind: it is "exists and not equal",
  which is wider than ``!=`` of the expression syntax.

The data-file form ``{type=..., country=...}`` is recognised too; see ``recado.filters.dataset``.
"""

from __future__ import annotations

import re

from recado.errors import FilterError
from recado.filters.brace_values import format_value, typed
from recado.filters.dataset import Values, parse_pairs
from recado.filters.scanner import Scanner
from recado.model.filter import (
    And,
    Compare,
    CompareOp,
    Exists,
    Filter,
    Not,
    Similar,
    Text,
    TextOp,
)
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value

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
    return raw, typed(scanner, raw, start)


def format(filter: Filter) -> str:
    """The filter in braces; a FilterError names what braces cannot express."""
    parts = filter.parts if isinstance(filter, And) and _unequal(filter) is None else (filter,)
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


def _unequal(filter: And) -> Compare | None:
    """The comparison inside what ``NE`` stands for."""
    match filter.parts:
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
