"""From text to tree: precedence as in CESQL 1.0, section 3.6.

Functions bind strongest, then ``NOT`` and ``-``, then ``LIKE``, ``EXISTS`` and ``IN``, then ``* / %``, ``+ -``, the
comparisons, and last ``AND``, ``OR`` and ``XOR``, which are equals and read from left to right. So ``NOT a = b`` is
``(NOT a) = b``, and ``a OR b AND c`` is ``(a OR b) AND c``.

Length, nesting and the number of operands are bounded before anything is built, so the parser's recursion is bounded
too and a hostile text is refused in milliseconds.
"""

from __future__ import annotations

import re
from typing import NoReturn

from recado.errors import FilterError
from recado.filters.cesql.nodes import (
    LEVELS,
    REQUIRED,
    Attribute,
    Call,
    Chain,
    Expression,
    Like,
    Literal,
    Member,
    Presence,
    Step,
    Unary,
)
from recado.filters.cesql.types import INT_MAX, INT_MIN
from recado.model.limits import Limits

# --- Tokens of CESQL (CESQL 1.0, section 2) --------------------------------------------------------------------------
#
# Tokens are read one at a time, so a text that a limit refuses is never read to its end. Words of the language are
# case-insensitive. In a string literal only the quote that delimits it is escaped by a backslash; every other backslash
# is kept, because the patterns of ``LIKE`` need it.
#
# Beyond the specification, whose names are lower-case letters and digits, a name may have any letters, ``_`` and dots
# inside (``data.level``), and any name at all stands between back quotes (a backslash takes the next character).


WORD, QUOTED, STRING, SYMBOL, END, BAD = range(1, 7)

_NAME = r"\w+(?:\.\w+)*"
_STRING = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
PLAIN_NAME = re.compile(_NAME)
LITERAL = re.compile(_STRING, re.DOTALL)
KEYWORDS = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"})

