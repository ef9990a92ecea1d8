"""Filters compiled into the programs of ``recado.matching.kernels.instructions``.

A conjunction of predicates and negated predicates becomes a run of tests; any other filter a tree with jumps.
A conjunction needs one access path, and ``recado.matching.kernels.access`` picks the most selective; that of a tree is
picked here.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

from recado.filters.nodes import KINDS, is_predicate
from recado.matching.dictionary import Dictionary
from recado.matching.kernels.instructions import (
    ATTRIBUTE_SHIFT,
    CONTAINS,
    EQ,
    EXACT,
    EXISTS,
    FLOATS,
    FOLDED,
    HIGH_STRICT,
    IN,
    INTS,
    JUMPS,
    LAST,
    LIKE,
    LOW_STRICT,
    NE,
    NEGATED,
    NEVER,
    NUM,
    OPAQUE,
    PREFIX,
    STR_GE,
    STR_GT,
    STR_LE,
    STR_LT,
    SUFFIX,
    TIME,
    Instruction,
    Order,
    bracket,
    byte_words,
    like_bytes,
    order,
)
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
    Regex,
    Similar,
    Sql,
    Text,
)
from recado.model.values import Kind, Value, canonical, kind_of, microseconds

# --- Filters that are not conjunctions: trees of tests, their access paths, and their layout with jumps --------------
#
# **Access paths.** An entry is found through one or more *access* tests, such that whenever the filter is true at least
# one of them is: the cheapest part of a conjunction, all parts of a disjunction.
#
# Tests are laid out in the order of evaluation, cheap ones first; each knows where to go on when it holds and when not.
# All jumps go forward.


class Branch:
    __slots__ = ("is_and", "parts")

    def __init__(self, is_and: bool, parts: list[Tree]) -> None:
        self.is_and = is_and
        self.parts = parts


Tree = Instruction | Branch


def access_set(tree: Tree) -> list[Instruction] | None:
    """The cheapest set of tests such that one of them holds whenever the tree does; None if there is none."""
    found = _access(tree)
    return found[1] if found else None


_ACCESS_COST = {EQ: 0.01, IN: 0.01, NUM: 0.2, TIME: 0.2, NE: 0.9, EXISTS: 0.9, OPAQUE: 0.9}


def _access(tree: Tree) -> tuple[float, list[Instruction]] | None:
    if isinstance(tree, Instruction):
        return _leaf_access(tree)
    found = [_access(part) for part in tree.parts]
    if tree.is_and:
        usable = [choice for choice in found if choice is not None]
        return min(usable, key=lambda choice: choice[0]) if usable else None
    cost, leaves = 0.0, []
    for choice in found:
        if choice is None:
            return None
        cost += choice[0]
        leaves += choice[1]
    return cost, leaves


def _leaf_access(leaf: Instruction) -> tuple[float, list[Instruction]] | None:
    if leaf.op == NEVER and not leaf.flags & NEGATED:
        return 0.0, []
    if leaf.flags & NEGATED or (leaf.op == OPAQUE and not leaf.argument):
        return None
    cost = _ACCESS_COST.get(leaf.op, 0.05)
    return cost * (leaf.argument if leaf.op == IN else 1), [leaf]


ACCEPT, REJECT = -1, -2
Emitted = tuple[Instruction, int, int]


def lay_out_tree(tree: Tree, emitted: list[Emitted]) -> list[int]:
    """Words of a tree: tests in the order of evaluation, with their jumps; ``emitted`` gets the tests that remain."""
    start = _emit(tree, ACCEPT, REJECT, emitted)
    if start < 0:  # the tree is constant
        emitted.clear()
        return [Instruction(NEVER, flags=NEGATED if start == ACCEPT else 0).head(LAST)]
    del emitted[start + 1 :]  # nothing jumps back to these
    emitted.reverse()
    starts = [0]
    for leaf, _, _ in emitted:
        starts.append(starts[-1] + 2 + len(leaf.payload))

    def jump(target: int, at: int) -> int:
        if target < 0:
            return 0 if target == ACCEPT else 0xFFFFFFFF
        return starts[start - target] - starts[at]

    words: list[int] = []
    for at, (leaf, on_true, on_false) in enumerate(emitted):
        words.append(leaf.head(JUMPS | (LAST if at == start else 0)))
        jumps = jump(on_true, at) | jump(on_false, at) << 32
        words.append(jumps - (1 << 64) if jumps >> 63 else jumps)
        words.extend(leaf.payload)
    return words


def _emit(tree: Tree, on_true: int, on_false: int, emitted: list[Emitted]) -> int:
    """Append the tests of a tree back to front, so that every jump target exists already; returns where to enter."""
    if isinstance(tree, Instruction):
        if tree.op == NEVER:
            return on_true if tree.flags & NEGATED else on_false
        if on_true == on_false:
            return on_true
        emitted.append((tree, on_true, on_false))
        return len(emitted) - 1
    entry = on_true if tree.is_and else on_false
    for part in sorted(tree.parts, key=tree_order, reverse=True):
        if tree.is_and:
            entry = _emit(part, entry, on_false, emitted)
        else:
            entry = _emit(part, on_true, entry, emitted)
    return entry


def tree_order(tree: Tree) -> tuple[Any, ...]:
    """Cheap tests first; the rest of the order is arbitrary, but the same for equal trees."""
    if isinstance(tree, Instruction):
        return order(tree)
    parts = sorted(map(tree_order, tree.parts))
    return sum((part[0] for part in parts), 0.0), -1, tree.is_and, 0, tuple(parts)


# --- Filters compiled into the programs of ``recado.matching.kernels.instructions`` ----------------------------------

_TEXT_OPS = {"prefix": PREFIX, "suffix": SUFFIX, "contains": CONTAINS, "like": LIKE}
_NUMBERS = frozenset((int, float))
_STR_OPS = {">=": STR_GE, ">": STR_GT, "<=": STR_LE, "<": STR_LT}


class Program:
    """The words of a filter, and what the store must know to link it.

    ``codes`` are the constants that its words refer to. The program holds them: they go over to the entry that is made
    of it, or are given back with ``Dictionary.release``.

    Tests stand in one order whatever the order in the filter, so equal programs are a cheap sign of equal filters;
    ``digest`` is the 128-bit name of a program. It never confuses two filters, and for conjunctions over different
    attributes it recognises all that are equal; of other filters, those that are written alike.
    """

    __slots__ = ("codes", "is_conjunction", "is_opaque", "words")

    def __init__(self, words: list[int], codes: list[int], is_conjunction: bool, is_opaque: bool) -> None:
        self.words = words
        self.codes = codes
        self.is_conjunction = is_conjunction
        self.is_opaque = is_opaque

    def digest(self) -> tuple[int, int]:
        data = struct.pack(f"<{len(self.words)}q", *self.words)
        first, second = INTS.unpack(blake2b(data, digest_size=16).digest())
        return first, second


class Compiler:
    """Compiles one filter at a time against a dictionary; new names and constants are entered as they come.

    ``_codes`` collects every constant that was held while compiling. Those that the words refer to go with the program;
    the others are given back before ``compile`` ends, also where it ends with an error.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._codes: list[int] = []
        self._opaque = False

    def compile(self, node: Filter) -> Program:
        """The program of a checked filter, which holds the constants that it refers to."""
        self._codes = []
        self._opaque = False
        codes: list[int] = []
        try:
            words = self._plain_conjunction(node)
            if words is not None:
                codes = self._codes
                return Program(words, codes, True, False)
            leaves = self._conjunction(node)
            if leaves is not None:
                words, codes = _lay_out_conjunction(leaves), _codes_of(leaves)
                return Program(words, codes, True, self._opaque)
            tree = self._tree(node, False)
            for leaf in access_set(tree) or ():
                leaf.access = True
            emitted: list[Emitted] = []
            words = lay_out_tree(tree, emitted)
            codes = _codes_of(leaf for leaf, _, _ in emitted)
            return Program(words, codes, False, self._opaque)
        finally:
            if len(codes) < len(self._codes):  # what was tried in vain, or is of tests that constants made superfluous
                self._dictionary.release((Counter(self._codes) - Counter(codes)).elements())

    # -- conjunctions

    def _plain_conjunction(self, condition: Filter) -> list[int] | None:
        """The words of a conjunction of equalities and numeric ranges on different attributes; None for the rest.

        Most filters are of this kind and millions are loaded, so they take this short way to the same words.
        """
        parts = [condition]
        if type(condition) is And:
            parts = list(condition.parts)
            if len(parts) == 2 and type(parts[1]) is And:  # a filter with its event type joined in
                parts = [parts[0], *parts[1].parts]
        leaves: list[Order] = []
        attribute_of, hold, codes = self._dictionary.attribute, self._dictionary.hold, self._codes
        for part in parts:
            if type(part) is Compare:
                if part.op != "==":
                    return None
                attribute = attribute_of(part.name)
                code = hold(attribute, part.value)
                codes.append(code)
                leaves.append((0.5, attribute, EQ, code, ()))
            elif type(part) is Between:
                low: Any = part.low
                high: Any = part.high
                if not (type(low) in _NUMBERS and type(high) in _NUMBERS):
                    return None
                if not (-EXACT < low < EXACT and -EXACT < high < EXACT):
                    return None
                leaves.append((1.5, attribute_of(part.name), NUM, 0, INTS.unpack(FLOATS.pack(low + 0.0, high + 0.0))))
            else:
                return None
        if not leaves or len({leaf[1] for leaf in leaves}) < len(leaves):
            return None
        leaves.sort()
        words: list[int] = []
        last = leaves[-1]
        for leaf in leaves:
            words.append(leaf[2] | leaf[1] << ATTRIBUTE_SHIFT | leaf[3] << 32 | (LAST if leaf is last else 0))
            words += leaf[4]
        return words

    def _conjunction(self, condition: Filter) -> list[Instruction] | None:
        """The tests of a conjunction of (negated) predicates; None for any other shape."""
        literals: list[tuple[Filter, bool]] = []
        stack: list[tuple[Filter, bool]] = [(condition, False)]
        while stack:
            node, negated = stack.pop()
            if type(node) is Not:
                stack.append((node.part, not negated))
            elif type(node) is And or type(node) is Or:
                if (type(node) is Or) is not negated:
                    return None
                stack.extend((part, negated) for part in node.parts)
            else:
                literals.append((node, negated))
        leaves: list[Instruction] = []
        for node, negated in literals:
            leaves += self._literal(node, negated)
        return _join_ranges(leaves)

    def _literal(self, node: Filter, negated: bool) -> list[Instruction]:
        leaves = self._predicate(node)
        if negated:
            if len(leaves) > 1:  # a string range is two tests; its negation is not a conjunction
                leaves = [self._opaque_leaf(node)]
            leaves[0].flags ^= NEGATED
        return leaves

    # -- other trees

    def _tree(self, node: Filter, negated: bool) -> Tree:
        """The filter with negations pushed down to the leaves (depth is bounded by the filter's own limit)."""
        if isinstance(node, Not):
            return self._tree(node.part, not negated)
        if isinstance(node, (And, Or)):
            is_and = isinstance(node, And) is not negated
            return Branch(is_and, [self._tree(part, negated) for part in node.parts])
        leaves: list[Tree] = list(self._literal(node, negated))
        return leaves[0] if len(leaves) == 1 else Branch(True, leaves)

    # -- predicates

    def _predicate(self, node: Filter) -> list[Instruction]:
        compile_node = COMPILERS.get(type(node))
        if compile_node is None:
            raise TypeError(f"{type(node).__name__} is not known to recado.matching.program.COMPILERS")
        return compile_node(self, node)

    def compile_exists(self, node: Exists) -> list[Instruction]:
        return [Instruction(EXISTS, self._dictionary.attribute(node.name), cost=2.0)]

    def compile_constant(self, node: Constant) -> list[Instruction]:
        return [Instruction(NEVER, flags=NEGATED if node.value else 0, cost=0.0)]

    def compile_opaque(self, node: Filter) -> list[Instruction]:
        """A test that the plain evaluator decides."""
        return [self._opaque_leaf(node)]

    def _opaque_leaf(self, node: Filter) -> Instruction:
        self._opaque = True
        attribute, argument = 0, 0
        if is_predicate(node):
            attribute, argument = self._dictionary.attribute(node.name), 1
        else:
            for name in KINDS[type(node)].names(node):
                self._dictionary.attribute(name)  # so that views hold what the evaluator will ask for
        digest = blake2b(repr(node).encode(), digest_size=16).digest()  # two opaque tests differ in their words, too
        return Instruction(OPAQUE, attribute, argument, INTS.unpack(digest), cost=100.0)

    def _code(self, attribute: int, value: Value) -> int:
        code = self._dictionary.hold(attribute, value)
        self._codes.append(code)
        return code

    def compile_compare(self, node: Compare) -> list[Instruction]:
        return self._compare(node.name, node.op, node.value)

    def _compare(self, name: str, op: CompareOp, value: Value) -> list[Instruction]:
        attribute = self._dictionary.attribute(name)
        kind = kind_of(value)
        if op in ("==", "!="):
            if op == "!=" and kind is Kind.BOOL:
                op, value = "==", not value
            code = self._code(attribute, value)
            return [Instruction(EQ if op == "==" else NE, attribute, code, cost=0.5 if op == "==" else 3.0)]
        if kind is Kind.BOOL:
            return [Instruction(NEVER)]
        if isinstance(value, str):
            data = value.encode()
            self._dictionary.needs_text(attribute, fold=False)
            return [Instruction(_STR_OPS[op], attribute, len(data), byte_words(data), cost=4.0)]
        number, kernel_op = _order(value)
        low = number if op in (">", ">=") else -math.inf
        high = number if op in ("<", "<=") else math.inf
        return [self._range(Compare(name, op, value), kernel_op, low, high, op == ">", op == "<")]

    def compile_between(self, node: Between) -> list[Instruction]:
        kind = kind_of(node.low)
        if kind is not kind_of(node.high) or kind is Kind.BOOL:
            return [Instruction(NEVER)]
        if kind is Kind.STRING:
            return self._compare(node.name, ">=", node.low) + self._compare(node.name, "<=", node.high)
        low, op = _order(node.low)
        high, _ = _order(node.high)
        return [self._range(node, op, low, high, False, False)]

    def _range(
        self, node: Compare | Between, op: int, low: int | float, high: int | float, low_strict: bool, high_strict: bool
    ) -> Instruction:
        attribute = self._dictionary.attribute(node.name)
        (low_float, low_up), (high_float, high_up) = bracket(low), bracket(high)
        if low_float != low_up or high_float != high_up:
            return self._opaque_leaf(node)
        if (low_strict and low_float == math.inf) or (high_strict and high_float == -math.inf):
            return Instruction(NEVER)
        flags = 0
        if low_strict:
            low_float, flags = math.nextafter(low_float, math.inf), flags | LOW_STRICT
        if high_strict:
            high_float, flags = math.nextafter(high_float, -math.inf), flags | HIGH_STRICT
        return _range_leaf(op, attribute, low_float, high_float, flags)

    def compile_in(self, node: In) -> list[Instruction]:
        attribute = self._dictionary.attribute(node.name)
        distinct = {(kind_of(value), canonical(value)): value for value in node.values}
        codes = sorted(self._code(attribute, value) for value in distinct.values())
        if not codes:
            return [Instruction(NEVER)]
        if len(codes) == 1:
            return [Instruction(EQ, attribute, codes[0], cost=0.5)]
        padded = codes + [-1] * (len(codes) % 2)
        payload = struct.unpack(f"<{len(padded) // 2}q", struct.pack(f"<{len(padded)}i", *padded))
        return [Instruction(IN, attribute, len(codes), payload, cost=1.0)]

    def compile_text(self, node: Text) -> list[Instruction]:
        attribute = self._dictionary.attribute(node.name)
        op = _TEXT_OPS[node.op] + (FOLDED if node.fold else 0)
        if node.op == "like":
            data = like_bytes(node.pattern, node.fold)
        else:
            data = (node.pattern.casefold() if node.fold else node.pattern).encode()
        self._opaque |= node.op in ("like", "contains")  # the kernel may leave a long search to the evaluator
        self._dictionary.needs_text(attribute, node.fold)
        cost = 5.0 if node.op in ("prefix", "suffix") else 6.0
        return [Instruction(op, attribute, len(data), byte_words(data), cost=cost)]


