"""From tree to text: one spelling for each tree, with only the parentheses that it needs.

``parse(format(node)) == node`` for every tree that the parser made. So a part of an expression can stand alone, and
texts that differ in spaces, case or needless parentheses become one.
"""

from __future__ import annotations

from recado.filters.cesql.lexer import KEYWORDS, LITERAL, PLAIN_NAME, read_string
from recado.filters.cesql.nodes import (
    LEVELS,
    REQUIRED,
    Attribute,
    Chain,
    Expression,
    Like,
    Literal,
    Member,
    Presence,
    Unary,
)

_POSTFIX = len(LEVELS)
_UNARY = _POSTFIX + 1
_ATOM = _UNARY + 1


def format_node(node: Expression) -> str:
    """The canonical text of an expression."""
    match node:
        case Literal(value):
            return _string(value) if isinstance(value, str) else str(value).upper()
        case Attribute(name):
            return _name(name)
        case Presence(name):
            return f"EXISTS {_quoted(name) if name not in REQUIRED and name.lower() in REQUIRED else _name(name)}"
        case Unary(op, operand):
            return _unary(op, operand)
        case Chain(first, steps):
            level = _level(node)
            rest = (f" {step.op} {_operand(step.operand, level + 1)}" for step in steps)
            return _operand(first, level + 1) + "".join(rest)
        case Like(operand, pattern, negated):
            return f"{_operand(operand, _POSTFIX)} {_negation(negated)}LIKE {_string(pattern)}"
        case Member(operand, elements, negated):
            return f"{_operand(operand, _POSTFIX)} {_negation(negated)}IN ({_list(elements)})"
        case _:
            return f"{node.name}({_list(node.arguments)})"


def _level(node: Expression) -> int:
    match node:
        case Chain(_, steps):
            return next(level for level, ops in enumerate(LEVELS) if steps[0].op in ops)
        case Like() | Member():
            return _POSTFIX
        case Unary():
            return _UNARY
    return _ATOM


def _operand(node: Expression, weakest: int) -> str:
    text = format_node(node)
    return text if _level(node) >= weakest else f"({text})"


def _unary(op: str, operand: Expression) -> str:
    # "-5" is a literal; a space keeps the operator an operator
    glue = " " if op == "NOT" or (isinstance(operand, Literal) and type(operand.value) is int) else ""
    return f"{op}{glue}{_operand(operand, _UNARY)}"


def _negation(negated: bool) -> str:
    return "NOT " if negated else ""


def _list(nodes: tuple[Expression, ...]) -> str:
    return ", ".join(format_node(node) for node in nodes)


def _name(name: str) -> str:
    plain = PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS and not name[0].isdigit()
    return name if plain else _quoted(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def has_literal(value: str) -> bool:
    """Can a literal say this string? One that ends in a single backslash, for example, cannot be written."""
    return _literal(value) is not None


def _string(value: str) -> str:
    literal = _literal(value)
    assert literal is not None, f"{value!r} has no CESQL literal"
    return literal


def _literal(value: str) -> str | None:
    """A literal in the quotes that can say the value: a backslash before a quote needs the other quote."""
    for quote in "'\"":
        literal = quote + _escaped(value, quote) + quote
        if LITERAL.fullmatch(literal) and read_string(literal) == value:
            return literal
    return None


def _escaped(value: str, quote: str) -> str:
    """Escape the quotes that do not already stand behind a backslash."""
    chars = []
    pairs = iter(value)
    for char in pairs:
        chars.append("\\" + char if char == quote else char)
        if char == "\\":
            chars.append(next(pairs, ""))
    return "".join(chars)
