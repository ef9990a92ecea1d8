"""How a value set is written: as part of a canonical key, and as a filter.

Both are functions of the set alone, so sets that are equal are written alike. A cut lies between two neighbouring
values and could be told by either (``x > 5`` is ``x >= 5.000000000000001``); the one with the shorter text is chosen.

The key's grammar, after the attribute's name in quotes::

    condition = "!" ranges        all but these states; used when the set holds "absent"
              | "*"                   present, with any value
              | ranges
    ranges    = ["?"] ["=" value {"," value}] {span | kind "*"}        "?" is NaN
    span      = ("[" | "(") [value] ";" [value] ("]" | ")")            an end left out is unbounded
    value     = string in quotes | number | "@" microseconds | "true" | "false"
"""

from __future__ import annotations

from json.encoder import encode_basestring as quote
from typing import Any

from recado.filters.sets import (
    ABSENT,
    BOTTOM,
    NAN,
    NO,
    ORDERED,
    PRESENT,
    YES,
    ValueSet,
    after_prefix,
    complement,
    cuts_of,
    next_cut,
    previous_number,
    spans,
    to_time,
)
from recado.model.filter import And, Between, Compare, Exists, Filter, In, Not, Or, Text
from recado.model.values import Kind, Value, canonical

Span = tuple[Any, Any]
End = tuple[Any, bool]
"""A value, and whether it belongs to the range."""


def number_text(value: float) -> str:
    return repr(canonical(value))


def _value_text(kind: Kind, at: Any) -> str:
    if kind is Kind.STRING:
        return quote(at)
    return number_text(at) if kind is Kind.NUMBER else f"@{at}"


def _told_by_lower(kind: Kind, cut: Any) -> Any:
    """The value just below the cut, if the cut is better told by it than by the value at it; else None."""
    if kind is Kind.STRING:
        return cut[:-1] if cut.endswith("\0") else None
    if kind is Kind.TIME:
        return cut - 1 if cut % 10 == 1 else None
    lower = previous_number(cut)
    return lower if len(number_text(lower)) < len(number_text(cut)) else None


def _low_end(kind: Kind, cut: Any) -> End | None:
    if cut == BOTTOM[kind]:
        return None
    lower = _told_by_lower(kind, cut)
    return (cut, True) if lower is None else (lower, False)


def _high_end(kind: Kind, cut: Any) -> End | None:
    if cut is None:
        return None
    lower = _told_by_lower(kind, cut)
    return (cut, False) if lower is None else (lower, True)


# -- keys --------------------------------------------------------------------------------------------------------------


def set_key(values: ValueSet) -> str:
    """The canonical text of a set."""
    if values.flags & ABSENT:
        return "!" + set_key(complement(values))
    if values == PRESENT:
        return "*"
    single: list[str] = []
    ranges: list[str] = []
    for kind in ORDERED:
        for low, high in spans(cuts_of(values, kind)):
            if next_cut(kind, low) == high:
                single.append(_value_text(kind, low))
            else:
                ranges.append(_span_text(kind, _low_end(kind, low), _high_end(kind, high)))
    single += [text for flag, text in ((NO, "false"), (YES, "true")) if values.flags & flag]
    head = "?" if values.flags & NAN else ""
    return head + ("=" + ",".join(single) if single else "") + "".join(ranges)


def _span_text(kind: Kind, low: End | None, high: End | None) -> str:
    if low is None and high is None:
        return f"{kind.name}*"
    left = "(" if low is None else ("[" if low[1] else "(") + _value_text(kind, low[0])
    right = ")" if high is None else _value_text(kind, high[0]) + ("]" if high[1] else ")")
    return f"{left};{right}"


# -- filters -----------------------------------------------------------------------------------------------------------


def set_filter(name: str, values: ValueSet) -> Filter:
    """A filter that accepts exactly these states of the attribute; the set is neither empty nor full.

    No predicate accepts NaN or absence by itself, so these two are reached by negation.
    """
    special = values.flags & (ABSENT | NAN)
    if special == 0:
        return _ordinary(name, values)
    if special == ABSENT:
        rest = _ordinary_parts(name, values)
        return Or((Not(Exists(name)), *rest)) if rest else Not(Exists(name))
    others = _ordinary_parts(name, complement(values))
    if special == NAN:
        return And((Exists(name), Not(_one(others)))) if others else Exists(name)
    return Not(_one(others))


def _one(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _ordinary(name: str, values: ValueSet) -> Filter:
    return _one(_ordinary_parts(name, values))


def _ordinary_parts(name: str, values: ValueSet) -> list[Filter]:
    """Alternatives that together accept the set's values, NaN and absence aside."""
    single: list[Value] = []
    ranges: list[Filter] = []
    for kind in ORDERED:
        for group in _groups(kind, spans(cuts_of(values, kind))):
            low, high = group[0][0], group[-1][1]
            if next_cut(kind, low) == high:
                single.append(_value(kind, low))
            else:
                ranges.append(_range(name, kind, (low, high), [_value(kind, end) for _, end in group[:-1]]))
    single += [value for flag, value in ((NO, False), (YES, True)) if values.flags & flag]
    if len(single) == 1:
        return [Compare(name, "==", single[0]), *ranges]
    return [In(name, tuple(single)), *ranges] if single else ranges


def _groups(kind: Kind, pairs: list[Span]) -> list[list[Span]]:
    """Neighbouring ranges with a single value between them go together: one range without those values."""
    groups: list[list[Span]] = []
    for pair in pairs:
        if (
            groups
            and next_cut(kind, groups[-1][-1][1]) == pair[0]
            and next_cut(kind, pair[0]) != pair[1]
            and next_cut(kind, groups[-1][-1][0]) != groups[-1][-1][1]
        ):
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def _value(kind: Kind, at: Any) -> Value:
    if kind is Kind.TIME:
        return to_time(at)
    return canonical(at)


def _range(name: str, kind: Kind, span: Span, without: list[Value]) -> Filter:
    parts = _bounds(name, kind, span)
    if without and not parts:
        parts.append(Compare(name, "!=", without.pop(0)))
    if not parts:
        return _whole_kind(name, kind)
    if len(without) == 1:
        parts.append(Compare(name, "!=", without[0]))
    elif without:
        parts.append(Not(In(name, tuple(without))))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _bounds(name: str, kind: Kind, span: Span) -> list[Filter]:
    low, high = _low_end(kind, span[0]), _high_end(kind, span[1])
    if kind is Kind.STRING and low is not None and low[1] and after_prefix(span[0]) == span[1]:
        return [Text(name, "prefix", span[0])]
    if low is not None and high is not None and low[1] and high[1]:
        return [Between(name, _value(kind, low[0]), _value(kind, high[0]))]
    parts: list[Filter] = []
    if low is not None:
        parts.append(Compare(name, ">=" if low[1] else ">", _value(kind, low[0])))
    if high is not None:
        parts.append(Compare(name, "<=" if high[1] else "<", _value(kind, high[0])))
    return parts


def _whole_kind(name: str, kind: Kind) -> Filter:
    """Every value of an ordered kind; for numbers without naming infinity."""
    if kind is Kind.NUMBER:
        return Or((Compare(name, "<", 0), Compare(name, ">=", 0)))
    return Compare(name, ">=", "" if kind is Kind.STRING else to_time(BOTTOM[kind]))
