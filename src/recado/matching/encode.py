"""Arrow columns, or plain events, as the columns that the batch kernel reads.

An Arrow column is looked up as a whole (``recado.matching.kernels.cells``): strings by their distinct values,
integers and instants through a table or a binary search over the constants that filters ask for. What Arrow cannot
hold as one typed column (arrays, mixed kinds, JSON) comes as a list of single-valued views and takes the slower way,
value by value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recado.errors import EventError
from recado.matching.dictionary import ABSENT, NAN, Dictionary, key_of
from recado.matching.kernels.cells import Lookup, spread, text_of, validity, values_of
from recado.matching.kernels.instructions import bracket
from recado.matching.kernels.layout import Batch
from recado.matching.kernels.unaligned import PADDING
from recado.matching.kernels.verify_columns import CODE, FOLDED_TEXT, INSTANT, NUMBER, ROW_COLUMNS, TEXT
from recado.model.event import expand
from recado.model.limits import LIMITS
from recado.model.values import Kind, Value, in_utc, kind_of, microseconds

# --- Arrow columns as attributes: which types there are, and one form for each ---------------------------------------
#
# Struct columns become dotted names, lists of structs a list for each member, lists in lists are joined into one, and
# dictionaries of other things than text are unpacked; instants are brought to
# microseconds (finer ones are cut off, those without a zone are taken as UTC); a ``time`` column may be text. A type
# that no attribute can have is refused with the column's name, whichever way the batch is matched.


Field = tuple[str, pa.Array]

FIRST_INSTANT = microseconds(datetime(1, 1, 1, tzinfo=UTC))
LAST_INSTANT = microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))


def fields_of(batch: pa.RecordBatch) -> list[Field]:
    """The columns of a batch by dotted name; a name may occur once."""
    fields = list(_flat(zip(batch.schema.names, batch.columns, strict=True)))
    seen: set[str] = set()
    for name, _ in fields:
        if name in seen:
            raise EventError(f"column {name!r} is there twice")
        seen.add(name)
    return fields


def _flat(fields: Iterable[Field]) -> Iterator[Field]:
    for name, array in fields:
        if pa.types.is_struct(array.type):
            names = [f"{name}.{field.name}" for field in array.type]
            yield from _flat(zip(names, array.flatten(), strict=True))
        elif is_list(array.type) and (pa.types.is_struct(array.type.value_type) or is_list(array.type.value_type)):
            yield from _flat_lists(name, _lengths(array), pc.list_flatten(array))
        else:
            yield name, array


def _flat_lists(name: str, lengths: NDArray[Any], values: pa.Array) -> Iterator[Field]:
    """The elements of each row, ``lengths`` of them, as one list a name: as JSON is read."""
    if pa.types.is_struct(values.type):
        for field, inner in zip(values.type, values.flatten(), strict=True):
            yield from _flat_lists(f"{name}.{field.name}", lengths, inner)
    elif is_list(values.type):
        inner_ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(_lengths(values))))
        ends = inner_ends[np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))]
        yield from _flat_lists(name, np.diff(ends), pc.list_flatten(values))
    else:
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        yield name, pa.LargeListArray.from_arrays(pa.array(offsets), values)


def _lengths(lists: pa.Array) -> NDArray[Any]:
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)


def normal(name: str, array: pa.Array) -> pa.Array:
    """The column in the form that both ways of matching read: text, bool, int, float, microseconds, or a list."""
    kind = array.type
    if pa.types.is_dictionary(kind) and (name == "time" or not is_text(kind.value_type)):
        return normal(name, array.dictionary_decode())
    if is_text(kind):
        array = array if pa.types.is_string(kind) else array.cast(pa.large_string())
        return _instants(name, _parse(array)) if name == "time" else array
    if pa.types.is_timestamp(kind):
        return _instants(name, array)
    if is_list(kind):
        if name == "time" or is_list(kind.value_type):
            raise _refuse(name, kind)
        inner = normal(name, pa.array([], kind.value_type)).type
        if pa.types.is_timestamp(inner):
            _instants(name, pc.list_flatten(array))
        return array if inner == kind.value_type else _cast(name, array, pa.list_(inner))
    if pa.types.is_dictionary(kind) or _is_plain(kind):
        return array
    raise _refuse(name, kind)


def is_attribute_type(name: str, kind: pa.DataType) -> bool:
    """May a column of that name and type be an attribute?"""
    try:
        normal(name, pa.array([], kind))
    except EventError:
        return False
    return True


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind))


def _refuse(name: str, kind: pa.DataType) -> EventError:
    return EventError(
        f"column {name!r} has the type {kind}; use strings, numbers, booleans, timestamps or lists of these"
    )


def _parse(array: pa.Array) -> pa.Array:
    try:
        return pc.cast(array, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        reason = str(error)
    try:  # with nanoseconds, which are cut off later
        return pc.cast(array, pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        raise EventError(f"column 'time': {reason}; write times as 2026-11-15T10:00:00Z") from None


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _refuse(name, array.type) from None


def _instants(name: str, array: pa.Array) -> pa.Array:
    """Microseconds in UTC, none outside the years 1 to 9999."""
    try:
        array = array.cast(pa.timestamp("us", "UTC"), safe=array.type.unit != "ns")
    except pa.ArrowInvalid:
        raise EventError(f"column {name!r}: a timestamp is outside the years 1 to 9999") from None
    extremes = pc.min_max(array.cast(pa.int64()))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and (low < FIRST_INSTANT or high > LAST_INSTANT):
        raise EventError(f"column {name!r}: a timestamp is outside the years 1 to 9999")
    return array


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


# -- rows


def row_views(fields: list[Field], size: int, first_row: int) -> Iterator[list[dict[str, Value]]]:
    """The single-valued views of each row, as the evaluator sees them; ``first_row`` numbers rows in messages."""
    columns = [(name, array.to_pylist()) for name, array in fields]
    for row in range(size):
        items = [(name, _value(column[row])) for name, column in columns]
        present = [(name, value) for name, value in items if value is not None and not _is_empty(name, value)]
        _check_arrays(present, first_row + row)
        yield list(expand(present))


def _is_empty(name: str, value: Value | tuple[Value, ...]) -> bool:
    """An empty type or source is absent, as in an event."""
    return value == "" and name in ("type", "source")


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(element) for element in value if element is not None)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _check_arrays(items: list[tuple[str, Any]], row: int) -> None:
    arrays = [(name, value) for name, value in items if type(value) is tuple]
    for name, value in arrays:
        if len(value) > LIMITS.array_elements:
            raise EventError(
                f"row {row}: column {name!r} has {len(value):,} elements; the limit is {LIMITS.array_elements:,}"
            )
    combinations = prod(len(value) for _, value in arrays if value)
    if combinations > LIMITS.array_combinations:
        raise EventError(
            f"row {row}: the arrays have {combinations:,} combinations of elements; "
            f"the limit is {LIMITS.array_combinations:,}"
        )


def flat_list(parts: Iterable[list[dict[str, Value]]]) -> tuple[list[dict[str, Value]], np.ndarray[Any, Any]]:
    """Every view, and the number of the event that each belongs to."""
    groups = list(parts)
    owners = np.repeat(np.arange(len(groups), dtype=np.int32), [len(group) for group in groups])
    return list(chain.from_iterable(groups)), owners


# --- Arrow columns, or plain events, as the columns that the batch kernel reads --------------------------------------

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
        """Columns of Arrow arrays in normal form (``recado.matching.encode``), none of them a list."""
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
        return codes.get(in_utc(value), Kind.TIME), *bracket(microseconds(value))
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
