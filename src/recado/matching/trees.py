"""Filters that are not conjunctions: trees of tests, their access paths, and their layout with jumps.

**Access paths.** An entry is found through one or more *access* tests, such that whenever the filter is true at least
one of them is: the cheapest part of a conjunction, all parts of a disjunction.

Tests are laid out in the order of evaluation, cheap ones first; each knows where to go on when it holds and when not.
All jumps go forward.
"""

from __future__ import annotations

from typing import Any

from recado.matching.kernels.instructions import (
    EQ,
    EXISTS,
    IN,
    JUMPS,
    LAST,
    NE,
    NEGATED,
    NEVER,
    NUM,
    OPAQUE,
    TIME,
    Instruction,
    order,
)


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
