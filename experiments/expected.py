"""What a document says, as data: ``expected.toml`` of an experiment, and the verdict on each of its lines.

A **value** is one number or text; it holds if the measured one is within the tolerance. A **claim** is a sentence with
one or more checks on measurements; it holds if all of them do. Both say whether the document prints them (``printed``)
or they were derived from it, and where (``place``: the document's own section, figure or table, in which a line stands
or from which it was derived).

Where the outcome is known to differ, ``expect`` says so and ``reason`` tells why. A reason belongs to that outcome
alone: it is shown if the verdict is the expected one; any other verdict is flagged as a surprise.

A **point** is a row of a published table that was measured on data, or on a machine, which nobody else has. What is
measured here stands beside it and is judged by the tolerances of its columns, but neither outcome is a surprise.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from recado.errors import RecadoError

Measured: TypeAlias = Mapping[str, float | str]
Verdict = Literal["holds", "differs", "not measured"]


class ExperimentError(RecadoError):
    """An experiment that does not exist, or whose files do not fit together."""


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What values and claims have in common."""

    id: str
    place: str
    printed: bool
    expect: Literal["holds", "differs"] = "holds"
    reason: str = ""
    quick: bool = True
    """Can a quick run tell? It has one repeat of small networks, and some effects are smaller than chance there."""
    full: bool = False
    """Can only the document's own size tell?"""


class Value(Line, frozen=True, kw_only=True):
    """A printed or derived number or text, and the name of the measurement that stands beside it."""

    what: str
    published: float | str
    measure: str
    tolerance: float = 0.0


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition on one measurement; ``than`` names another one to compare with instead of a number."""

    what: str
    measure: str
    at_least: float | None = None
    at_most: float | None = None
    than: str = ""
    factor: float = 1.0
    """Of the measurement ``than``."""


class Claim(Line, frozen=True, kw_only=True):
    text: str
    checks: tuple[Check, ...]


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a column of published tables holds, and how near is near: a distance, or a share of the published number."""

    what: str
    tolerance: float = 0.0
    share: float = 0.0


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a published table; the measurement of a column is named ``measure.column``."""

    id: str
    place: str
    what: str
    published: dict[str, float]
    measure: str
    printed: bool = True
    quick: bool = True
    full: bool = False
    reason: str = ""
    """Why it differs, if it does."""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    document: str
    values: tuple[Value, ...]
    claims: tuple[Claim, ...]
    columns: dict[str, Column] = {}
    rows: tuple[Point, ...] = ()

    @property
    def lines(self) -> tuple[AnyLine, ...]:
        return (*self.values, *self.rows, *self.claims)


AnyLine: TypeAlias = Value | Claim | Point


class Judged(msgspec.Struct, frozen=True):
    """A line with its verdict. ``shown`` is what was measured, one text for each check."""

    line: AnyLine
    verdict: Verdict
    shown: tuple[str, ...]
    passed: tuple[bool | None, ...]

    @property
    def surprising(self) -> bool:
        return not isinstance(self.line, Point) and self.verdict not in ("not measured", self.line.expect)

    @property
    def reason(self) -> str:
        """The reason that was written for this outcome."""
        if isinstance(self.line, Point):
            return self.line.reason if self.verdict == "differs" else ""
        if self.surprising or self.verdict == "not measured":
            return ""
        return self.line.reason


def read_expected(text: str, source: str) -> Expected:
    try:
        expected = msgspec.convert(tomllib.loads(text), Expected)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ExperimentError(f"{source}: {error}") from None
    seen: set[str] = set()
    for line in expected.lines:
        if line.id in seen:
            raise ExperimentError(f"{source}: two lines have the id {line.id!r}")
        if isinstance(line, Point):
            _known_columns(line, expected.columns, source)
        elif line.expect == "differs" and not line.reason:
            raise ExperimentError(f"{source}: {line.id} is expected to differ, and no reason says why")
        seen.add(line.id)
    return expected


def _known_columns(row: Point, columns: Mapping[str, Column], source: str) -> None:
    for name in row.published:
        if name not in columns:
            raise ExperimentError(f"{source}: {row.id} has a column {name!r}, which is not in the table of columns")


def judge(
    line: AnyLine,
    measured: Measured,
    quick: bool = False,
    columns: Mapping[str, Column] | None = None,
    full: bool = False,
) -> Judged:
    """``columns`` is needed for rows of tables only."""
    if (quick and not line.quick) or (line.full and not full):
        measured = {}
    passed: list[bool | None]
    if isinstance(line, Point):
        found_in = {name: measured.get(f"{line.measure}.{name}") for name in line.published}
        passed = [_near(number, found_in[name], (columns or {})[name]) for name, number in line.published.items()]
        shown = [show(found_in[name]) for name in line.published]
    elif isinstance(line, Value):
        found = measured.get(line.measure)
        passed = [None if found is None else _equal(line, found)]
        shown = [show(found)]
    else:
        passed = [_check(check, measured) for check in line.checks]
        shown = [show(measured.get(check.measure)) for check in line.checks]
    verdict: Verdict = "holds"
    if any(one is None for one in passed):
        verdict = "not measured"
    elif not all(passed):
        verdict = "differs"
    return Judged(line, verdict, tuple(shown), tuple(passed))


def _near(published: float, found: float | str | None, column: Column) -> bool | None:
    if not isinstance(found, (int, float)):
        return None
    return abs(published - found) <= max(column.tolerance, column.share * abs(published))


def _equal(value: Value, found: float | str) -> bool:
    if isinstance(value.published, str) or isinstance(found, str):
        return value.published == found
    return abs(value.published - found) <= value.tolerance


def _check(check: Check, measured: Measured) -> bool | None:
    found = measured.get(check.measure)
    low, high = check.at_least, check.at_most
    if check.than:
        other = measured.get(check.than)
        if not isinstance(other, (int, float)):
            return None
        low, high = (None if bound is None else other * check.factor + bound for bound in (low, high))
    if not isinstance(found, (int, float)):
        return None
    return (low is None or found >= low) and (high is None or found <= high)


def show(value: float | str | None) -> str:
    """A number as a person writes it: no needless digits."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if math.isinf(value):
        return "never"
    if value == int(value):
        return f"{int(value):,}"
    if 99 <= abs(value) < 100:
        return f"{value:.2f}"  # it may be a share, of which what is missing counts
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"


def condition(check: Check, measured: Measured) -> str:
    """The check in words: ``at most 3``, or with the other measurement ``at most 49 (simple.publish.M)``."""
    bounds = [("at least", check.at_least), ("at most", check.at_most)]
    if check.than:
        other = measured.get(check.than)
        name = check.than if check.factor == 1.0 else f"{show(check.factor)} × {check.than}"
        value = other * check.factor if isinstance(other, (int, float)) else None
        word = "about" if None not in (check.at_least, check.at_most) else bounds[check.at_least is None][0]
        return f"{word} {show(value)} ({name})"
    if check.at_least == check.at_most:
        return show(check.at_least)
    return " and ".join(f"{word} {show(bound)}" for word, bound in bounds if bound is not None)
