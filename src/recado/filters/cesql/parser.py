"""From text to tree: precedence as in CESQL 1.0, section 3.6.

Functions bind strongest, then ``NOT`` and ``-``, then ``LIKE``, ``EXISTS`` and ``IN``, then ``* / %``, ``+ -``, the
comparisons, and last ``AND``, ``OR`` and ``XOR``, which are equals and read from left to right. So ``NOT a = b`` is
``(NOT a) = b``, and ``a OR b AND c`` is ``(a OR b) AND c``.

Length, nesting and the number of operands are bounded before anything is built, so the parser's recursion is bounded
too and a hostile text is refused in milliseconds.
"""

from __future__ import annotations

from recado.errors import FilterError
from recado.filters.cesql.lexer import END, QUOTED, STRING, WORD, Reader, read_quoted_name, read_string
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
            return self._enclosed()
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

    def _enclosed(self) -> Expression:
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
