"""The filter dialects of the CloudEvents Subscriptions API, as decoded JSON, to and from filters.

They are ``exact``, ``prefix``, ``suffix``, ``all``, ``any``, ``not`` and ``sql``.

A subscription carries a list of filters, all of which an event must pass; each filter is an object with one member,
the dialect. ``exact``, ``prefix`` and ``suffix`` compare texts: an attribute that is not a string is compared by the
text that CESQL gives it, so ``{"exact": {"level": "5"}}`` holds for the string and for the number, and an absent
attribute passes none of them. ``not`` inverts: it passes where its filter does not, absent attributes included.
``specversion`` is ``1.0`` in every event.

``parse`` names the place of an error by its path, such as ``filters[1].any[0].exact``. ``dump`` writes back what these
dialects can say; anything else is a FilterError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from recado.errors import FilterError
from recado.filters.cesql import to_filter
from recado.filters.cesql.atoms import affix, exactly
from recado.filters.cesql.evaluator import SPECVERSION
from recado.filters.cesql.like import like_pattern
from recado.filters.cesql.nodes import Attribute, Chain, Like, Literal, Presence, Step
from recado.filters.cesql.printer import format_node, has_literal
from recado.model.filter import TRUE, And, Compare, Constant, Exists, Filter, In, Not, Or, Sql, Text
from recado.model.limits import LIMITS, Limits

Json = Any
_ROOT = "filters"
_VERSION = "1.0"
_ONE_DIALECT = 'write {"exact": {...}}; several filters stand in a list, or in "all" or "any"'


def _exact(name: str, text: str) -> Filter:
    return exactly(name, text) if name != SPECVERSION else Constant(text == _VERSION)


def _prefix(name: str, text: str) -> Filter:
    return affix(name, "prefix", text) if name != SPECVERSION else Constant(_VERSION.startswith(text))


def _suffix(name: str, text: str) -> Filter:
    return affix(name, "suffix", text) if name != SPECVERSION else Constant(_VERSION.endswith(text))


Predicate = Callable[[str, str], Filter]
_PREDICATES: dict[str, Predicate] = {"exact": _exact, "prefix": _prefix, "suffix": _suffix}


def parse(filters: Json, limits: Limits = LIMITS) -> Filter:
    """The filter that a list of dialect filters describes, or a single one; an empty list passes every event."""
    if isinstance(filters, Mapping):
        return _Reader(limits).filter(filters, _ROOT, 1)
    if not isinstance(filters, list):
        _fail(_ROOT, f"expected a list of filters but found {_kind(filters)}")
    return _Reader(limits).every(filters, _ROOT, 1) if filters else TRUE


class _Reader:
    """Counts predicates and levels while it reads, so that a hostile document is refused early."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.predicates = 0
        self.dialects: dict[str, Callable[[Json, str, int], Filter]] = {
            **{dialect: self._attributes(predicate) for dialect, predicate in _PREDICATES.items()},
            "all": self._all,
            "any": self._any,
            "not": self._not,
            "sql": self._sql,
        }

    def filter(self, document: Json, path: str, depth: int) -> Filter:
        if depth > self.limits.filter_depth:
            _fail(path, f"the filters are nested deeper than {self.limits.filter_depth} levels")
        if not isinstance(document, Mapping) or len(document) != 1:
            found = f"{len(document)} members" if isinstance(document, Mapping) else _kind(document)
            _fail(path, f"expected an object with one member, the dialect, but found {found}", _ONE_DIALECT)
        dialect, content = next(iter(document.items()))
        if dialect not in self.dialects:
            _fail(path, f"there is no dialect {_shown(dialect)}", f"the dialects are {', '.join(self.dialects)}")
        return self.dialects[dialect](content, f"{path}.{dialect}", depth)

    def every(self, documents: list[Json], path: str, depth: int) -> Filter:
        parts = self._parts(documents, path, depth)
        return And(parts) if len(parts) > 1 else parts[0]

    def _parts(self, documents: list[Json], path: str, depth: int) -> tuple[Filter, ...]:
        return tuple(self.filter(document, f"{path}[{i}]", depth + 1) for i, document in enumerate(documents))

    def _all(self, content: Json, path: str, depth: int) -> Filter:
        return self.every(_nested(content, path), path, depth)

    def _any(self, content: Json, path: str, depth: int) -> Filter:
        parts = self._parts(_nested(content, path), path, depth)
        return Or(parts) if len(parts) > 1 else parts[0]

    def _not(self, content: Json, path: str, depth: int) -> Filter:
        return Not(self.filter(content, path, depth + 1))

    def _sql(self, content: Json, path: str, depth: int) -> Filter:
        if not isinstance(content, str):
            _fail(path, f"expected a CESQL expression in a string but found {_kind(content)}")
        self._count(path)
        try:
            return to_filter(content, self.limits)
        except FilterError as error:
            raise FilterError(f"{path}: {error}") from None

    def _attributes(self, predicate: Predicate) -> Callable[[Json, str, int], Filter]:
        """The reader of a dialect that compares attributes with texts."""

        def read(content: Json, path: str, depth: int) -> Filter:
            if not isinstance(content, Mapping) or not content:
                found = "an empty one" if isinstance(content, Mapping) else _kind(content)
                _fail(path, f"expected an object of attribute names and texts but found {found}")
            parts = tuple(self._predicate(predicate, name, text, path) for name, text in content.items())
            return And(parts) if len(parts) > 1 else parts[0]

        return read

    def _predicate(self, predicate: Predicate, name: Json, text: Json, path: str) -> Filter:
        self._count(path)
        _check_text(name, path, "an attribute name", self.limits.name_chars)
        place = f"{path}.{_shown(name)[1:-1]}"
        _check_text(text, place, "the text to compare with", self.limits.pattern_chars)
        return predicate(name, text)

    def _count(self, path: str) -> None:
        self.predicates += 1
        if self.predicates > self.limits.filter_predicates:
            _fail(path, f"there are more than {self.limits.filter_predicates:,} conditions")


