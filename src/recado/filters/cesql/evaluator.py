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
import re
from collections.abc import Callable, Mapping

import msgspec

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
    castable,
    represent,
    shown,
    to_boolean,
    to_integer,
    to_string,
)
from recado.filters.patterns import like_regex, like_tokens
from recado.model.limits import LIMITS
from recado.model.values import Value

# --- The built-in functions (CESQL 1.0, section 3.5), their types and their errors -----------------------------------
#
# A function is found by its name and the number of its arguments; arguments are cast to the types of its parameters
# before it runs. ``INT``, ``BOOL`` and ``STRING`` cast explicitly, and ``IS_INT`` and ``IS_BOOL`` tell whether a cast
# would succeed. A text that would grow beyond ``Limits.string_chars`` is an error and not a reason to run out of
# memory.


_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
"""Unicode's property White_Space; ``str.strip`` would also remove the control characters U+001C to U+001F."""


class Function(msgspec.Struct, frozen=True):
    """``parameters`` are the types of the fixed arguments, ``rest`` that of any further ones (None: any type)."""

    name: str
    run: Callable[..., CesqlValue]
    returns: type
    parameters: tuple[type | None, ...]
    rest: type | None = None
    variadic: bool = False

    def takes(self, count: int) -> bool:
        fixed = len(self.parameters)
        return count >= fixed if self.variadic else count == fixed

    def signature(self) -> str:
        words = [_TYPE_NAMES[parameter] for parameter in self.parameters]
        words += [f"{_TYPE_NAMES[self.rest]}..."] if self.variadic else []
        return f"{self.name}({', '.join(words)})"


_TYPE_NAMES: dict[type | None, str] = {str: "String", int: "Integer", bool: "Boolean", None: "Any"}


def find(name: str, count: int) -> Function | None:
    """The function of this name (in upper case) that takes so many arguments."""
    return next((function for function in BY_NAME.get(name, ()) if function.takes(count)), None)


def _concat(*parts: str) -> str:
    return _join("", parts)


def _concat_ws(delimiter: str, *parts: str) -> str:
    return _join(delimiter, parts)


def _join(delimiter: str, parts: tuple[str, ...]) -> str:
    chars = sum(map(len, parts)) + len(delimiter) * max(0, len(parts) - 1)
    if chars > LIMITS.string_chars:
        raise EvaluationError(
            "functionEvaluation", f"the text would have {chars:,} characters of {LIMITS.string_chars:,}", ""
        )
    return delimiter.join(parts)


def _left(text: str, count: int) -> str:
    _check_count("LEFT", text, count)
    return text[:count]


def _right(text: str, count: int) -> str:
    _check_count("RIGHT", text, count)
    return text[max(0, len(text) - count) :]


def _check_count(name: str, text: str, count: int) -> None:
    if count < 0:
        raise EvaluationError("functionEvaluation", f"{name} cannot take {count} characters", text)


def _substring(text: str, position: int, length: int = INT_MAX) -> str:
    """Positions count from 1, or from the end if negative; 0 stands before the text and yields nothing."""
    if not -len(text) <= position <= len(text):
        message = f"SUBSTRING: position {position} is outside of a text of {len(text)} characters"
        raise EvaluationError("functionEvaluation", message, "")
    if length < 0:
        raise EvaluationError("functionEvaluation", f"SUBSTRING: the length {length} is negative", "")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _abs(number: int) -> int:
    if number == INT_MIN:
        raise EvaluationError("math", f"ABS({number}) does not fit 32 bits", INT_MAX)
    return abs(number)


def _is_int(value: CesqlValue) -> bool:
    return castable(to_integer, value)


def _is_bool(value: CesqlValue) -> bool:
    return castable(to_boolean, value)


def _trim(text: str) -> str:
    return text.strip(_WHITE_SPACE)


FUNCTIONS = (
    Function("LENGTH", len, int, (str,)),
    Function("CONCAT", _concat, str, (), str, variadic=True),
    Function("CONCAT_WS", _concat_ws, str, (str,), str, variadic=True),
    Function("LOWER", str.lower, str, (str,)),
    Function("UPPER", str.upper, str, (str,)),
    Function("TRIM", _trim, str, (str,)),
    Function("LEFT", _left, str, (str, int)),
    Function("RIGHT", _right, str, (str, int)),
    Function("SUBSTRING", _substring, str, (str, int)),
    Function("SUBSTRING", _substring, str, (str, int, int)),
    Function("ABS", _abs, int, (int,)),
    Function("INT", to_integer, int, (None,)),
    Function("BOOL", to_boolean, bool, (None,)),
    Function("STRING", to_string, str, (None,)),
    Function("IS_INT", _is_int, bool, (None,)),
    Function("IS_BOOL", _is_bool, bool, (None,)),
)

