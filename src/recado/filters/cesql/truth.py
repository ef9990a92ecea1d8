"""Three outcomes in a two-valued tree: when an expression is true, false, or an error.

CESQL does not accept an event if an error occurs, and ``NOT`` does not turn an error into anything else, whereas a
filter is either true or false. So an expression is described by filters that say when it yields true and when it
yields false, each without an error; where neither holds, it fails. ``AND`` does not look to its right if the left is
false, hence

    (a AND b) is true   where  a is true and b is true
    (a AND b) is false  where  a is false, or a does not fail and b is false

``safe_true`` is any filter that holds where the expression is true and never where it fails; ``safe_false`` likewise.
They let "does not fail" be written by something short, such as ``exists x``. ``OR`` is ``NOT (NOT a AND NOT b)``, which
also describes its errors and its short circuit.

A filter that grows beyond a budget raises ``TooLargeError``; whoever asked then leaves that part to CESQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from recado.model.filter import FALSE, TRUE, And, Constant, Exists, Filter, In, Not, Or, Sql


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
                size = _checked(size + weight(piece), budget)
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
                size = _checked(size + weight(piece), budget)
    pieces = tuple(kept)
    return pieces[0] if len(pieces) == 1 else Or(pieces) if pieces else FALSE


def _checked(size: int, budget: int) -> int:
    if size > budget:
        raise TooLargeError
    return size


def weight(filter: Filter) -> int:
    """The number of predicates, where a long set or CESQL text counts for several."""
    return sum(map(_weight, _nodes(filter)))


def _weight(node: Filter) -> int:
    match node:
        case And() | Or() | Not():
            return 0
        case In(_, values):
            return 1 + len(values) // 32
        case Sql(text):
            return 1 + len(text) // 32
    return 1


def depth(filter: Filter) -> int:
    match filter:
        case And(parts) | Or(parts):
            return 1 + max(map(depth, parts), default=0)
        case Not(part):
            return 1 + depth(part)
    return 1


def needs(filter: Filter) -> frozenset[str]:
    """Attributes that exist in every event that matches."""
    match filter:
        case And(parts):
            return frozenset[str]().union(*map(needs, parts))
        case Or(parts) if parts:
            return frozenset.intersection(*map(needs, parts))
        case Or() | Not() | Constant() | Sql():
            return frozenset()
    return frozenset((filter.name,))


def _nodes(filter: Filter) -> Iterator[Filter]:
    stack = [filter]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (And, Or)):
            stack.extend(node.parts)
        elif isinstance(node, Not):
            stack.append(node.part)
