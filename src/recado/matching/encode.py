"""Arrow columns, or plain events, as the columns that the batch kernel reads.

An Arrow column is looked up as a whole: strings by their distinct values, integers and instants through a table or a
binary search over the constants that filters ask for. What Arrow cannot hold as one typed column (arrays, mixed kinds,
JSON) comes as a list of single-valued views and takes the slower way, value by value.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.matching.arrow import is_text, to_numpy
from recado.matching.dictionary import ABSENT, NAN, Dictionary, key_of
from recado.matching.instructions import bracket
from recado.matching.jit import jit
from recado.matching.verify import CODE, FOLDED_TEXT, INSTANT, NUMBER, ROW_COLUMNS, TEXT
from recado.model.values import Kind, Value, kind_of, microseconds

Array = NDArray[Any]
WIDEST_TABLE = 1 << 22
EXACT = 1 << 53


class Columns:
    """The column matrices of one batch, filled attribute by attribute; row 0 of each is blank."""

    def __init__(self, dictionary: Dictionary, size: int) -> None:
        self.size = size
        self.rows: Array = np.zeros((max(len(dictionary.codes), 1), ROW_COLUMNS), np.int32)
        self._codes: list[Array] = [np.full(size, ABSENT, np.int32)]
        self._downs: list[Array] = [np.full(size, np.nan)]
        self._ups: list[Array] = [self._downs[0]]
        self._starts: list[Array] = [np.full(size, -1, np.int64)]
        self._lengths: list[Array] = [np.zeros(size, np.int64)]
        self._data: list[bytes] = []
        self._data_top = 0
        self._is_exact = True

    def put_codes(self, attribute: int, codes: Array) -> None:
        self.rows[attribute, CODE] = len(self._codes)
        self._codes.append(codes)

    def put_ordered(self, attribute: int, which: int, downs: Array, ups: Array) -> None:
        """Numbers (``which`` is NUMBER) or instants (INSTANT)."""
        self.rows[attribute, which] = len(self._downs)
        self._downs.append(downs)
        self._ups.append(ups)
        self._is_exact &= downs is ups

    def put_texts(self, attribute: int, which: int, starts: Array, lengths: Array, data: bytes) -> None:
        """Strings (TEXT) or casefolded strings (FOLDED_TEXT); ``starts`` count from the beginning of ``data``."""
        self.rows[attribute, which] = len(self._starts)
        self._starts.append(np.where(starts < 0, -1, starts + self._data_top))
        self._lengths.append(lengths)
        self._data.append(data)
        self._data_top += len(data)

    @property
    def has_texts(self) -> bool:
        return len(self._starts) > 1

    def matrices(self) -> tuple[Any, ...]:
        """What the kernel takes: rows, codes, downs, ups, whether these are equal, starts, lengths, data."""
        downs = np.array(self._downs)
        return (
            self.rows,
            np.array(self._codes),
            downs,
            downs if self._is_exact else np.array(self._ups),
            self._is_exact,
            np.array(self._starts),
            np.array(self._lengths),
            np.frombuffer(b"".join(self._data), np.uint8),
        )


@jit
def table_lookup(values, first, table, other, out):
    """Codes of integers by position in a table; ``other`` outside it."""
    size = table.shape[0]
    for i in range(values.shape[0]):
        at = values[i] - first
        out[i] = table[at] if 0 <= at < size else other


@jit
def bracket_integers(values, downs, ups):
    """The floats around each integer; False if some integer lies between two."""
    exact = True
    for i in range(values.shape[0]):
        nearest = np.float64(values[i])
        downs[i] = ups[i] = nearest
        if values[i] > EXACT or values[i] < -EXACT:
            if nearest >= 9223372036854775808.0:
                downs[i] = np.nextafter(nearest, 0.0)
                exact = False
            elif np.int64(nearest) > values[i]:
                downs[i] = np.nextafter(nearest, -np.inf)
                exact = False
            elif np.int64(nearest) < values[i]:
                ups[i] = np.nextafter(nearest, np.inf)
                exact = False
    return exact


class _Lookup:
    """Sorted constants of one attribute and kind, and their codes."""

    def __init__(self, constants: Mapping[Any, int], dtype: type, other: int) -> None:
        keys: Array = np.array(list(constants), dtype)
        codes = np.array(list(constants.values()), np.int32)
        order = np.argsort(keys)
        self.keys, self.codes, self.other = keys[order], codes[order], other
        self.table: Array | None = None
        if dtype is np.int64 and len(keys):
            width = int(self.keys[-1]) - int(self.keys[0]) + 1
            if width <= WIDEST_TABLE:
                self.table = np.full(width, other, np.int32)
                self.table[self.keys - self.keys[0]] = self.codes

    def codes_of(self, values: Array) -> Array:
        out = np.full(len(values), self.other, np.int32)
        if self.table is not None:
            table_lookup(values, self.keys[0], self.table, int(self.other), out)
        elif len(self.keys):
            at = np.minimum(np.searchsorted(self.keys, values), len(self.keys) - 1)
            np.copyto(out, self.codes[at], where=self.keys[at] == values)
        return out


class Encoder:
    """Turns batches into columns for one dictionary; look-ups are kept until the dictionary changes."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self._lookups: dict[tuple[int, str], tuple[int, _Lookup]] = {}

    def from_arrow(self, fields: Sequence[tuple[str, pa.Array]], size: int) -> Columns:
        """Columns of Arrow arrays in normal form (``recado.matching.arrow``), none of them a list."""
        columns = Columns(self.dictionary, size)
        for name, array in fields:
            attribute = self.dictionary.names.get(name)
            if attribute is not None:
                self._put(columns, name, attribute, array)
        return columns

    def _put(self, columns: Columns, name: str, attribute: int, array: pa.Array) -> None:
        kind = array.type
        if pa.types.is_dictionary(kind):
            self._put_strings(columns, name, attribute, array)
        elif is_text(kind):
            self._put_strings(columns, name, attribute, array.dictionary_encode())
        elif pa.types.is_boolean(kind):
            self._put_booleans(columns, attribute, array)
        elif pa.types.is_integer(kind):
            self._put_integers(columns, attribute, array)
        elif pa.types.is_floating(kind):
            self._put_floats(columns, attribute, array)
        elif pa.types.is_timestamp(kind):
            self._put_instants(columns, attribute, array)

    def _put_strings(self, columns: Columns, name: str, attribute: int, array: pa.DictionaryArray) -> None:
        distinct = array.dictionary.to_pylist()
        get = self.dictionary.codes[attribute].get
        codes = np.array([ABSENT if value is None else get(value, Kind.STRING) for value in distinct], np.int32)
        if name in ("type", "source"):  # an empty envelope field is absent
            codes[[at for at, value in enumerate(distinct) if value == ""]] = ABSENT
        codes = np.append(codes, np.int32(ABSENT))  # position -1 serves the nulls
        indices = to_numpy(array.indices.cast(pa.int64()), -1)
        columns.put_codes(attribute, codes[indices])
        for which, wanted in ((TEXT, self.dictionary.wants_text), (FOLDED_TEXT, self.dictionary.wants_folded)):
            if wanted[attribute]:
                fold = which == FOLDED_TEXT
                pieces = [(value.casefold() if fold else value).encode() if value else b"" for value in distinct]
                lengths = np.array([*map(len, pieces), 0], np.int64)
                starts = np.cumsum(lengths) - lengths
                starts[codes == ABSENT] = -1
                columns.put_texts(attribute, which, starts[indices], lengths[indices], b"".join(pieces))

    def _put_booleans(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        get = self.dictionary.codes[attribute].get
        codes = np.array([get(key_of(flag), Kind.BOOL) for flag in (False, True)] + [ABSENT], np.int32)
        columns.put_codes(attribute, codes[to_numpy(array.cast(pa.int64()), -1)])

    def _put_integers(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        try:
            values = to_numpy(array.cast(pa.int64()), 0)
        except pa.ArrowInvalid:  # unsigned, and too large for a signed one
            views = [{} if value is None else {"": value} for value in array.to_pylist()]
            self._put_values(columns, "", attribute, views)
            return
        codes = self._lookup(attribute, "int").codes_of(values)
        downs = np.empty(len(values))
        ups = np.empty(len(values))
        if bracket_integers(values, downs, ups):
            ups = downs
        self._blank_nulls(array, codes, downs, ups)
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, NUMBER, downs, ups)

    def _put_floats(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        values = to_numpy(array.cast(pa.float64()), np.nan)
        codes = self._lookup(attribute, "float").codes_of(values)
        codes[np.isnan(values)] = NAN
        self._blank_nulls(array, codes)
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, NUMBER, values, values)

    def _put_instants(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        values = to_numpy(array.cast(pa.int64()), 0)
        codes = self._lookup(attribute, "time").codes_of(values)
        downs, ups = np.empty(len(values)), np.empty(len(values))
        if bracket_integers(values, downs, ups):
            ups = downs
        self._blank_nulls(array, codes, downs, ups)
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, INSTANT, downs, ups)

    @staticmethod
    def _blank_nulls(array: pa.Array, codes: Array, *ordered: Array) -> None:
        if array.null_count:
            nulls = array.is_null().to_numpy(zero_copy_only=False)
            codes[nulls] = ABSENT
            for values in ordered:
                values[nulls] = np.nan

    def _lookup(self, attribute: int, family: str) -> _Lookup:
        version = self.dictionary.versions[attribute]
        kept = self._lookups.get((attribute, family))
        if kept is None or kept[0] != version:
            kept = version, _lookup_of(self.dictionary.codes[attribute], family)
            self._lookups[attribute, family] = kept
        return kept[1]

    # -- value by value

    def from_views(self, views: Sequence[Mapping[str, Value]]) -> Columns:
        """Columns of single-valued views, whatever kinds they mix."""
        columns = Columns(self.dictionary, len(views))
        for name in sorted({name for view in views for name in view}):
            attribute = self.dictionary.names.get(name)
            if attribute is not None:
                self._put_values(columns, name, attribute, views)
        return columns

    def _put_values(self, columns: Columns, name: str, attribute: int, views: Sequence[Mapping[str, Value]]) -> None:
        size = len(views)
        known = self.dictionary.codes[attribute]
        codes = np.full(size, ABSENT, np.int32)
        ordered = np.full((4, size), np.nan)
        texts: dict[int, str] = {}
        for at, view in enumerate(views):
            value = view.get(name)
            if value is None:
                continue
            codes[at], down, up = encode_scalar(known, value)
            kind = kind_of(value)
            if isinstance(value, str):
                texts[at] = value
            elif codes[at] >= 0 and kind is not Kind.BOOL:
                first = 0 if kind is Kind.NUMBER else 2
                ordered[first : first + 2, at] = down, up
        columns.put_codes(attribute, codes)
        for which, first in ((NUMBER, 0), (INSTANT, 2)):
            downs, ups = ordered[first], ordered[first + 1]
            exact = np.array_equal(downs, ups, equal_nan=True)
            columns.put_ordered(attribute, which, downs, downs if exact else ups)
        self._put_text_values(columns, attribute, size, texts)

    def _put_text_values(self, columns: Columns, attribute: int, size: int, texts: Mapping[int, str]) -> None:
        for which, wanted in ((TEXT, self.dictionary.wants_text), (FOLDED_TEXT, self.dictionary.wants_folded)):
            if not wanted[attribute] or not texts:
                continue
            starts, lengths = np.full(size, -1, np.int64), np.zeros(size, np.int64)
            data = bytearray()
            for at, text in texts.items():
                piece = (text.casefold() if which == FOLDED_TEXT else text).encode()
                starts[at], lengths[at] = len(data), len(piece)
                data += piece
            columns.put_texts(attribute, which, starts, lengths, bytes(data))


def encode_scalar(codes: Mapping[Hashable, int], value: Value) -> tuple[int, float, float]:
    """Code, and for what has an order the floats at or below and at or above."""
    if isinstance(value, bool):
        return codes.get(key_of(value), Kind.BOOL), 0.0, 0.0
    if isinstance(value, str):
        return codes.get(value, Kind.STRING), 0.0, 0.0
    if isinstance(value, datetime):
        return codes.get(value, Kind.TIME), *bracket(microseconds(value))
    if value != value:
        return NAN, 0.0, 0.0
    return codes.get(value, Kind.NUMBER), *bracket(value)


def _lookup_of(codes: Mapping[Hashable, int], family: str) -> _Lookup:
    """The constants that a column of this family can equal."""
    if family == "time":
        times = {microseconds(key): code for key, code in codes.items() if isinstance(key, datetime)}
        return _Lookup(times, np.int64, Kind.TIME)
    numbers = {key: code for key, code in codes.items() if isinstance(key, (int, float))}
    if family == "int":
        return _Lookup({k: c for k, c in numbers.items() if _fits_int64(k)}, np.int64, Kind.NUMBER)
    return _Lookup({k: c for k, c in numbers.items() if bracket(k)[0] == k}, np.float64, Kind.NUMBER)


def _fits_int64(number: int | float) -> bool:
    return isinstance(number, int) and -(2**63) <= number < 2**63
