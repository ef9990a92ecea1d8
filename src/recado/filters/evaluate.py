"""What a filter means: the plain evaluator that every engine must agree with.

A predicate on an absent attribute is false, and so is one between values of different kinds; ``not`` turns either into
true. There is no third truth value. ``recado.model.event`` says what arrays mean, ``recado.model.values`` how values
compare.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rapidfuzz.distance import Levenshtein

from recado.filters import cesql
from recado.filters.patterns import like_regex, regex
from recado.model.event import Event, expansions
from recado.model.filter import (
    And,
    Between,
    Compare,
    Constant,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
)
from recado.model.values import Kind, Value, kind_of

View = Mapping[str, Value]
ROUNDING = 1e-6

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(filter: Filter, event: Event) -> bool:
    """Does the event satisfy the filter? This is the plain evaluator: what an Index answers is always the same."""
    names = names_of(filter)
    return any(evaluate(filter, view) for view in expansions(event, names))


def evaluate(filter: Filter, view: View) -> bool:
    """The filter's truth on a single-valued view of an event."""
    match filter:
        case And(parts):
            return all(evaluate(part, view) for part in parts)
        case Or(parts):
            return any(evaluate(part, view) for part in parts)
        case Not(part):
            return not evaluate(part, view)
        case Constant(truth):
            return truth
        case Sql(text):
            return cesql.accepts(text, view)
    value = view.get(filter.name)
    return value is not None and holds(filter, value)


def holds(predicate: Filter, value: Value) -> bool:
    """The truth of a predicate, given the value of its attribute."""
    match predicate:
        case Compare(_, op, other):
            return compare(op, value, other)
        case Between(_, low, high):
            return compare(">=", value, low) and compare("<=", value, high)
        case In(_, values):
            return any(compare("==", value, other) for other in values)
        case Exists():
            return True
        case Text(_, op, pattern, fold):
            return type(value) is str and _text_holds(op, pattern, fold, value)
        case Regex(_, pattern):
            return type(value) is str and regex(pattern).fullmatch(value) is not None
        case Similar(_, text, threshold):
            return type(value) is str and is_similar(value, text, threshold)
    raise TypeError(f"{type(predicate).__name__} is not a predicate")


def compare(op: str, left: Value, right: Value) -> bool:
    """``left op right``: false between kinds, for NaN, and for the order of booleans."""
    kind = kind_of(left)
    if kind is not kind_of(right) or left != left or right != right:  # NaN differs from itself
        return False
    if kind is Kind.BOOL and op not in ("==", "!="):
        return False
    return _ORDER[op](left, right)


def similarity(left: str, right: str) -> float:
    """1 minus the Levenshtein distance over the longer length, ignoring case; 1.0 for equal strings."""
    return Levenshtein.normalized_similarity(left.casefold(), right.casefold())


def is_similar(left: str, right: str, threshold: float) -> bool:
    """``similarity(left, right) >= threshold``, given up as soon as that is out of reach."""
    if not may_be_similar(left, right, threshold):
        return False
    cutoff = max(threshold - ROUNDING, 0.0)  # the library's own comparison with it rounds otherwise than ours
    return Levenshtein.normalized_similarity(left.casefold(), right.casefold(), score_cutoff=cutoff) >= threshold


def may_be_similar(left: str, right: str, threshold: float) -> bool:
    """Are the lengths near enough? A text of n characters and a longer one of m are alike by n / m at most.

    Folding makes three characters of one at most, and never fewer.
    """
    shorter, longer = sorted((len(left), len(right)))
    return 3 * shorter >= (threshold - ROUNDING) * longer


def _text_holds(op: str, pattern: str, fold: bool, value: str) -> bool:
    if op == "like":
        return like_regex(pattern, fold).fullmatch(value.casefold() if fold else value) is not None
    if fold:
        value, pattern = value.casefold(), pattern.casefold()
    if op == "prefix":
        return value.startswith(pattern)
    if op == "suffix":
        return value.endswith(pattern)
    return pattern in value


@lru_cache(maxsize=4096)
def names_of(filter: Filter) -> frozenset[str]:
    """Every attribute name that the filter's truth can depend on."""
    names: set[str] = set()
    for node in walk(filter):
        if isinstance(node, Sql):
            names.update(cesql.names(node.text))
        elif not isinstance(node, (And, Or, Not, Constant)):
            names.add(node.name)
    return frozenset(names)


def walk(filter: Filter) -> Iterator[Filter]:
    """All nodes of the tree, parents first; iterative, so depth does not matter."""
    stack = [filter]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (And, Or)):
            stack.extend(reversed(node.parts))
        elif isinstance(node, Not):
            stack.append(node.part)