BY_NAME: dict[str, tuple[Function, ...]] = {
    function.name: tuple(other for other in FUNCTIONS if other.name == function.name) for function in FUNCTIONS
}


def missing(name: str, count: int) -> EvaluationError:
    """The error of a call that no function answers."""
    others = BY_NAME.get(name)
    if others:
        known = " and ".join(function.signature() for function in others)
        return EvaluationError("missingFunction", f"{name} does not take {count} arguments; there is {known}")
    return EvaluationError("missingFunction", f"there is no function {shown(name)}; there are {', '.join(BY_NAME)}")


# --- Patterns of ``LIKE`` (CESQL 1.0, section 3.4.3): ``%`` is any text, ``_`` one character -------------------------
#
# A backslash before ``%`` or ``_`` takes it literally; any other backslash is a character like the rest. A pattern is
# rewritten into the wildcards of the filter language (``*``, ``?``), so that both are matched by the same automaton, in
# time linear in the string.


_PIECE = re.compile(r"\\[%_]|.", re.DOTALL)
_RESERVED = re.compile(r"[%_]")
_MEANING = {"%": "*", "_": "?", "\\%": "%", "\\_": "_", "*": "\\*", "?": "\\?", "\\": "\\\\"}


def like_pattern(wildcards: str) -> str | None:
    """The ``LIKE`` pattern of such wildcards; None if there is none, as for a backslash before a wildcard."""
    pattern = "".join(
        "%" if token is None else _RESERVED.sub(r"\\\g<0>", token) if token else "_" for token in like_tokens(wildcards)
    )
    return pattern if like_tokens(wildcard(pattern)) == like_tokens(wildcards) else None


def wildcard(pattern: str) -> str:
    """The pattern in the wildcards of ``Text(op="like")``."""
    return _PIECE.sub(lambda piece: _MEANING.get(piece[0], piece[0]), pattern)


# --- What an expression yields (CESQL 1.0, sections 3.3 to 3.7), in the fail-fast mode that filters should use -------

View = Mapping[str, Value]
Run = Callable[[View], CesqlValue]
Apply = Callable[[CesqlValue, CesqlValue], CesqlValue]

SPECVERSION = "specversion"
"""An attribute that every CloudEvent has, and that Recado's events need not carry: it is always ``1.0``."""


def compile_node(node: Expression) -> Run:
    """The expression as a function that yields its value or raises an EvaluationError."""
    match node:
        case Literal(value):
            return lambda view: value
        case Attribute(name):
            return _attribute(name)
        case Presence(name):
            return (lambda view: True) if name == SPECVERSION else (lambda view: name in view)
        case Unary(op, operand):
            return _not(node, compile_node(operand)) if op == "NOT" else _minus(compile_node(operand))
        case Chain(first, steps):
            runs = [(step.op, compile_node(step.operand)) for step in steps]
            return _logic(compile_node(first), runs) if steps[0].op in LOGIC else _operations(compile_node(first), runs)
        case Like(operand, pattern, negated):
            return _like(compile_node(operand), pattern, negated)
        case Member(operand, elements, negated):
            return _member(compile_node(operand), [compile_node(element) for element in elements], negated)
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
            function = find(name, len(arguments))
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
    return lambda view: _bound(-to_integer(operand(view)), "-")


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
    function = find(node.name, len(node.arguments))
    if function is None:
        return _missing(node)
    apply = function.run
    targets = function.parameters + (function.rest,) * (len(node.arguments) - len(function.parameters))
    arguments = [(compile_node(argument), target) for argument, target in zip(node.arguments, targets, strict=True)]

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
        raise missing(node.name, len(node.arguments))

    return run


def _equal(left: CesqlValue, right: CesqlValue) -> bool:
    return cast(left, type(right)) == right


def _unequal(left: CesqlValue, right: CesqlValue) -> bool:
    return cast(left, type(right)) != right


def _compare_order(compare: Callable[[int, int], bool]) -> Apply:
    return lambda left, right: compare(to_integer(left), to_integer(right))


def _arithmetic(symbol: str, compute: Callable[[int, int], int]) -> Apply:
    return lambda left, right: _bound(compute(to_integer(left), to_integer(right)), symbol)


def _bound(number: int, symbol: str) -> int:
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
    "<": _compare_order(operator.lt),
    "<=": _compare_order(operator.le),
    ">": _compare_order(operator.gt),
    ">=": _compare_order(operator.ge),
    "+": _arithmetic("+", operator.add),
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", _divide),
    "%": _arithmetic("%", _remainder),
}
