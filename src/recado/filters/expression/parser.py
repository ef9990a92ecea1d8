"""The parser of the expression syntax: predicates joined by ``or``, ``and``, ``not``, parentheses and calls.

``not`` binds tightest, then ``and``, then ``or``. The joins are kept on an explicit stack of frames, one for each open
parenthesis, so depth costs no Python recursion and is refused by count. Parentheses are structure: ``(a and b) and c``
keeps its inner conjunction, which is what lets every tree be written and read back unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from recado.errors import FilterError
from recado.filters.expression.lexer import END, NAME, NUMBER, STRING, Reader
from recado.filters.expression.predicates import read_predicate
from recado.filters.expression.quick import read_clauses
from recado.model.filter import And, Filter, Not, Or
from recado.model.limits import LIMITS, Limits

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
