"""The plain evaluator in steps: the same truth, in pieces that may be left and taken up again.

Whoever must not be kept waiting (the event loop of a service) cannot ask ``evaluate`` about a filter that takes long: a
filter with many predicates, on an event with many long strings, may take a second. ``deciding`` is a generator that
yields before it goes on, each time with the cost of what it has done or is about to do, in the steps of
``recado.filters.cost``; it returns what ``matches`` returns. A single predicate is the least that is done at a time.

Nothing is done twice for one event: a predicate is asked about a value once, however many filters and views have both
(``Work``). Of the parts of a conjunction or disjunction the cheap ones come first, which changes no truth.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from recado.filters import cesql
from recado.filters.cost import cost_of_sql, cost_on
from recado.filters.evaluate import View, evaluate, holds
from recado.model.filter import And, Constant, Filter, Not, Or, Regex, Similar, Sql, Text

Steps = Generator[int, None, bool]
STEPS = 256
"""So many steps may be done before they are told."""
REMEMBERED_FROM = 32
"""What costs so many steps is remembered, if it is about text."""


class Work:
    """What is known of one event: which predicates hold for which values; and the steps that nobody was told of yet."""

    __slots__ = ("known", "steps")

    def __init__(self) -> None:
        self.known: dict[tuple[Text | Regex | Similar, str], bool] = {}
        self.steps = 0


def deciding(filter: Filter, views: Iterable[View], work: Work) -> Steps:
    """Is the filter true on one of the views, all of them views of the event that ``work`` is about?"""
    for view in views:
        if (yield from _deciding(filter, view, work)):
            return True
    return False


def _deciding(filter: Filter, view: View, work: Work) -> Steps:
    match filter:
        case And(parts):
            for part in _cheap_first(parts):
                if not (yield from _deciding(part, view, work)):
                    return False
            return True
        case Or(parts):
            for part in _cheap_first(parts):
                if (yield from _deciding(part, view, work)):
                    return True
            return False
        case Not(part):
            return not (yield from _deciding(part, view, work))
        case Constant(truth):
            return truth
        case Sql(text):
            yield from _told(work, cost_of_sql(text, _chars(text, view)))
            return evaluate(filter, view)
    value = view.get(filter.name)
    if value is None:
        return False
    cost = cost_on(filter, value)
    if cost < REMEMBERED_FROM or type(value) is not str or not isinstance(filter, Text | Regex | Similar):
        yield from _told(work, cost)
        return holds(filter, value)
    key = filter, value  # both of text alone: of other kinds Python takes values for equal that are not, as 1 and true
    known = work.known.get(key)
    if known is None:
        yield from _told(work, cost)
        known = work.known[key] = holds(filter, value)
    else:
        yield from _told(work, 1)
    return known


def _told(work: Work, cost: int) -> Generator[int, None, None]:
    """Tell of steps, those that are about to be done included, when they have become many."""
    work.steps += cost
    if work.steps >= STEPS:
        steps, work.steps = work.steps, 0
        yield steps


def _cheap_first(parts: tuple[Filter, ...]) -> Iterator[Filter]:
    yield from (part for part in parts if not _may_be_costly(part))
    yield from (part for part in parts if _may_be_costly(part))


def _may_be_costly(part: Filter) -> bool:
    return isinstance(part, Regex | Similar | Sql | And | Or | Not) or (isinstance(part, Text) and part.op == "like")


def _chars(text: str, view: View) -> int:
    """The characters of the strings that an expression names."""
    values = (view.get(name) for name in cesql.names(text))
    return sum(len(value) for value in values if isinstance(value, str))
