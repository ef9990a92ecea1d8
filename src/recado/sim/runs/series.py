"""From rows of results to lines of a plot: runs that agree in all that is shown are repeats, and make one point.

A point is the mean over its repeats with a 95% interval. Runs that differ in a parameter which the plot does not show
would be mixed up in one point, so that is an error which names the parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.sim.runs.results import Row
from recado.sim.runs.setting import PARTS, ScenarioError
from recado.sim.runs.statistics import Estimate, estimate


class Point(msgspec.Struct, frozen=True):
    x: Any
    y: Estimate


class Series(msgspec.Struct, frozen=True):
    """One line: the points of one value of the parameters in ``by``."""

    label: str
    points: tuple[Point, ...]


def select(rows: Sequence[Row], where: str) -> list[Row]:
    """The rows that a filter of Recado's language admits."""
    if not where:
        return list(rows)
    try:
        filter = parse_filter(where, "expression")
    except RecadoError as error:
        raise ScenarioError(f"--where: {error}") from None
    kept = [row for row in rows if matches(filter, Event("row", attributes=_present(row)))]
    if not kept:
        raise ScenarioError(f"no row has {where}")
    return kept


def series_of(rows: Sequence[Row], x: str, y: str, by: Sequence[str] = ()) -> list[Series]:
    """The lines of a plot, in the order of the rows."""
    for name in (x, y, *by):
        _known(rows, name)
    _check_mixture([row for row in rows if row.get(y) is not None], {x, *by})
    groups: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        if row.get(y) is not None and row.get(x) is not None:
            group = groups.setdefault(tuple(row.get(name) for name in by), {})
            group.setdefault(row[x], []).append(float(row[y]))
    return [Series(_label(key), _points(group)) for key, group in groups.items()]


def _points(group: dict[Any, list[float]]) -> tuple[Point, ...]:
    points = [Point(x, estimate(values)) for x, values in group.items()]
    if all(isinstance(point.x, (int, float)) for point in points):
        points.sort(key=lambda point: float(point.x))
    return tuple(points)


def _label(key: tuple[Any, ...]) -> str:
    return ", ".join(str(part) for part in key if part is not None)


def _known(rows: Sequence[Row], name: str) -> None:
    columns = dict.fromkeys(column for row in rows for column in row)
    if name not in columns:
        raise ScenarioError(f"there is no column {name!r}; the columns are {', '.join(columns)}")


def _check_mixture(rows: Sequence[Row], shown: set[str]) -> None:
    """Parameters that follow from shown ones are no mixture: what counts is two values at one point."""
    hidden = [name for name in (rows[0] if rows else {}) if _parameter(name) and name not in shown]
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        first = seen.setdefault(tuple(row.get(name) for name in sorted(shown)), row)
        for name in hidden:
            if row.get(name) != first.get(name):
                raise ScenarioError(
                    f"the rows differ in {name} ({first.get(name)!r}, {row.get(name)!r}): add it to --by, or choose "
                    "with --where"
                )


def _parameter(name: str) -> bool:
    part, dot, _ = name.partition(".")
    return bool(dot) and part in PARTS


def _present(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name != "seed"}
