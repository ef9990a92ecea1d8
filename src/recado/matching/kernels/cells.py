"""The cells of Arrow columns as codes, floats and text, read from the columns' own buffers in machine code.

A validity bitmap tells which rows have a value; what lies in the others is never looked at. So a column that most
rows leave empty costs little more than its bitmap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.matching.dictionary import ABSENT, NAN
from recado.matching.kernels.jit import inlined, jit

Array = NDArray[Any]
WIDEST_TABLE = 1 << 22
EXACT = 1 << 53

_NO_BITS: Array = np.frombuffer(bytes(1), np.uint8)[:0]  # read-only, as the arrays that Arrow's buffers make


@inlined
def is_valid(bits, at):
    """The bit of a row in a validity bitmap; where there is no bitmap, all rows are valid."""
    return bits.shape[0] == 0 or (bits[at >> 3] >> (at & 7)) & 1 == 1


@jit
def spread(bits, first, indices, values, missing, out):
    """``values`` by ``indices``, of which each valid row has one; ``missing`` in the other rows."""
    used = 0
    for i in range(out.shape[0]):
        if is_valid(bits, first + i):
            out[i] = values[indices[used]]
            used += 1
        else:
            out[i] = missing


@inlined
def find_code(keys, codes, value, other):
    """The code of a value among sorted keys."""
    low, high = 0, keys.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    return codes[low] if low < keys.shape[0] and keys[low] == value else other


@jit
def encode_integers(bits, first, values, table, keys, key_codes, other, codes, downs, ups):
    """Codes of integers, by a table or a search, and the floats around them; False if some lie between two floats."""
    exact = True
    for i in range(codes.shape[0]):
        if not is_valid(bits, first + i):
            codes[i] = ABSENT
            downs[i] = ups[i] = np.nan
            continue
        value = values[i]
        if table.shape[0]:
            at = value - keys[0]
            codes[i] = table[at] if 0 <= at < table.shape[0] else other
        else:
            codes[i] = find_code(keys, key_codes, value, other)
        nearest = np.float64(value)
        downs[i] = ups[i] = nearest
        if value > EXACT or value < -EXACT:
            if nearest >= 9223372036854775808.0:
                downs[i] = np.nextafter(nearest, 0.0)
                exact = False
            elif np.int64(nearest) > value:
                downs[i] = np.nextafter(nearest, -np.inf)
                exact = False
            elif np.int64(nearest) < value:
                ups[i] = np.nextafter(nearest, np.inf)
                exact = False
    return exact


@jit
def encode_floats(bits, first, values, keys, key_codes, other, codes, numbers):
    for i in range(codes.shape[0]):
        numbers[i] = np.nan
        if not is_valid(bits, first + i):
            codes[i] = ABSENT
        elif np.isnan(values[i]):
            codes[i] = NAN
        else:
            codes[i] = find_code(keys, key_codes, values[i], other)
            numbers[i] = values[i]


def validity(array: pa.Array) -> tuple[Array, int]:
    """The validity bitmap of a column, and the bit of its first row."""
    bits = array.buffers()[0] if array.null_count else None
    return (_NO_BITS, 0) if bits is None else (_read_only(np.frombuffer(bits, np.uint8)), array.offset)


def values_of(array: pa.Array, dtype: type) -> Array:
    """The values of a column of plain numbers as they lie in its buffer; those of null rows mean nothing."""
    if len(array) == 0:
        return _NO_BITS.view(dtype)
    first = array.offset * np.dtype(dtype).itemsize
    return _read_only(np.frombuffer(array.buffers()[1], dtype, len(array), first))


def _read_only(array: Array) -> Array:
    """Arrow lets some buffers be written and others not; kernels are compiled for one kind alone."""
    array.flags.writeable = False
    return array


def text_of(array: pa.Array) -> tuple[Array, Array, bytes]:
    """Where each string of a column begins, its length, and the bytes of all of them."""
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), b""
    dtype = np.int32 if pa.types.is_string(array.type) else np.int64
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    return ends[:-1] - first, np.diff(ends), data[first:last].to_pybytes() if last > first else b""


class Lookup:
    """The constants of one attribute and kind, sorted, with their codes; ``other`` is the code of any other value."""

    def __init__(self, constants: Mapping[Any, int], dtype: type, other: int) -> None:
        keys: Array = np.array(list(constants), dtype)
        codes = np.array(list(constants.values()), np.int32)
        order = np.argsort(keys)
        self._keys, self._codes, self._other = keys[order], codes[order], int(other)
        self._table: Array = np.zeros(0, np.int32)
        if dtype is np.int64 and len(keys):
            width = int(self._keys[-1]) - int(self._keys[0]) + 1
            if width <= WIDEST_TABLE:
                self._table = np.full(width, other, np.int32)
                self._table[self._keys - self._keys[0]] = self._codes

    def of_integers(self, array: pa.Array) -> tuple[Array, Array, Array]:
        """Codes, and the floats at or below and at or above; these are one array if floats hold all values."""
        size = len(array)
        codes, downs, ups = np.empty(size, np.int32), np.empty(size), np.empty(size)
        bits, first = validity(array)
        exact = encode_integers(
            bits,
            first,
            values_of(array, np.int64),
            self._table,
            self._keys,
            self._codes,
            self._other,
            codes,
            downs,
            ups,
        )
        return codes, downs, downs if exact else ups

    def of_floats(self, array: pa.Array) -> tuple[Array, Array]:
        """Codes, and the values."""
        codes, numbers = np.empty(len(array), np.int32), np.empty(len(array))
        bits, first = validity(array)
        encode_floats(bits, first, values_of(array, np.float64), self._keys, self._codes, self._other, codes, numbers)
        return codes, numbers
