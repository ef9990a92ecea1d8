"""Columns of Arrow arrays and columns of single values are the same columns."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.oracle import events_of
from recado.matching.dictionary import ABSENT, NAN, Dictionary
from recado.matching.encode import Encoder, encode_scalar, normal
from recado.matching.kernels.cells import Lookup
from recado.matching.kernels.instructions import bracket
from recado.matching.kernels.verify_columns import CODE, FOLDED_TEXT, INSTANT, NUMBER, TEXT
from recado.model.event import expansions
from recado.model.values import microseconds
from strategies import FLOATS, INTEGERS, STRINGS, TIMES

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONSTANTS = [*INTEGERS, *FLOATS, *STRINGS, *TIMES, True, False]


def dictionary_of(constants=CONSTANTS, text: bool = True) -> Dictionary:
    dictionary = Dictionary()
    for name in ("x", "time", "type"):
        attribute = dictionary.attribute(name)
        for value in constants:
            dictionary.hold(attribute, value)
        if text:
            dictionary.needs_text(attribute, fold=False)
            dictionary.needs_text(attribute, fold=True)
    return dictionary


def cells(columns, attribute: int) -> list[tuple]:
    """What the kernel sees of an attribute, row by row: code, floats around it, text, folded text."""
    batch = columns.batch()
    rows, codes, downs, ups = batch.rows, batch.codes, batch.downs, batch.ups
    starts, lengths, data = batch.starts, batch.lengths, batch.data
    raw = data.tobytes()
    seen = []
    for row in range(columns.size):
        ordered = [float(side[rows[attribute, which], row]) for which in (NUMBER, INSTANT) for side in (downs, ups)]
        texts = []
        for which in (TEXT, FOLDED_TEXT):
            start, length = starts[rows[attribute, which], row], lengths[rows[attribute, which], row]
            texts.append(None if start < 0 else raw[start : start + length].decode())
        seen.append((int(codes[rows[attribute, CODE], row]), *map(str, ordered), *texts))
    return seen


def check_same(array: pa.Array, name: str = "x") -> None:
    dictionary = dictionary_of()
    encoder, attribute = Encoder(dictionary), dictionary.names[name]
    batch = pa.RecordBatch.from_arrays([array], [name])
    views = [next(expansions(event, {name})) for event in events_of(batch)]
    by_column = cells(encoder.from_arrow([(name, normal(name, array))], len(array)), attribute)
    by_value = cells(encoder.from_views(views), attribute)
    assert by_column == by_value


def with_nulls(values: list) -> list:
    return [None, *values, None]


INTEGER_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("kind", INTEGER_TYPES, ids=str)
def test_integers_of_every_width(kind):
    low = 0 if str(kind).startswith("u") else -(2 ** (kind.bit_width - 1))
    high = low + 2**kind.bit_width - 1
    values = [value for value in [low, low + 1, high - 1, high, *INTEGERS] if low <= value <= high]
    check_same(pa.array(with_nulls(values), kind))
    check_same(pa.array([value for value in values if value < 2**63], kind))


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_of_every_width(kind):
    values = [0.0, -0.0, 1.0, 1.5, 0.1, -1.0, math.nan, math.inf, -math.inf, 2048.0]
    if kind == pa.float64():
        values += FLOATS
    check_same(pa.array(np.array(values, kind.to_pandas_dtype())))
    if kind != pa.float16():
        check_same(pa.array(with_nulls(values), kind))


TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
TEXT_TYPES += [pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.uint8(), pa.uint32(), pa.int64())]
TEXT_TYPES += [pa.dictionary(pa.int16(), pa.large_string())]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("name", ["x", "type"])
def test_strings_of_every_layout(kind, name):
    array = pa.array(with_nulls([*STRINGS, "unknown", *STRINGS[:3]]))
    if pa.types.is_dictionary(kind):
        array = array.dictionary_encode()
        array = pa.DictionaryArray.from_arrays(
            array.indices.cast(kind.index_type), array.dictionary.cast(kind.value_type)
        )
    else:
        array = array.cast(kind)
    check_same(array, name)
    check_same(array.slice(2, 5), name)
    check_same(array.slice(0, 0), name)


def test_a_dictionary_with_nulls_and_repetitions_inside():
    indices = pa.array([0, 1, 2, None, 3], pa.int32())
    check_same(pa.DictionaryArray.from_arrays(indices, pa.array(["a", None, "a", ""])))


@pytest.mark.parametrize("values", [[1, 2**53 + 1, None, 1], [1.5, None, math.nan, 0.1], [True, None, False]])
def test_dictionaries_of_other_things_than_text(values):
    check_same(pa.array(values).dictionary_encode())


def test_booleans():
    check_same(pa.array([True, False, None, True]))


@pytest.mark.parametrize("zone", [None, "UTC", "+03:00", "America/Sao_Paulo"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_of_every_unit(unit, zone):
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    instants = [*TIMES, datetime(1900, 1, 1, tzinfo=UTC), datetime(2260, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]
    ticks = [microseconds(instant) * per_second // 1_000_000 for instant in instants]
    ticks += [tick + 1 for tick in ticks] + [-1, 0, 1]
    check_same(pa.array(with_nulls(ticks), pa.int64()).cast(pa.timestamp(unit, zone)))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_time_of_an_event_may_be_text(kind, wrapped):
    texts = ["2026-01-01T12:00:00Z", None, "2026-01-01T09:00:00-03:00", "1969-12-31T23:59:59.999999Z"]
    array = pa.array(texts).dictionary_encode() if wrapped else pa.array(texts, kind)
    check_same(array, "time")


def test_columns_of_nothing():
    check_same(pa.nulls(3))
    assert cells(Encoder(dictionary_of()).from_arrow([], 2), 0)[0][0] == ABSENT


def test_no_column_for_a_name_that_no_filter_knows():
    columns = Encoder(dictionary_of()).from_arrow([("unknown", pa.array([1, 2]))], 2)
    assert not columns.rows.any()


def test_text_is_carried_only_where_some_filter_looks_into_it():
    columns = Encoder(dictionary_of(text=False)).from_arrow([("x", pa.array(["a", "b"]))], 2)
    assert [cell[-2:] for cell in cells(columns, 0)] == [(None, None)] * 2
    assert cells(columns, 0)[0][0] >> 2 > 0


@pytest.mark.parametrize("constants", [[], [5], [0, 2**40], list(range(-50, 50, 3)), [-(2**63), 2**63 - 1]])
def test_look_ups_by_table_and_by_search(constants):
    dictionary = dictionary_of(constants)
    values = [*constants, 0, 1, 4, 5, 6, -1, 2**40 - 1, 2**63 - 1, -(2**63)]
    columns = Encoder(dictionary).from_arrow([("x", pa.array(values, pa.int64()))], len(values))
    expected = [encode_scalar(dictionary.codes[0], value)[0] for value in values]
    assert [cell[0] for cell in cells(columns, 0)] == expected


def test_look_ups_follow_the_dictionary():
    dictionary = dictionary_of([])
    encoder, array = Encoder(dictionary), pa.array([1, 2])

    def codes() -> list[int]:
        return [cell[0] >> 2 for cell in cells(encoder.from_arrow([("x", array)], 2), 0)]

    assert codes() == [0, 0]
    two = dictionary.hold(0, 2)
    assert codes() == [0, two >> 2]
    dictionary.release([two])
    assert codes() == [0, 0]


def test_nan_and_absence_have_codes_of_their_own():
    columns = Encoder(dictionary_of()).from_arrow([("x", pa.array([math.nan, None, 1.0]))], 3)
    codes = [cell[0] for cell in cells(columns, 0)]
    assert codes[:2] == [NAN, ABSENT]
    assert codes[2] > 0


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([i for i in INTEGERS if i < 2**63]), max_size=20))
@settings(max_examples=200)
def test_floats_around_many_integers(values):
    codes, downs, ups = Lookup({}, np.int64, 1).of_integers(pa.array(values, pa.int64()))
    exact = downs is ups
    assert codes.tolist() == [1] * len(values)
    assert list(zip(downs.tolist(), ups.tolist(), strict=True)) == [bracket(value) for value in values]
    assert exact == all(float(value) == value for value in values)


@pytest.mark.parametrize("value", [1, 2**53 + 1, 2**64 - 1, 1.5, T, T.astimezone(timezone(timedelta(hours=5)))])
def test_one_value_has_its_code_and_its_floats(value):
    dictionary = dictionary_of([value])
    code, down, up = encode_scalar(dictionary.codes[0], value)
    assert code == dictionary.hold(0, value)
    number = microseconds(value) if isinstance(value, datetime) else value
    assert down <= number <= up
