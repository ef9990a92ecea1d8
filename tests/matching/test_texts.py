"""Tests on text, eight bytes at a time, each against Python's own idea of it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matching.called import Called
from recado.filters.patterns import like_tokens
from recado.matching.kernels import texts as module
from recado.matching.kernels.instructions import (
    CONTAINS,
    LIKE,
    PREFIX,
    STR_GE,
    STR_GT,
    STR_LE,
    STR_LT,
    SUFFIX,
    byte_words,
    like_bytes,
)
from recado.matching.kernels.texts import EVENT_BOUND, FAILS, HOLDS, SEARCH_BOUND, UNSURE
from recado.matching.kernels.unaligned import PADDING

texts = Called(module)

ALPHABET = "abA?*\\é日😀ß\x00\n\x7f\x80\u07ff\uffff"
words = st.text(st.sampled_from(ALPHABET), max_size=7)
long_words = st.text(st.sampled_from("abé日"), max_size=30)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
strings = words | long_words | any_text


def placed(data: bytes) -> tuple[np.ndarray, int, int]:
    """Bytes in the middle of others: an array, where they begin, how many they are."""
    return np.frombuffer(b"\x80ab" + data + b"\x80ba".ljust(PADDING, b"a"), np.uint8), 3, len(data)


def in_words(data: bytes) -> tuple[np.ndarray, int, int]:
    """Bytes as a program has them, behind the head of an instruction."""
    return np.array([-1, *byte_words(data)], np.int64), 1, len(data)


def like_twin(pattern: str, text: str) -> bool:
    pieces = {None: ".*", "": "."}
    return (
        re.fullmatch("".join(pieces.get(t) or re.escape(t) for t in like_tokens(pattern)), text, re.DOTALL) is not None
    )


@given(strings, strings)
@settings(max_examples=400)
def test_strings_have_the_order_of_their_code_points(left, right):
    order = int(texts.compare_text(*placed(left.encode()), *in_words(right.encode())))
    assert (order > 0) - (order < 0) == (left > right) - (left < right)


@given(strings, strings)
@settings(max_examples=400)
@example("", "")
@example("", "a")
@example("aab", "ab")
def test_a_string_contains_another(text, piece):
    for whole in (text, text + piece, piece + text, text + piece + text):
        assert bool(texts.contains(*placed(whole.encode()), *in_words(piece.encode()))) == (piece in whole)


@given(words, words)
@settings(max_examples=400)
@example("*", "")
@example("?", "😀")
@example("??", "é")
@example("*é", "ééé")
@example("*?a*b", "😀abab")
@example("a\\", "a\\")
@example("\\*", "*")
def test_like_is_a_regular_expression_of_its_own(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(texts.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


@given(
    st.lists(st.sampled_from(["*", "?", "a", "b", "é", "日"]), max_size=8).map("".join), st.text("abé日", max_size=10)
)
@settings(max_examples=400)
def test_like_returns_to_its_last_star(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(texts.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


@pytest.mark.long
@given(st.lists(st.sampled_from(["*", "?", *ALPHABET]), max_size=14).map("".join), st.text(ALPHABET, max_size=24))
@settings(max_examples=20_000)
def test_like_at_length(pattern, text):
    data = like_bytes(pattern, False)
    assert bool(texts.like(*placed(text.encode()), *in_words(data))) == like_twin(pattern, text)


TEXT_TESTS = {
    PREFIX: str.startswith,
    SUFFIX: str.endswith,
    CONTAINS: str.__contains__,
    STR_GE: str.__ge__,
    STR_GT: str.__gt__,
    STR_LE: str.__le__,
    STR_LT: str.__lt__,
}


def text_test(op, text: bytes, pattern: bytes, bound: int = SEARCH_BOUND) -> int:
    data, start, length = placed(text)
    program, at, argument = in_words(pattern)
    return int(texts.text_test(op, start, length, data, program, at, argument, bound))


@given(strings, strings, st.sampled_from(sorted(TEXT_TESTS)))
@settings(max_examples=600)
def test_every_operation_on_text(text, piece, op):
    for whole in (text, text + piece, piece + text):
        expected = HOLDS if TEXT_TESTS[op](whole, piece) else FAILS
        assert text_test(op, whole.encode(), piece.encode()) == expected


@pytest.mark.parametrize("op", [*TEXT_TESTS, LIKE])
def test_a_value_that_is_no_text_fails_every_operation_on_text(op):
    data, _, _ = placed(b"ab")
    program, at, argument = in_words(b"a")
    assert texts.text_test(op, -1, 0, data, program, at, argument, SEARCH_BOUND) == FAILS


@pytest.mark.parametrize("bound", [EVENT_BOUND, SEARCH_BOUND])
@pytest.mark.parametrize("op", [CONTAINS, LIKE])
def test_a_search_that_could_take_long_is_left_to_the_evaluator(op, bound):
    pattern = b"ab" * 32
    longest = bound // len(pattern)
    assert text_test(op, b"a" * longest, pattern, bound) == FAILS
    assert text_test(op, b"a" * (longest + 1), pattern, bound) == UNSURE


def test_beginnings_and_ends_are_never_left_to_the_evaluator():
    piece = b"ab" * 512
    for op in (PREFIX, SUFFIX, STR_GE):
        assert text_test(op, piece * 100, piece) == HOLDS
