"""CESQL 1.0, the CloudEvents SQL expression language, with its own rules for types, casts and errors.

``accepts`` is what an ``Sql`` filter node means: the expression yields true and no error. ``to_filter`` compiles an
expression into the common filter nodes, as far as they say exactly the same. The parts: ``nodes`` and ``parser``
for the language, ``types`` and ``evaluator`` for its meaning, ``atoms`` and ``lowering`` for the way into the common
tree.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from recado.filters.cesql.evaluator import Run, View, compile_node, static_type, wildcard
from recado.filters.cesql.lowering import lower
from recado.filters.cesql.nodes import Attribute, CesqlValue, Expression, Like, names_in, walk
from recado.filters.cesql.parser import format_node, parse_text
from recado.filters.cesql.types import ErrorKind, EvaluationError
from recado.filters.patterns import like_regex
from recado.model.filter import Filter
from recado.model.limits import LIMITS, Limits

__all__ = ["Failure", "Result", "accepts", "evaluate", "format_node", "names", "parse", "size", "to_filter"]

_CACHED = 4096


class Failure(msgspec.Struct, frozen=True):
    """An error of an evaluation; ``kind`` is CESQL's name for it."""

    kind: ErrorKind
    message: str


class Result(msgspec.Struct, frozen=True):
    """What an evaluation yields: always a value, and the first error if there was one."""

    value: CesqlValue
    error: Failure | None = None


@lru_cache(maxsize=_CACHED)
def parse(text: str, limits: Limits = LIMITS) -> Expression:
    """The tree of an expression; a FilterError that shows the place where it goes wrong."""
    return parse_text(text, limits)


@lru_cache(maxsize=_CACHED)
def names(text: str) -> frozenset[str]:
    """Every attribute that the expression names."""
    return names_in(parse(text))


class Size(msgspec.Struct, frozen=True):
    """How much an expression is: its nodes, how often it names an attribute, the instructions of its patterns."""

    nodes: int
    names: int
    instructions: int


@lru_cache(maxsize=_CACHED)
def size(text: str) -> Size:
    """What the cost of an expression depends on."""
    nodes = list(walk(parse(text)))
    patterns = [node.pattern for node in nodes if isinstance(node, Like)]
    instructions = sum(like_regex(wildcard(pattern), False).programsize for pattern in patterns)
    return Size(len(nodes), sum(isinstance(node, Attribute) for node in nodes), instructions)


def accepts(text: str, view: View) -> bool:
    """Does the event pass: does the expression yield true, and no error?"""
    try:
        return _compile(text)[1](view) is True
    except EvaluationError:
        return False


def to_filter(text: str, limits: Limits = LIMITS) -> Filter:
    """The expression in common filter nodes, with ``Sql`` nodes for the parts that only CESQL can say.

    For every event the filter matches exactly if CESQL accepts. An expression that could never be accepted, because it
    calls an unknown function or yields no Boolean, is refused with a FilterError.
    """
    return lower(text, parse(text, limits), limits)


def evaluate(text: str, view: View) -> Result:
    """The value of the expression for a view of an event, and the error that ended the evaluation, if any."""
    root, run = _compile(text)
    try:
        return Result(run(view))
    except EvaluationError as fault:
        return _fail(root, fault)


@lru_cache(maxsize=_CACHED)
def _compile(text: str) -> tuple[Expression, Run]:
    root = parse(text)
    return root, compile_node(root)


def _fail(root: Expression, fault: EvaluationError) -> Result:
    """The root has a value of its own beside its own error; beside any other, the zero value of its type."""
    zero = (static_type(root) or bool)()
    return Result(fault.value if fault.owner is root else zero, Failure(fault.kind, str(fault)))
