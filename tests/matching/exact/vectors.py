"""The plain evaluator on many events at once: every filter against every event, as rows of truths.

Truth is still that of ``recado.filters.evaluate``: ``holds`` decides each predicate on each distinct value of its
attribute, once; a truth vector over all events is put together from that, and ``and``, ``or``, ``not`` join vectors.
CESQL is evaluated event by event, once for each distinct combination of the values that it names.
``test_vectors`` compares all of it with ``matches``, pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.filters import cesql
from recado.filters.evaluate import holds
from recado.model.event import Event, expansions
from recado.model.filter import And, Constant, Filter, Not, Or, Sql
from recado.model.values import Value, kind_of

Truths = NDArray[np.bool_]
ABSENT = ("absent",)


class Vectors:
    """Events, ready to be asked; one column of the answers is one event."""

    def __init__(self, events: Sequence[Event]) -> None:
        groups = [list(expansions(event)) for event in events]
        self._views = [view for group in groups for view in group]
        sizes = [len(group) for group in groups]
        self._firsts = np.cumsum([0, *sizes[:-1]])
        self._is_plain = len(self._views) == len(events)
        self._columns: dict[str, tuple[NDArray[np.int64], list[Value | None]]] = {}
        self._known: dict[tuple[Any, ...], Truths] = {}

    def truths(self, filter: Filter) -> Truths:
        """For each event: does it satisfy the filter?"""
        found = self._evaluate(filter)
        return found if self._is_plain else np.logical_or.reduceat(found, self._firsts)

    def matrix(self, filters: Iterable[Filter]) -> Truths:
        """A row of truths for each filter."""
        return np.array([self.truths(filter) for filter in filters])

    def _evaluate(self, filter: Filter) -> Truths:
        if isinstance(filter, And):
            return np.logical_and.reduce([self._true(), *map(self._evaluate, filter.parts)])
        if isinstance(filter, Or):
            return np.logical_or.reduce([~self._true(), *map(self._evaluate, filter.parts)])
        if isinstance(filter, Not):
            return ~self._evaluate(filter.part)
        if isinstance(filter, Constant):
            return self._true() if filter.value else ~self._true()
        key = _key(filter)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._sql(filter) if isinstance(filter, Sql) else self._predicate(filter)
        return found

    def _true(self) -> Truths:
        return np.ones(len(self._views), np.bool_)

    def _predicate(self, filter: Any) -> Truths:
        which, values = self._column(filter.name)
        return np.array([value is not None and holds(filter, value) for value in values], np.bool_)[which]

    def _column(self, name: str) -> tuple[NDArray[np.int64], list[Value | None]]:
        """Which of the attribute's distinct values each view has; None stands for a missing attribute."""
        if name not in self._columns:
            numbers: dict[Any, int] = {}
            values: list[Value | None] = []
            which = np.empty(len(self._views), np.int64)
            for at, view in enumerate(self._views):
                value = view.get(name)
                key = ABSENT if value is None else (kind_of(value), type(value), repr(value))
                if key not in numbers:
                    numbers[key] = len(values)
                    values.append(value)
                which[at] = numbers[key]
            self._columns[name] = which, values
        return self._columns[name]

    def _sql(self, filter: Sql) -> Truths:
        names = sorted(cesql.names(filter.text))
        columns = [self._column(name) for name in names]
        known: dict[tuple[int, ...], bool] = {}
        found = np.empty(len(self._views), np.bool_)
        for at, view in enumerate(self._views):
            key = tuple(int(which[at]) for which, _ in columns)
            if key not in known:
                known[key] = cesql.accepts(filter.text, view)
            found[at] = known[key]
        return found


def _key(filter: Filter) -> tuple[Any, ...]:
    """Tells predicates apart that Python takes for equal, such as ``x == 1`` and ``x == true``."""
    return (type(filter), repr(filter))
