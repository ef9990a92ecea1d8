"""The built-in functions (CESQL 1.0, section 3.5), their types and their errors.

A function is found by its name and the number of its arguments; arguments are cast to the types of its parameters
before it runs. ``INT``, ``BOOL`` and ``STRING`` cast explicitly, and ``IS_INT`` and ``IS_BOOL`` tell whether a cast
would succeed. A text that would grow beyond ``Limits.string_chars`` is an error and not a reason to run out of memory.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recado.filters.cesql.nodes import CesqlValue
from recado.filters.cesql.types import (
    INT_MAX,
    INT_MIN,
    EvaluationError,
    castable,
    shown,
    to_boolean,
    to_integer,
    to_string,
)
from recado.model.limits import LIMITS

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
    return _joined("", parts)


def _concat_ws(delimiter: str, *parts: str) -> str:
    return _joined(delimiter, parts)


def _joined(delimiter: str, parts: tuple[str, ...]) -> str:
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