COMPILERS: dict[type[Any], Callable[[Compiler, Any], list[Instruction]]] = {
    Constant: Compiler.compile_constant,
    Compare: Compiler.compile_compare,
    Between: Compiler.compile_between,
    In: Compiler.compile_in,
    Text: Compiler.compile_text,
    Exists: Compiler.compile_exists,
    Regex: Compiler.compile_opaque,
    Similar: Compiler.compile_opaque,
    Sql: Compiler.compile_opaque,
}
"""How each kind of node becomes tests; joins are laid out by the compiler itself."""


def _order(value: Value) -> tuple[int | float, int]:
    """A number or an instant as a number, and the operation that tests its order."""
    if isinstance(value, datetime):
        return microseconds(value), TIME
    assert isinstance(value, (int, float))
    return value, NUM


def _range_leaf(op: int, attribute: int, low: float, high: float, flags: int) -> Instruction:
    words = INTS.unpack(FLOATS.pack(low + 0.0, high + 0.0))  # adding 0 makes -0.0 the one zero
    return Instruction(op, attribute, 0, words, flags, 1.5)


def _codes_of(leaves: Iterable[Instruction]) -> list[int]:
    return [code for leaf in leaves for code in leaf.codes()]


def _lay_out_conjunction(leaves: list[Instruction]) -> list[int]:
    if not leaves:  # always true: a test that never holds, negated
        leaves = [Instruction(NEVER, flags=NEGATED)]
    leaves.sort(key=order)
    words: list[int] = []
    last = leaves[-1]
    for leaf in leaves:
        words.append(leaf.head(LAST if leaf is last else 0))
        words += leaf.payload
    return words


