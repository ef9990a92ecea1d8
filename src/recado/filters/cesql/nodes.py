"""The syntax tree of CESQL: frozen values, as the parser makes them and the printer writes them.

Operators of one precedence stand in one ``Chain``, read from left to right, so a long ``a AND b OR c ...`` is wide and
not deep, and every walk over a tree needs a stack no deeper than the nesting of its parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

CesqlValue = str | int | bool
"""The three types of CESQL: String, Integer (32 bits, signed) and Boolean."""

LEVELS = (("AND", "OR", "XOR"), ("=", "!=", "<>", ">=", "<=", ">", "<"), ("+", "-"), ("*", "/", "%"))
"""Binary operators by precedence, the weakest first; those of one level are equals."""

LOGIC, COMPARISON = LEVELS[0], LEVELS[1]


class Node(msgspec.Struct, frozen=True):
    """Base of all nodes."""


class Literal(Node, frozen=True):
    value: CesqlValue


class Attribute(Node, frozen=True):
    name: str


class Unary(Node, frozen=True):
    """``NOT x`` or ``-x``."""

    op: str
    operand: Expression


class Step(Node, frozen=True):
    """One operator of a chain and what stands to its right."""

    op: str
    operand: Expression


class Chain(Node, frozen=True):
    """``first op x op y ...``: all operators are of one level, each applied to what the left gave."""

    first: Expression
    steps: tuple[Step, ...]


class Like(Node, frozen=True):
    operand: Expression
    pattern: str
    negated: bool = False


class Member(Node, frozen=True):
    """``x IN (y, ...)``."""

    operand: Expression
    elements: tuple[Expression, ...]
    negated: bool = False


REQUIRED = frozenset({"id", "source", "specversion", "type"})
"""Attributes that every CloudEvent has: ``EXISTS`` finds them in whatever case they are written."""


class Presence(Node, frozen=True):
    """``EXISTS name``."""

    name: str


class Call(Node, frozen=True):
    """A function invocation; the name is in upper case."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Literal | Attribute | Unary | Chain | Like | Member | Presence | Call


def children(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Unary(_, operand) | Like(operand):
            return (operand,)
        case Chain(first, steps):
            return (first, *(step.operand for step in steps))
        case Member(operand, elements):
            return (operand, *elements)
        case Call(_, arguments):
            return arguments
    return ()


def walk(node: Expression) -> Iterator[Expression]:
    """All nodes of the tree, parents first."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def names_in(node: Expression) -> frozenset[str]:
    """Every attribute that the expression names."""
    return frozenset(part.name for part in walk(node) if isinstance(part, (Attribute, Presence)))
