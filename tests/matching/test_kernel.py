"""The tests that the kernel can do, each against Python's own idea of it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recado.filters.patterns import like_tokens
from recado.matching import kernel
from recado.matching.instructions import (
    CONTAINS,
    EQ,
    EXISTS,
    HIGH_STRICT,
    IN,
    LIKE,
    LOW_STRICT,
    NE,
    NEVER,
    NUM,
    PREFIX,
    STR_GE,
    STR_GT,
    STR_LE,
    STR_LT,
    SUFFIX,
    bracket,
    byte_words,
    like_bytes,
)
from recado.matching.kernel import FAILS, HOLDS, SEARCH_BOUND, UNSURE

ALPHABET = "abA?*\\é日😀ß\x00\n\x7f\x80\u07ff\uffff"
words = st.text(st.sampled_from(ALPHABET), max_size=7)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
texts = words | any_text

EDGES = [edge + step for edge in (0, 2**53, -(2**53), 2**63, 2**64 - 4) for step in range(-3, 4)] + [-(2**63)]
FLOATS = [0.5, -0.5, 1e300, -1e300, 5e-324, float("inf"), float("-inf"), float(2**53), float(2**63), float(2**64)]
NUMBERS = [*EDGES, *FLOATS]


def placed(data: bytes) -> tuple[np.ndarray, int, int]:
    """Bytes in the middle of others: an array, where they begin, how many they are."""
    return np.frombuffer(b"\x80ab" + data + b"\x80ba", np.uint8), 3, len(data)


def in_words(data: bytes) -> tuple[np.ndarray, int, int]:
    """Bytes as a program has them, behind the head of an instruction."""
    return np.array([-1, *byte_words(data)], np.int64).view(np.uint8), 8, len(data)


def like_twin(pattern: str, text: str) -> bool:
    pieces = {None: ".*", "": "."}
    return (
        re.fullmatch("".join(pieces.get(t) or re.escape(t) for t in like_tokens(pattern)), text, re.DOTALL) is not None
    )


@given(texts, texts)
@settings(max_examples=400)
def test_strings_have_the_order_of_their_code_points(left, right):
    order = int(kernel.compare_bytes(*placed(left.encode()), *in_words(right.encode())))
    assert (order > 0) - (order < 0) == (left > right) - (left < right)


@given(texts, texts)
@settings(max_examples=400)
@example("", "")
@example("", "a")
@example("aab", "ab")
def test_a_string_contains_another(text, piece):
    for whole in (text, text + piece, piece + text, text + piece + text):
        assert bool(kernel.find_bytes(*placed(whole.encode()), *in_words(piece.encode()))) == (piece in whole)


@given(words, words)
@settings(max_examples=800)
@example("*", "")
@example("?", "😀")
@example("??", "é")
@example("*é", "ééé")
@example("*?a*b", "😀abab")
@example("a\\", "a\\")
@example("\\*", "*")
def test_like_is_a_regular_expression_of_its_own(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(kernel.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


@given(
    st.lists(st.sampled_from(["*", "?", "a", "b", "é", "日"]), max_size=8).map("".join), st.text("abé日", max_size=10)
)
@settings(max_examples=800)
def test_like_returns_to_its_last_star(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(kernel.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


@pytest.mark.long
@given(st.lists(st.sampled_from(["*", "?", *ALPHABET]), max_size=14).map("".join), st.text(ALPHABET, max_size=24))
@settings(max_examples=20_000)
def test_like_at_length(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(kernel.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


TEXT_TESTS = {
    PREFIX: str.startswith,
    SUFFIX: str.endswith,
    CONTAINS: str.__contains__,
    STR_GE: str.__ge__,
    STR_GT: str.__gt__,
    STR_LE: str.__le__,
    STR_LT: str.__lt__,
}


def text_test(op, text: bytes, pattern: bytes) -> int:
    data, start, length = placed(text)
    program, at, argument = in_words(pattern)
    return int(kernel.text_test(op, start, length, data, program, at, argument))


@given(texts, texts, st.sampled_from(sorted(TEXT_TESTS)))
@settings(max_examples=600)
def test_every_operation_on_text(text, piece, op):
    for whole in (text, text + piece, piece + text):
        expected = HOLDS if TEXT_TESTS[op](whole, piece) else FAILS
        assert text_test(op, whole.encode(), piece.encode()) == expected


@pytest.mark.parametrize("op", [*TEXT_TESTS, LIKE])
def test_a_value_that_is_no_text_fails_every_operation_on_text(op):
    data, _, _ = placed(b"ab")
    program, at, argument = in_words(b"a")
    assert kernel.text_test(op, -1, 0, data, program, at, argument) == FAILS


@pytest.mark.parametrize("op", [CONTAINS, LIKE])
def test_a_search_that_could_take_long_is_left_to_the_evaluator(op):
    pattern = b"ab" * 256
    longest = SEARCH_BOUND // len(pattern)
    assert text_test(op, b"a" * longest, pattern) == FAILS
    assert text_test(op, b"a" * (longest + 1), pattern) == UNSURE


def test_beginnings_and_ends_are_never_left_to_the_evaluator():
    piece = b"ab" * 512
    for op in (PREFIX, SUFFIX, STR_GE):
        assert text_test(op, piece * 100, piece) == HOLDS


@given(st.sets(st.integers(0, 60), max_size=30), st.integers(-2, 62), st.integers(0, 3))
@settings(max_examples=400)
def test_membership_of_a_sorted_set(members, code, before):
    codes = np.array([code] * before + sorted(members) + [code] * 3, np.int32)
    assert bool(kernel.in_set(codes, before, len(members), code)) == (code in members)


HELD = [number for number in NUMBERS if float(number) == number]


@pytest.mark.parametrize("low", HELD)
def test_a_range_is_exact_where_floats_are_not(low):
    """Bounds that floats can hold, open and closed, against integers that they cannot."""
    for value in NUMBERS:
        down, up = bracket(value)
        assert down <= value <= up
        at_least = kernel.range_test(NUM, float(low), np.inf, down, up)
        at_most = kernel.range_test(NUM, -np.inf, float(low), down, up)
        assert (bool(at_least), bool(at_most)) == (value >= low, value <= low), value
        if abs(low) != float("inf"):
            above = kernel.range_test(NUM | LOW_STRICT, np.nextafter(float(low), np.inf), np.inf, down, up)
            below = kernel.range_test(NUM | HIGH_STRICT, -np.inf, np.nextafter(float(low), -np.inf), down, up)
            assert (bool(above), bool(below)) == (value > low, value < low), value


@given(st.integers(-(2**63), 2**64 - 1) | st.sampled_from(EDGES))
@settings(max_examples=300)
def test_the_floats_around_an_integer(number):
    down, up = bracket(number)
    assert down <= number <= up
    assert down == up == number or (np.nextafter(down, np.inf) == up and down < number < up)


def test_no_number_is_in_no_range():
    assert not kernel.range_test(NUM, -np.inf, np.inf, np.nan, np.nan)


KINDS = [code << 2 | kind for code in (0, 1, 2) for kind in range(4)]


@pytest.mark.parametrize("code", [-1, -2, *KINDS])
def test_operations_on_codes(code):
    for argument in KINDS[4:]:
        assert bool(kernel.code_test(EQ, code, argument)) == (code == argument)
        same_kind = code >= 0 and code % 4 == argument % 4
        assert bool(kernel.code_test(NE, code, argument)) == (same_kind and code != argument)
    assert bool(kernel.code_test(EXISTS, code, 0)) == (code != -1)
    assert not kernel.code_test(NEVER, code, 0)


@pytest.mark.parametrize(
    ("op", "argument", "expected"),
    [(EQ, 99, 0), (EXISTS, 0, 0), (NUM, 0, 2), (IN, 2, 1), (IN, 3, 2), (PREFIX, 0, 0), (STR_LT, 8, 1), (LIKE, 9, 2)],
)
def test_the_size_of_an_instruction(op, argument, expected):
    assert kernel.payload_words(op, argument) == expected
    assert kernel.instruction_words(np.int64(op | argument << 32)) == 1 + expected
    assert kernel.instruction_words(np.int64(op | 1 << 8 | argument << 32)) == 2 + expected
