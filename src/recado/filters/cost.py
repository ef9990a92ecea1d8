"""The price of a filter: known before it is accepted, and again when an event meets it.

``check_filter`` is the gate: whatever passes it can be evaluated on any event in bounded time, and handed to every
other part of the language. It walks the tree without recursion and stops at the first thing that is wrong, so that a
hostile tree (a hundred thousand levels, a million parts) costs no more than the part of it that the limits allow.

The unit is a *step*: about one comparison of two values by the plain evaluator, a quarter of a microsecond. ``cost_of``
is the price of a filter whatever the event, on one single-valued view with short strings. It is the sum, over all
nodes, of:

======================  ============================================================
and, or, not, constant  1
compare, exists         1
between                 2
in                      1 + number of values
prefix, suffix          2 + characters of the pattern / 16
contains                16 + characters of the pattern / 4
like                    16 + characters of the pattern / 4, or its instructions / 8 if that is more
similar                 32 + characters of the text
regex                   32 + characters of the pattern, or its instructions / 4 if that is more
sql                     32 + characters of the expression + instructions of its patterns / 8
======================  ============================================================

(twice that for text that ignores case, since the value is folded first). Instructions are those that the pattern is
compiled to: mostly there is about one for each character, but ``.{900}`` has 6,300.

``cost_on`` bounds what one predicate costs on one value, with the length of the value in it: a search costs its
characters / 32, a similarity the characters of the value * those of the text / 64 / 32, a pattern the characters of the
value * the instructions / 256. That is what a pattern takes if the states it is in are too many to be remembered; most
take a small part of it. An event with arrays has at most ``Limits.array_combinations`` views.
"""

from __future__ import annotations

from recado.errors import FilterError
from recado.filters.evaluate import walk
from recado.filters.nodes import COMPARE_OPS, KINDS, predicate_kind
from recado.model.filter import And, Between, Compare, Filter
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value


def cost_of(tree: Filter) -> int:
    """Steps that one evaluation takes at most."""
    return sum(KINDS[type(node)].cost(node) for node in walk(tree))


def cost_on(predicate: Filter, value: Value) -> int:
    """Steps that one predicate takes at most on a value of its attribute."""
    return predicate_kind(predicate).cost_on_value(predicate, value)


def check_filter(tree: Filter, limits: Limits = LIMITS) -> Filter:
    """The filter itself; a FilterError that says what is wrong with it."""
    if type(tree) is And and _is_plain_conjunction(tree, limits):
        return tree
    cost = leaves = 0
    waiting: list[tuple[Filter, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > limits.filter_depth:
            raise FilterError(
                f"the filter is nested deeper than {limits.filter_depth} levels",
                hint="join the parts of nested conjunctions and disjunctions into one",
            )
        kind = KINDS.get(type(node))
        if kind is None:
            raise FilterError(f"{type(node).__name__} is not a node of a filter")
        parts = kind.parts(node)
        if not parts:
            leaves += 1
            quick = _plain_cost(node, limits)
            if quick:
                cost += quick
                continue
            kind.check(node, limits)
            cost += kind.cost(node)
        elif leaves + len(waiting) + len(parts) > limits.filter_predicates:  # every part holds one leaf or more
            raise _too_many(limits)
        else:
            cost += 1
            waiting.extend((part, depth + 1) for part in reversed(parts))
    if cost > limits.filter_cost:
        raise FilterError(
            f"the filter may take {cost:,} steps for one event; the limit is {limits.filter_cost:,}",
            hint="use fewer or smaller sets and patterns, or several subscriptions",
        )
    return tree


def _too_many(limits: Limits) -> FilterError:
    return FilterError(
        f"the filter has more than {limits.filter_predicates:,} predicates",
        hint="a set, as in `x in {1, 2, 3}`, counts as one predicate",
    )


def _is_plain_conjunction(node: And, limits: Limits) -> bool:
    """Is this a short conjunction that a glance shows to be right, perhaps with an event type joined in?"""
    parts = node.parts
    if len(parts) == 2 and type(parts[1]) is And:
        parts = (parts[0], *parts[1].parts)
    if len(parts) > min(16, limits.filter_predicates) or limits.filter_depth < 3 or limits.filter_cost < 64:
        return False
    return all(_plain_cost(part, limits) for part in parts)


def _plain_cost(node: Filter, limits: Limits) -> int:
    """The cost of a predicate that a glance shows to be right, as nearly all are; 0 asks for the long look."""
    if type(node) is Compare:
        if node.op in COMPARE_OPS and _is_plain(node.name, limits.name_chars) and node.name:
            return 1 if _is_plain(node.value, limits.string_chars) else 0
    elif type(node) is Between:
        low, high = node.low, node.high
        if type(low) is type(high) and _is_plain(node.name, limits.name_chars) and node.name:
            return 2 if _is_plain(low, limits.string_chars) and _is_plain(high, limits.string_chars) else 0
    return 0


def _is_plain(value: Value, chars: int) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is str:
        return len(value) <= chars and value.isascii()
    return type(value) is float and value == value
