"""The one table of node kinds: everything that the language knows of each kind of node, kind by kind.

What concerns a single node is a method of its kind: evaluation, cost, checks, names, text, words, bytes, what the
algebra knows of it. All other modules of this room find it in ``KINDS`` by the node's class, and refuse a class that
is not there. A kind that lacks a method cannot be made, so it cannot get into the table half done.

A new kind of predicate touches: ``recado.model.filter`` (its fields, and the union ``Filter``), this module (its kind),
``recado.filters.expression`` (how it is read), and the two rooms above that take filters apart in ways of their own and
have a table each: ``recado.matching.program.COMPILERS`` (how an index tests it) and
``recado.pipeline.partitioned.plan.ACCESSES`` (which events can match it). A test compares these tables with this one.
The braces, the template and the dialects of the Subscriptions API can say only some filters; they refuse any other by
name, a new kind included.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from json.encoder import encode_basestring as quote
from typing import Any, Generic, TypeGuard, TypeVar, get_args

from msgspec.structs import astuple

from recado.errors import FilterError, RecadoError
from recado.filters import cesql
from recado.filters.lexer import format_name, format_string, format_value
from recado.filters.patterns import TEXT_OPERATORS, Fixed, is_similar, may_be_similar, regex, simplify_like
from recado.filters.sets import PRESENT, STRINGS, ValueSet, meet, of_compare, of_values
from recado.model.filter import (
    And,
    Between,
    Compare,
    CompareOp,
    Constant,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Predicate,
    Regex,
    Similar,
    Sql,
    Text,
    TextOp,
)
from recado.model.limits import LIMITS, Limits
from recado.model.values import INT_MAX, INT_MIN, Kind, Value, check_value, format_time, in_utc, is_nan, kind_of

View = Mapping[str, Value]
"""A single-valued view of an event."""
Written = str | Filter
N = TypeVar("N", bound=Any)


class NodeKind(ABC, Generic[N]):
    """What the language knows of the nodes of one class.

    ``number`` stands for the class in packed filters. It is part of that format: a new kind takes the next one, and no
    number is given twice.
    """

    def __init__(self, node: type[N], number: int) -> None:
        self.node = node
        self.number = number

    @abstractmethod
    def evaluate(self, node: N, view: View) -> bool:
        """The node's truth on a view."""

    @abstractmethod
    def cost(self, node: N) -> int:
        """Steps of one evaluation of the node itself, without its parts (``recado.filters.cost`` has the units)."""

    @abstractmethod
    def cost_on(self, node: N, view: View) -> int:
        """Steps that the node itself takes at most on a view, with the length of its strings counted."""

    @abstractmethod
    def is_costly(self, node: N) -> bool:
        """Is the node better asked after its cheap siblings?"""

    @abstractmethod
    def check(self, node: N, limits: Limits) -> None:
        """A FilterError if the node itself is not right or too large; its parts are checked by the caller."""

    @abstractmethod
    def names(self, node: N) -> Iterable[str]:
        """The attributes that the node itself speaks of."""

    @abstractmethod
    def write(self, node: N) -> list[Written]:
        """The expression that reads back as the same node, in pieces: texts, and parts that are still to be written."""

    @abstractmethod
    def describe(self, node: N) -> str:
        """The node itself in words."""

    def parts(self, node: N) -> tuple[Filter, ...]:
        """The nodes inside."""
        return ()

    def holds(self, node: N, value: Value) -> bool:
        """The truth of a predicate, given the value of its attribute; a TypeError for a node that is none."""
        raise TypeError(f"{type(node).__name__} is not a predicate")

    def fields(self, node: N) -> Iterable[Any]:
        """The fields as MessagePack can hold them."""
        return astuple(node)

    def make(self, fields: list[Any]) -> N:
        """The node that ``fields`` came from."""
        made: N = self.node(*fields)
        return made


