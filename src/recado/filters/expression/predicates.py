"""Single predicates of the expression syntax: an attribute name, an operator word, and what the operator takes.

Every function starts with the reader on its first token and leaves it behind its last one.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import NoReturn

from recado.errors import FilterError
from recado.filters.expression.lexer import END, NAME, NUMBER, OPERATOR, QUOTED_NAME, RESERVED, STRING, Reader
from recado.filters.expression.literals import bare_word, read_value, string_content
from recado.filters.patterns import regex
from recado.model.filter import (
    FALSE,
    TRUE,
    Between,
    Compare,
    CompareOp,
    Exists,
    Filter,
    In,
    Not,
    Regex,
    Similar,
    Sql,
    Text,
    TextOp,
)
from recado.model.values import Value, kind_of

_COMPARE: dict[str, CompareOp] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TEXT: dict[str, TextOp] = {
    "startswith": "prefix",
    "prefix": "prefix",
    "endswith": "suffix",
    "suffix": "suffix",
    "contains": "contains",
    "like": "like",
}
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
_WORD_OPERATORS = (
    "between", "in", "startswith", "endswith", "contains", "like", "matches", "exists", "similar to", "and", "or",
)  # fmt: skip


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
    from recado.filters import cesql  # noqa: PLC0415  # a language of its own, loaded only where a filter has it

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