_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    ({_NAME})
    |(`[^`\\]*(?:\\.[^`\\]*)*`)
    |({_STRING})
    |(!=|<>|<=|>=|[=<>+\-*/%(),])
    |(\Z)
    |(.))""",
    re.VERBOSE | re.DOTALL,
)
_FRACTION = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_HINTS = {
    "'": "the string has no closing quote",
    '"': "the string has no closing quote",
    "`": "the name has no closing back quote",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or != for a comparison",
}


class Reader:
    """The token in sight of one text.

    ``kind``, ``word`` as written and ``start`` describe it; ``key`` is what the grammar looks at: a keyword in upper
    case or a symbol, and empty for names and literals. ``glued`` tells that nothing separates it from the token before.
    """

    __slots__ = ("_end", "_tokens", "glued", "key", "kind", "limits", "start", "text", "word")

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self._tokens = _TOKEN.finditer(text)
        self._end = 0
        self.kind, self.word, self.key, self.start, self.glued = END, "", "", 0, False
        self.advance()

    def advance(self) -> None:
        """Move to the next token; nothing moves past the end, which is no token that the grammar takes."""
        token = next(self._tokens)
        self.kind = token.lastindex or END
        self.word = token[self.kind]
        self.start = token.start(self.kind)
        self.glued = self.start == self._end
        self._end = token.end()
        upper = self.word.upper() if self.kind == WORD else self.word
        self.key = upper if self.kind == SYMBOL or (self.kind == WORD and upper in KEYWORDS) else ""
        if self.kind == BAD:
            self.fail(f"unexpected {self.word!r}", _HINTS.get(self.word))
        if self.kind == WORD and _FRACTION.fullmatch(self.word):
            self.fail(f"{self.word} has a fraction", "the numbers of CESQL are integers of 32 bits")

    def take(self, *keys: str) -> str:
        """The key of the token in sight if it is one of ``keys``, moving past it; else an empty string."""
        found = self.key
        if not found or found not in keys:
            return ""
        self.advance()
        return found

    def expect(self, key: str, hint: str | None = None) -> None:
        if not self.take(key):
            self.fail(f"expected {key} but found {self.describe()}", hint)

    @property
    def is_number(self) -> bool:
        return self.kind == WORD and _DIGITS.fullmatch(self.word) is not None

    @property
    def is_name(self) -> bool:
        return self.kind == QUOTED or (self.kind == WORD and not self.key and not self.is_number)

    def describe(self) -> str:
        """The token in sight, for a message."""
        if self.kind == END:
            return "the end"
        return self.word if len(self.word) <= 40 else f"{self.word[:40]}..."

    def fail(self, reason: str, hint: str | None = None, at: int | None = None) -> NoReturn:
        raise FilterError(reason, text=self.text, position=self.start if at is None else at, hint=hint)


def read_string(literal: str) -> str:
    """The value of a string literal, given with its quotes."""
    quote = literal[0]
    return re.sub(r"\\(.)", lambda pair: quote if pair[1] == quote else pair[0], literal[1:-1], flags=re.DOTALL)


def read_quoted_name(literal: str) -> str:
    """The name between back quotes."""
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


# --- From text to tree: precedence as in CESQL 1.0, section 3.6 ------------------------------------------------------

_OPERANDS_PER_PREDICATE = 2


def parse_text(text: str, limits: Limits) -> Expression:
    """The tree of an expression; a FilterError that shows the place where it goes wrong."""
    _check_text(text, limits)
    parser = _Parser(text, limits)
    node = parser.binary(0)
    reader = parser.reader
    if reader.kind != END:
        reader.fail(
            f"expected an operator or the end but found {reader.describe()}", "join two conditions with AND, OR or XOR"
        )
    return node


def _check_text(text: str, limits: Limits) -> None:
    if len(text) > limits.filter_chars:
        raise FilterError(f"the expression has {len(text):,} characters; the limit is {limits.filter_chars:,}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FilterError("a lone surrogate is not text", text=text, position=error.start) from None


class _Parser:
    def __init__(self, text: str, limits: Limits) -> None:
        self.reader = Reader(text, limits)
        self.limits = limits
        self.depth = 0
        self.operands = 0

    def binary(self, level: int) -> Expression:
        """A chain of operators of this level, or just an operand if there is no operator."""
        if level == len(LEVELS):
            return self._postfix()
        first = self.binary(level + 1)
        steps = []
        while op := self.reader.take(*LEVELS[level]):
            steps.append(Step("!=" if op == "<>" else op, self.binary(level + 1)))
        return Chain(first, tuple(steps)) if steps else first

    def _postfix(self) -> Expression:
        """An operand and any ``[NOT] LIKE`` and ``[NOT] IN`` behind it."""
        node = self._unary()
        wrapped = 0
        while self.reader.key in ("NOT", "LIKE", "IN"):
            wrapped += 1
            self._check_depth(self.depth + wrapped)
            negated = bool(self.reader.take("NOT"))
            if self.reader.take("LIKE"):
                node = Like(node, self._pattern(), negated)
            elif self.reader.take("IN"):
                node = Member(node, self._elements(), negated)
            else:
                self.reader.fail(f"expected LIKE or IN after NOT but found {self.reader.describe()}")
        return node

    def _unary(self) -> Expression:
        reader = self.reader
        start = reader.start
        op = reader.take("NOT", "-", "+")
        if not op:
            return self._primary()
        if op != "NOT" and reader.is_number and reader.glued:
            return self._number(op, start)
        if op == "+":
            reader.fail("a + without a left operand belongs to a number", "write +5, without a space", start)
        self._enter()
        node = Unary(op, self._unary())
        self.depth -= 1
        return node

    def _primary(self) -> Expression:
        reader = self.reader
        if reader.take("("):
            return self._enclose()
        self._count_operand()
        if reader.take("EXISTS"):
            plain, name = reader.kind == WORD, self._name()
            return Presence(name.lower() if plain and name.lower() in REQUIRED else name)
        if reader.kind == STRING:
            return Literal(self._string())
        if key := reader.take("TRUE", "FALSE"):
            return Literal(key == "TRUE")
        if reader.is_number:
            return self._number("", reader.start)
        if not reader.is_name:
            hint = "equality is a single =" if reader.key == "=" else "a value is a name, a literal or a function call"
            reader.fail(f"expected a value but found {reader.describe()}", hint)
        return self._name_or_call()

    def _enclose(self) -> Expression:
        self._enter()
        node = self.binary(0)
        self.reader.expect(")", "a parenthesis was opened and not closed")
        self.depth -= 1
        return node

    def _name_or_call(self) -> Expression:
        plain, word = self.reader.kind == WORD, self.reader.word
        name = self._name()
        if not plain or not self.reader.take("("):
            return Attribute(name)
        self._enter()
        arguments: list[Expression] = []
        if self.reader.key != ")":
            arguments.append(self.binary(0))
            while self.reader.take(","):
                arguments.append(self.binary(0))
        self.reader.expect(")", "arguments are separated by commas and end with a parenthesis")
        self.depth -= 1
        return Call(word.upper(), tuple(arguments))

    def _name(self) -> str:
        reader = self.reader
        if not reader.is_name:
            reader.fail(f"expected a name but found {reader.describe()}", "any name can stand between back quotes")
        name = read_quoted_name(reader.word) if reader.kind == QUOTED else reader.word
        if not 0 < len(name) <= self.limits.name_chars:
            reader.fail(f"a name has between 1 and {self.limits.name_chars:,} characters, this one {len(name):,}")
        reader.advance()
        return name

    def _number(self, sign: str, start: int) -> Expression:
        digits = self.reader.word.lstrip("0") or "0"
        if len(digits) > len(str(INT_MAX)) or not INT_MIN <= int(sign + digits) <= INT_MAX:
            self.reader.fail(
                f"{sign}{self.reader.describe()} does not fit 32 bits",
                f"integers are between {INT_MIN} and {INT_MAX}",
                start,
            )
        self.reader.advance()
        return Literal(int(sign + digits))

    def _string(self) -> str:
        value = read_string(self.reader.word)
        self.reader.advance()
        return value

    def _pattern(self) -> str:
        reader = self.reader
        if reader.kind != STRING:
            reader.fail(f"expected a string literal after LIKE but found {reader.describe()}", "write LIKE 'abc%'")
        if len(reader.word) - 2 > self.limits.pattern_chars:
            reader.fail(
                f"the pattern has {len(reader.word) - 2:,} characters; the limit is {self.limits.pattern_chars:,}"
            )
        return self._string()

    def _elements(self) -> tuple[Expression, ...]:
        """The set of an ``IN``: plain literals count against their own limit, not as operands."""
        self.reader.expect("(", "a set is written IN (1, 2, 3)")
        self._enter()
        elements = [self._element()]
        while self.reader.take(","):
            elements.append(self._element())
            if len(elements) > self.limits.set_values:
                self.reader.fail(f"the set has more than {self.limits.set_values:,} values")
        self.reader.expect(")", "the values of a set are separated by commas and end with a parenthesis")
        self.depth -= 1
        return tuple(elements)

    def _element(self) -> Expression:
        before = self.operands
        node = self.binary(0)
        if isinstance(node, Literal):
            self.operands = before
        return node

    def _enter(self) -> None:
        self.depth += 1
        self._check_depth(self.depth)

    def _check_depth(self, depth: int) -> None:
        if depth > self.limits.filter_depth:
            self.reader.fail(f"the expression is nested deeper than {self.limits.filter_depth} levels")

    def _count_operand(self) -> None:
        self.operands += 1
        most = _OPERANDS_PER_PREDICATE * self.limits.filter_predicates
        if self.operands > most:
            self.reader.fail(f"the expression has more than {most:,} operands")


# --- From tree to text: one spelling for each tree, with only the parentheses that it needs --------------------------
#
# ``parse(format(node)) == node`` for every tree that the parser made. So a part of an expression can stand alone, and
# texts that differ in spaces, case or needless parentheses become one.


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
            return f"EXISTS {_quote(name) if name not in REQUIRED and name.lower() in REQUIRED else _name(name)}"
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
    return name if plain else _quote(name)


def _quote(name: str) -> str:
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
        literal = quote + _escape(value, quote) + quote
        if LITERAL.fullmatch(literal) and read_string(literal) == value:
            return literal
    return None


def _escape(value: str, quote: str) -> str:
    """Escape the quotes that do not already stand behind a backslash."""
    chars = []
    pairs = iter(value)
    for char in pairs:
        chars.append("\\" + char if char == quote else char)
        if char == "\\":
            chars.append(next(pairs, ""))
    return "".join(chars)