def dump(filter: Filter) -> list[Json]:
    """A list of dialect filters that passes the same events; a FilterError if the dialects cannot say it."""
    if filter == TRUE:
        return []
    if isinstance(filter, And) and filter.parts and _as_sql(filter) is None:
        return [_dump(part) for part in _needed(filter.parts)]
    return [_dump(filter)]


def _dump(node: Filter) -> Json:
    found = _as_attribute(node) or _as_sql(node)
    if found is not None:
        return found
    match node:
        case And(parts) if parts:
            return {"all": [_dump(part) for part in _needed(parts)]}
        case Or(parts) if parts:
            return {"any": [_dump(part) for part in parts]}
        case Not(part):
            return {"not": _dump(part)}
        case In(name, values) if values and all(_exact(name, str(v)) == Compare(name, "==", v) for v in values):
            return {"any": [{"exact": {name: value}} for value in values]}
    raise FilterError(
        f"the dialects of the Subscriptions API cannot say a filter of the sort {type(node).__name__!r}",
        hint="they compare texts of attributes, and CESQL's order is that of 32-bit integers",
    )


def _needed(parts: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """The parts without those that only stand guard before a CESQL expression."""
    guards: set[Filter] = set()
    for part in parts:
        if isinstance(part, Sql):
            guarded = to_filter(part.text)
            guards.update(guarded.parts if isinstance(guarded, And) else ())
    return tuple(part for part in parts if isinstance(part, Sql) or part not in guards)


def _as_attribute(node: Filter) -> Json | None:
    """``exact``, ``prefix`` or ``suffix``, if reading it back gives the same filter."""
    match node:
        case Compare(name, "==", str(text)) | In(name, (str(text), *_)):
            dialect = "exact"
        case Text(name, "prefix" | "suffix" as dialect, text) | Or(
            (Text(name, "prefix" | "suffix" as dialect, text), *_)
        ):
            pass
        case _:
            return None
    return {dialect: {name: text}} if text and _PREDICATES[dialect](name, text) == node else None


def _as_sql(node: Filter) -> Json | None:
    """``sql``, if compiling it again gives the same filter."""
    if isinstance(node, Sql):
        return {"sql": node.text}
    for text in _sql_guesses(node):
        if to_filter(text) == node:
            return {"sql": text}
    return None


def _sql_guesses(node: Filter) -> Iterator[str]:
    match node:
        case Constant(value):
            yield format_node(Literal(value))
        case Exists(name):
            yield format_node(Presence(name))
        case Compare(name, "==", True):
            yield format_node(Attribute(name))
        case Text(name, "contains", part, False):
            yield from _like_guess(name, "*" + re.sub(r"[*?\\]", r"\\\g<0>", part) + "*")
        case Text(name, "like", wildcards, False):
            yield from _like_guess(name, wildcards)
        case Or((Compare(name, "==", int(value)) | In(name, (int(value), *_)), *_)):
            yield format_node(Chain(Attribute(name), (Step("=", Literal(value)),)))
        case And(parts):
            yield from (part.text for part in parts if isinstance(part, Sql))


def _like_guess(name: str, wildcards: str) -> Iterator[str]:
    pattern = like_pattern(wildcards)
    if pattern is not None and has_literal(pattern):
        yield format_node(Like(Attribute(name), pattern))


def _nested(content: Json, path: str) -> list[Json]:
    if not isinstance(content, list) or not content:
        found = "an empty one" if isinstance(content, list) else _kind(content)
        _fail(path, f"expected a list of at least one filter but found {found}")
    return content


def _check_text(text: Json, path: str, what: str, most: int) -> None:
    if not isinstance(text, str):
        _fail(path, f"{what} must be a string, not {_kind(text)}")
    if not 0 < len(text) <= most:
        _fail(path, f"{what} must have between 1 and {most:,} characters, not {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _fail(path, f"{what} has a lone surrogate at character {error.start + 1}")


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: Json) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _fail(path: str, reason: str, hint: str | None = None) -> NoReturn:
    raise FilterError(f"{path}: {reason}", hint=hint)
