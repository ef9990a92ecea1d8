"""The price of a filter: known before it is accepted, and again when an event meets it.

``check_filter`` is the gate: whatever passes it can be evaluated on any event in bounded time, and handed to every
other part of the language. It walks the tree without recursion and stops at the first thing that is wrong, so that a
hostile tree (a hundred thousand levels, a million parts) costs no more than the part of it that the limits allow.

The unit is a *step*: about one comparison of two values by the plain evaluator, a quarter of a microsecond. ``cost_of``
is the price of a filter whatever the event, on one single-valued view with short strings. It is the sum, over all
nodes, of:

======================  ============================================================
and, or, not, constant  1
compare, exists         1
between                 2
in                      1 + number of values
prefix, suffix          2 + characters of the pattern / 16
contains                16 + characters of the pattern / 4
like                    16 + characters of the pattern / 4, or its instructions / 8 if that is more
similar                 32 + characters of the text
regex                   32 + characters of the pattern, or its instructions / 4 if that is more
sql                     32 + characters of the expression + instructions of its patterns / 8
======================  ============================================================

(twice that for text that ignores case, since the value is folded first). Instructions are those that the pattern is
compiled to: mostly there is about one for each character, but ``.{900}`` has 6,300.

``cost_on`` bounds what one predicate costs on one value, with the length of the value in it: a search costs its
characters / 32, a similarity the characters of the value * those of the text / 64 / 32, a pattern the characters of the
value * the instructions / 256. That is what a pattern takes if the states it is in are too many to be remembered; most
take a small part of it. An event with arrays has at most ``Limits.array_combinations`` views.
"""

from __future__ import annotations

from typing import get_args

from recado.errors import FilterError, RecadoError
from recado.filters import cesql
from recado.filters.evaluate import may_be_similar, walk
from recado.filters.patterns import like_regex, regex
from recado.model.filter import (
    And,
    Between,
    Compare,
    CompareOp,
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
    TextOp,
)
from recado.model.limits import LIMITS, Limits
from recado.model.values import Value, check_value, is_nan, kind_of

_COMPARE_OPS = frozenset(get_args(CompareOp))
_TEXT_OPS = frozenset(get_args(TextOp))


def cost_of(filter: Filter) -> int:
    """Steps that one evaluation takes at most."""
    return sum(map(_node_cost, walk(filter)))


