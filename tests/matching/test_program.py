"""Compiled filters: what they look like, and that each is true exactly where the evaluator says so."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.oracle import Compiled
from recado.filters.evaluate import evaluate
from recado.matching.kernels.instructions import (
    ACCESS,
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    CONTAINS,
    EQ,
    EXISTS,
    FOLDED,
    HIGH_STRICT,
    IN,
    JUMPS,
    LAST,
    LIKE,
    LOW_STRICT,
    NE,
    NEGATED,
    NEVER,
    NUM,
    OPAQUE,
    PREFIX,
    QUESTION,
    STAR,
    STR_GE,
    STR_LE,
    STR_LT,
    SUFFIX,
    TIME,
    byte_words,
    like_bytes,
)
from recado.matching.kernels.verify_event import FAILS, HOLDS, UNSURE
from recado.model.event import expansions
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    Exists,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
)
from strategies import conjunctions, events, filters

T = datetime(2026, 1, 1, tzinfo=UTC)
A1, B2 = Compare("a", "==", 1), Compare("b", "==", 2)


def op_of(word: int) -> int:
    return word & 63


def ops(filter) -> list[int]:
    return [op_of(word) for word in Compiled(filter).heads()]


def check(filter, view) -> None:
    """The program agrees with the evaluator, or leaves the answer to it."""
    compiled = Compiled(filter)
    result = compiled.run(view)
    if result == UNSURE:
        assert compiled.program.is_opaque
    else:
        assert result == (HOLDS if evaluate(filter, view) else FAILS)


# -- what is compiled to what


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (A1, [EQ]),
        (Compare("a", "!=", "x"), [NE]),
        (Compare("a", "!=", True), [EQ]),
        (Compare("a", "<", 1), [NUM]),
        (Compare("a", ">=", T), [TIME]),
        (Compare("a", "<", True), [NEVER]),
        (Compare("a", "<=", "x"), [STR_LE]),
        (Between("a", 1, 2), [NUM]),
        (Between("a", T, T), [TIME]),
        (Between("a", "x", "y"), [STR_GE, STR_LE]),
        (Between("a", False, True), [NEVER]),
        (Between("a", 1, "x"), [NEVER]),
        (In("a", ()), [NEVER]),
        (In("a", (1, 1.0)), [EQ]),
        (In("a", (1, True)), [IN]),
        (Exists("a"), [EXISTS]),
        (Text("a", "prefix", "x"), [PREFIX]),
        (Text("a", "suffix", "x", True), [SUFFIX + FOLDED]),
        (Text("a", "contains", "x"), [CONTAINS]),
        (Text("a", "like", "x*", True), [LIKE + FOLDED]),
        (Regex("a", "x"), [OPAQUE]),
        (Similar("a", "x"), [OPAQUE]),
        (Sql("a = 1"), [OPAQUE]),
        (TRUE, [NEVER]),
        (And(()), [NEVER]),
        (Or(()), [NEVER]),
        (And((A1, B2)), [EQ, EQ]),
        (Not(Or((A1, B2))), [EQ, EQ]),
        (Or((A1, B2)), [EQ, EQ]),
    ],
)
def test_every_predicate_has_its_operation(filter, expected):
    assert ops(filter) == expected


def test_a_conjunction_has_no_jumps_and_only_its_last_test_is_last():
    compiled = Compiled(And((A1, Not(B2), Exists("c"))))
    heads = compiled.heads()
    assert compiled.program.is_conjunction
    assert not any(word & JUMPS for word in heads)
    assert [bool(word & LAST) for word in heads] == [False, False, True]
    assert sum(bool(word & NEGATED) for word in heads) == 1


def test_a_tree_has_jumps_and_its_access_paths_are_marked():
    compiled = Compiled(Or((A1, And((B2, Exists("c"))))))
    heads = compiled.heads()
    assert not compiled.program.is_conjunction
    assert all(word & JUMPS for word in heads)
    marked = {(op_of(word), (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) for word in heads if word & ACCESS}
    assert marked == {(EQ, 0), (EQ, 1)}


@pytest.mark.parametrize(
    "filter",
    [Or((A1, Not(B2))), Or((A1, Sql("b = 2"))), Or((A1, And((Not(B2), Not(Exists("c"))))))],
)
def test_a_tree_that_absence_can_satisfy_has_no_access_path(filter):
    assert not any(word & ACCESS for word in Compiled(filter).heads())


def test_the_cheapest_access_path_of_a_branch_is_taken():
    heads = Compiled(Or((And((Exists("c"), A1)), And((Compare("b", "<", 1), B2))))).heads()
    assert {op_of(word) for word in heads if word & ACCESS} == {EQ}


def test_the_longest_and_the_largest_arguments_fit():
    text = "x" * 1000
    assert Compiled(Compare("a", "<", text)).words[0] >> 32 == 1000
    many = Compiled(In("a", tuple(range(1000))))
    assert many.words[0] >> 32 == 1000
    assert len(many.words) == 501


def test_constants_are_counted_once_for_each_test():
    assert sorted(Compiled(And((A1, In("b", (1, 2, 2.0))))).program.codes) == [1 << 2 | 1, 2 << 2 | 1, 3 << 2 | 1]


def test_only_what_the_kernel_may_leave_open_is_opaque():
    for filter in (A1, Between("a", 1, 2), Text("a", "prefix", "x"), Compare("a", "<", "x"), Exists("a"), TRUE):
        assert not Compiled(filter).program.is_opaque
    for filter in (Regex("a", "x"), Text("a", "contains", "x"), Compare("a", "<", 2**53 + 1), Sql("a = 1")):
        assert Compiled(filter).program.is_opaque


def test_bytes_are_padded_to_whole_words():
    for size in range(20):
        data = bytes(range(1, size + 1))
        packed = np.array(byte_words(data), np.int64).tobytes()
        assert len(packed) % 8 == 0
        assert packed[:size] == data
        assert set(packed[size:]) <= {0}


def test_wildcards_are_bytes_that_text_has_not():
    assert like_bytes("a*?\\*É", False) == bytes([ord("a"), STAR, QUESTION]) + "*É".encode()
    assert like_bytes("É**", True) == "é".encode() + bytes([STAR])


# -- constants


@pytest.mark.parametrize(
    ("filter", "truth"),
    [
        (TRUE, True),
        (FALSE, False),
        (Not(FALSE), True),
        (And(()), True),
        (Or(()), False),
        (Or((TRUE, A1)), True),
        (And((FALSE, A1)), False),
        (Not(And((FALSE, Or((A1, B2))))), True),
        (Or((And((A1, FALSE)), And((FALSE, B2)))), False),
        (And((Or((A1, TRUE)), Or((TRUE, B2)))), True),
    ],
)
def test_constants_decide(filter, truth):
    compiled = Compiled(filter)
    for view in ({}, {"a": 1}, {"a": 1, "b": 2}):
        assert compiled.run(view) == (HOLDS if truth else FAILS)


def test_a_tree_that_is_constant_becomes_one_test():
    assert ops(Or((TRUE, And((A1, Or((B2, TRUE))))))) == [NEVER]
    assert ops(Not(Or((TRUE, And((A1, B2)))))) == [NEVER]


# -- ranges


def bounds_of(filter) -> tuple[int, float, float]:
    compiled = Compiled(filter)
    (at,) = compiled.instructions()
    assert op_of(int(compiled.words[at])) in (NUM, TIME)
    return int(compiled.words[at]) & (LOW_STRICT | HIGH_STRICT), *compiled.words.view(np.float64)[
        at + 1 : at + 3
    ].tolist()


def test_ranges_of_one_attribute_are_joined():
    above, below = math.nextafter(1.0, math.inf), math.nextafter(5.0, -math.inf)
    assert bounds_of(And((Compare("a", ">", 1), Compare("a", "<", 5)))) == (LOW_STRICT | HIGH_STRICT, above, below)
    assert bounds_of(And((Compare("a", ">", 1), Between("a", 2, 5)))) == (0, 2.0, 5.0)
    assert bounds_of(And((Compare("a", ">=", 1), Compare("a", "<=", 5), Compare("a", "<", 9)))) == (0, 1.0, 5.0)
    low, high = (math.nextafter(1.0, math.inf), math.inf)
    assert bounds_of(And((Compare("a", ">", 1), Compare("a", ">=", 1)))) == (LOW_STRICT, low, high)


def test_ranges_of_different_kinds_or_attributes_or_negated_ones_are_not_joined():
    assert ops(And((Compare("a", ">", 1), Compare("a", "<", T)))) == [NUM, TIME]
    assert ops(And((Compare("a", ">", 1), Compare("b", "<", 1)))) == [NUM, NUM]
    assert ops(And((Compare("a", ">", 1), Not(Compare("a", ">", 5))))) == [NUM, NUM]
    assert len(ops(Or((Compare("a", ">", 1), Compare("a", "<", 0))))) == 2


EDGES = [edge + step for edge in (0, 2**53, -(2**53), 2**63, 2**64 - 3) for step in range(-2, 3)] + [-(2**63)]
NUMBERS = [*EDGES, 0.5, float(2**53 + 4), math.inf, -math.inf, 1e300]
ORDER = ["<", "<=", ">", ">="]


@pytest.mark.parametrize("op", ORDER)
def test_one_bound_is_exact(op):
    for bound in NUMBERS:
        compiled = Compiled(Compare("a", op, bound))
        for value in [*NUMBERS, math.nan]:
            result = compiled.run({"a": value})
            assert result == UNSURE or result == int(evaluate(Compare("a", op, bound), {"a": value})), (bound, value)


def test_two_joined_bounds_are_exact():
    numbers = [edge + step for edge in (2**53, -(2**53), 2**63) for step in range(-4, 5)] + [math.inf, -math.inf]
    for left_op, right_op in product(ORDER, ORDER):
        for left, right in product(numbers[:9] + numbers[-2:], numbers[:9] + numbers[-2:]):
            filter = And((Compare("a", left_op, left), Compare("a", right_op, right)))
            compiled = Compiled(filter)
            for value in numbers[:9] + numbers[-2:]:
                result = compiled.run({"a": value})
                assert result == UNSURE or result == int(evaluate(filter, {"a": value})), (filter, value)


def test_instants_beyond_the_exact_floats_are_exact():
    """From the year 2255 on, a microsecond is less than the distance of two floats."""
    far = datetime(9000, 1, 1, tzinfo=UTC)
    instants = [far + timedelta(microseconds=step) for step in range(40)]
    for op, bound in product(ORDER, instants[:33:4]):
        compiled = Compiled(Compare("a", op, bound))
        for value in instants:
            result = compiled.run({"a": value})
            assert result == UNSURE or result == int(evaluate(Compare("a", op, bound), {"a": value})), (bound, value)


def test_the_order_of_strings_has_its_own_operation():
    assert ops(Compare("a", "<", "b")) == [STR_LT]
    for value, expected in (("a", HOLDS), ("b", FAILS), ("", HOLDS), ("é", FAILS), (1, FAILS), (True, FAILS)):
        assert Compiled(Compare("a", "<", "b")).run({"a": value}) == expected


# -- properties


def views(max_size: int = 4):
    return st.lists(events(), min_size=1, max_size=max_size).map(
        lambda some: [view for event in some for view in expansions(event)][:12]
    )


@given(filters(max_leaves=10, sql=True) | conjunctions(), views())
@settings(max_examples=200)
def test_a_program_means_what_its_filter_means(filter, some_views):
    for view in some_views:
        check(filter, view)


@given(filters(max_leaves=10, sql=True), views())
@settings(max_examples=200)
def test_whenever_a_filter_is_true_one_of_its_access_paths_is(filter, some_views):
    compiled = Compiled(filter)
    if not any(word & ACCESS for word in compiled.heads()):
        return
    for view in some_views:
        if evaluate(filter, view):
            assert set(compiled.access_tests(view)) & {HOLDS, UNSURE}


@given(filters(max_leaves=16, sql=True) | conjunctions())
@settings(max_examples=150)
def test_words_are_laid_out_end_to_end_and_codes_are_all_there(filter):
    compiled = Compiled(filter)
    heads = compiled.heads()
    assert [bool(word & LAST) for word in heads] == [False] * (len(heads) - 1) + [True]
    for word in heads:
        if op_of(word) in (EQ, NE):
            assert (word >> 32) & 0xFFFFFFFF in compiled.program.codes


@pytest.mark.long
@given(filters(max_leaves=24, sql=True) | conjunctions(10), views(8))
@settings(max_examples=10_000)
def test_large_programs_mean_what_their_filters_mean(filter, some_views):
    compiled = Compiled(filter)
    paths = any(word & ACCESS for word in compiled.heads())
    for view in some_views:
        check(filter, view)
        if paths and evaluate(filter, view):
            assert set(compiled.access_tests(view)) & {HOLDS, UNSURE}
