"""Single predicates of CESQL as common filters: comparisons of an attribute with a literal, ``LIKE``, ``IN``.

Implicit casts make a predicate speak of values of several kinds at once: ``x = 5`` holds for the number 5, for the
strings ``5``, ``05`` and ``+5``, and fails with an error for ``five``. Each atom below says exactly when it is true and
when it is false, as far as common predicates can say it. One thing they cannot say is that a number has no fraction
(2.5 is a String to CESQL); then the filter asks CESQL itself, through an ``Sql`` node, behind common predicates that
are true wherever the answer can be yes and that are cheap to test first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Literal as OneOf

from recado.filters.cesql.evaluator import wildcard
from recado.filters.cesql.nodes import Attribute, CesqlValue, Chain, Expression, Like, Literal, Member, Step, Unary
from recado.filters.cesql.parser import format_node
from recado.filters.cesql.types import (
    INT_MAX,
    INT_MIN,
    EvaluationError,
    castable,
    represent,
    spellings,
    to_boolean,
    to_integer,
    to_string,
)
from recado.filters.patterns import like_regex, like_tokens
from recado.model.filter import (
    FALSE,
    TRUE,
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
    Regex,
    Sql,
    Text,
)
from recado.model.values import Kind, Value, kind_of

# --- Three outcomes in a two-valued tree: when an expression is true, false, or an error -----------------------------
#
# CESQL does not accept an event if an error occurs, and ``NOT`` does not turn an error into anything else, whereas a
# filter is either true or false. So an expression is described by filters that say when it yields true and when it
# yields false, each without an error; where neither holds, it fails. ``AND`` does not look to its right if the left is
# false, hence
#
#     (a AND b) is true   where  a is true and b is true
#     (a AND b) is false  where  a is false, or a does not fail and b is false
#
# ``safe_true`` is any filter that holds where the expression is true and never where it fails; ``safe_false``
# likewise. They let "does not fail" be written by something short, such as ``exists x``. ``OR`` is ``NOT (NOT a AND
# NOT b)``, which also describes its errors and its short circuit.
#
# A filter that grows beyond a budget raises ``TooLargeError``; whoever asked then leaves that part to CESQL.


class TooLargeError(Exception):
    """The common nodes would need more predicates than the budget allows; never leaves this package."""


class Truth(ABC):
    """When an expression is true and when it is false, without an error; ``height`` is the nesting of its parts."""

    height = 1

    @abstractmethod
    def true(self) -> Filter:
        """The events for which the expression yields true."""

    @abstractmethod
    def false(self) -> Filter:
        """The events for which the expression yields false."""

    def safe_true(self) -> Filter:
        return self.true()

    def safe_false(self) -> Filter:
        return self.false()


class Known(Truth):
    """Filters that are already there; ``safe``, if given, holds wherever the expression does not fail."""

    def __init__(self, true: Filter, false: Filter, safe: Filter | None = None) -> None:
        self._true, self._false, self._safe = true, false, safe

    def true(self) -> Filter:
        return self._true

    def false(self) -> Filter:
        return self._false

    def safe_true(self) -> Filter:
        return self._safe or self._true

    def safe_false(self) -> Filter:
        return self._safe or self._false


class Negation(Truth):
    def __init__(self, part: Truth) -> None:
        self._part = part
        self.height = part.height

    def true(self) -> Filter:
        return self._part.false()

    def false(self) -> Filter:
        return self._part.true()

    def safe_true(self) -> Filter:
        return self._part.safe_false()

    def safe_false(self) -> Filter:
        return self._part.safe_true()


class Conjunction(Truth):
    """``a AND b AND ...``, evaluated from left to right."""

    def __init__(self, parts: list[Truth], budget: int) -> None:
        self._parts = parts
        self._budget = budget
        self.height = 1 + max(part.height for part in parts)

    def true(self) -> Filter:
        return conjunction((part.true() for part in self._parts), self._budget)

    def false(self) -> Filter:
        return self._ends(part.false() for part in self._parts)

    def safe_true(self) -> Filter:
        return conjunction((part.safe_true() for part in self._parts), self._budget)

    def safe_false(self) -> Filter:
        *before, last = self._parts
        return self._ends(part() for part in [*(part.false for part in before), last.safe_false])

    def _ends(self, falses: Iterable[Filter]) -> Filter:
        """One part is false, and none before it fails."""
        return disjunction(self._cases(falses), self._budget)

    def _cases(self, falses: Iterable[Filter]) -> Iterator[Filter]:
        before: Filter = TRUE
        for part, false in zip(self._parts, falses, strict=True):
            yield conjunction((before, false), self._budget)
            before = conjunction((before, part.safe_true()), self._budget)


class Exclusive(Truth):
    """``a XOR b``: both sides are always evaluated."""

    def __init__(self, left: Truth, right: Truth, budget: int) -> None:
        self._left, self._right, self._budget = left, right, budget
        self.height = 2 + max(left.height, right.height)

    def true(self) -> Filter:
        left, right = self._left, self._right
        return self._either((left.true(), right.false()), (left.false(), right.true()))

    def false(self) -> Filter:
        left, right = self._left, self._right
        return self._either((left.true(), right.true()), (left.false(), right.false()))

    def _either(self, one: tuple[Filter, Filter], other: tuple[Filter, Filter]) -> Filter:
        return disjunction((conjunction(one, self._budget), conjunction(other, self._budget)), self._budget)


def conjunction(parts: Iterable[Filter], budget: int) -> Filter:
    """``And`` of the parts, flat and without constants, repetitions and needless ``exists``."""
    kept: dict[Filter, None] = {}
    size = 0
    for part in parts:
        for piece in part.parts if isinstance(part, And) else (part,):
            if piece == FALSE:
                return FALSE
            if piece != TRUE and piece not in kept:
                kept[piece] = None
                size = _check(size + weight(piece), budget)
    implied = {name for piece in kept if not isinstance(piece, Exists) for name in needs(piece)}
    pieces = tuple(piece for piece in kept if not (isinstance(piece, Exists) and piece.name in implied))
    return pieces[0] if len(pieces) == 1 else And(pieces) if pieces else TRUE


def disjunction(parts: Iterable[Filter], budget: int) -> Filter:
    """``Or`` of the parts, flat and without constants and repetitions."""
    kept: dict[Filter, None] = {}
    size = 0
    for part in parts:
        for piece in part.parts if isinstance(part, Or) else (part,):
            if piece == TRUE:
                return TRUE
            if piece != FALSE and piece not in kept:
                kept[piece] = None
                size = _check(size + weight(piece), budget)
    pieces = tuple(kept)
    return pieces[0] if len(pieces) == 1 else Or(pieces) if pieces else FALSE


def _check(size: int, budget: int) -> int:
    if size > budget:
        raise TooLargeError
    return size


def weight(node: Filter) -> int:
    """The number of predicates, where a long set or CESQL text counts for several."""
    return sum(map(_weight, _nodes(node)))


def _weight(node: Filter) -> int:
    match node:
        case And() | Or() | Not():
            return 0
        case In(_, values):
            return 1 + len(values) // 32
        case Sql(text):
            return 1 + len(text) // 32
    return 1


def depth(node: Filter) -> int:
    match node:
        case And(parts) | Or(parts):
            return 1 + max(map(depth, parts), default=0)
        case Not(part):
            return 1 + depth(part)
    return 1


def needs(node: Filter) -> frozenset[str]:
    """Attributes that exist in every event that matches."""
    match node:
        case And(parts):
            return frozenset[str]().union(*map(needs, parts))
        case Or(parts) if parts:
            return frozenset.intersection(*map(needs, parts))
        case Or() | Not() | Constant() | Sql():
            return frozenset()
    return frozenset((node.name,))


def _nodes(tree: Filter) -> Iterator[Filter]:
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (And, Or)):
            stack.extend(node.parts)
        elif isinstance(node, Not):
            stack.append(node.part)


# --- Single predicates of CESQL as common filters: comparisons of an attribute with a literal, ``LIKE``, ``IN``

NEVER = Known(FALSE, FALSE)
"""An expression that always fails."""

OPPOSITE: dict[str, CompareOp] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}

_NOT_STRINGS = frozenset("0123456789+-.:eTZNaInfity")
"""The characters in the texts of numbers and instants."""


def equals_literal(name: str, value: CesqlValue) -> Truth | None:
    """``name = value``: the attribute is cast to the type of the literal."""
    if isinstance(value, str):
        found = spellings(value)
        return None if found is None else _total(name, one_of(name, found))
    if isinstance(value, bool):
        return truthy(name) if value else Negation(truthy(name))
    return _equals_integer(name, value)


def literal_equals(value: CesqlValue, name: str) -> Truth | None:
    """``value = name``: the literal is cast to the type of the attribute."""
    if isinstance(value, str):
        return _member(name, (value,), asked=Chain(Literal(value), (Step("=", Attribute(name)),)))
    return _total(name, one_of(name, (to_string(value), int(value), bool(value))))


def truthy(name: str) -> Truth:
    """The attribute is cast to a Boolean, as ``name = TRUE`` or an operand of ``AND`` does."""
    asked = _ask(_comparison(name, "=", True))
    numbers = And((Between(name, INT_MIN, INT_MAX), Not(Compare(name, "==", 0)), asked))
    return Known(Or((*_true_or_its_text(name), numbers)), Or((one_of(name, (False, 0)), _false_text(name))))


def boolean(name: str) -> Truth:
    """The attribute is a Boolean or a String that is cast to one; anything else fails, as under ``NOT``."""
    return Known(Or(_true_or_its_text(name)), Or((Compare(name, "==", False), _false_text(name))))


def _true_or_its_text(name: str) -> tuple[Filter, Filter]:
    return Compare(name, "==", True), Text(name, "like", "true", fold=True)


def _false_text(name: str) -> Filter:
    # the long s is folded to an s, but it is not the upper case of one
    return And((Text(name, "like", "false", fold=True), Not(Text(name, "contains", "\N{LATIN SMALL LETTER LONG S}"))))


def _equals_integer(name: str, number: int) -> Truth:
    """Strings that are cast to the number have any leading zeros, so they share its digits as an ending."""
    digits = str(abs(number))
    sign = "-" if number < 0 else "\\+?" if number > 0 else "[+-]?"
    strings = And((Text(name, "suffix", digits), Regex(name, f"{sign}0*{digits}")))
    values = one_of(name, (number, *(truth for truth in (False, True) if int(truth) == number)))
    unequal = And((Exists(name), Not(values), _ask(_comparison(name, "!=", number))))
    return Known(Or((values, strings)), unequal)


def ordered(name: str, op: str, value: CesqlValue) -> Truth:
    """``name < value`` and the like: both sides are cast to Integers."""
    try:
        bound = to_integer(value)
    except EvaluationError:
        return NEVER
    return Known(_ordered(name, op, bound), _ordered(name, OPPOSITE[op], bound))


def _ordered(name: str, op: str, bound: int) -> Filter:
    asked = _ask(_comparison(name, op, bound))
    return And((Exists(name), Not(Compare(name, OPPOSITE[op], bound)), asked))


def like(name: str, pattern: str) -> Truth | None:
    """``name LIKE pattern``: the attribute is cast to a String, which never fails."""
    tokens = like_tokens(wildcard(pattern))
    if None not in tokens and "" not in tokens:
        return equals_literal(name, "".join(token for token in tokens if token))
    if tokens == [None]:
        return _total(name, Exists(name))
    literal = "".join(token for token in tokens if token)
    fullmatch = like_regex(wildcard(pattern), False).fullmatch
    matched = _with_other_kinds(_text(name, pattern), literal, lambda whole: fullmatch(whole) is not None, pattern)
    return _total(name, matched)


def exactly(name: str, text: str) -> Filter:
    """The text of the attribute is ``text``: ``name = 'text'``."""
    found = spellings(text)
    return And((Exists(name), _ask(_comparison(name, "=", text)))) if found is None else one_of(name, found)


def affix(name: str, op: OneOf["prefix", "suffix"], text: str) -> Filter:
    """The text of the attribute begins or ends so: ``name LIKE 'text%'``, also for texts that no pattern can say."""
    if op == "prefix":
        return _with_other_kinds(Text(name, op, text), text, lambda whole: whole.startswith(text), f"{text}%")
    return _with_other_kinds(Text(name, op, text), text, lambda whole: whole.endswith(text), f"%{text}")


def _with_other_kinds(strings: Text, literal: str, matches: Callable[[str], bool], pattern: str) -> Filter:
    """Add to a predicate on strings the values of other kinds whose text has those literal characters."""
    name = strings.name
    if all(char in _NOT_STRINGS for char in literal):
        return Or((strings, And((Exists(name), Not(is_string(name)), _ask(Like(Attribute(name), pattern))))))
    truths = [truth for truth in (False, True) if matches(to_string(truth))]
    return Or((strings, one_of(name, truths))) if truths else strings


def _text(name: str, pattern: str) -> Text:
    """The plainest text predicate that says the pattern."""
    like_pattern = wildcard(pattern)
    match like_tokens(like_pattern):
        case [None, str(end)] if end:
            return Text(name, "suffix", end)
        case [str(start), None] if start:
            return Text(name, "prefix", start)
        case [None, str(part), None] if part:
            return Text(name, "contains", part)
    return Text(name, "like", like_pattern)


def member(name: str, values: tuple[CesqlValue, ...]) -> Truth | None:
    """``name IN (values)``: the values are cast to the type of the attribute, up to the first that is equal."""
    return _member(name, values, asked=Member(Attribute(name), tuple(map(Literal, values))))


def _member(name: str, values: tuple[CesqlValue, ...], asked: Expression) -> Truth | None:
    found: list[Value] = []
    for value in values:
        spelled = spellings(to_string(value))
        if spelled is None:
            return None
        found += [other for other in spelled if isinstance(represent(other), str)]
    integers, booleans = _cast(to_integer, values), _cast(to_boolean, values)
    true = one_of(name, (*found, *integers, *booleans))
    if len(integers) == len(booleans) == len(values):
        return _total(name, true)
    others = And((Exists(name), Not(is_string(name)), _ask(Unary("NOT", asked))))
    return Known(true, Or((And((is_string(name), Not(true))), others)))


def _cast(convert: Callable[[CesqlValue], CesqlValue], values: Iterable[CesqlValue]) -> list[CesqlValue]:
    """The values as another type, up to the first that cannot be cast."""
    return [convert(value) for value in takewhile(lambda value: castable(convert, value), values)]


def is_string(name: str) -> Filter:
    return Text(name, "prefix", "")


def one_of(name: str, values: Iterable[Value]) -> Filter:
    """The attribute equals one of the values; repetitions are dropped (``1`` and ``true`` are none)."""
    distinct: dict[tuple[Kind, Value], Value] = {(kind_of(value), value): value for value in values}
    if len(distinct) == 1:
        return Compare(name, "==", next(iter(distinct.values())))
    return In(name, tuple(distinct.values()))


def _total(name: str, true: Filter) -> Truth:
    """A predicate that fails only if the attribute is missing."""
    return Known(true, And((Exists(name), Not(true))), Exists(name))


def _comparison(name: str, op: str, value: CesqlValue) -> Chain:
    return Chain(Attribute(name), (Step(op, Literal(value)),))


def _ask(node: Expression) -> Filter:
    """Leave the question to CESQL."""
    return Sql(format_node(node))
