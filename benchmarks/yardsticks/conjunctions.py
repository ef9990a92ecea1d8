"""Conjunctions as flat columns: the form that the bitset and the counting joins are built from.

For each attribute there are *points* (subscription, value: an equality, or each value of a set) and *ranges*
(subscription, low, high, both included). ``needed`` counts a subscription's predicates. Attributes have to differ
within a subscription, which all conjunctive workloads respect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.yardsticks.base import UnsuitableError
from recado.model.filter import And, Between, Compare, Filter, In
from recado.model.subscription import Subscription


class Column:
    """The predicates on one attribute."""

    def __init__(self) -> None:
        self.point_owners: list[int] = []
        self.point_values: list[Any] = []
        self.range_owners: list[int] = []
        self.range_lows: list[Any] = []
        self.range_highs: list[Any] = []

    def owners(self) -> set[int]:
        """The subscriptions that ask something of this attribute."""
        return {*self.point_owners, *self.range_owners}

    def add(self, owner: int, predicate: Filter) -> None:
        match predicate:
            case Compare(_, "==", value):
                self._add_points(owner, (value,))
            case In(_, values):
                self._add_points(owner, values)
            case Between(_, low, high) if not isinstance(low, str):
                self.range_owners.append(owner)
                self.range_lows.append(low)
                self.range_highs.append(high)
            case _:
                raise UnsuitableError("takes equality, sets and ranges of numbers only")

    def _add_points(self, owner: int, values: Iterable[Any]) -> None:
        different = list(dict.fromkeys(values))
        self.point_owners += [owner] * len(different)
        self.point_values += different


class Conjunctions:
    """All predicates of a set of subscriptions, by attribute."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self.columns: dict[str, Column] = {}
        self.needed: list[int] = []
        for owner, subscription in enumerate(subscriptions):
            parts = list(_parts(subscription.whole_filter()))
            if len({name for name, _ in parts}) < len(parts):
                raise UnsuitableError("takes one predicate an attribute")
            for name, part in parts:
                self.columns.setdefault(name, Column()).add(owner, part)
            self.needed.append(len(parts))


def _parts(filter: Filter) -> Iterator[tuple[str, Filter]]:
    parts = filter.parts if isinstance(filter, And) else (filter,)
    for part in parts:
        if not isinstance(part, (Compare, In, Between)):
            raise UnsuitableError(f"takes conjunctions of equality, sets and ranges, not {type(part).__name__}")
        yield part.name, part
