"""Every Arrow type has one form, or is refused by the name of its column."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from recado.errors import EventError
from recado.matching.encode import (
    FIRST_INSTANT,
    LAST_INSTANT,
    fields_of,
    flat_list,
    is_list,
    is_text,
    normal,
    row_views,
)
from recado.model.limits import LIMITS

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
OUTSIDE = "column 'x': a timestamp is outside the years 1 to 9999"
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def ticks_of(array: pa.Array) -> list[int | None]:
    assert pa.types.is_timestamp(array.type)
    assert array.type.unit == "us"
    return array.cast(pa.int64()).to_pylist()


def views(**columns: pa.Array) -> list[list[dict]]:
    size = len(next(iter(columns.values())))
    return list(row_views([(name, normal(name, array)) for name, array in columns.items()], size, 0))


# -- columns of a batch


def test_structs_become_dotted_names():
    inner = [{"b": {"c": 1, "d": None}, "e": "x"}, None, {"b": None, "e": "y"}]
    batch = pa.RecordBatch.from_pydict({"a": inner, "f": [1, 2, 3]})
    assert [(name, array.to_pylist()) for name, array in fields_of(batch)] == [
        ("a.b.c", [1, None, None]),
        ("a.b.d", [None, None, None]),
        ("a.e", ["x", None, "y"]),
        ("f", [1, 2, 3]),
    ]


def test_structs_of_a_slice_and_structs_of_nothing():
    batch = pa.RecordBatch.from_pydict({"a": [{"b": 1}, {"b": 2}, None], "n": pa.nulls(3, pa.struct([]))})
    assert [(name, array.to_pylist()) for name, array in fields_of(batch.slice(1))] == [("a.b", [2, None])]


def test_a_name_may_occur_once():
    one = pa.array([1])
    with pytest.raises(EventError, match="column 'x' is there twice"):
        fields_of(pa.RecordBatch.from_arrays([one, one, one], ["x", "y", "x"]))
    with pytest.raises(EventError, match=r"column 'a\.b' is there twice"):
        fields_of(pa.RecordBatch.from_pydict({"a": [{"b": 1}], "a.b": [1]}))
    twice = pa.StructArray.from_arrays([one, one], ["b", "b"])
    with pytest.raises(EventError, match=r"column 'a\.b' is there twice"):
        fields_of(pa.RecordBatch.from_arrays([twice], ["a"]))


# -- types


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS, pa.bool_(), pa.null(), pa.string()], ids=str)
def test_plain_columns_stay_as_they_are(kind):
    array = pa.nulls(2, kind)
    assert normal("x", array) is array


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_texts_of_every_layout(kind):
    array = normal("x", pa.array(["a", None, "", "日本"], kind))
    assert array.type in (pa.string(), pa.large_string())
    assert array.to_pylist() == ["a", None, "", "日本"]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_dictionaries_of_text_stay_dictionaries(kind):
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["a", "b"], kind))
    assert pa.types.is_dictionary(normal("x", array).type)
    assert normal("x", array).to_pylist() == ["b", None, "a"]


@pytest.mark.parametrize("values", [[1, 2, 1], [1.5, None, math.inf], [True, False, None]], ids=str)
def test_dictionaries_of_other_things_are_unpacked(values):
    array = pa.array(values)
    assert normal("x", array.dictionary_encode()).equals(array)


def test_dictionaries_with_nulls_inside():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array([5, None]))
    assert normal("x", array).to_pylist() == [5, None, None]


def test_dictionaries_of_instants_are_unpacked_and_cut_off():
    array = pa.array([1_999, None, 1_999], pa.timestamp("ns")).dictionary_encode()
    assert ticks_of(normal("x", array)) == [1, None, 1]


REFUSED = {
    "date32": pa.array([date(2026, 1, 1)]),
    "date64": pa.array([date(2026, 1, 1)], pa.date64()),
    "time": pa.array([time(12)]),
    "duration": pa.array([timedelta(1)]),
    "interval": pa.nulls(1, pa.month_day_nano_interval()),
    "decimal": pa.array([Decimal("1.5")]),
    "binary": pa.array([b"ab"]),
    "large binary": pa.array([b"ab"], pa.large_binary()),
    "binary view": pa.array([b"ab"], pa.binary_view()),
    "fixed binary": pa.array([b"ab"], pa.binary(2)),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    "list view": pa.array([[1]], pa.list_view(pa.int64())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
    "dictionary of dates": pa.array([date(2026, 1, 1)]).dictionary_encode(),
    "dictionary of binary": pa.array([b"ab"]).dictionary_encode(),
    "list of dates": pa.array([[date(2026, 1, 1)]]),
    "list of binary": pa.array([[b"ab"]]),
    "list of decimals": pa.array([[Decimal(1)]]),
    "list of lists": pa.array([[[1]]]),
    "large list of fixed lists": pa.array([[[1]]], pa.large_list(pa.list_(pa.int64(), 1))),
    "list of structs": pa.array([[{"a": 1}]]),
    "list of maps": pa.array([[[("k", 1)]]], pa.list_(pa.map_(pa.string(), pa.int64()))),
}


@pytest.mark.parametrize("array", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("rows", [0, 1])
def test_other_types_are_refused_by_name(array, rows):
    message = r"column 'x' has the type .*; use strings, numbers, booleans, timestamps or lists of these"
    with pytest.raises(EventError, match=message):
        normal("x", array.slice(0, rows))


def test_what_counts_as_text():
    assert all(map(is_text, TEXTS))
    assert not any(map(is_text, [pa.binary(), pa.int8(), pa.null(), pa.dictionary(pa.int8(), pa.string())]))


def test_what_counts_as_a_list():
    inner = pa.int8()
    assert all(map(is_list, [pa.list_(inner), pa.large_list(inner), pa.list_(inner, 3)]))
    assert not any(map(is_list, [inner, pa.list_view(inner), pa.map_(inner, inner), pa.struct([("a", inner)])]))


# -- instants


@pytest.mark.parametrize("zone", [None, "UTC", "+03:00", "America/Sao_Paulo"])
@pytest.mark.parametrize("unit", UNITS)
def test_instants_of_every_unit(unit, zone):
    seconds = [-1, 0, 1, 1_767_268_800]
    array = pa.array([*(at * UNITS[unit] for at in seconds), None], pa.int64()).cast(pa.timestamp(unit, zone))
    assert ticks_of(normal("x", array)) == [*(at * 1_000_000 for at in seconds), None]


def test_finer_instants_are_cut_off_towards_zero():
    array = pa.array([-1, 0, 999, 1_000, -1_000, -1_001, 1_999], pa.int64()).cast(pa.timestamp("ns"))
    assert ticks_of(normal("x", array)) == [0, 0, 0, 1, -1, -1, 1]
    as_list = pa.ListArray.from_arrays([0, len(array)], array)
    assert normal("x", as_list).flatten().equals(normal("x", array))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_first_and_the_last_instant(unit):
    per_tick = 1_000_000 // UNITS[unit]
    first, last = FIRST_INSTANT // per_tick, LAST_INSTANT // per_tick
    for ticks in ([first, last], [last, None], [None], []):
        expected = [None if tick is None else tick * per_tick for tick in ticks]
        assert ticks_of(normal("x", pa.array(ticks, pa.timestamp(unit)))) == expected
    for tick in (first - 1, last + 1):
        with pytest.raises(EventError, match=OUTSIDE):
            normal("x", pa.array([0, tick, None], pa.timestamp(unit)))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("ticks", [2**62, -(2**62), -(2**63), 2**63 - 1])
def test_instants_far_outside_are_refused(unit, ticks):
    plain = pa.array([0, ticks], pa.timestamp(unit))
    for array in (plain, plain.dictionary_encode(), pa.ListArray.from_arrays([0, 2], plain)):
        with pytest.raises(EventError, match=OUTSIDE):
            normal("x", array)


def test_nanoseconds_never_reach_so_far():
    array = normal("x", pa.array([-(2**63), 2**63 - 1], pa.timestamp("ns")))
    assert ticks_of(array) == [-(2**63 // 1_000), 2**63 // 1_000]


def test_what_lies_outside_the_slice_is_not_looked_at():
    plain = pa.array([0, 2**62, 1], pa.timestamp("us"))
    assert ticks_of(normal("x", plain.slice(2))) == [1]
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], plain)
    assert ticks_of(normal("x", lists.slice(2)).flatten()) == [1]


# -- the time of an event


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_time_may_be_text(kind, wrapped):
    texts = pa.array(["2026-01-01T12:00:00Z", None, "2026-01-01T09:00:00-03:00", "1969-12-31T23:59:59.999999Z"], kind)
    array = normal("time", texts.cast(pa.string()).dictionary_encode() if wrapped else texts)
    assert array.type == pa.timestamp("us", "UTC")
    assert array.to_pylist() == [T, None, T, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]


def test_other_text_is_no_time():
    assert normal("data.time", pa.array(["2026-01-01T12:00:00Z"])).to_pylist() == ["2026-01-01T12:00:00Z"]


@pytest.mark.parametrize(
    "bad", ["yesterday", "", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "12:00", "2026-01-01T00:00:00Zx"]
)
def test_text_that_is_no_time_is_refused(bad):
    texts = pa.array(["2026-01-01T12:00:00Z", bad])
    for array in (texts, texts.dictionary_encode()):
        with pytest.raises(EventError, match=r"column 'time'.*2026-11-15T10:00:00Z"):
            normal("time", array)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_time_as_text(text):
    assert normal("time", pa.array([text])).to_pylist() == [datetime.fromisoformat(text)]


@pytest.mark.parametrize("text", ["0000-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_times_as_text_outside_the_years_are_refused(text):
    with pytest.raises(EventError, match="column 'time': a timestamp is outside the years 1 to 9999"):
        normal("time", pa.array([text]))


# -- lists

LISTS = {
    "integers": pa.array([[1, 2], [], None, [None]]),
    "floats": pa.array([[1.5], [math.inf, None]]),
    "booleans": pa.array([[True, False], None]),
    "nothing": pa.array([[None], None, []]),
    "unsigned": pa.array([[2**64 - 1]], pa.list_(pa.uint64())),
    "strings": pa.array([["a", None], None]),
    "string views": pa.array([["a", None], None], pa.list_(pa.string_view())),
    "large": pa.array([["a", "b"], None], pa.large_list(pa.large_string())),
    "large of views": pa.array([["a", "b"], None], pa.large_list(pa.string_view())),
    "fixed": pa.array([[1, 2], None, [2, 255]], pa.list_(pa.int16(), 2)),
    "fixed of views": pa.array([["a", "b"], None], pa.list_(pa.string_view(), 2)),
    "dictionaries": pa.array([["a", "b"], ["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    "dictionaries of numbers": pa.array([[1, 2], [1]], pa.list_(pa.dictionary(pa.int32(), pa.int64()))),
}


@pytest.mark.parametrize("array", LISTS.values(), ids=LISTS)
def test_lists_keep_their_elements(array):
    for part in (array, array.slice(1), array.slice(0, 0)):
        form = normal("x", part)
        assert is_list(form.type)
        assert form.to_pylist() == part.to_pylist()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("outer", [pa.list_, pa.large_list, lambda inner: pa.list_(inner, 1)])
def test_lists_of_instants(unit, outer):
    array = normal("x", pa.array([[UNITS[unit]], None, [None]], outer(pa.timestamp(unit))))
    assert array.is_null().to_pylist() == [False, True, False]
    assert ticks_of(array.flatten()) == [1_000_000, None]


# -- rows


def test_rows_are_what_the_evaluator_sees():
    columns = {"a": pa.array([1, None]), "b": pa.array(["x", ""]), "c": pa.array([None, True])}
    assert views(**columns) == [[{"a": 1, "b": "x"}], [{"b": "", "c": True}]]
    assert list(row_views([], 2, 0)) == [[{}], [{}]]
    assert list(row_views([("a", pa.array([], pa.int64()))], 0, 0)) == []


def test_an_empty_type_or_source_is_absent():
    empty = pa.array(["", None, "a"])
    for name in ("type", "source"):
        assert views(**{name: empty}) == [[{}], [{}], [{name: "a"}]]
    assert views(id=empty)[0] == [{"id": ""}]
    assert views(type=pa.array([0, 1]))[0] == [{"type": 0}]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_floats_of_every_width_are_floats(kind):
    [[view]] = views(x=pa.array(np.array([1.5], kind.to_pandas_dtype())))
    assert view == {"x": 1.5}
    assert type(view["x"]) is float


@pytest.mark.parametrize("zone", [None, "UTC", "+03:00", "America/Sao_Paulo"])
def test_instants_in_rows_have_a_zone(zone):
    array = pa.array([1_767_268_800], pa.timestamp("s", zone))
    for column in (array, pa.ListArray.from_arrays([0, 1], array)):
        [[view]] = views(x=column)
        assert view == {"x": T}
        assert view["x"].tzinfo is not None


@pytest.mark.parametrize("zone", [None, "UTC", "-03:00", "+03:00", "America/Sao_Paulo"])
@pytest.mark.parametrize("ticks", [FIRST_INSTANT, LAST_INSTANT])
def test_the_first_and_the_last_instant_in_rows(ticks, zone):
    edge = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks)
    array = pa.array([ticks], pa.timestamp("us", zone))
    assert views(x=array, y=pa.ListArray.from_arrays([0, 1], array)) == [[{"x": edge, "y": edge}]]


def test_lists_in_rows_are_expanded():
    columns = {"x": pa.array([[1, None, 2], [], None, [None]]), "y": pa.array([["a", "b"], ["c"], None, ["d"]])}
    assert views(**columns) == [
        [{"x": 1, "y": "a"}, {"x": 1, "y": "b"}, {"x": 2, "y": "a"}, {"x": 2, "y": "b"}],
        [{"y": "c"}],
        [{}],
        [{"y": "d"}],
    ]


def test_arrays_may_be_as_long_as_the_limit():
    elements = list(range(LIMITS.array_elements))
    assert len(views(x=pa.array([elements]))[0]) == LIMITS.array_elements
    assert len(views(x=pa.array([[*elements, None]]))[0]) == LIMITS.array_elements


def test_longer_arrays_are_refused_by_row_and_name():
    array = pa.array([[1], list(range(LIMITS.array_elements + 1))])
    rows = row_views([("x", array)], 2, 100)
    assert next(rows) == [{"x": 1}]
    with pytest.raises(EventError, match="row 101: column 'x' has 257 elements; the limit is 256"):
        next(rows)


def test_combinations_have_a_limit():
    sixteen = pa.array([list(range(16))])
    seventeen = pa.array([list(range(17))])
    empty = pa.array([[]], pa.list_(pa.int64()))
    assert len(views(x=sixteen, y=sixteen, z=empty)[0]) == LIMITS.array_combinations
    with pytest.raises(EventError, match="row 7: the arrays have 272 combinations of elements; the limit is 256"):
        list(row_views([("x", sixteen), ("y", seventeen), ("z", empty)], 1, 7))


def test_views_know_the_event_they_belong_to():
    one, two, three = {"x": 1}, {"x": 2}, {"x": 3}
    flat, owners = flat_list(iter([[one, two], [three], [one]]))
    assert flat == [one, two, three, one]
    assert owners.tolist() == [0, 0, 1, 2]
    assert owners.dtype == np.int32
    flat, owners = flat_list([])
    assert flat == []
    assert owners.tolist() == []
