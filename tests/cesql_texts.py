"""Hypothesis strategies for CESQL: expressions about the attributes that ``strategies.events`` draws.

Literals are mostly the texts of the values in the events' pools, in their odd spellings too, so that casts succeed,
fail and meet often.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

NAMES = ["a", "b", "c", "A", "price", "data.level", "`temperatura média`", "`and`", "id", "type", "time", "specversion"]
STRINGS = [
    "'a'", "'ab'", '"abc"', "''", "'1'", "'01'", "'+1'", "'-1'", "'2'", "'true'", "'TRUE'", "'fAlse'", "'1.5'", "'2.5'",
    "'1e+300'", "'Infinity'", "'NaN'", "'9007199254740993'", "'2026-01-01T12:00:00Z'", "'2026-01-01'", "'日本'",
    "'2026-01-01T09:00:00-03:00'", "'a*b'", "'it\\'s'", "'5e-324'",
]  # fmt: skip
LITERALS = ["1", "2", "0", "-1", "5", "TRUE", "false", "2147483647", "-2147483648", "1 + 1", "1 / 0", *STRINGS]
PATTERNS = [
    "'a%'", "'%b'", "'%b%'", "'_'", "'%'", "''", "'1%'", "'%e%'", "'tr_e'", "'2026-%'", "'a\\_'", "'a?b'", "'日_'",
    "'_%'", "'f%'",
]  # fmt: skip
COMPARISONS = ["=", "=", "!=", "<>", "<", "<=", ">", ">="]


def attributes() -> SearchStrategy[str]:
    return st.sampled_from(NAMES[:3] * 6 + NAMES)


def literals() -> SearchStrategy[str]:
    return st.sampled_from(LITERALS[:5] * 4 + LITERALS)


def atoms() -> SearchStrategy[str]:
    """What compiles into common predicates, in whole or in part."""
    comparison = st.sampled_from(COMPARISONS)
    negation = st.sampled_from(["", "", "NOT "])
    several = st.lists(literals(), min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.builds("{} {} {}".format, attributes(), comparison, literals()),
        st.builds("{} {} {}".format, literals(), comparison, attributes()),
        st.builds("{} {}LIKE {}".format, attributes(), negation, st.sampled_from(PATTERNS)),
        st.builds("{} {}IN ({})".format, attributes(), negation, several),
        st.builds("EXISTS {}".format, attributes()),
        attributes(),
        literals(),
    )


def terms() -> SearchStrategy[str]:
    """What only CESQL itself can answer."""
    unary = ["LENGTH({})", "ABS({})", "LOWER({})", "INT({})", "BOOL({})", "IS_INT({})", "STRING({})", "-{}", "TRIM({})"]
    operand = st.one_of(attributes(), attributes(), literals().map("({})".format))
    called = st.builds(lambda form, inner: form.format(inner), st.sampled_from(unary), operand)
    sums = st.builds("({} {} {})".format, operand, st.sampled_from("+-*/%"), operand)
    joined = st.builds("CONCAT_WS({}, {}, {})".format, operand, operand, operand)
    return called | sums | joined


def hard_atoms() -> SearchStrategy[str]:
    side = st.one_of(terms(), attributes(), literals())
    compared = st.builds("{} {} {}".format, side, st.sampled_from(COMPARISONS), side)
    members = st.builds("{} IN ({}, {})".format, side, attributes(), side)
    return compared | members | terms()


def expressions(max_leaves: int = 5) -> SearchStrategy[str]:
    """Any expression; chains of mixed operators without parentheses too."""
    leaf = st.one_of(atoms(), atoms(), atoms(), hard_atoms())
    return st.recursive(leaf, _joined, max_leaves=max_leaves)


def _joined(parts: SearchStrategy[str]) -> SearchStrategy[str]:
    operand = st.one_of(parts.map("({})".format), parts)
    op = st.sampled_from([" AND ", " OR ", " XOR "])
    rest = st.lists(st.builds(str.__add__, op, operand), max_size=4).map("".join)
    chain = st.builds(str.__add__, operand, rest)
    return chain | parts.map("NOT ({})".format)
