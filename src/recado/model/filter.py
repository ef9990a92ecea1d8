"""The one syntax tree of the filter language.

Plain frozen values: what they mean is in ``recado.filters.evaluate``, how they are written in the other modules of
``recado.filters``. A predicate speaks of one attribute by name; ``And``, ``Or`` and ``Not`` join them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from recado.model.values import Value

CompareOp = Literal["==", "!=", "<", "<=", ">", ">="]
TextOp = Literal["prefix", "suffix", "contains", "like"]


class Node(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Base of all nodes. Frozen trees have no cycles, so the garbage collector need not look at them."""


class Constant(Node, frozen=True, tag="constant"):
    """Matches every event, or none."""

    value: bool


class Compare(Node, frozen=True, tag="compare"):
    """``name op value``; false if the attribute is absent or of another kind than the value."""

    name: str
    op: CompareOp
    value: Value


class Between(Node, frozen=True, tag="between"):
    """``low <= name <= high``; both bounds belong to the range and are of one kind."""

    name: str
    low: Value
    high: Value


class In(Node, frozen=True, tag="in"):
    """The attribute equals one of the values; an empty set never matches."""

    name: str
    values: tuple[Value, ...]


class Text(Node, frozen=True, tag="text"):
    """A string attribute with a given beginning, end or part, or that is ``like`` a wildcard pattern.

    In a ``like`` pattern ``*`` stands for any text, ``?`` for one character and a backslash takes the next character
    literally; the pattern describes the whole string. ``fold`` ignores case (``str.casefold`` on both sides).
    """

    name: str
    op: TextOp
    pattern: str
    fold: bool = False


class Regex(Node, frozen=True, tag="regex"):
    """A string attribute that a regular expression (RE2 syntax, linear time) describes whole."""

    name: str
    pattern: str


class Exists(Node, frozen=True, tag="exists"):
    """The attribute is present, whatever its value (``any`` in the braces syntax, ``*`` in a template)."""

    name: str


class Similar(Node, frozen=True, tag="similar"):
    """A string attribute similar to ``text``, at least as much as ``threshold`` (0 to 1)."""

    name: str
    text: str
    threshold: float = 0.8


class Sql(Node, frozen=True, tag="sql"):
    """A CESQL 1.0 expression, evaluated by CESQL's own rules; true if it yields true without an error."""

    text: str


class And(Node, frozen=True, tag="and"):
    parts: tuple[Filter, ...]


class Or(Node, frozen=True, tag="or"):
    parts: tuple[Filter, ...]


class Not(Node, frozen=True, tag="not"):
    part: Filter


Predicate = Compare | Between | In | Text | Regex | Exists | Similar
"""What speaks of one attribute, by its ``name``."""
Filter = Constant | Predicate | Sql | And | Or | Not
"""A filter as a tree of frozen values, of any of these kinds; ``recado.model.filter`` has them."""

TRUE = Constant(True)
FALSE = Constant(False)
