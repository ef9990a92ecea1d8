"""Filters as rules in other languages: a generated Python function, rule-engine and CEL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from benchmarks.baselines.bitset import UnsuitableError
from recado.filters.patterns import like_regex
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, Filter, In, Not, Or, Text
from recado.model.subscription import Subscription
from recado.model.values import Value

# --- spelling ---------------------------------------------------------------------------------------------------------
# Filters as text in the languages of the peers: Python, rule-engine and CEL.
#
# The three differ in the words for and, or and not, in chained comparisons and in the names of the text tests; a
# ``Dialect`` holds those differences. Values of one attribute are taken to be of one kind, as they are in all
# workloads.


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


def spell(condition: Filter, dialect: Dialect) -> str:
    """The filter in another language."""
    match condition:
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
    raise UnsuitableError(f"no spelling for {condition}")


def literal(value: Value) -> str:
    """Strings and numbers are written alike in all three."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnsuitableError(f"no spelling for {value!r}")
    return json.dumps(value)


# --- python function --------------------------------------------------------------------------------------------------
# One generated Python function with an ``if`` for each subscription: the interpreter's own best.
#
# Attributes are read into local variables once. An absent one is NaN, which equals nothing and lies in no range; text
# tests ask for a string first.


class PythonFunction:
    name: ClassVar[str] = "python function"
    package: ClassVar[str] = "python"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        variables: dict[str, str] = {}
        dialect = msgspec.structs.replace(PYTHON, name=lambda name: variables.setdefault(name, f"v{len(variables)}"))
        tests = [
            f"    if {spell(subscription.whole_filter(), dialect)}: found({number})"
            for number, subscription in enumerate(subscriptions)
        ]
        reads = [f"    {variable} = get({name!r}, nan)" for name, variable in variables.items()]
        lines = ["def match(get):", "    numbers = []", "    found = numbers.append", *reads, *tests]
        scope: dict[str, Any] = {"nan": float("nan"), "likes": _Likes()}
        exec(compile("\n".join([*lines, "    return numbers"]), "<subscriptions>", "exec"), scope)
        self._match: Callable[[Callable[..., Any]], list[int]] = scope["match"]

    def match(self, event: Event) -> list[int]:
        return self._match(event.attributes.get)


class _Likes(dict[str, Callable[[str], object]]):
    """Wildcard patterns, compiled when they are first asked for and kept."""

    def __missing__(self, pattern: str) -> Callable[[str], object]:
        self[pattern] = like_regex(pattern, False).fullmatch
        return self[pattern]


# --- rule engine rules ------------------------------------------------------------------------------------------------
# ``rule-engine``: a rule for each subscription, asked one after the other.


class RuleEngine:
    name: ClassVar[str] = "rule-engine"
    package: ClassVar[str] = "rule-engine"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        rule: Any = import_module("rule_engine").Rule
        self._rules = [rule(spell(subscription.whole_filter(), RULE_ENGINE)) for subscription in subscriptions]

    def match(self, event: Event) -> list[int]:
        attributes = event.attributes
        return [number for number, rule in enumerate(self._rules) if rule.matches(attributes)]


# --- cel programs -----------------------------------------------------------------------------------------------------
# ``common-expression-language`` (CEL, in Rust): a compiled program for each subscription, run one after the other.
#
# The event is converted into a CEL context once and shared by all programs, as its documentation advises.


class CelPrograms:
    name: ClassVar[str] = "cel"
    package: ClassVar[str] = "common-expression-language"

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        self._cel: Any = import_module("cel")
        self._programs = [self._cel.compile(spell(subscription.whole_filter(), CEL)) for subscription in subscriptions]

    def match(self, event: Event) -> list[int]:
        context = self._cel.Context(variables=event.attributes)
        return [number for number, program in enumerate(self._programs) if program.execute(context)]
