"""From CESQL to the common filter nodes, part by part.

``AND``, ``OR``, ``XOR`` and ``NOT`` are taken apart by the rules in ``truth``; single predicates become common ones by
the rules in ``atoms``. What neither knows (arithmetic, functions, two attributes compared) stays an ``Sql`` node of its
own, behind ``exists`` for each attribute that it cannot do without. So the index finds its candidates by whatever can
be indexed, and CESQL is asked only about those.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise, takewhile

from recado.errors import FilterError
from recado.filters.cesql import atoms
from recado.filters.cesql import evaluator as functions
from recado.filters.cesql.atoms import Conjunction, Exclusive, Known, Negation, TooLargeError, Truth, conjunction, depth
from recado.filters.cesql.evaluator import SPECVERSION, compile_node, static_type
from recado.filters.cesql.nodes import (
    COMPARISON,
    LOGIC,
    Attribute,
    Call,
    CesqlValue,
    Chain,
    Expression,
    Like,
    Literal,
    Member,
    Presence,
    Step,
    Unary,
    names_in,
    walk,
)
from recado.filters.cesql.parser import format_node, has_literal, parse_text
from recado.filters.cesql.types import EvaluationError, to_boolean
from recado.model.filter import FALSE, TRUE, Compare, Exists, Filter, Not, Sql
from recado.model.limits import Limits

_XOR_OPERANDS = 3
"""Each operand of XOR doubles the filter; longer chains are left to CESQL."""


def lower(text: str, root: Expression, limits: Limits) -> Filter:
    """The filter of an expression, given its text and its tree."""
    _check_functions(root)
    _check_boolean(root)
    if isinstance(root, Attribute) and root.name != SPECVERSION:
        return Compare(root.name, "==", True)  # not cast: a filter's value must be a Boolean by itself
    try:
        filter = _Lowering(limits).truth(root).true()
    except TooLargeError:
        return Sql(text)
    return filter if depth(filter) <= limits.filter_depth else Sql(text)


def _check_functions(root: Expression) -> None:
    for node in walk(root):
        if isinstance(node, Call) and functions.find(node.name, len(node.arguments)) is None:
            close = get_close_matches(node.name, functions.BY_NAME, 1)
            hint = f"did you mean {close[0]}?" if close and close[0] != node.name else None
            raise FilterError(str(functions.missing(node.name, len(node.arguments))), hint=hint)


def _check_boolean(root: Expression) -> None:
    yielded = static_type(root)
    if yielded in (str, int):
        name = "a String" if yielded is str else "an Integer"
        raise FilterError(
            f"the expression yields {name}, and a filter must yield a Boolean: no event would ever pass",
            hint="compare it with something, or cast it with BOOL(...)",
        )


class _Lowering:
    """One expression on its way into common nodes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = limits.filter_predicates

    def truth(self, node: Expression) -> Truth:
        """The expression where a Boolean is wanted."""
        return self._bound(node, self._composite(node) if _is_composite(node) else self._atom(node))

    def _bound(self, node: Expression, found: Truth | None) -> Truth:
        asked = _Asked(node, self.limits)
        if found is None or found.height > self.limits.filter_depth:
            return asked
        return found if isinstance(found, Known) else _Bounded(found, asked)

    def _composite(self, node: Expression) -> Truth | None:
        if isinstance(node, Chain):
            return self._logic(node)
        assert isinstance(node, Unary)
        return self._negation(node.operand)

    def _negation(self, operand: Expression) -> Truth:
        """``NOT``, which casts no Integer."""
        if static_type(operand) is int:
            return atoms.NEVER
        if isinstance(operand, Attribute) and operand.name != SPECVERSION:
            return Negation(atoms.boolean(operand.name))
        return Negation(self.truth(operand))

    def _logic(self, node: Chain) -> Truth | None:
        """Runs of one operator together, each run the left operand of the next."""
        if sum(step.op != after.op for step, after in pairwise(node.steps)) >= self.limits.filter_depth:
            return None
        op, parts = node.steps[0].op, [self.truth(node.first)]
        for index, step in enumerate(node.steps):
            if step.op != op:
                before = Chain(node.first, node.steps[:index])
                parts = [self._bound(before, self._joined(op, parts))]
                op = step.op
            parts.append(self.truth(step.operand))
        return self._joined(op, parts)

    def _joined(self, op: str, parts: list[Truth]) -> Truth | None:
        if op == "AND":
            return Conjunction(parts, self.budget)
        if op == "OR":
            return Negation(Conjunction([Negation(part) for part in parts], self.budget))
        if len(parts) > _XOR_OPERANDS:
            return None
        joined = parts[0]
        for part in parts[1:]:
            joined = Exclusive(joined, part, self.budget)
        return joined

    def _atom(self, node: Expression) -> Truth | None:
        names = names_in(node)
        if not names:
            return _constant_truth(node)
        if SPECVERSION in names:
            return Known(TRUE, FALSE) if isinstance(node, Presence) else None
        match node:
            case Presence(name):
                return Known(Exists(name), Not(Exists(name)), TRUE)
            case Attribute(name):
                return atoms.truthy(name)
            case Like(Attribute(name), pattern, negated):
                return _negate(atoms.like(name, pattern), negated)
            case Member(Attribute(name), elements, negated):
                values = [_constant(element) for element in elements]
                known = tuple(value for value in values if value is not None)
                return _negate(atoms.member(name, known), negated) if len(known) == len(values) else None
            case Chain(left, (Step(op, right),)) if op in COMPARISON:
                return _comparison(left, op, right)
        return None


