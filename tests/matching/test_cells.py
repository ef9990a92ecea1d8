"""What is read from Arrow's buffers against what Arrow says of the same column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.called import called
from recado.matching.dictionary import ABSENT, NAN
from recado.matching.kernels.cells import Lookup, is_valid, spread, text_of, validity, values_of
from recado.matching.kernels.instructions import bracket

maybe_integers = st.lists(st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=30)


def cut(array: pa.Array, before: int) -> pa.Array:
    """The same column in the middle of another, so that it begins at no whole byte of its bitmap."""
    filler = pa.nulls(before, array.type)
    return pa.concat_arrays([filler, array, filler]).slice(before, len(array))


@given(maybe_integers, st.integers(0, 19))
@settings(max_examples=200)
def test_rows_with_a_value(values, before):
    array = cut(pa.array(values, pa.int64()), before)
    bits, first = validity(array)
    assert [bool(called(is_valid)(bits, first + row)) for row in range(len(array))] == [
        value is not None for value in values
    ]
    seen = values_of(array, np.int64)
    assert [int(seen[row]) for row, value in enumerate(values) if value is not None] == [
        value for value in values if value is not None
    ]


@given(st.lists(st.none() | st.integers(0, 4), max_size=30), st.integers(0, 19))
@settings(max_examples=200)
def test_spreading_values_over_rows(indices, before):
    array = cut(pa.array(indices, pa.int32()), before)
    given_ones = np.array([index for index in indices if index is not None], np.int32)
    values = np.array([10, 20, 30, 40, 50], np.int32)
    out = np.empty(len(indices), np.int32)
    spread(*validity(array), given_ones, values, -7, out)
    assert out.tolist() == [-7 if index is None else 10 * (index + 1) for index in indices]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@given(st.lists(st.none() | st.sampled_from(["", "a", "日本", "longer than eight"]), max_size=12), st.integers(0, 9))
@settings(max_examples=100)
def test_text_and_where_it_lies(kind, values, before):
    array = cut(pa.array(values, kind), before)
    starts, lengths, data = text_of(array)
    pieces = [data[start : start + length].decode() for start, length in zip(starts, lengths, strict=True)]
    assert [piece for piece, value in zip(pieces, values, strict=True) if value is not None] == [
        value for value in values if value is not None
    ]


FAR = {5: 21, 5 + 2**40: 25, -(2**63): 29, 2**63 - 1: 33}
NEAR = {-2: 21, 0: 25, 3: 29}


@pytest.mark.parametrize("constants", [{}, NEAR, FAR], ids=["none", "a table", "a search"])
@given(values=maybe_integers, before=st.integers(0, 9))
@settings(max_examples=100)
def test_codes_and_floats_of_integers(constants, values, before):
    values = [*values, *constants, None]
    codes, downs, ups = Lookup(constants, np.int64, 1).of_integers(cut(pa.array(values, pa.int64()), before))
    assert codes.tolist() == [ABSENT if value is None else constants.get(value, 1) for value in values]
    for value, down, up in zip(values, downs, ups, strict=True):
        assert np.isnan([down, up]).all() if value is None else (down, up) == bracket(value)
    assert (downs is ups) == all(float(value) == value for value in values if value is not None)


@given(st.lists(st.none() | st.sampled_from([0.0, -0.0, 1.5, 2.5, float("nan"), float("inf")]), max_size=20))
@settings(max_examples=100)
def test_codes_of_floats(values):
    constants = {0.0: 21, 1.5: 25, float("inf"): 29}
    codes, numbers = Lookup(constants, np.float64, 1).of_floats(pa.array(values, pa.float64()))
    for value, code, number in zip(values, codes.tolist(), numbers.tolist(), strict=True):
        if value is None or value != value:
            assert (code, np.isnan(number)) == (ABSENT if value is None else NAN, True)
        else:
            assert (code, number) == (constants.get(value, 1), value)
