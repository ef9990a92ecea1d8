"""Record batches give what the same rows give as events, whatever their types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.oracle import engines, events_of, ids_by_event
from recado.errors import EventError
from recado.matching.batch import CHUNK, match_batch, match_events
from recado.matching.index import Index
from recado.matching.kernels.postings import GRID, LISTS_TOP
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import TRUE, And, Between, Compare, Exists, In, Not, Or, Regex, Similar, Sql, Text
from recado.model.subscription import Subscription
from strategies import FLOATS, INTEGERS, STRINGS, TIMES, filters

ORDER = ("<", "<=", ">", ">=")
CONSTANTS = [0, 1, 2, -1, 1.5, 0.1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), math.inf, 255]
CONSTANTS += ["a", "ab", "", "ação", "日本", "A", *TIMES, True, False]


def about(name: str) -> list:
    """Filters that ask one attribute everything."""
    asked = [Compare(name, op, value) for op in ("==", "!=") for value in CONSTANTS]
    asked += [Compare(name, op, value) for op in ORDER for value in CONSTANTS if not isinstance(value, bool)]
    asked += [Exists(name), Not(Exists(name)), TRUE, In(name, (1, "a", True, TIMES[1], 1.5)), In(name, ())]
    asked += [Between(name, 0, 2**53), Between(name, "a", "b"), Between(name, TIMES[0], TIMES[2])]
    for op in ("prefix", "suffix", "contains", "like"):
        asked += [Text(name, op, pattern, fold) for pattern in ("a", "", "?b*", "Ç", "日") for fold in (False, True)]
    asked += [Regex(name, "a.*"), Not(Regex(name, "a.*")), Similar(name, "ab", 0.5), Sql(f"EXISTS {name}")]
    asked += [Not(Between(name, "a", "b")), And((Exists(name), Regex("y", "a.*")))]
    asked += [Or((Compare(name, "==", 1), Compare(name, "==", "a"), Regex(name, ".b"))), Not(Compare(name, ">", 1))]
    return asked


def check(some_filters, batch: pa.RecordBatch) -> list[list[str]]:
    """Before and after optimisation, and in slices, as the oracle has it."""
    index, naive = engines(some_filters)
    expected = [naive.match(event) for event in events_of(batch)]
    assert ids_by_event(index, match_batch(index, batch)) == expected
    index.store.optimize()
    pairs = match_batch(index, batch)
    assert ids_by_event(index, pairs) == expected
    assert pairs.events.tolist() == [row for row, ids in enumerate(expected) for _ in ids]
    assert len(pairs) == len(pairs.slots) == sum(map(len, expected))
    if batch.num_rows > 2:
        assert ids_by_event(index, match_batch(index, batch.slice(1, 2))) == expected[1:3]
    return expected


def check_column(array: pa.Array, name: str = "x") -> None:
    """Alone, beside a string column, and beside a list column, which takes the other way."""
    rows = len(array)
    ids = pa.array([f"e{row}" for row in range(rows)])
    texts = pa.array((["ab", None, "b"] * rows)[:rows])
    lists = pa.array(([["ab", "b"], None, []] * rows)[:rows], pa.list_(pa.string()))
    asked = about(name)
    alone = check(asked, pa.RecordBatch.from_arrays([ids, array], ["id", name]))
    assert any(alone)
    check(asked, pa.RecordBatch.from_arrays([ids, texts, array], ["id", "y", name]))
    check(asked, pa.RecordBatch.from_arrays([ids, array, lists], ["id", name, "y"]))


SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("kind", [*SIGNED, *UNSIGNED], ids=str)
def test_integers(kind):
    low = -(2 ** (kind.bit_width - 1)) if kind in SIGNED else 0
    high = low + 2**kind.bit_width - 1
    values = [value for value in [0, 1, 2, low, high, high - 1, 255, *INTEGERS] if low <= value <= high]
    check_column(pa.array([*values, None], kind))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats(kind):
    values = [1.0, 1.5, 0.1, -0.0, math.nan, math.inf, -math.inf, None, 2.0**53]
    check_column(pa.array(values + (FLOATS if kind == pa.float64() else []), kind))


def test_half_floats():
    check_column(pa.array(np.array([1.0, 1.5, math.nan, 2.0], np.float16)))


def test_booleans():
    check_column(pa.array([True, False, None]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings(kind):
    check_column(pa.array([*STRINGS, None], kind))


@pytest.mark.parametrize(
    "index_type", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_dictionaries_of_strings(index_type):
    encoded = pa.array([*STRINGS, None, "a"]).dictionary_encode()
    check_column(pa.DictionaryArray.from_arrays(encoded.indices.cast(index_type), encoded.dictionary))


OTHER_DICTIONARIES = {
    "integers": pa.array([1, 255, None, 2**53 + 1, 1]),
    "floats": pa.array([1.5, None, math.nan, 0.1]),
    "booleans": pa.array([True, None, False]),
    "instants": pa.array([*TIMES, None], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("array", OTHER_DICTIONARIES.values(), ids=OTHER_DICTIONARIES)
def test_dictionaries_of_other_things(array):
    check_column(array.dictionary_encode())


@pytest.mark.parametrize("zone", [None, "UTC", "-03:00"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_instants(unit, zone):
    array = pa.array([*TIMES, None, datetime(2250, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    check_column(array.cast(pa.timestamp(unit, zone), safe=False))


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_instants_finer_than_microseconds(zone):
    ticks = [1_767_225_600_000_000_000, 1_767_268_800_000_000_999, 1_767_268_800_000_001_001, -1, None]
    check_column(pa.array(ticks, pa.int64()).cast(pa.timestamp("ns", zone)))


def test_columns_of_nothing():
    check_column(pa.nulls(4))


def test_the_envelope():
    batch = pa.RecordBatch.from_pydict(
        {
            "id": ["a", "ab", "c", "d"],
            "type": ["a", "", None, "ab"],
            "source": pa.array(["", "a", "ab", None]).dictionary_encode(),
            "time": ["2026-01-01T12:00:00Z", None, "2026-01-01T09:00:00-03:00", "2026-01-01T12:00:00.000001Z"],
            "x": [1, 2, None, 3],
        }
    )
    asked = [filter for name in ("id", "type", "source", "time", "x") for filter in about(name)]
    check(asked, batch)
    check(asked, batch.append_column("l", pa.array([[1], [], None, [2]])))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_the_time_as_text_of_every_layout(kind):
    texts = pa.array(["2026-01-01T12:00:00Z", None, "2026-01-01T09:00:00-03:00"])
    check_column(texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind), "time")


def test_a_time_that_is_none_names_the_column():
    index, _ = engines([Exists("time"), Exists("l")])
    for columns in ({"time": ["soon"]}, {"time": ["soon"], "l": [[1]]}):
        with pytest.raises(EventError, match="column 'time'"):
            match_batch(index, pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize("extra", [{}, {"l": [[1], [2]]}], ids=["columns", "rows"])
def test_without_an_id_column_there_is_no_id(extra):
    asked = [Exists("id"), Not(Exists("id")), Sql("EXISTS id AND LENGTH(id) > 0"), Regex("id", ".*"), Exists("l")]
    index, _ = engines(asked)
    batch = pa.RecordBatch.from_pydict({"x": [1, 2], **extra})
    expected = [["s1", "s4"] if extra else ["s1"]] * 2
    assert ids_by_event(index, match_batch(index, batch)) == expected


def test_structs_are_dotted_names():
    rows = [{"b": 1, "c": {"d": "a"}}, {"b": None, "c": None}, None, {"b": 2, "c": {"d": None}}]
    batch = pa.RecordBatch.from_pydict({"id": list("wxyz"), "a": rows})
    asked = [*about("a.b"), *about("a.c.d"), Exists("a"), Exists("a.c")]
    check([filter for filter in asked if not isinstance(filter, Sql)], batch)


LISTS = {
    "integers": pa.array([[1, 2], [], None, [0, None, 255], [-1]]),
    "strings": pa.array([["a", "ab"], [None], ["日本", "A"], [], None]),
    "floats": pa.array([[math.nan, 1.5], [0.1], None]),
    "booleans": pa.array([[True, False], [False], None]),
    "instants": pa.array([TIMES[:2], [None], TIMES[2:], None]),
    "unsigned": pa.array([[2**64 - 1, 0], [2**63]], pa.list_(pa.uint64())),
    "large": pa.array([["a", "b"], None], pa.large_list(pa.string())),
    "fixed": pa.array([[1, 2], None, [2, 255]], pa.list_(pa.int16(), 2)),
    "nanoseconds": pa.array([[1_767_268_800_000_000_999, -1]], pa.list_(pa.timestamp("ns"))),
    "dictionary": pa.array([["a", "ab"], ["b"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}


@pytest.mark.parametrize("array", LISTS.values(), ids=LISTS)
def test_lists_are_arrays(array):
    check_column(array)


def test_several_lists_stand_for_one_choice_each():
    batch = pa.RecordBatch.from_pydict({"id": ["i", "j"], "x": [[1, 5], [2]], "z": [[1, 2, 5], []]})
    one_choice = And((Compare("x", ">", 1), Compare("x", "<", 5)))
    asked = [one_choice, And((Compare("x", "==", 5), Compare("z", "==", 2))), Or((Not(Exists("z")), one_choice)), TRUE]
    assert check(asked, batch)[0] == ["s1", "s3"]


def test_lists_inside_structs():
    batch = pa.RecordBatch.from_pydict({"id": ["i", "j"], "a": [{"l": ["a", "b"]}, {"l": None}]})
    check([Compare("a.l", "==", "b"), Exists("a.l"), Not(Exists("a.l"))], batch)


NESTED = {
    "lists of lists": pa.array([[[1], [2, 5]], [[]], None, [[5], None]]),
    "lists of structs": pa.array([[{"a": 1}, {"a": 5, "b": "z"}], [{"a": None}], [], None, [{"b": "a"}, None]]),
    "structs of lists of structs": pa.array([{"a": [{"b": [1, 5]}, {"b": None}]}, {"a": None}, None]),
    "lists of lists of structs": pa.array([[[{"a": 1}], [{"a": 5}]], [[]], None]),
}


@pytest.mark.parametrize("array", NESTED.values(), ids=NESTED)
def test_nested_lists_are_flattened(array):
    names = ["x", "x.a", "x.b", "x.a.b"]
    asked = [Compare(name, op, value) for name in names for op, value in (("==", 1), (">", 1), ("==", "z"))]
    check(
        [*asked, *(Exists(name) for name in names), *(Not(Exists(name)) for name in names)],
        pa.record_batch({"x": array}),
    )


UNSUPPORTED = {
    "date32": pa.array([date(2026, 1, 1)]),
    "decimal": pa.array([Decimal("1.5")]),
    "binary": pa.array([b"ab"]),
    "duration": pa.array([timedelta(1)]),
    "dictionary of dates": pa.array([date(2026, 1, 1)]).dictionary_encode(),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    "list of dates": pa.array([[date(2026, 1, 1)]]),
    "list of binary": pa.array([[b"ab"]]),
    "list of decimals": pa.array([[Decimal(1)]]),
    "list of lists of dates": pa.array([[[date(2026, 1, 1)]]]),
}


@pytest.mark.parametrize("array", UNSUPPORTED.values(), ids=UNSUPPORTED)
@pytest.mark.parametrize("extra", [{}, {"y": [["a"]]}], ids=["columns", "rows"])
def test_other_types_are_refused_by_name(array, extra):
    index, _ = engines([Compare("x", "==", 1), Exists("y")])
    with pytest.raises(EventError, match="column 'x'"):
        match_batch(index, pa.RecordBatch.from_pydict({"x": array, **extra}))


@pytest.mark.parametrize("array", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_column_that_no_filter_names_may_have_any_type(array):
    index, _ = engines([Compare("y", "==", "a")])
    assert ids_by_event(index, match_batch(index, pa.RecordBatch.from_pydict({"x": array, "y": ["a"]}))) == [["s0"]]


def test_instants_beyond_the_year_9999_are_refused():
    index, _ = engines([Exists("x"), And((Regex("y", "a"), Exists("x")))])
    for extra in ({"y": ["a"]}, {"y": [["a"]]}):
        batch = pa.RecordBatch.from_pydict({"x": pa.array([2**62], pa.timestamp("us")), **extra})
        with pytest.raises(EventError, match="column 'x': a timestamp is outside the years 1 to 9999"):
            match_batch(index, batch)


def test_two_columns_of_one_name_are_refused():
    index, _ = engines([Exists("x")])
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(EventError, match="column 'x' is there twice"):
        match_batch(index, twice)
    with pytest.raises(EventError, match=r"column 'a\.b' is there twice"):
        match_batch(index, pa.RecordBatch.from_pydict({"a": [{"b": 1}], "a.b": [1]}))


def test_arrays_with_too_many_combinations_are_refused():
    index, _ = engines([Exists(name) for name in "xyz"])
    batch = pa.RecordBatch.from_pydict({name: [[1]] * 3 + [list(range(40))] for name in "xyz"})
    with pytest.raises(EventError, match="combinations"):
        match_batch(index, batch)


# -- larger than one piece


def test_batches_larger_than_a_chunk():
    rows = 2 * CHUNK + 123
    x = pa.array([row % 97 if row % 11 else None for row in range(rows)], pa.int32())
    y = pa.array([f"v{row % 13}" for row in range(rows)]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([x, y], ["x", "y"])
    index, _ = engines(
        [Compare("x", "==", 5), And((Compare("x", ">", 90), Text("y", "suffix", "7"))), Regex("y", ".1+")]
    )
    pairs = match_batch(index, batch)
    expected = [[], [], []]
    for row, (number, text) in enumerate(zip(x.to_pylist(), y.to_pylist(), strict=True)):
        if number == 5:
            expected[0].append(row)
        if number is not None and number > 90 and text == "v7":
            expected[1].append(row)
        if text in ("v1", "v11"):
            expected[2].append(row)
    ids = np.array(pairs.ids(index).to_pylist())
    assert [pairs.events[ids == f"s{number}"].tolist() for number in range(3)] == expected
    assert len(pairs.offsets) == rows + 1


def test_lists_in_batches_larger_than_a_chunk():
    rows = CHUNK + 10
    batch = pa.RecordBatch.from_pydict({"x": [[row, row + 1] for row in range(rows)]})
    index, _ = engines([Compare("x", "==", CHUNK), Compare("x", "==", 0)])
    pairs = match_batch(index, batch)
    assert pairs.events.tolist() == [0, CHUNK - 1, CHUNK]


REPETITIVE = ["abababab", "ab" * 40, "ba", "", "xx", "aababa" * 9, None, "bababab"]
REPEATED = [
    Text("x", op, piece, fold)
    for op in ("contains", "like")
    for piece in ("ba", "*abab*", "*aba?a*", "ABAB")
    for fold in (False, True)
]
REPEATED += [And((piece, Text("x", "suffix", "ab"))) for piece in REPEATED] + [Or((REPEATED[0], REPEATED[2]))]


@pytest.mark.parametrize("room", [1, 3, 1 << 18])
def test_text_that_leads_to_a_list_many_times_is_found_once(monkeypatch, room):
    """Also where the room for pairs ends in the middle of a string."""
    monkeypatch.setattr("recado.matching.kernels.layout.TEXT_PAIRS", room)
    check(REPEATED, pa.RecordBatch.from_pydict({"x": REPETITIVE, "y": REPETITIVE[::-1]}))


def test_pieces_of_text_that_share_a_key():
    """These two begin with different letters and have one hash: each finds the other and must refuse it."""
    pieces = ["wmcciwey", "grlaowib"]
    asked = [Text(name, "prefix", piece + more) for name in ("x", "y") for piece in pieces for more in ("", "a")]
    values = [piece + more for piece in pieces for more in ("", "a", "ab", "b")]
    found = check(asked, pa.RecordBatch.from_pydict({"x": values, "y": values[::-1]}))
    assert [len(ids) for ids in found] == [2, 4, 4, 2, 2, 4, 4, 2]


def test_empty_batches():
    index, _ = engines(about("x"))
    for kind in (pa.int64(), pa.string(), pa.list_(pa.int8()), pa.timestamp("ns"), pa.bool_(), pa.null()):
        pairs = match_batch(index, pa.RecordBatch.from_pydict({"x": pa.array([], kind)}))
        assert len(pairs) == 0
        assert pairs.offsets.tolist() == [0]
        assert pairs.ids(index).to_pylist() == []


# -- JSON


def test_a_json_column_holds_events_of_any_shape():
    texts = ['{"x": 1}', '{"x": [1, 2], "y": "a"}', None, '{"id": "i", "type": "t", "x": {"z": true}}']
    index, _ = engines(
        [Compare("x", "==", 1), Compare("x", "==", 2), Compare("x.z", "==", True), Compare("type", "==", "t")]
    )
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        batch = pa.RecordBatch.from_pydict({"e": pa.array(texts, kind)})
        assert ids_by_event(index, match_batch(index, batch, "e")) == [["s0"], ["s0", "s1"], [], ["s2", "s3"]]


@pytest.mark.parametrize("row", [0, 3, CHUNK + 7])
@pytest.mark.parametrize("bad", ["{", "[]", '{"id": true}', '{"specversion": "1.0"}', '{"time": "soon"}'])
def test_a_bad_row_is_named(row, bad):
    index, _ = engines([Exists("x")])
    batch = pa.RecordBatch.from_pydict({"e": ["{}"] * row + [bad, "{}"]})
    with pytest.raises(EventError, match=f"row {row} of column 'e': "):
        match_batch(index, batch, json_column="e")


def test_a_json_column_that_is_not_there():
    index, _ = engines([Exists("x")])
    with pytest.raises(EventError, match="no column 'f' of strings; the columns are e, g"):
        match_batch(index, pa.RecordBatch.from_pydict({"e": ["{}"], "g": [1]}), json_column="f")
    with pytest.raises(EventError, match="no column 'g' of strings"):
        match_batch(index, pa.RecordBatch.from_pydict({"e": ["{}"], "g": [1]}), json_column="g")
    twice = pa.RecordBatch.from_arrays([pa.array(["{}"]), pa.array(["{}"])], ["e", "e"])
    with pytest.raises(EventError, match="'e' is there twice"):
        match_batch(index, twice, json_column="e")


# -- everything at once

CELLS = {
    "a": (pa.int64(), [i for i in INTEGERS if i < 2**63]),
    "b": (pa.string(), STRINGS),
    "c": (pa.float64(), [*FLOATS, math.nan]),
    "price": (pa.uint64(), [i for i in INTEGERS if i >= 0]),
    "data.level": (pa.bool_(), [True, False]),
    "A": (pa.timestamp("us", "UTC"), TIMES),
    "type": (pa.string(), STRINGS),
    "time": (pa.timestamp("us", "UTC"), TIMES),
}


def batches(max_rows: int = 8):
    def columns(rows: int):
        cells = {
            name: st.lists(st.none() | st.sampled_from(pool), min_size=rows, max_size=rows)
            for name, (_, pool) in CELLS.items()
        }
        return st.fixed_dictionaries({}, optional=cells).map(
            lambda drawn: pa.RecordBatch.from_pydict(
                {"id": [str(row) for row in range(rows)], **{n: pa.array(v, CELLS[n][0]) for n, v in drawn.items()}}
            )
        )

    return st.integers(1, max_rows).flatmap(columns)


@given(st.lists(filters(max_leaves=6, sql=True), min_size=1, max_size=20), batches())
@settings(max_examples=120)
def test_any_filters_and_any_typed_columns(some_filters, batch):
    check(some_filters, batch)


@pytest.mark.long
@given(st.lists(filters(max_leaves=8, sql=True), min_size=1, max_size=60), batches(64))
@settings(max_examples=3_000)
def test_any_filters_and_any_typed_columns_at_length(some_filters, batch):
    check(some_filters, batch)


def test_events_that_are_not_in_arrow_form():
    index, naive = engines(about("x"))
    events = [Event(f"e{n}", attributes={"x": value}) for n, value in enumerate([1, "a", True, TIMES[0], (1, "a"), ()])]
    assert ids_by_event(index, match_events(index, events)) == [naive.match(event) for event in events]
    assert len(match_events(index, [])) == 0


def test_events_without_the_value_of_a_split_list_are_visited_all_the_same():
    """A list of many entries is split by a range; who lacks the range's value still meets the rest of the list."""
    index, naive = Index(), NaiveMatcher()
    subscriptions = [
        Subscription(f"plain-{at}", And((Compare("flag", "==", True), Not(Compare("n", "==", at))))) for at in range(40)
    ]
    subscriptions += [
        Subscription(f"range-{at}", And((Compare("flag", "==", True), Between("p", at, at + 200)))) for at in range(400)
    ]
    index.add_many(subscriptions)
    for subscription in subscriptions:
        naive.add(subscription)
    assert (index.store.lists[: index.store.state[LISTS_TOP], GRID] >= 0).any(), (
        "no list is split, so nothing is tested"
    )
    events = [Event("e", attributes=a) for a in ({"flag": True}, {"p": 7, "flag": True}, {"flag": True}, {"p": 9})]
    for some in (events, events[::-1], events[:2], events * 100):
        assert ids_by_event(index, match_events(index, some)) == [naive.match(event) for event in some]