def _is_composite(node: Expression) -> bool:
    match node:
        case Unary(op):
            return op == "NOT"
        case Chain(_, steps):
            return steps[0].op in LOGIC
    return False


def _comparison(left: Expression, op: str, right: Expression) -> Truth | None:
    """An attribute compared with a constant, on either side."""
    mirrored = isinstance(right, Attribute)
    attribute, constant = (right, _constant(left)) if mirrored else (left, _constant(right))
    if not isinstance(attribute, Attribute) or constant is None:
        return None
    name = attribute.name
    if op not in ("=", "!="):
        return atoms.ordered(name, atoms.MIRRORED[op] if mirrored else op, constant)
    equal = atoms.literal_equals(constant, name) if mirrored else atoms.equals_literal(name, constant)
    return _negate(equal, op == "!=")


def _negate(truth: Truth | None, negated: bool) -> Truth | None:
    return Negation(truth) if truth is not None and negated else truth


def _constant(node: Expression) -> CesqlValue | None:
    """The value of an expression without attributes; None if it names one, fails, or yields what no literal can say."""
    if isinstance(node, Literal):
        return node.value
    if names_in(node):
        return None
    try:
        value = compile_node(node)({})
    except EvaluationError:
        return None
    return value if not isinstance(value, str) or has_literal(value) else None


def _constant_truth(node: Expression) -> Truth:
    value = _constant(node)
    try:
        return atoms.NEVER if value is None else _CONSTANTS[to_boolean(value)]
    except EvaluationError:
        return atoms.NEVER


_CONSTANTS = {True: Known(TRUE, FALSE), False: Known(FALSE, TRUE)}


class _Asked(Truth):
    """An expression that is left to CESQL, behind what must exist for it to succeed."""

    def __init__(self, node: Expression, limits: Limits) -> None:
        self._node = node
        self._limits = limits

    def true(self) -> Filter:
        return self._sql(self._boolean())

    def false(self) -> Filter:
        return self._sql(Unary("NOT", self._boolean()))

    def _boolean(self) -> Expression:
        return self._node if static_type(self._node) is bool else Call("BOOL", (self._node,))

    def _sql(self, node: Expression) -> Filter:
        text = format_node(node)
        try:
            parse_text(text, self._limits)
        except FilterError:  # the part alone is longer or deeper than the whole was
            raise TooLargeError from None
        guards = [Exists(name) for name in sorted(required(node) - {SPECVERSION})]
        return conjunction((*guards, Sql(text)), self._limits.filter_predicates)


class _Bounded(Truth):
    """A truth that is left to CESQL where its filter would be too large; each filter is made once."""

    def __init__(self, part: Truth, asked: _Asked) -> None:
        self._part, self._asked = part, asked
        self.height = part.height
        self._made: dict[str, Filter] = {}

    def true(self) -> Filter:
        return self._once("true", self._part.true, self._asked.true)

    def false(self) -> Filter:
        return self._once("false", self._part.false, self._asked.false)

    def safe_true(self) -> Filter:
        return self._once("safe_true", self._part.safe_true, self.true)

    def safe_false(self) -> Filter:
        return self._once("safe_false", self._part.safe_false, self.false)

    def _once(self, key: str, make: Callable[[], Filter], instead: Callable[[], Filter]) -> Filter:
        if key not in self._made:
            try:
                self._made[key] = make()
            except TooLargeError:
                self._made[key] = instead()
        return self._made[key]


def required(node: Expression) -> frozenset[str]:
    """Attributes without which the evaluation of the expression surely fails."""
    match node:
        case Attribute(name):
            return frozenset((name,))
        case Chain(first, (Step(op), *_)) if op in LOGIC and op != "XOR":
            return required(first)
        case Chain(first, steps):
            certain = takewhile(lambda step: step.op not in ("AND", "OR"), steps)
            return required(first).union(*(required(step.operand) for step in certain))
        case Unary(_, operand) | Like(operand):
            return required(operand)
        case Member(operand, elements):
            return required(operand) | required(elements[0])
        case Call(_, arguments):
            return frozenset[str]().union(*map(required, arguments))
    return frozenset()
