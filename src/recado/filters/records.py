"""Subscription records: one JSON object a line, as ``recado match`` and bulk loading read them.

``{"id": "s-1", "filter": "Price < 25", "type": "StockExchange", "owner": "user:ana@example.org"}``

- ``id`` is required: a string, or an integer that is read as its decimal text.
- ``filter`` is text in any syntax; ``syntax`` names it where the text alone does not tell (CESQL). Instead of
  ``filter`` there may be ``filters``, a list in the dialects of the CloudEvents Subscriptions API. With neither, the
  subscription takes every event of its type.
- ``type`` is an event type or a pattern of types with ``*`` and ``?``; ``owner`` is a URI.
- ``expires_at`` (RFC 3339), ``constraints`` (a list of objects) and ``semantic`` (an object) are carried along.

Any other member is an error, because a misspelt ``filter`` would match everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

import msgspec
from msgspec import structs

from recado.errors import FilterError, SubscriptionError
from recado.filters.cesql import to_filter
from recado.filters.cesql.atoms import affix, exactly
from recado.filters.cesql.evaluator import SPECVERSION, like_pattern
from recado.filters.cesql.nodes import Attribute, Chain, Like, Literal, Presence, Step
from recado.filters.cesql.parser import format_node, has_literal
from recado.filters.cost import check_filter
from recado.filters.nodes import from_items, to_items
from recado.filters.syntax import Syntax, parse_filter
from recado.model.decoding import explain
from recado.model.filter import TRUE, And, Compare, Constant, Exists, Filter, In, Not, Or, Sql, Text
from recado.model.flat import refuse_repeats_among
from recado.model.limits import LIMITS, Limits
from recado.model.memory import Memo
from recado.model.subscription import Subscription
from recado.model.values import parse_time


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    id: str | int
    filter: str | None = None
    filters: list[Any] | None = None
    syntax: Syntax = "auto"
    type: str | None = None
    owner: str | None = None
    expires_at: str | None = None
    constraints: list[dict[str, Any]] | None = None
    semantic: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Record).decode


KnownFilters = Memo[tuple[str, str, str | None], Filter]
"""Filters that were read and checked, by text, syntax and event type: those that are written alike are read once."""


def read_subscription(line: bytes | str, limits: Limits = LIMITS, known: KnownFilters | None = None) -> Subscription:
    """The subscription that a JSON object describes; a SubscriptionError says what is wrong with it.

    ``known`` is for many that are read with the same limits.
    """
    if len(line) > limits.subscription_bytes:
        raise SubscriptionError(f"the record has {len(line):,} bytes; the limit is {limits.subscription_bytes:,}")
    record = _parse(line)
    _check_keys(line.encode() if isinstance(line, str) else line, record)
    id = _check_length("id", str(record.id), limits.id_chars)
    if not id:
        raise SubscriptionError('$.id: the subscription has no id; give it one such as {"id": "s-1"}')
    filter = None
    if known is not None and record.filter is not None and record.filters is None:
        filter = known.get((record.filter, record.syntax, record.type))
    is_known = filter is not None
    subscription = Subscription(
        id=id,
        filter=_filter(record, limits) if filter is None else filter,
        type=_check_length("type", record.type or "", limits.pattern_chars),
        owner=_check_length("owner", record.owner or "", limits.owner_chars),
        expires_at=_instant(record.expires_at),
        constraints=tuple(record.constraints or ()),
        semantic=record.semantic,
    )
    if not is_known:
        _check(subscription, limits)
        if known is not None and record.filter is not None:
            known.put((record.filter, record.syntax, record.type), subscription.filter)
    return subscription


def _check(subscription: Subscription, limits: Limits) -> None:
    """The limits hold for the filter with the type joined in, which is what an engine evaluates."""
    try:
        check_filter(subscription.whole_filter(), limits)
    except FilterError as error:
        raise SubscriptionError(f"subscription {subscription.id!r}: {error}") from error


def _check_keys(line: bytes, record: _Record) -> None:
    members = structs.astuple(record)
    given = len(members) - members.count(None) - (record.syntax == "auto")  # which is the default, and rarely written
    refuse_repeats_among(line, members, given, SubscriptionError)


def _parse(line: bytes | str) -> _Record:
    try:
        return _decode(line)
    except msgspec.DecodeError as error:
        raise SubscriptionError(explain(error, _Record, line)) from None
    except UnicodeError:
        raise SubscriptionError("the text is not UTF-8") from None
    except RecursionError:
        raise SubscriptionError("the JSON is nested far too deep") from None


def _filter(record: _Record, limits: Limits) -> Filter:
    if record.filter is not None and record.filters is not None:
        raise SubscriptionError("$.filters: give either filter or filters, not both")
    try:
        if record.filters is not None:
            return parse(record.filters, limits)
        if record.filter is None:
            return TRUE
        return parse_filter(record.filter, record.syntax, limits)
    except FilterError as error:
        raise SubscriptionError(f"subscription {str(record.id)!r}: {error}") from error


def _check_length(name: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise SubscriptionError(f"$.{name}: has {len(text):,} characters; the limit is {longest:,}")
    return text


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise SubscriptionError(f"$.expires_at: {error}") from None


# --- The filter dialects of the CloudEvents Subscriptions API, as decoded JSON, to and from filters ------------------
#
# They are ``exact``, ``prefix``, ``suffix``, ``all``, ``any``, ``not`` and ``sql``.
#
# A subscription carries a list of filters, all of which an event must pass; each filter is an object with one member,
# the dialect. ``exact``, ``prefix`` and ``suffix`` compare texts: an attribute that is not a string is compared by the
# text that CESQL gives it, so ``{"exact": {"level": "5"}}`` holds for the string and for the number, and an absent
# attribute passes none of them. ``not`` inverts: it passes where its filter does not, absent attributes included.
# ``specversion`` is ``1.0`` in every event.
#
# ``parse`` names the place of an error by its path, such as ``filters[1].any[0].exact``. ``dump`` writes back what
# these dialects can say; anything else is a FilterError.


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
            _fail(path, f"there is no dialect {_show(dialect)}", f"the dialects are {', '.join(self.dialects)}")
        return self.dialects[dialect](content, f"{path}.{dialect}", depth)

    def every(self, documents: list[Json], path: str, depth: int) -> Filter:
        parts = self._parts(documents, path, depth)
        return And(parts) if len(parts) > 1 else parts[0]

    def _parts(self, documents: list[Json], path: str, depth: int) -> tuple[Filter, ...]:
        return tuple(self.filter(document, f"{path}[{i}]", depth + 1) for i, document in enumerate(documents))

    def _all(self, content: Json, path: str, depth: int) -> Filter:
        return self.every(_check_nested(content, path), path, depth)

    def _any(self, content: Json, path: str, depth: int) -> Filter:
        parts = self._parts(_check_nested(content, path), path, depth)
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
        place = f"{path}.{_show(name)[1:-1]}"
        _check_text(text, place, "the text to compare with", self.limits.pattern_chars)
        return predicate(name, text)

    def _count(self, path: str) -> None:
        self.predicates += 1
        if self.predicates > self.limits.filter_predicates:
            _fail(path, f"there are more than {self.limits.filter_predicates:,} conditions")


def dump(node: Filter) -> list[Json]:
    """A list of dialect filters that passes the same events; a FilterError if the dialects cannot say it."""
    if node == TRUE:
        return []
    if isinstance(node, And) and node.parts and _as_sql(node) is None:
        return [_dump(part) for part in _without_guards(node.parts)]
    return [_dump(node)]


def _dump(node: Filter) -> Json:
    found = _as_attribute(node) or _as_sql(node)
    if found is not None:
        return found
    match node:
        case And(parts) if parts:
            return {"all": [_dump(part) for part in _without_guards(parts)]}
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


def _without_guards(parts: tuple[Filter, ...]) -> tuple[Filter, ...]:
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


def _check_nested(content: Json, path: str) -> list[Json]:
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


def _show(value: Json) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _fail(path: str, reason: str, hint: str | None = None) -> NoReturn:
    raise FilterError(f"{path}: {reason}", hint=hint)


# --- Filters as bytes, for files: shorter than their text, and written and read several times as fast ----------------
#
# A node is a MessagePack array of the number of its kind and its fields (``recado.filters.nodes``). Instants are in UTC
# afterwards; nothing else changes.


_encode = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


def pack(node: Filter) -> bytes:
    """The filter as bytes."""
    return _encode(to_items(node))


def unpack(packed: bytes) -> Filter:
    """The filter again; a FilterError if these bytes are none."""
    try:
        return from_items(_unpack(packed))
    except (msgspec.DecodeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FilterError(f"these bytes are no filter: {error!r}") from None
