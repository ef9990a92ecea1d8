"""Filters as text in the languages of the peers: Python, rule-engine and CEL.

The three differ in the words for and, or and not, in chained comparisons and in the names of the text tests; a
``Dialect`` holds those differences. Values of one attribute are taken to be of one kind, as they are in all workloads.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from benchmarks.yardsticks.base import UnsuitableError
from recado.model.filter import And, Between, Compare, Filter, In, Not, Or, Text
from recado.model.values import Value


class Dialect(msgspec.Struct, frozen=True):
    """``between`` and the texts are templates; ``text`` has one for each of prefix, suffix and contains."""

    joined_and: str
    joined_or: str
    negated: str
    between: str
    one_of: str
    text: dict[str, str]
    name: Callable[[str], str] = str


PYTHON = Dialect(
    joined_and=" and ",
    joined_or=" or ",
    negated="not ({})",
    between="{low} <= {name} <= {high}",
    one_of="{name} in {{{values}}}",
    text={
        "prefix": "type({name}) is str and {name}.startswith({pattern})",
        "suffix": "type({name}) is str and {name}.endswith({pattern})",
        "contains": "type({name}) is str and {pattern} in {name}",
        "like": "type({name}) is str and likes[{pattern}]({name}) is not None",
    },
)
RULE_ENGINE = Dialect(
    joined_and=" and ",
    joined_or=" or ",
    negated="not ({})",
    between="{name} >= {low} and {name} <= {high}",
    one_of="{name} in [{values}]",
    text={
        "prefix": "{name}.starts_with({pattern})",
        "suffix": "{name}.ends_with({pattern})",
        "contains": "{pattern} in {name}",
    },
)
CEL = Dialect(
    joined_and=" && ",
    joined_or=" || ",
    negated="!({})",
    between="{name} >= {low} && {name} <= {high}",
    one_of="{name} in [{values}]",
    text={
        "prefix": "{name}.startsWith({pattern})",
        "suffix": "{name}.endsWith({pattern})",
        "contains": "{name}.contains({pattern})",
    },
)


def spell(filter: Filter, dialect: Dialect) -> str:
    """The filter in another language."""
    match filter:
        case And(parts):
            return dialect.joined_and.join(f"({spell(part, dialect)})" for part in parts)
        case Or(parts):
            return dialect.joined_or.join(f"({spell(part, dialect)})" for part in parts)
        case Not(part):
            return dialect.negated.format(spell(part, dialect))
        case Compare(name, "==", value):
            return f"{dialect.name(name)} == {literal(value)}"
        case Between(name, low, high):
            return dialect.between.format(name=dialect.name(name), low=literal(low), high=literal(high))
        case In(name, values):
            return dialect.one_of.format(name=dialect.name(name), values=", ".join(map(literal, values)))
        case Text(name, op, pattern, False) if op in dialect.text:
            return dialect.text[op].format(name=dialect.name(name), pattern=literal(pattern))
    raise UnsuitableError(f"no spelling for {filter}")


def literal(value: Value) -> str:
    """Strings and numbers are written alike in all three."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnsuitableError(f"no spelling for {value!r}")
    return json.dumps(value)