def _join_ranges(leaves: list[Instruction]) -> list[Instruction]:
    """``x > 1`` and ``x < 5`` become one test: the strict flags stay with the bound they belong to."""
    if sum(leaf.op in (NUM, TIME) for leaf in leaves) < 2:
        return leaves
    kept: list[Instruction] = []
    ranges: dict[tuple[int, int], Instruction] = {}
    for leaf in leaves:
        if leaf.op not in (NUM, TIME) or leaf.flags & NEGATED:
            kept.append(leaf)
            continue
        key = leaf.op, leaf.attribute
        other = ranges.get(key)
        if other is None:
            ranges[key] = leaf
            kept.append(leaf)
        else:
            kept[kept.index(other)] = ranges[key] = _intersection(other, leaf)
    return kept


def _intersection(left: Instruction, right: Instruction) -> Instruction:
    """Both ranges as one. Of equal bounds the strict one is wider: it admits what lies before the next float."""
    (left_low, left_high), (right_low, right_high) = _bounds(left), _bounds(right)
    low = max((left_low, -(left.flags & LOW_STRICT)), (right_low, -(right.flags & LOW_STRICT)))
    high = min((left_high, left.flags & HIGH_STRICT), (right_high, right.flags & HIGH_STRICT))
    return _range_leaf(left.op, left.attribute, low[0], high[0], -low[1] | high[1])


def _bounds(leaf: Instruction) -> tuple[float, float]:
    low, high = FLOATS.unpack(INTS.pack(*leaf.payload))
    return low, high
