"""What a filter means: the plain evaluator that every engine must agree with, at once or in steps.

A predicate on an absent attribute is false, and so is one between values of different kinds; ``not`` turns either into
true. There is no third truth value. ``recado.model.event`` says what arrays mean, ``recado.model.values`` how values
compare, and ``recado.filters.nodes`` what each kind of node asks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache

from recado.filters.nodes import KINDS, View, is_predicate, predicate_kind
from recado.model.event import Event, expansions
from recado.model.filter import And, Filter, Not, Or
from recado.model.values import Kind, Value


def matches(node: Filter, event: Event) -> bool:
    """Does the event satisfy the filter? This is the plain evaluator: what an Index answers is always the same."""
    names = names_of(node)
    return any(evaluate(node, view) for view in expansions(event, names))


def evaluate(node: Filter, view: View) -> bool:
    """The filter's truth on a single-valued view of an event."""
    return KINDS[type(node)].evaluate(node, view)


def holds(predicate: Filter, value: Value) -> bool:
    """The truth of a predicate, given the value of its attribute; a TypeError if the node is no predicate."""
    return KINDS[type(predicate)].holds(predicate, value)


@lru_cache(maxsize=4096)
def names_of(tree: Filter) -> frozenset[str]:
    """Every attribute name that the filter's truth can depend on."""
    return frozenset(name for node in walk(tree) for name in KINDS[type(node)].names(node))


def walk(tree: Filter) -> Iterator[Filter]:
    """All nodes of the tree, parents first; iterative, so depth does not matter."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(KINDS[type(node)].parts(node)))


# --- in steps --------------------------------------------------------------------------------------------------------
#
# Whoever must not be kept waiting (the event loop of a service) cannot ask ``evaluate`` about a filter that takes long:
# a filter with many predicates, on an event with many long strings, may take a second. ``decide`` is a generator that
# yields before it goes on, each time with the cost of what it has done or is about to do, in the steps of
# ``recado.filters.cost``; it returns what ``matches`` returns. A single predicate is the least that is done at a time.
#
# Nothing is done twice for one event: a predicate is asked about a value once, however many filters and views have both
# (``Work``). Of the parts of a conjunction or disjunction the cheap ones come first, which changes no truth.

Steps = Generator[int, None, bool]
STEPS = 256
"""So many steps may be done before they are told."""
REMEMBERED_FROM = 32
"""What costs so many steps is remembered, if it is about text."""


class Work:
    """What is known of one event: which predicates hold for which values; and the steps that nobody was told of yet."""

    __slots__ = ("known", "steps")

    def __init__(self) -> None:
        self.known: dict[tuple[Filter, str], bool] = {}
        self.steps = 0


def decide(node: Filter, views: Iterable[View], work: Work) -> Steps:
    """Is the filter true on one of the views, all of them views of the event that ``work`` is about?"""
    for view in views:
        if (yield from _decide(node, view, work)):
            return True
    return False


def _decide(node: Filter, view: View, work: Work) -> Steps:
    match node:
        case And(parts):
            for part in _cheap_first(parts):
                if not (yield from _decide(part, view, work)):
                    return False
            return True
        case Or(parts):
            for part in _cheap_first(parts):
                if (yield from _decide(part, view, work)):
                    return True
            return False
        case Not(part):
            return not (yield from _decide(part, view, work))
    if not is_predicate(node):
        yield from _count(work, KINDS[type(node)].cost_on(node, view))
        return evaluate(node, view)
    kind = predicate_kind(node)
    value = view.get(node.name)
    if value is None:
        return False
    cost = kind.cost_on_value(node, value)
    if cost < REMEMBERED_FROM or type(value) is not str or kind.wanted_kind(node) is not Kind.STRING:
        yield from _count(work, cost)
        return holds(node, value)
    key = node, value  # both of text alone: of other kinds Python takes values for equal that are not, as 1 and true
    known = work.known.get(key)
    if known is None:
        yield from _count(work, cost)
        known = work.known[key] = holds(node, value)
    else:
        yield from _count(work, 1)
    return known


def _count(work: Work, cost: int) -> Generator[int, None, None]:
    """Tell of steps, those that are about to be done included, when they have become many."""
    work.steps += cost
    if work.steps >= STEPS:
        steps, work.steps = work.steps, 0
        yield steps


def _cheap_first(parts: tuple[Filter, ...]) -> Iterator[Filter]:
    costly = []
    for part in parts:
        if KINDS[type(part)].is_costly(part):
            costly.append(part)
        else:
            yield part
    yield from costly