def _node_cost(node: Filter) -> int:
    match node:
        case Between():
            return 2
        case In(_, values):
            return 1 + len(values)
        case Text(_, op, pattern, fold):
            return _text_cost(op, pattern, fold) * (2 if fold else 1)
        case Similar(_, text):
            return 32 + len(text)
        case Regex(_, pattern):
            return 32 + max(len(pattern), regex(pattern).programsize // 4)
        case Sql(text):
            return 32 + len(text) + cesql.size(text).instructions // 8
    return 1


def _text_cost(op: str, pattern: str, fold: bool) -> int:
    match op:
        case "like":
            return 16 + max(len(pattern) // 4, like_regex(pattern, fold).programsize // 8)
        case "contains":
            return 16 + len(pattern) // 4
    return 2 + len(pattern) // 16


def cost_on(predicate: Filter, value: Value) -> int:
    """Steps that one predicate takes at most on a value of its attribute."""
    if type(value) is not str:
        return 1 + len(predicate.values) if type(predicate) is In else 1
    chars = len(value)
    match predicate:
        case In(_, values):
            return 1 + len(values)
        case Text(_, op, pattern, fold):
            folding = chars // 16 if fold else 0
            if op == "like":
                return 16 + folding + chars * like_regex(pattern, fold).programsize // 256
            return 4 + folding + (chars // 32 if op == "contains" else 0)
        case Similar(_, text, threshold):
            return (
                16
                + chars // 16
                + (chars * (1 + len(text) // 64) // 32 if may_be_similar(value, text, threshold) else 0)
            )
        case Regex(_, pattern):
            return 16 + chars * regex(pattern).programsize // 256
    return 1 + chars // 8_192


def cost_of_sql(text: str, chars: int) -> int:
    """The same for an expression of CESQL, on a view whose strings that it names have so many characters in all."""
    size = cesql.size(text)
    longest = min(chars * max(size.names, 1), LIMITS.string_chars) if size.names else 0
    return 32 + len(text) // 4 + size.nodes * (1 + longest // 32) + longest * size.instructions // 256


def check_filter(filter: Filter, limits: Limits = LIMITS) -> Filter:
    """The filter itself; a FilterError that says what is wrong with it."""
    if type(filter) is And and _is_plain_conjunction(filter, limits):
        return filter
    cost = leaves = 0
    waiting: list[tuple[Filter, int]] = [(filter, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > limits.filter_depth:
            raise FilterError(
                f"the filter is nested deeper than {limits.filter_depth} levels",
                hint="join the parts of nested conjunctions and disjunctions into one",
            )
        parts = _parts(node)
        if not parts:
            leaves += 1
            quick = _plain_cost(node, limits)
            if quick:
                cost += quick
                continue
            _check_leaf(node, limits)
            cost += _node_cost(node)
        elif leaves + len(waiting) + len(parts) > limits.filter_predicates:  # every part holds one leaf or more
            raise _too_many(limits)
        else:
            cost += 1
            waiting.extend((part, depth + 1) for part in reversed(parts))
    if cost > limits.filter_cost:
        raise FilterError(
            f"the filter may take {cost:,} steps for one event; the limit is {limits.filter_cost:,}",
            hint="use fewer or smaller sets and patterns, or several subscriptions",
        )
    return filter


def _too_many(limits: Limits) -> FilterError:
    return FilterError(
        f"the filter has more than {limits.filter_predicates:,} predicates",
        hint="a set, as in `x in {1, 2, 3}`, counts as one predicate",
    )


def _parts(node: Filter) -> tuple[Filter, ...]:
    if type(node) is And or type(node) is Or:
        return node.parts
    return (node.part,) if type(node) is Not else ()


def _is_plain_conjunction(filter: And, limits: Limits) -> bool:
    """Is this a short conjunction that a glance shows to be right, perhaps with an event type joined in?"""
    parts = filter.parts
    if len(parts) == 2 and type(parts[1]) is And:
        parts = (parts[0], *parts[1].parts)
    if len(parts) > min(16, limits.filter_predicates) or limits.filter_depth < 3 or limits.filter_cost < 64:
        return False
    return all(_plain_cost(part, limits) for part in parts)


def _plain_cost(node: Filter, limits: Limits) -> int:
    """The cost of a predicate that a glance shows to be right, as nearly all are; 0 asks for the long look."""
    if type(node) is Compare:
        if node.op in _COMPARE_OPS and _is_plain(node.name, limits.name_chars) and node.name:
            return 1 if _is_plain(node.value, limits.string_chars) else 0
    elif type(node) is Between:
        low, high = node.low, node.high
        if type(low) is type(high) and _is_plain(node.name, limits.name_chars) and node.name:
            return 2 if _is_plain(low, limits.string_chars) and _is_plain(high, limits.string_chars) else 0
    return 0


def _is_plain(value: Value, chars: int) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is str:
        return len(value) <= chars and value.isascii()
    return type(value) is float and value == value


def _check_leaf(node: Filter, limits: Limits) -> None:
    match node:
        case And() | Or() | Constant():
            return
        case Sql(text):
            _check_sql(text, limits)
            return
        case Compare() | Between() | In() | Text() | Regex() | Exists() | Similar():
            _check_name(node.name, limits)
        case _:
            raise FilterError(f"{type(node).__name__} is not a node of a filter")
    where = f"the condition on {node.name!r}"
    match node:
        case Compare(_, op, value):
            _check_op(op, _COMPARE_OPS, where)
            _check_constant(value, where, limits)
        case Between(_, low, high):
            _check_range(low, high, where, limits)
        case In(_, values):
            _check_set(values, where, limits)
        case Text(_, op, pattern):
            _check_op(op, _TEXT_OPS, where)
            _check_text(pattern, "pattern", where, limits)
        case Regex(_, pattern):
            _check_text(pattern, "regular expression", where, limits)
            regex(pattern)
        case Similar(_, text, threshold):
            _check_text(text, "text", where, limits)
            _check_threshold(threshold, where)


def _check_name(name: str, limits: Limits) -> None:
    if type(name) is not str or not name:
        raise FilterError("a predicate names no attribute", hint="an attribute's name is a text that is not empty")
    if len(name) > limits.name_chars:
        raise FilterError(f"an attribute name has {len(name):,} characters; the limit is {limits.name_chars:,}")
    _refuse(name, "an attribute name", limits.name_chars)


def _check_op(op: str, known: frozenset[str], where: str) -> None:
    if op not in known:
        raise FilterError(f"{where}: {op!r} is no operator here", hint=f"known are {', '.join(sorted(known))}")


def _check_constant(value: Value, where: str, limits: Limits) -> None:
    _refuse(value, where, limits.string_chars)
    if is_nan(value):
        raise FilterError(f"{where}: NaN equals nothing and has no order, so no filter may compare with it")


def _check_range(low: Value, high: Value, where: str, limits: Limits) -> None:
    _check_constant(low, where, limits)
    _check_constant(high, where, limits)
    if kind_of(low) is not kind_of(high):
        kinds = f"{kind_of(low).name.lower()} and {kind_of(high).name.lower()}"
        raise FilterError(f"{where}: the bounds of a range must be of one kind, not {kinds}")


def _check_set(values: tuple[Value, ...], where: str, limits: Limits) -> None:
    if len(values) > limits.set_values:
        raise FilterError(f"{where}: the set has {len(values):,} values; the limit is {limits.set_values:,}")
    for value in values:
        _check_constant(value, where, limits)


def _check_text(text: str, what: str, where: str, limits: Limits) -> None:
    if type(text) is not str:
        raise FilterError(f"{where}: the {what} is {type(text).__name__}, not text")
    if len(text) > limits.pattern_chars:
        raise FilterError(f"{where}: the {what} has {len(text):,} characters; the limit is {limits.pattern_chars:,}")
    _refuse(text, where, limits.pattern_chars)


def _check_threshold(threshold: float, where: str) -> None:
    if type(threshold) not in (int, float) or not 0 <= threshold <= 1:
        raise FilterError(f"{where}: the threshold of similarity is {threshold!r}; it must be from 0 to 1")


def _check_sql(text: str, limits: Limits) -> None:
    if len(text) > limits.filter_chars:
        raise FilterError(f"the CESQL text has {len(text):,} characters; the limit is {limits.filter_chars:,}")
    cesql.parse(text)


def _refuse(value: Value, where: str, string_chars: int) -> None:
    try:
        check_value(value, where, string_chars)
    except RecadoError as error:
        raise FilterError(str(error)) from None
