"""Arrow columns, or plain events, as the columns that the batch kernel reads.

An Arrow column is looked up as a whole (``recado.matching.cells``): strings by their distinct values, integers and
instants through a table or a binary search over the constants that filters ask for. What Arrow cannot hold as one typed
column (arrays, mixed kinds, JSON) comes as a list of single-valued views and takes the slower way, value by value.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.matching.arrow import is_text
from recado.matching.cells import Lookup, spread, text_of, validity, values_of
from recado.matching.dictionary import ABSENT, NAN, Dictionary, key_of
from recado.matching.instructions import bracket
from recado.matching.layout import Batch
from recado.matching.unaligned import PADDING
from recado.matching.verify import CODE, FOLDED_TEXT, INSTANT, NUMBER, ROW_COLUMNS, TEXT
from recado.model.values import Kind, Value, kind_of, microseconds

Array = NDArray[Any]


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

    def batch(self) -> Batch:
        """What the kernel takes."""
        batch = Batch(self.size, self._is_exact)
        batch.rows = self.rows
        batch.codes = np.array(self._codes)
        batch.downs = np.array(self._downs)
        batch.ups = batch.downs if self._is_exact else np.array(self._ups)
        batch.starts = np.array(self._starts)
        batch.lengths = np.array(self._lengths)
        batch.data = np.frombuffer(bytearray().join((*self._data, bytes(PADDING))), np.uint8)
        return batch


class Encoder:
    """Turns batches into columns for one dictionary; look-ups are kept until the dictionary changes."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self._lookups: dict[tuple[int, str], tuple[int, Lookup]] = {}

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
        if pa.types.is_dictionary(kind) or is_text(kind):
            self._put_strings(columns, name, attribute, array)
        elif pa.types.is_boolean(kind):
            self._put_booleans(columns, attribute, array)
        elif pa.types.is_integer(kind):
            self._put_integers(columns, attribute, array)
        elif pa.types.is_floating(kind):
            self._put_floats(columns, attribute, array)
        elif pa.types.is_timestamp(kind):
            self._put_instants(columns, attribute, array)

    def _put_strings(self, columns: Columns, name: str, attribute: int, array: pa.Array) -> None:
        """Look up the distinct strings, then give every row what belongs to its string."""
        bits, first = validity(array)
        filled = array.drop_null() if array.null_count else array
        if not pa.types.is_dictionary(array.type):
            filled = filled.dictionary_encode()
        indices = values_of(filled.indices.cast(pa.int32(), safe=False), np.int32)
        distinct = filled.dictionary.to_pylist()
        get = self.dictionary.codes[attribute].get
        codes = np.array([ABSENT if value is None else get(value, Kind.STRING) for value in distinct], np.int32)
        if name in ("type", "source"):  # an empty envelope field is absent
            codes[[at for at, value in enumerate(distinct) if value == ""]] = ABSENT
        columns.put_codes(attribute, _spread(bits, first, indices, codes, ABSENT, columns.size))
        for which, wanted in ((TEXT, self.dictionary.wants_text), (FOLDED_TEXT, self.dictionary.wants_folded)):
            if wanted[attribute]:
                strings = filled.dictionary
                if which == FOLDED_TEXT:
                    strings = pa.array([value and value.casefold() for value in distinct], pa.large_string())
                starts, lengths, data = text_of(strings)
                starts[codes == ABSENT] = -1
                starts = _spread(bits, first, indices, starts, -1, columns.size)
                columns.put_texts(
                    attribute, which, starts, _spread(bits, first, indices, lengths, 0, columns.size), data
                )

    def _put_booleans(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        get = self.dictionary.codes[attribute].get
        codes = np.array([get(key_of(flag), Kind.BOOL) for flag in (False, True)], np.int32)
        bits, first = validity(array)
        indices = values_of(array.drop_null().cast(pa.int32()), np.int32)
        columns.put_codes(attribute, _spread(bits, first, indices, codes, ABSENT, columns.size))

    def _put_integers(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:  # unsigned, and too large for a signed one
            views = [{} if value is None else {"": value} for value in array.to_pylist()]
            self._put_values(columns, "", attribute, views)
            return
        codes, downs, ups = self._lookup(attribute, "int").of_integers(array)
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, NUMBER, downs, ups)

    def _put_floats(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        codes, values = self._lookup(attribute, "float").of_floats(array.cast(pa.float64()))
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, NUMBER, values, values)

    def _put_instants(self, columns: Columns, attribute: int, array: pa.Array) -> None:
        codes, downs, ups = self._lookup(attribute, "time").of_integers(array.cast(pa.int64()))
        columns.put_codes(attribute, codes)
        columns.put_ordered(attribute, INSTANT, downs, ups)

    def _lookup(self, attribute: int, family: str) -> Lookup:
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


def _spread(bits: Array, first: int, indices: Array, values: Array, missing: int, size: int) -> Array:
    out = np.empty(size, values.dtype)
    spread(bits, first, indices, values, missing, out)
    return out


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


def _lookup_of(codes: Mapping[Hashable, int], family: str) -> Lookup:
    """The constants that a column of this family can equal."""
    if family == "time":
        times = {microseconds(key): code for key, code in codes.items() if isinstance(key, datetime)}
        return Lookup(times, np.int64, Kind.TIME)
    numbers = {key: code for key, code in codes.items() if isinstance(key, (int, float))}
    if family == "int":
        return Lookup({k: c for k, c in numbers.items() if _fits_int64(k)}, np.int64, Kind.NUMBER)
    return Lookup({k: c for k, c in numbers.items() if bracket(k)[0] == k}, np.float64, Kind.NUMBER)


def _fits_int64(number: int | float) -> bool:
    return isinstance(number, int) and -(2**63) <= number < 2**63
