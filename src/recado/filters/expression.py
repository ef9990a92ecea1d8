"""The expression syntax: ``type == "StockExchange" and Stock == "PETR4" and (Price < 25 or Volume >= 1_000_000)``.

``parse`` reads a text into the filter tree, ``format_expression`` writes a tree as text, and
``parse(format_expression(f)) == f`` for every tree. docs/filter-language.md has the grammar.

``not`` binds tightest, then ``and``, then ``or``. The joins are kept on an explicit stack of frames, one for each open
parenthesis, so depth costs no Python recursion and is refused by count. Parentheses are structure: ``(a and b) and c``
keeps its inner conjunction, which is what lets every tree be written and read back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import NoReturn

import msgspec

from recado.errors import FilterError
from recado.filters import cesql
from recado.filters.lexer import (
    END,
    NAME,
    NUMBER,
    OPERATOR,
    PLAIN_NAME,
    QUOTED_NAME,
    RESERVED,
    STRING,
    Reader,
    bare_word,
    read_value,
    string_content,
)
from recado.filters.nodes import KINDS, Written
from recado.filters.patterns import TEXT_OPERATORS, regex
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    CompareOp,
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
from recado.model.values import Value, kind_of

# --- Single predicates of the expression syntax: an attribute name, an operator word, and what the operator takes
#
# Every function starts with the reader on its first token and leaves it behind its last one.


_COMPARE: dict[str, CompareOp] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TEXT: dict[str, TextOp] = {word: op for op, known in TEXT_OPERATORS.items() for word in (known.word, op)}
_WRONG_OPERATORS = {
    "=": "equality is written with two signs: ==",
    "===": "equality is written with two signs: ==",
    "!==": "inequality is written !=",
    "<>": "inequality is written !=",
    "=<": "write <=",
    "=>": "write >=",
    "=~": 'a regular expression is written: name matches "..."',
    "!~": 'a regular expression is written: name not matches "..."',
    "is": "equality is written ==",
    "eq": "equality is written ==",
    "equals": "equality is written ==",
    "ne": "inequality is written !=",
    "gt": "write >",
    "ge": "write >=",
    "lt": "write <",
    "le": "write <=",
    "has": "write contains",
    "includes": "write contains",
    "regex": 'a regular expression is written: name matches "..."',
    "ilike": 'ignore case with: name like i"..."',
}
_TEXT_WORDS = [known.word for known in TEXT_OPERATORS.values()]
_WORD_OPERATORS = ("between", "in", *_TEXT_WORDS, "matches", "exists", "similar to", "and", "or")


def read_predicate(reader: Reader) -> Filter:
    """The predicate that begins at the token in sight."""
    reader.count_predicate()
    key, kind = reader.key, reader.kind
    if kind == NAME and key in RESERVED:
        special = _SPECIAL.get(key)
        if special is None:
            _refuse_operand(reader)
        return special(reader)
    name = _name(reader)
    op = _COMPARE.get(reader.key)
    if op is not None:
        reader.advance()
        return Compare(name, op, read_value(reader, bare=op in ("==", "!=")))
    if reader.key == "not":
        reader.advance()
        if reader.key in _COMPARE:
            reader.fail("'not' does not stand before a sign", f"write: not {name} {reader.key} ...")
        return Not(_word_predicate(reader, name))
    return _word_predicate(reader, name)


def _word_predicate(reader: Reader, name: str) -> Filter:
    text_op = _TEXT.get(reader.key)
    if text_op is not None:
        reader.advance()
        pattern, fold = _pattern(reader, may_fold=True)
        return Text(name, text_op, pattern, fold)
    read = _BY_WORD.get(reader.key)
    if read is None:
        _refuse_operator(reader, name)
    reader.advance()
    return read(reader, name)


def _name(reader: Reader) -> str:
    if reader.kind == NAME:
        name = reader.word
    elif reader.kind == QUOTED_NAME:
        name = string_content(reader)
        if not name:
            reader.fail("an attribute name cannot be empty")
    else:
        _refuse_operand(reader)
    if len(name) > reader.limits.name_chars:
        reader.fail(f"the attribute name has {len(name):,} characters; the limit is {reader.limits.name_chars:,}")
    reader.advance()
    return name


def _between(reader: Reader, name: str) -> Filter:
    low = read_value(reader, bare=False)
    reader.expect("and", "a range is written: name between 1 and 5")
    return _range(reader, name, low)


def _in(reader: Reader, name: str) -> Filter:
    if reader.key == "[":
        reader.advance()
        low = read_value(reader, bare=False)
        reader.expect(",", "an interval has two bounds: name in [1, 5]; a set stands in braces: name in {1, 5}")
        found = _range(reader, name, low)
        reader.expect("]", "an interval has two bounds: name in [1, 5]; a set stands in braces: name in {1, 5}")
        return found
    reader.expect("{", "a set is written {1, 2, 3}, an interval [1, 5]")
    return In(name, _set_values(reader))


def _range(reader: Reader, name: str, low: Value) -> Between:
    position = reader.start
    high = read_value(reader, bare=False)
    if kind_of(low) is not kind_of(high):
        kinds = f"a {kind_of(low).name.lower()} and a {kind_of(high).name.lower()}"
        reader.fail("the bounds of a range must be of one kind", f"these are {kinds}", position)
    return Between(name, low, high)


def _set_values(reader: Reader) -> tuple[Value, ...]:
    values: list[Value] = []
    if reader.key != "}":
        values.append(read_value(reader))
        while reader.key == ",":
            reader.advance()
            if len(values) >= reader.limits.set_values:
                reader.fail(f"the set has more than {reader.limits.set_values:,} values")
            values.append(read_value(reader))
    reader.expect("}", "the values of a set are separated by commas; a text with spaces needs quotes")
    return tuple(values)


def _pattern(reader: Reader, may_fold: bool) -> tuple[str, bool]:
    """A text for an operator on strings, and whether it ignores case."""
    fold = False
    if reader.kind == STRING and reader.word[0] != "t":
        fold = reader.word[0] == "i"
        if fold and not may_fold:
            reader.fail(
                'i"..." works with startswith, endswith, contains and like only',
                "a regular expression takes (?i); similarity ignores case anyway",
            )
        pattern = string_content(reader)
    elif reader.kind == NAME:
        pattern = bare_word(reader)
    else:
        reader.fail(f"expected a text but found {reader.describe()}", 'a text stands between quotes: "..."')
    if len(pattern) > reader.limits.pattern_chars:
        reader.fail(f"the pattern has {len(pattern):,} characters; the limit is {reader.limits.pattern_chars:,}")
    reader.advance()
    return pattern, fold


def _matches(reader: Reader, name: str) -> Filter:
    position = reader.start
    pattern, _ = _pattern(reader, may_fold=False)
    try:
        regex(pattern)
    except FilterError as error:
        reader.fail(error.reason, error.hint, position)
    return Regex(name, pattern)


def _similar(reader: Reader, name: str) -> Filter:
    reader.expect("to", 'similarity is written: name similar to "text" at 0.7')
    text, _ = _pattern(reader, may_fold=False)
    if reader.key != "at":
        return Similar(name, text)
    reader.advance()
    position = reader.start
    threshold = read_value(reader) if reader.kind == NUMBER else -1
    if not (isinstance(threshold, (int, float)) and 0 <= threshold <= 1):
        reader.fail("the threshold of a similarity is a number from 0 to 1", position=position)
    return Similar(name, text, float(threshold))


def _exists(reader: Reader, name: str) -> Filter:
    return Exists(name)


def _exists_prefix(reader: Reader) -> Filter:
    reader.advance()
    return Exists(_name(reader))


def _constant(reader: Reader) -> Filter:
    found = TRUE if reader.key == "true" else FALSE
    reader.advance()
    if reader.key in _COMPARE:
        reader.fail("the attribute stands on the left: name == true", "an attribute called true is written `true`")
    return found


def _sql(reader: Reader) -> Filter:
    reader.advance()
    if reader.kind != STRING or reader.word[0] in "it":
        reader.fail(f"expected a CESQL expression in quotes but found {reader.describe()}", 'write: sql "a = 1"')
    text = string_content(reader)
    try:
        cesql.parse(text, reader.limits)
    except FilterError as error:
        place = "" if error.position is None else f", at its character {error.position + 1}"
        reader.fail(f"in the CESQL expression{place}: {error.reason}", error.hint)
    reader.advance()
    return Sql(text)


_SPECIAL: dict[str, Callable[[Reader], Filter]] = {
    "exists": _exists_prefix,
    "true": _constant,
    "false": _constant,
    "sql": _sql,
}
_BY_WORD: dict[str, Callable[[Reader, str], Filter]] = {
    "between": _between,
    "in": _in,
    "matches": _matches,
    "exists": _exists,
    "any": _exists,
    "similar": _similar,
}


def _refuse_operand(reader: Reader) -> NoReturn:
    """Something else than a predicate where a predicate should begin."""
    if reader.kind in (STRING, NUMBER):
        reader.fail(
            f"a predicate begins with an attribute name, not with {reader.describe()}",
            "put the attribute first: name > 5; odd names stand between back quotes: `a b`",
        )
    if reader.kind == NAME:
        word = reader.word
        reader.fail(
            f"{word!r} is a word of the language, not an attribute",
            f"an attribute of that name is written `{word}`" if reader.key not in ("and", "or") else None,
        )
    reader.fail(f"expected a predicate but found {reader.describe()}", "a predicate looks like: Price < 25")


def _refuse_operator(reader: Reader, name: str) -> NoReturn:
    """Something else than an operator behind an attribute name."""
    key = reader.key
    hint = _WRONG_OPERATORS.get(key)
    if hint is None and reader.kind == NAME and key not in ("and", "or"):
        close = get_close_matches(key, _WORD_OPERATORS, n=1)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else f"a name with spaces stands between back quotes: `{name} {reader.word}`"
        )
    elif hint is None and (reader.kind == END or key in ("and", "or", "&&", "||", ")")):
        hint = f"for presence write: exists {name}; for a boolean: {name} == true"
    if reader.kind in (NAME, OPERATOR) and key not in ("and", "or"):
        reader.fail(f"{reader.word!r} is not an operator", hint)
    reader.fail(f"expected an operator after {name!r} but found {reader.describe()}", hint)


# --- A shortcut for the plainest and most frequent filters: comparisons with simple literals, joined by ``and``
#
# One regular expression reads a whole clause where the general parser reads four tokens. The shortcut reads as many
# clauses from the left as it can and leaves the rest of the text to the general parser; since ``and`` binds tighter
# than ``or``, those clauses are factors of the first conjunction whatever follows. It never reports an error.


_NUMBER = r"([+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?)(?![\w.:-])"  # an integer of 18 digits fits 64 bits without a check
_CLAUSE = re.compile(
    rf"""\s*({PLAIN_NAME})\s*
    (?:(==|!=|<=|>=|<|>)\s*(?:{_NUMBER}|"([^"\\\n]*)")
    |\bbetween\s+{_NUMBER}\s+and\s+{_NUMBER}
    |\bin\s*\[\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\])
    \s*(?:([aA][nN][dD])(?![\w.-])|\Z)""",
    re.VERBOSE,
)
_OPS: dict[str, CompareOp] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_clauses(text: str, limits: Limits) -> tuple[list[Filter], int]:
    """The leading plain clauses, and where the general parser has to go on: -1 if the text is read completely."""
    parts: list[Filter] = []
    position = 0
    while clause := _CLAUSE.match(text, position):
        name, op, number, string, low, high, first, last, more = clause.groups()
        if name.lower() in RESERVED or len(name) > limits.name_chars or len(parts) >= limits.filter_predicates:
            break
        if number is not None:
            parts.append(Compare(name, _OPS[op], _number(number)))
        elif string is not None:
            parts.append(Compare(name, _OPS[op], string))
        else:
            parts.append(Between(name, _number(low or first), _number(high or last)))
        if more is None:
            return parts, -1
        position = clause.end()
    return parts, position


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


# --- The parser of the expression syntax: predicates joined by ``or``, ``and``, ``not``, parentheses and calls -------

_AND, _OR, _NOT = ("and", "&&"), ("or", "||"), ("not", "!")


def parse(text: str, limits: Limits = LIMITS) -> Filter:
    """The filter that an expression describes; a FilterError shows the wrong place."""
    if len(text) > limits.filter_chars:
        raise FilterError(f"the filter has {len(text):,} characters; the limit is {limits.filter_chars:,}")
    if not text.isascii():
        _refuse_surrogates(text)
    parts, position = read_clauses(text, limits)
    if position >= 0:
        return parse_general(text, limits, parts, position)
    return parts[0] if len(parts) == 1 else And(tuple(parts))


_ACCEPTED = msgspec.structs.replace(
    LIMITS, filter_chars=1 << 24, filter_depth=1 << 10, filter_predicates=1 << 16, set_values=1 << 20,
    pattern_chars=1 << 20, name_chars=1 << 20,
)  # fmt: skip


def read_back(text: str) -> Filter:
    """The filter of a text that ``format_expression`` wrote: one that was accepted, whatever the text's own length.

    The limits are for what people and other programs write. A filter that is within them, a large set in the
    dialects of CloudEvents for instance, may be longer or deeper as an expression than an expression may be.
    """
    return parse(text, _ACCEPTED)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("a lone surrogate is not a character", text=text, position=error.start) from None


class _Frame:
    """What stands between one pair of parentheses: finished arguments, alternatives, factors, pending negations."""

    __slots__ = ("arguments", "depth", "factors", "nots", "opened", "terms", "word")

    def __init__(self, word: str, opened: int, depth: int) -> None:
        self.word, self.opened, self.depth = word, opened, depth
        self.nots = 0
        self.factors: list[Filter] = []
        self.terms: list[Filter] = []
        self.arguments: list[Filter] = []

    def add_factor(self, operand: Filter) -> None:
        for _ in range(self.nots):
            operand = Not(operand)
        self.nots = 0
        self.factors.append(operand)

    def end_term(self) -> None:
        self.terms.append(self.factors[0] if len(self.factors) == 1 else And(tuple(self.factors)))
        self.factors.clear()

    def end_argument(self) -> None:
        self.end_term()
        self.arguments.append(self.terms[0] if len(self.terms) == 1 else Or(tuple(self.terms)))
        self.terms.clear()

    def finish(self) -> Filter:
        self.end_argument()
        if self.word == "all":
            return And(tuple(self.arguments))
        return Or(tuple(self.arguments)) if self.word == "any" else self.arguments[0]


def parse_general(text: str, limits: Limits, parts: Sequence[Filter] = (), position: int = 0) -> Filter:
    """The whole grammar, from ``position`` on; ``parts`` are the clauses before it."""
    reader = Reader(text, limits, position)
    if reader.kind == END and not parts:
        reader.fail("the filter is empty", "'true' matches every event")
    frames = [_Frame("", 0, 0)]
    frames[0].factors.extend(parts)
    reader.predicates = len(parts)
    while True:
        operand = _open(reader, frames)
        if operand is None:
            operand = read_predicate(reader)
        whole = _close(reader, frames, operand)
        if whole is not None:
            return whole


def _open(reader: Reader, frames: list[_Frame]) -> Filter | None:
    """Pass over what stands before a predicate: negations and opening parentheses. An empty call is an operand."""
    frame = frames[-1]
    while True:
        key, start = reader.key, reader.start
        if key in _NOT:
            frame.nots += 1
            _check_depth(reader, frame.depth + frame.nots)
            reader.advance()
        elif key == "(" or key in ("all", "any"):
            reader.advance()
            if key != "(":
                reader.expect("(", f"write {key}(..., ...); an attribute of that name is written `{key}`")
                if reader.key == ")":
                    reader.advance()
                    return And(()) if key == "all" else Or(())
            frame = _Frame(key, start, frame.depth + frame.nots + 1)
            _check_depth(reader, frame.depth)
            frames.append(frame)
        else:
            return None


def _close(reader: Reader, frames: list[_Frame], operand: Filter) -> Filter | None:
    """Put an operand into its frame and pass over what follows it; the whole filter if the text ends here."""
    while True:
        frame = frames[-1]
        frame.add_factor(operand)
        key = reader.key
        if key in _AND:
            reader.advance()
            return None
        if key in _OR:
            frame.end_term()
            reader.advance()
            return None
        if key == "," and frame.word in ("all", "any"):
            frame.end_argument()
            reader.advance()
            return None
        if key == ")" and len(frames) > 1:
            operand = frame.finish()
            frames.pop()
            reader.advance()
            continue
        if reader.kind == END and len(frames) == 1:
            return frame.finish()
        _refuse_continuation(reader, frame)


def _check_depth(reader: Reader, depth: int) -> None:
    if depth > reader.limits.filter_depth:
        reader.fail(f"the filter is nested deeper than {reader.limits.filter_depth:,} levels")


def _refuse_continuation(reader: Reader, frame: _Frame) -> NoReturn:
    """Something else than a join, a closing parenthesis or the end behind a complete predicate."""
    if reader.kind == END:
        reader.fail("this parenthesis is never closed", "add )", frame.opened)
    if reader.key == ")":
        reader.fail("this parenthesis was never opened")
    hint = "join predicates with 'and' or 'or'"
    if reader.key in ("&", "|"):
        hint = f"write {reader.key * 2} or '{'and' if reader.key == '&' else 'or'}'"
    elif reader.kind in (NAME, NUMBER, STRING):
        hint = f'a text with spaces needs quotes: "..."; otherwise {hint}'
    elif reader.key == ",":
        hint = f"{hint}; commas stand in sets and in all(...), any(...)"
    reader.fail(f"expected 'and', 'or' or the end but found {reader.describe()}", hint)


# --- writing ---------------------------------------------------------------------------------------------------------


def format_expression(node: Filter) -> str:
    """The filter as an expression.

    A join of two or more parts is written with its word, and a join inside a join always stands in parentheses. Joins
    of one part or none are written ``all(x)``, ``any(x)``, ``all()`` and ``any()``.
    """
    texts: list[str] = []
    todo: list[Written] = [node]  # what is still to be written, last first: depth costs no recursion
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            texts.append(item)
        else:
            todo += reversed(KINDS[type(item)].write(item))
    return "".join(texts)