class PredicateKind(NodeKind[N]):
    """A node with a ``name``: it speaks of one attribute, and is false where that is absent."""

    @abstractmethod
    def holds(self, node: N, value: Value) -> bool:
        """The truth, given the value of the attribute."""

    @abstractmethod
    def cost_on_value(self, node: N, value: Value) -> int:
        """Steps that the predicate takes at most on a value."""

    @abstractmethod
    def check_constants(self, node: N, where: str, limits: Limits) -> None:
        """A FilterError, beginning with ``where``, if what the predicate compares with is not right or too large."""

    @abstractmethod
    def describe_condition(self, node: N) -> str:
        """What is said of the attribute, in words that follow its name."""

    @abstractmethod
    def wanted_kind(self, node: N) -> Kind | None:
        """The one kind of value that the predicate can hold for; None if there are several."""

    @abstractmethod
    def simplify(self, node: N) -> Predicate | ValueSet:
        """The value set that the predicate amounts to, or else its one spelling, which the algebra takes as opaque."""

    @abstractmethod
    def examples(self, node: N) -> Iterable[Value]:
        """Values that a search for a witness tries."""

    def literal_key(self, node: N) -> str:
        """The canonical text of an opaque predicate in its one spelling; it begins with the name in quotes."""
        return f"{quote(node.name)} {''.join(map(str, self.write(node)))}"

    def fixed(self, node: N) -> Fixed:
        """The text that an opaque predicate fixes in every string it accepts."""
        return Fixed()

    def evaluate(self, node: N, view: View) -> bool:
        value = view.get(node.name)
        return value is not None and self.holds(node, value)

    def cost_on(self, node: N, view: View) -> int:
        value = view.get(node.name)
        return 0 if value is None else self.cost_on_value(node, value)

    def is_costly(self, node: N) -> bool:
        return False

    def check(self, node: N, limits: Limits) -> None:
        _check_name(node.name, limits)
        self.check_constants(node, f"the condition on {node.name!r}", limits)

    def names(self, node: N) -> tuple[str, ...]:
        return (node.name,)

    def describe(self, node: N) -> str:
        return f"{node.name} {self.describe_condition(node)}"


# --- comparisons -----------------------------------------------------------------------------------------------------

_ORDER: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SAYS: dict[CompareOp, str] = {
    "==": "equals",
    "!=": "is present and differs from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is greater than",
    ">=": "is at least",
}
_SAYS_OF_TIME = {**_SAYS, "<": "is before", "<=": "is not after", ">": "is after", ">=": "is not before"}
COMPARE_OPS = frozenset(get_args(CompareOp))
TEXT_OPS = frozenset(get_args(TextOp))


def compare(op: CompareOp, left: Value, right: Value) -> bool:
    """``left op right``: false between kinds, for NaN, and for the order of booleans."""
    kind = kind_of(left)
    if kind is not kind_of(right) or left != left or right != right:  # NaN differs from itself
        return False
    if kind is Kind.BOOL and op not in ("==", "!="):
        return False
    if isinstance(left, datetime) and isinstance(right, datetime):
        left, right = in_utc(left), in_utc(right)
    return _ORDER[op](left, right)


