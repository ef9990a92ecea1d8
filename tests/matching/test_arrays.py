"""Arrays that kernels see through one handle."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from matching.called import called
from recado.matching.kernels import texts
from recado.matching.kernels.arrays import ArrayField, Arrays, opener


class Pair(Arrays):
    numbers = ArrayField(np.int64)
    table = ArrayField(np.float64, 2)


class Triple(Pair):
    flags = ArrayField(np.uint8)


open_triple = opener(Triple)


@njit
def fill(handle):
    """Everything that Python set is seen, and what is written is seen by Python."""
    triple = open_triple(handle)
    for row in range(triple.table.shape[0]):
        for column in range(triple.table.shape[1]):
            triple.table[row, column] = triple.numbers[row] * 10 + column
    triple.flags[triple.flags.shape[0] - 1] = 7  # a plain array knows no negative index
    return triple.table.shape[0] * triple.table.shape[1] + triple.numbers.shape[0]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_kernel_sees_the_fields_that_are_there_now(rows):
    arrays = Triple()
    for width in (3, 2):
        arrays.numbers = np.arange(rows)
        arrays.table = np.zeros((rows, width))
        arrays.flags = np.zeros(4, np.uint8)
        assert fill(arrays.handle) == rows * width + rows
        assert arrays.table.tolist() == [[row * 10.0 + column for column in range(width)] for row in range(rows)]
        assert arrays.flags.tolist() == [0, 0, 0, 7]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(4, np.int32),
        np.zeros((2, 2), np.int64),
        np.zeros(8, np.int64)[::2],
        np.frombuffer(bytes(16), np.int64),
        np.frombuffer(bytearray(17), np.int64, 2, 1),
    ],
    ids=["type", "dimensions", "stride", "read-only", "unaligned"],
)
def test_an_array_that_a_kernel_would_misread_is_refused(array):
    arrays = Pair()
    arrays.numbers = before = np.arange(3)
    with pytest.raises(ValueError, match="array 'numbers'"):
        arrays.numbers = array
    assert arrays.numbers is before


def test_python_cannot_call_what_is_for_kernels_alone():
    """It has no code for that: the call would not come back."""
    with pytest.raises(TypeError, match="first_bytes is for kernels"):
        texts.first_bytes(3)
    assert called(texts.first_bytes)(3) == 0xFFFFFF
    with pytest.raises(TypeError, match="first_bytes is for kernels"):
        texts.first_bytes(3)


def test_a_function_is_compiled_once_for_all_kinds_of_integers():
    count = len(texts.first_bytes.overloads)
    assert [int(called(texts.first_bytes)(kind(1))) for kind in (np.int32, np.int64, np.uint8, int)] == [0xFF] * 4
    assert len(texts.first_bytes.overloads) == max(count, 1)
