"""A disagreement made small: fewer subscriptions, then fewer events, then smaller terms; printed as a test.

``fails`` tells whether a case still goes wrong. Every step tries something smaller and keeps it if it does; the number
of tries is bounded, so a case that is slow to try is left larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from recado.filters import expression
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.filter import TRUE, And, Between, Compare, Filter, In, Not, Or
from recado.model.subscription import Subscription

Case = tuple[list[Subscription], list[Event]]
Fails = Callable[[list[Subscription], list[Event]], bool]
T = TypeVar("T")


class Shrinker:
    """Counts the tries; ``limit`` of them are made at most."""

    def __init__(self, fails: Fails, limit: int = 2_000) -> None:
        self._fails, self._left = fails, limit

    def shrink(self, subscriptions: Sequence[Subscription], events: Sequence[Event]) -> Case:
        """The smallest case that was found to fail; the given one must."""
        case = list(subscriptions), list(events)
        assert self._try(*case), "the case does not fail, so there is nothing to shrink"
        before = None
        while before != case and self._left > 0:
            before = case
            case = self._fewer(case[0], lambda some, events=case[1]: self._try(some, events)), case[1]
            case = case[0], self._fewer(case[1], lambda some, held=case[0]: self._try(held, some))
            case = self._simpler(case)
        return case

    def _try(self, subscriptions: list[Subscription], events: list[Event]) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            return self._fails(subscriptions, events)
        except Exception:  # noqa: BLE001  # a crash of the engine is a failure as well
            return True

    @staticmethod
    def _fewer(items: list[T], still: Callable[[list[T]], bool]) -> list[T]:
        """Leave out pieces, large ones first (the ddmin way)."""
        size = len(items) // 2
        while size:
            at = 0
            while at < len(items):
                fewer = items[:at] + items[at + size :]
                if fewer and still(fewer):
                    items = fewer
                else:
                    at += size
            size //= 2
        return items

    def _simpler(self, case: Case) -> Case:
        subscriptions, events = list(case[0]), list(case[1])
        for at in range(len(subscriptions)):
            subscriptions[at] = self._descend(
                subscriptions[at],
                simpler_subscriptions,
                lambda one, at=at: self._try(_with(subscriptions, at, one), events),
            )
        for at in range(len(events)):
            events[at] = self._descend(
                events[at], simpler_events, lambda one, at=at: self._try(subscriptions, _with(events, at, one))
            )
        return subscriptions, events

    def _descend(self, item: T, smaller: Callable[[T], Iterator[T]], still: Callable[[T], bool]) -> T:
        found = True
        while found and self._left > 0:
            found = False
            for other in smaller(item):
                if still(other):
                    item, found = other, True
                    break
        return item


def _with(items: list[T], at: int, item: T) -> list[T]:
    return [*items[:at], item, *items[at + 1 :]]


def simpler_subscriptions(subscription: Subscription) -> Iterator[Subscription]:
    if subscription.type:
        yield Subscription(subscription.id, subscription.filter)
    for filter in simpler_filters(subscription.filter):
        yield Subscription(subscription.id, filter, subscription.type)


def simpler_filters(filter: Filter) -> Iterator[Filter]:
    """Filters that are one step smaller."""
    if isinstance(filter, (And, Or)):
        yield from filter.parts
        if len(filter.parts) > 2:
            yield from (type(filter)(filter.parts[:at] + filter.parts[at + 1 :]) for at in range(len(filter.parts)))
        for at, part in enumerate(filter.parts):
            for other in simpler_filters(part):
                yield type(filter)((*filter.parts[:at], other, *filter.parts[at + 1 :]))
    elif isinstance(filter, Not):
        yield filter.part
        yield from map(Not, simpler_filters(filter.part))
    elif isinstance(filter, In):
        for at in range(len(filter.values)):
            yield In(filter.name, filter.values[:at] + filter.values[at + 1 :])
    elif isinstance(filter, Between):
        yield Compare(filter.name, ">=", filter.low)
        yield Compare(filter.name, "<=", filter.high)
    elif filter != TRUE:
        yield TRUE


def simpler_events(event: Event) -> Iterator[Event]:
    plain = {"type": "", "source": "", "time": None}
    for field, value in plain.items():
        if getattr(event, field) != value:
            yield msgspec.structs.replace(event, **{field: value})
    for name, value in event.attributes.items():
        others: dict[str, Any] = {other: v for other, v in event.attributes.items() if other != name}
        yield msgspec.structs.replace(event, attributes=others)
        if isinstance(value, tuple) and value:
            yield msgspec.structs.replace(event, attributes={**others, name: value[0]})


def as_test(way: str, case: Case, missing: int, extra: int) -> str:
    """The case as text to paste into test_exact.py."""
    subscriptions, events = case
    lines = [f"{way}: {missing:,} missing, {extra:,} too many. The smallest case that was found:", "", "check("]
    lines += [f"    {way!r},", "    ["]
    lines += [
        f"        ({s.id!r}, {expression.format_expression(s.filter)!r}{f', {s.type!r}' if s.type else ''}),"
        for s in subscriptions
    ]
    lines += ["    ],", "    ["]
    lines += [f"        {write_flat(event)!r}," for event in events]
    return "\n".join([*lines, "    ],", ")"])
