"""Events made to order: a small search for a view that satisfies a filter.

Each attribute that the filter names is tried with the values the filter speaks of, their near neighbours, and with
being absent. What is found is checked by the evaluator, so it is always right; what is not found may exist all the
same. The search ends after a fixed number of tries, so it costs bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice, product

from recado.filters.evaluate import evaluate, names_of, walk
from recado.filters.patterns import like_tokens
from recado.model.filter import Between, Compare, Exists, Filter, In, Similar, Text
from recado.model.values import INT_MAX, INT_MIN, Value

TRIES = 20_000


def find_witness(filter: Filter, tries: int = TRIES) -> dict[str, Value] | None:
    """A single-valued view that the filter accepts, or None if the search found none."""
    names = sorted(names_of(filter))
    candidates = [_candidates(filter, name) for name in names]
    for choice in islice(product(*candidates), tries):
        view = {name: value for name, value in zip(names, choice, strict=True) if value is not None}
        if evaluate(filter, view):
            return view
    return None


def _candidates(filter: Filter, name: str) -> list[Value | None]:
    """Absent, and every value worth a try; values that are equal but of different kinds are kept apart."""
    found: dict[tuple[type, Value], Value] = {}
    for node in walk(filter):
        if getattr(node, "name", None) == name:
            for value in _suggestions(node):
                found.setdefault((type(value), value), value)
    values: list[Value | None] = [*found.values()]
    if not any(isinstance(value, str) for value in values):
        values.append("other")
    return [*values, None]


def _suggestions(node: Filter) -> Iterator[Value]:
    match node:
        case Compare(_, _, value):
            yield from _around([value])
        case Between(_, low, high):
            yield from _around([low, high])
        case In(_, values):
            yield from _around(values[:8])
        case Text(_, "like", pattern):
            yield "".join("x" if token == "" else token or "" for token in like_tokens(pattern))
        case Text(_, _, pattern):
            yield from (pattern, f"~{pattern}", f"{pattern}~")
        case Similar(_, text):
            yield text
        case Exists():
            yield 0


def _around(values: Iterable[Value]) -> Iterator[Value]:
    """The values themselves, then a little less and a little more."""
    for value in values:
        yield value
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, str):
            yield value + "~"
            yield value[:-1]
        elif isinstance(value, datetime):
            yield value - timedelta(seconds=1)
            yield value + timedelta(seconds=1)
        else:
            yield from (near for near in (value - 1, value + 1, value + 0.5) if INT_MIN <= near <= INT_MAX)
