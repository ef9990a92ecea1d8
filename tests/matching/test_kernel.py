"""The tests that the kernel can do, each against Python's own idea of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.called import Called
from recado.matching.kernels import verify_event as module
from recado.matching.kernels.instructions import (
    EQ,
    EXISTS,
    HIGH_STRICT,
    IN,
    JUMPS,
    LIKE,
    LOW_STRICT,
    NE,
    NEVER,
    NUM,
    PREFIX,
    STR_LT,
    bracket,
    instruction_words,
)

kernel = Called(module)
EDGES = [edge + step for edge in (0, 2**53, -(2**53), 2**63, 2**64 - 4) for step in range(-3, 4)] + [-(2**63)]
FLOATS = [0.5, -0.5, 1e300, -1e300, 5e-324, float("inf"), float("-inf"), float(2**53), float(2**63), float(2**64)]
NUMBERS = [*EDGES, *FLOATS]


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
    for word, size in ((op | argument << 32, 1 + expected), (op | JUMPS | argument << 32, 2 + expected)):
        assert instruction_words(word) == kernel.instruction_words(np.int64(word)) == size
