"""What an expression yields (CESQL 1.0, sections 3.3 to 3.7), in the fail-fast mode that filters should use.

A tree is compiled once into nested functions of a view. The first error ends the evaluation: the result is then the
zero value of the expression's type beside the error, or the value that the failing node itself defines
(``LEFT('abc', -1)`` yields ``'abc'``). ``AND`` and ``OR`` do not look at their right side if the left one decides.
``NOT`` casts Strings only: of an Integer it yields true beside a cast error, as the public conformance kit has it.

Where the specification leaves a choice: arithmetic that leaves 32 bits is a math error, and ``IN`` compares from left
to right and stops at the first element that is equal, as the same comparisons joined by ``OR`` would.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from recado.filters.cesql import functions
from recado.filters.cesql.like import wildcard
from recado.filters.cesql.nodes import (
    COMPARISON,
    LOGIC,
    Attribute,
    Call,
    CesqlValue,
    Chain,
    Expression,
    Like,
    Literal,
    Member,
    Presence,
    Unary,
)
from recado.filters.cesql.types import (
    INT_MAX,
    INT_MIN,
    EvaluationError,
    cast,
    represent,
    shown,
    to_boolean,
    to_integer,
    to_string,
)
from recado.filters.patterns import like_regex
from recado.model.values import Value

View = Mapping[str, Value]
Run = Callable[[View], CesqlValue]
Apply = Callable[[CesqlValue, CesqlValue], CesqlValue]

SPECVERSION = "specversion"
"""An attribute that every CloudEvent has, and that Recado's events need not carry: it is always ``1.0``."""


def compiled(node: Expression) -> Run:
    """The expression as a function that yields its value or raises an EvaluationError."""
    match node:
        case Literal(value):
            return lambda view: value
        case Attribute(name):
            return _attribute(name)
        case Presence(name):
            return (lambda view: True) if name == SPECVERSION else (lambda view: name in view)
        case Unary(op, operand):
            return _not(node, compiled(operand)) if op == "NOT" else _minus(compiled(operand))
        case Chain(first, steps):
            runs = [(step.op, compiled(step.operand)) for step in steps]
            return _logic(compiled(first), runs) if steps[0].op in LOGIC else _operations(compiled(first), runs)
        case Like(operand, pattern, negated):
            return _like(compiled(operand), pattern, negated)
        case Member(operand, elements, negated):
            return _member(compiled(operand), [compiled(element) for element in elements], negated)
        case _:
            return _call(node)


def static_type(node: Expression) -> type | None:
    """The type that the expression yields whatever the event; None for an attribute, whose type the event decides."""
    match node:
        case Literal(value):
            return type(value)
        case Attribute():
            return None
        case Unary(op):
            return bool if op == "NOT" else int
        case Chain(_, steps):
            return bool if steps[0].op in LOGIC or steps[0].op in COMPARISON else int
        case Call(name, arguments):
            function = functions.find(name, len(arguments))
            return bool if function is None else function.returns
    return bool


def _attribute(name: str) -> Run:
    default = "1.0" if name == SPECVERSION else None

    def run(view: View) -> CesqlValue:
        value = view.get(name, default)
        if value is None:
            raise EvaluationError("missingAttribute", f"the event has no attribute {name!r}")
        return represent(value)

    return run


def _not(node: Unary, operand: Run) -> Run:
    def run(view: View) -> bool:
        value = operand(view)
        if type(value) is int:
            fault = EvaluationError("cast", f"NOT takes a Boolean, and {value} is an Integer", True)
            fault.owner = node
            raise fault
        return not to_boolean(value)

    return run


def _minus(operand: Run) -> Run:
    return lambda view: _bounded(-to_integer(operand(view)), "-")


def _logic(first: Run, steps: list[tuple[str, Run]]) -> Run:
    def run(view: View) -> bool:
        value = to_boolean(first(view))
        for op, operand in steps:
            if op == "AND":
                value = value and to_boolean(operand(view))
            elif op == "OR":
                value = value or to_boolean(operand(view))
            else:
                value = value is not to_boolean(operand(view))
        return value

    return run


def _operations(first: Run, runs: list[tuple[str, Run]]) -> Run:
    steps = [(_APPLY[op], operand) for op, operand in runs]

    def run(view: View) -> CesqlValue:
        value = first(view)
        for apply, operand in steps:
            value = apply(value, operand(view))
        return value

    return run


def _like(operand: Run, pattern: str, negated: bool) -> Run:
    fullmatch = like_regex(wildcard(pattern), False).fullmatch
    return lambda view: (fullmatch(to_string(operand(view))) is not None) is not negated


def _member(operand: Run, elements: list[Run], negated: bool) -> Run:
    def run(view: View) -> bool:
        value = operand(view)
        target = type(value)
        return any(cast(element(view), target) == value for element in elements) is not negated

    return run


def _call(node: Call) -> Run:
    function = functions.find(node.name, len(node.arguments))
    if function is None:
        return _missing(node)
    apply = function.run
    targets = function.parameters + (function.rest,) * (len(node.arguments) - len(function.parameters))
    arguments = [(compiled(argument), target) for argument, target in zip(node.arguments, targets, strict=True)]

    def run(view: View) -> CesqlValue:
        values = [(argument(view), target) for argument, target in arguments]
        ready = [value if target is None else cast(value, target) for value, target in values]
        try:
            return apply(*ready)
        except EvaluationError as fault:
            fault.owner = node
            raise

    return run


def _missing(node: Call) -> Run:
    def run(view: View) -> CesqlValue:
        raise functions.missing(node.name, len(node.arguments))

    return run


def _equal(left: CesqlValue, right: CesqlValue) -> bool:
    return cast(left, type(right)) == right


def _unequal(left: CesqlValue, right: CesqlValue) -> bool:
    return cast(left, type(right)) != right


def _ordered(compare: Callable[[int, int], bool]) -> Apply:
    return lambda left, right: compare(to_integer(left), to_integer(right))


def _arithmetic(symbol: str, compute: Callable[[int, int], int]) -> Apply:
    return lambda left, right: _bounded(compute(to_integer(left), to_integer(right)), symbol)


def _bounded(number: int, symbol: str) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise EvaluationError("math", f"the result of {symbol} does not fit 32 bits: {number}", 0)
    return number


def _divide(left: int, right: int) -> int:
    _check_divisor(left, right)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    _check_divisor(left, right)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _check_divisor(left: int, right: int) -> None:
    if right == 0:
        raise EvaluationError("math", f"{shown(left)} is divided by zero", 0)


_APPLY: dict[str, Apply] = {
    "=": _equal,
    "!=": _unequal,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "+": _arithmetic("+", operator.add),
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", _divide),
    "%": _arithmetic("%", _remainder),
}