def show(value: Value) -> str:
    """A value as a person reads it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return format_time(value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _cost_on_plain(value: Value) -> int:
    return 1 + len(value) // 8_192 if type(value) is str else 1


class CompareKind(PredicateKind[Compare]):
    def holds(self, node: Compare, value: Value) -> bool:
        return compare(node.op, value, node.value)

    def cost(self, node: Compare) -> int:
        return 1

    def cost_on_value(self, node: Compare, value: Value) -> int:
        return _cost_on_plain(value)

    def check_constants(self, node: Compare, where: str, limits: Limits) -> None:
        _check_op(node.op, COMPARE_OPS, where)
        _check_constant(node.value, where, limits)

    def write(self, node: Compare) -> list[Written]:
        return [f"{format_name(node.name)} {node.op} {format_value(node.value)}"]

    def describe_condition(self, node: Compare) -> str:
        says = _SAYS_OF_TIME if isinstance(node.value, datetime) else _SAYS
        return f"{says[node.op]} {show(node.value)}"

    def wanted_kind(self, node: Compare) -> Kind:
        return kind_of(node.value)

    def simplify(self, node: Compare) -> ValueSet:
        return of_compare(node.op, node.value)

    def examples(self, node: Compare) -> Iterable[Value]:
        return _values_around((node.value,))


class BetweenKind(PredicateKind[Between]):
    def holds(self, node: Between, value: Value) -> bool:
        return compare(">=", value, node.low) and compare("<=", value, node.high)

    def cost(self, node: Between) -> int:
        return 2

    def cost_on_value(self, node: Between, value: Value) -> int:
        return _cost_on_plain(value)

    def check_constants(self, node: Between, where: str, limits: Limits) -> None:
        _check_constant(node.low, where, limits)
        _check_constant(node.high, where, limits)
        if kind_of(node.low) is not kind_of(node.high):
            kinds = f"{kind_of(node.low).name.lower()} and {kind_of(node.high).name.lower()}"
            raise FilterError(f"{where}: the bounds of a range must be of one kind, not {kinds}")

    def write(self, node: Between) -> list[Written]:
        return [f"{format_name(node.name)} between {format_value(node.low)} and {format_value(node.high)}"]

    def describe_condition(self, node: Between) -> str:
        return f"is from {show(node.low)} to {show(node.high)}, both included"

    def wanted_kind(self, node: Between) -> Kind:
        return kind_of(node.low)

    def simplify(self, node: Between) -> ValueSet:
        return meet(of_compare(">=", node.low), of_compare("<=", node.high))

    def examples(self, node: Between) -> Iterable[Value]:
        return _values_around((node.low, node.high))


class InKind(PredicateKind[In]):
    def holds(self, node: In, value: Value) -> bool:
        return any(compare("==", value, other) for other in node.values)

    def cost(self, node: In) -> int:
        return 1 + len(node.values)

    def cost_on_value(self, node: In, value: Value) -> int:
        return 1 + len(node.values)

    def check_constants(self, node: In, where: str, limits: Limits) -> None:
        if len(node.values) > limits.set_values:
            raise FilterError(f"{where}: the set has {len(node.values):,} values; the limit is {limits.set_values:,}")
        for value in node.values:
            _check_constant(value, where, limits)

    def write(self, node: In) -> list[Written]:
        return [f"{format_name(node.name)} in {{{', '.join(map(format_value, node.values))}}}"]

    def describe_condition(self, node: In) -> str:
        return f"is one of {', '.join(map(show, node.values)) or 'nothing'}"

    def wanted_kind(self, node: In) -> None:
        return None

    def simplify(self, node: In) -> ValueSet:
        return of_values(node.values)

    def examples(self, node: In) -> Iterable[Value]:
        return _values_around(node.values[:8])

    def make(self, fields: list[Any]) -> In:
        name, values = fields
        return In(name, tuple(values))


class ExistsKind(PredicateKind[Exists]):
    def holds(self, node: Exists, value: Value) -> bool:
        return True

    def cost(self, node: Exists) -> int:
        return 1

    def cost_on_value(self, node: Exists, value: Value) -> int:
        return _cost_on_plain(value)

    def check_constants(self, node: Exists, where: str, limits: Limits) -> None:
        """It compares with nothing."""

    def write(self, node: Exists) -> list[Written]:
        return [f"exists {format_name(node.name)}"]

    def describe_condition(self, node: Exists) -> str:
        return "is present"

    def wanted_kind(self, node: Exists) -> None:
        return None

    def simplify(self, node: Exists) -> ValueSet:
        return PRESENT

    def examples(self, node: Exists) -> Iterable[Value]:
        return (0,)


# --- text ------------------------------------------------------------------------------------------------------------


class TextKind(PredicateKind[Text]):
    """What the operators differ in is in ``TEXT_OPERATORS``."""

    def holds(self, node: Text, value: Value) -> bool:
        return type(value) is str and TEXT_OPERATORS[node.op].holds(value, node.pattern, node.fold)

    def cost(self, node: Text) -> int:
        return TEXT_OPERATORS[node.op].cost(node.pattern, node.fold) * (2 if node.fold else 1)

    def cost_on_value(self, node: Text, value: Value) -> int:
        if type(value) is not str:
            return 1
        chars = len(value)
        return TEXT_OPERATORS[node.op].cost_on(node.pattern, node.fold, chars) + (chars // 16 if node.fold else 0)

    def is_costly(self, node: Text) -> bool:
        return TEXT_OPERATORS[node.op].is_costly

    def check_constants(self, node: Text, where: str, limits: Limits) -> None:
        _check_op(node.op, TEXT_OPS, where)
        _check_text(node.pattern, "pattern", where, limits)

    def write(self, node: Text) -> list[Written]:
        word = TEXT_OPERATORS[node.op].word
        return [f"{format_name(node.name)} {word} {'i' if node.fold else ''}{format_string(node.pattern)}"]

    def describe_condition(self, node: Text) -> str:
        return f"{TEXT_OPERATORS[node.op].says} {show(node.pattern)}" + (", ignoring case" if node.fold else "")

    def wanted_kind(self, node: Text) -> Kind:
        return Kind.STRING

    def simplify(self, node: Text) -> Text | ValueSet:
        return TEXT_OPERATORS[node.op].simplify(node.name, node.pattern, bool(node.fold))

    def literal_key(self, node: Text) -> str:
        return f"{quote(node.name)}{node.op}{'~' if node.fold else ''}{quote(node.pattern)}"

    def fixed(self, node: Text) -> Fixed:
        return TEXT_OPERATORS[node.op].fixed(node.pattern, node.fold)

    def examples(self, node: Text) -> Iterable[Value]:
        return TEXT_OPERATORS[node.op].examples(node.pattern)


_PLAIN_REGEX = re.compile(r"(\.\*)?([A-Za-z0-9 _/:-]*)(\.\*)?")
"""Plain text with ``.*`` at its ends needs no regular expression."""


class RegexKind(PredicateKind[Regex]):
    def holds(self, node: Regex, value: Value) -> bool:
        return type(value) is str and regex(node.pattern).fullmatch(value) is not None

    def cost(self, node: Regex) -> int:
        return 32 + max(len(node.pattern), regex(node.pattern).programsize // 4)

    def cost_on_value(self, node: Regex, value: Value) -> int:
        return 16 + len(value) * regex(node.pattern).programsize // 256 if type(value) is str else 1

    def is_costly(self, node: Regex) -> bool:
        return True

    def check_constants(self, node: Regex, where: str, limits: Limits) -> None:
        _check_text(node.pattern, "regular expression", where, limits)
        regex(node.pattern)

    def write(self, node: Regex) -> list[Written]:
        return [f"{format_name(node.name)} matches {format_string(node.pattern)}"]

    def describe_condition(self, node: Regex) -> str:
        return f"is a string that the regular expression {node.pattern} describes whole"

    def wanted_kind(self, node: Regex) -> Kind:
        return Kind.STRING

    def simplify(self, node: Regex) -> Regex | Text | ValueSet:
        plain = _PLAIN_REGEX.fullmatch(node.pattern)
        if plain is None:
            return node
        return simplify_like(node.name, "*" * bool(plain[1]) + plain[2] + "*" * bool(plain[3]), False)

    def literal_key(self, node: Regex) -> str:
        return f"{quote(node.name)}regex{quote(node.pattern)}"

    def examples(self, node: Regex) -> Iterable[Value]:
        return ()


class SimilarKind(PredicateKind[Similar]):
    DEFAULT_THRESHOLD = Similar("", "").threshold

    def holds(self, node: Similar, value: Value) -> bool:
        return type(value) is str and is_similar(value, node.text, node.threshold)

    def cost(self, node: Similar) -> int:
        return 32 + len(node.text)

    def cost_on_value(self, node: Similar, value: Value) -> int:
        if type(value) is not str:
            return 1
        chars = len(value)
        near = may_be_similar(value, node.text, node.threshold)
        return 16 + chars // 16 + (chars * (1 + len(node.text) // 64) // 32 if near else 0)

    def is_costly(self, node: Similar) -> bool:
        return True

    def check_constants(self, node: Similar, where: str, limits: Limits) -> None:
        _check_text(node.text, "text", where, limits)
        if type(node.threshold) not in (int, float) or not 0 <= node.threshold <= 1:
            raise FilterError(f"{where}: the threshold of similarity is {node.threshold!r}; it must be from 0 to 1")

    def write(self, node: Similar) -> list[Written]:
        at = "" if node.threshold == self.DEFAULT_THRESHOLD else f" at {node.threshold!r}"
        return [f"{format_name(node.name)} similar to {format_string(node.text)}{at}"]

    def describe_condition(self, node: Similar) -> str:
        return f"is similar to {show(node.text)} (at least {node.threshold:g})"

    def wanted_kind(self, node: Similar) -> Kind:
        return Kind.STRING

    def simplify(self, node: Similar) -> Similar | ValueSet:
        return STRINGS if node.threshold <= 0 else Similar(node.name, node.text.casefold(), float(node.threshold))

    def literal_key(self, node: Similar) -> str:
        return f"{quote(node.name)}similar{node.threshold!r}{quote(node.text)}"

    def examples(self, node: Similar) -> Iterable[Value]:
        return (node.text,)


# --- nodes that speak of no attribute, or of several -----------------------------------------------------------------


class ConstantKind(NodeKind[Constant]):
    def evaluate(self, node: Constant, view: View) -> bool:
        return node.value

    def cost(self, node: Constant) -> int:
        return 1

    def cost_on(self, node: Constant, view: View) -> int:
        return 0

    def is_costly(self, node: Constant) -> bool:
        return False

    def check(self, node: Constant, limits: Limits) -> None:
        """Both truths are right."""

    def names(self, node: Constant) -> tuple[str, ...]:
        return ()

    def write(self, node: Constant) -> list[Written]:
        return ["true" if node.value else "false"]

    def describe(self, node: Constant) -> str:
        return "every event" if node.value else "no event"


class SqlKind(NodeKind[Sql]):
    def evaluate(self, node: Sql, view: View) -> bool:
        return cesql.accepts(node.text, view)

    def cost(self, node: Sql) -> int:
        return 32 + len(node.text) + cesql.size(node.text).instructions // 8

    def cost_on(self, node: Sql, view: View) -> int:
        values = (view.get(name) for name in cesql.names(node.text))
        return cost_of_sql(node.text, sum(len(value) for value in values if isinstance(value, str)))

    def is_costly(self, node: Sql) -> bool:
        return True

    def check(self, node: Sql, limits: Limits) -> None:
        if len(node.text) > limits.filter_chars:
            raise FilterError(f"the CESQL text has {len(node.text):,} characters; the limit is {limits.filter_chars:,}")
        cesql.parse(node.text)

    def names(self, node: Sql) -> frozenset[str]:
        return cesql.names(node.text)

    def write(self, node: Sql) -> list[Written]:
        return [f"sql {format_string(node.text)}"]

    def describe(self, node: Sql) -> str:
        return f"the CESQL expression  {node.text}"


def cost_of_sql(text: str, chars: int) -> int:
    """Steps of a CESQL expression on a view whose strings that it names have so many characters in all."""
    size = cesql.size(text)
    longest = min(chars * max(size.names, 1), LIMITS.string_chars) if size.names else 0
    return 32 + len(text) // 4 + size.nodes * (1 + longest // 32) + longest * size.instructions // 256


class JoinKind(NodeKind[N]):
    """A node over other nodes: it costs one step, and there is nothing of its own to check or name."""

    def cost(self, node: N) -> int:
        return 1

    def cost_on(self, node: N, view: View) -> int:
        return 1

    def is_costly(self, node: N) -> bool:
        return True

    def check(self, node: N, limits: Limits) -> None:
        """Its parts are checked by the caller."""

    def names(self, node: N) -> tuple[str, ...]:
        return ()

    def fields(self, node: N) -> Iterable[Any]:
        return map(to_items, self.parts(node))


class AndKind(JoinKind[And]):
    def evaluate(self, node: And, view: View) -> bool:
        for part in node.parts:  # noqa: SIM110  # twice as fast as all() over a generator
            if not KINDS[type(part)].evaluate(part, view):
                return False
        return True

    def parts(self, node: And) -> tuple[Filter, ...]:
        return node.parts

    def write(self, node: And) -> list[Written]:
        return _write_join(node.parts, "all", " and ")

    def describe(self, node: And) -> str:
        return "all of these" if node.parts else "every event (a conjunction of nothing)"

    def make(self, fields: list[Any]) -> And:
        return And(tuple(map(from_items, fields)))


class OrKind(JoinKind[Or]):
    def evaluate(self, node: Or, view: View) -> bool:
        for part in node.parts:  # noqa: SIM110  # twice as fast as any() over a generator
            if KINDS[type(part)].evaluate(part, view):
                return True
        return False

    def parts(self, node: Or) -> tuple[Filter, ...]:
        return node.parts

    def write(self, node: Or) -> list[Written]:
        return _write_join(node.parts, "any", " or ")

    def describe(self, node: Or) -> str:
        return "at least one of these" if node.parts else "no event (a disjunction of nothing)"

    def make(self, fields: list[Any]) -> Or:
        return Or(tuple(map(from_items, fields)))


class NotKind(JoinKind[Not]):
    def evaluate(self, node: Not, view: View) -> bool:
        return not KINDS[type(node.part)].evaluate(node.part, view)

    def parts(self, node: Not) -> tuple[Filter, ...]:
        return (node.part,)

    def write(self, node: Not) -> list[Written]:
        return ["not ", *_operand(node.part)]

    def describe(self, node: Not) -> str:
        return "not"

    def make(self, fields: list[Any]) -> Not:
        return Not(*map(from_items, fields))


def _write_join(parts: tuple[Filter, ...], call: str, word: str) -> list[Written]:
    """Two or more parts are joined by their word; one or none, which no sequence of words can show, by a call."""
    if len(parts) < 2:
        return [f"{call}(", *parts, ")"]
    pieces: list[Written] = []
    for part in parts:
        if pieces:
            pieces.append(word)
        pieces += _operand(part)
    return pieces


def _operand(part: Filter) -> list[Written]:
    if isinstance(part, (And, Or)) and len(part.parts) > 1:
        return ["(", part, ")"]
    return [part]


# --- the table -------------------------------------------------------------------------------------------------------


class Kinds(dict[type[Any], NodeKind[Any]]):
    """Node kinds by the class of the node; a class that is not there is a TypeError."""

    def __missing__(self, node: type[Any]) -> NodeKind[Any]:
        raise TypeError(f"{node.__name__} is not a node of a filter: recado.filters.nodes does not know it")


KINDS = Kinds()
NUMBERS: dict[int, NodeKind[Any]] = {}
"""The same kinds by their number in packed filters."""


def register(kind: NodeKind[Any]) -> None:
    """Enter a kind of node; a ValueError if its class or its number is taken."""
    if kind.node in KINDS or kind.number in NUMBERS:
        raise ValueError(f"{kind.node.__name__}, number {kind.number}, is taken in the table of node kinds")
    KINDS[kind.node] = NUMBERS[kind.number] = kind


register(ConstantKind(Constant, 0))
register(CompareKind(Compare, 1))
register(BetweenKind(Between, 2))
register(InKind(In, 3))
register(TextKind(Text, 4))
register(RegexKind(Regex, 5))
register(ExistsKind(Exists, 6))
register(SimilarKind(Similar, 7))
register(SqlKind(Sql, 8))
register(AndKind(And, 9))
register(OrKind(Or, 10))
register(NotKind(Not, 11))


def is_predicate(node: Filter) -> TypeGuard[Predicate]:
    """Does the node speak of one attribute, and hold for none of the events that lack it?"""
    return isinstance(KINDS[type(node)], PredicateKind)


def predicate_kind(node: Filter) -> PredicateKind[Any]:
    """The kind of a predicate on one attribute; a TypeError for any other node."""
    kind = KINDS[type(node)]
    if not isinstance(kind, PredicateKind):
        raise TypeError(f"{type(node).__name__} is not a predicate")
    return kind


def to_items(node: Filter) -> tuple[Any, ...]:
    """A filter as nested tuples: the number of its kind, and its fields."""
    kind = KINDS[type(node)]
    return kind.number, *kind.fields(node)


def from_items(items: list[Any]) -> Filter:
    """The filter that such tuples, read as lists, stand for; a KeyError if there is no such number."""
    node: Filter = NUMBERS[items[0]].make(items[1:])
    return node


# --- checks and values that several kinds share ----------------------------------------------------------------------


def _check_name(name: str, limits: Limits) -> None:
    if type(name) is not str or not name:
        raise FilterError("a predicate names no attribute", hint="an attribute's name is a text that is not empty")
    if len(name) > limits.name_chars:
        raise FilterError(f"an attribute name has {len(name):,} characters; the limit is {limits.name_chars:,}")
    _check_value(name, "an attribute name", limits.name_chars)


def _check_op(op: str, known: frozenset[str], where: str) -> None:
    if op not in known:
        raise FilterError(f"{where}: {op!r} is no operator here", hint=f"known are {', '.join(sorted(known))}")


def _check_constant(value: Value, where: str, limits: Limits) -> None:
    _check_value(value, where, limits.string_chars)
    if is_nan(value):
        raise FilterError(f"{where}: NaN equals nothing and has no order, so no filter may compare with it")


def _check_text(text: str, what: str, where: str, limits: Limits) -> None:
    if type(text) is not str:
        raise FilterError(f"{where}: the {what} is {type(text).__name__}, not text")
    if len(text) > limits.pattern_chars:
        raise FilterError(f"{where}: the {what} has {len(text):,} characters; the limit is {limits.pattern_chars:,}")
    _check_value(text, where, limits.pattern_chars)


def _check_value(value: Value, where: str, string_chars: int) -> None:
    try:
        check_value(value, where, string_chars)
    except RecadoError as error:
        raise FilterError(str(error)) from None


def _values_around(values: Iterable[Value]) -> Iterator[Value]:
    """The values themselves, then a little less and a little more."""
    for value in values:
        yield value
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, str):
            yield value + "~"
            yield value[:-1]
        elif isinstance(value, datetime):
            yield value - timedelta(seconds=1)
            yield value + timedelta(seconds=1)
        else:
            yield from (near for near in (value - 1, value + 1, value + 0.5) if INT_MIN <= near <= INT_MAX)
