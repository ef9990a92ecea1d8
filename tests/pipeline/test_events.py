"""Rows in every form: matched as the oracle does, and rejected one by one where they are no events."""

from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import EventError
from recado.filters.expression import parse
from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.model.codec import write_flat
from recado.model.subscription import Subscription
from recado.pipeline.events import LONGEST_KEPT, match_rows, text_of_row
from strategies import events, filters

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def index_of(*texts):
    index = Index()
    index.add_many(Subscription(f"s{number}", parse(text)) for number, text in enumerate(texts))
    return index


def found(matched, index):
    rows = matched.pairs.events.tolist()
    return sorted(zip(rows, matched.pairs.ids(index).to_pylist(), strict=True))


def test_typed_columns():
    index = index_of("Price < 25", 'tags == "hot"', "wind.speed > 3")
    batch = pa.RecordBatch.from_pylist(
        [
            {"id": "e1", "time": NOON, "Price": 20.0, "tags": ["hot", "new"], "wind": {"speed": 1}},
            {"id": "e2", "time": None, "Price": None, "tags": None, "wind": {"speed": 4}},
        ]
    )
    matched = match_rows(index, batch, "columns", "")
    assert found(matched, index) == [(0, "s0"), (0, "s1"), (1, "s2")]
    assert matched.ids.to_pylist() == ["e1", "e2"]
    assert matched.times.to_pylist() == [NOON, None]
    assert matched.rejected == []


def test_a_row_without_id_is_rejected_and_the_others_stay():
    index = index_of("x > 0")
    batch = pa.record_batch({"id": ["a", None, "c"], "x": [1, 1, 1]})
    matched = match_rows(index, batch, "columns", "")
    assert found(matched, index) == [(0, "s0"), (2, "s0")]
    assert matched.rejected == [(1, "the event has no id: its column id is null")]


def test_typed_rows_that_break_a_limit_are_found_one_by_one():
    index = index_of("a == 1", "b == 2")
    many = list(range(2000))
    rows = [{"id": f"e{i}", "a": [1], "b": [2]} for i in range(20)]
    for bad in (3, 11):
        rows[bad] = {"id": f"e{bad}", "a": many, "b": many}
    matched = match_rows(index, pa.RecordBatch.from_pylist(rows), "columns", "")
    assert [row for row, _ in matched.rejected] == [3, 11]
    assert all("combinations" in reason or "elements" in reason for _, reason in matched.rejected)
    assert len(found(matched, index)) == 18 * 2


def test_a_column_that_no_attribute_can_be_is_an_error_of_the_job():
    index = index_of("x > 0")
    batch = pa.record_batch({"id": ["a"], "x": pa.array([b"bytes"])})
    with pytest.raises(EventError, match="column 'x' has the type binary"):
        match_rows(index, batch, "columns", "")


def test_a_column_that_no_filter_names_may_be_anything():
    index = index_of("x > 0")
    batch = pa.record_batch({"id": ["a"], "x": [1], "payload": pa.array([b"bytes"])})
    assert found(match_rows(index, batch, "columns", ""), index) == [(0, "s0")]


def test_json_rows_either_form_and_bad_ones():
    index = index_of("level > 6", 'source == "/here"')
    cloud = {"specversion": "1.0", "id": "c1", "source": "/here", "type": "t", "data": {"level": 7}}
    texts = ['{"id": "e1", "level": 7, "time": "2026-11-15T12:00:00Z"}', msgspec.json.encode(cloud).decode(), "{", None]
    batch = pa.record_batch({"value": pa.array(texts, pa.string())})
    matched = match_rows(index, batch, "json", "value")
    assert found(matched, index) == [(0, "s0"), (1, "s0"), (1, "s1")]
    assert matched.ids.to_pylist() == ["e1", "c1", None, None]
    assert matched.times.to_pylist() == [NOON, None, None, None]
    assert [row for row, _ in matched.rejected] == [2, 3]
    assert "JSON text ends too early" in matched.rejected[0][1]


def test_cloudevents_rows():
    index = index_of("level > 6", 'partner == "p"', 'type == "t"')
    rows = [
        {
            "id": "1",
            "source": "/s",
            "type": "t",
            "time": NOON,
            "data": '{"level": 7}',
            "extensions": [("partner", "p")],
        },
        {"id": "2", "source": "/s", "type": "u", "time": None, "data": None, "extensions": None},
        {"id": "3", "source": "/s", "type": "t", "time": None, "data": "{no", "extensions": None},
        {"id": None, "source": "/s", "type": "t", "time": None, "data": None, "extensions": None},
    ]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([
        ("id", pa.string()), ("source", pa.string()), ("type", pa.string()), ("time", pa.timestamp("us", "UTC")),
        ("data", pa.string()), ("extensions", pa.map_(pa.string(), pa.string())),
    ]))  # fmt: skip
    matched = match_rows(index, batch, "cloudevents", "")
    assert found(matched, index) == [(0, "s0"), (0, "s1"), (0, "s2")]
    assert matched.times.to_pylist()[0] == NOON
    assert [row for row, _ in matched.rejected] == [2, 3]
    assert "$.data" in matched.rejected[0][1]


def test_an_empty_batch():
    index = index_of("x > 0")
    for batch, form in ((pa.record_batch({"id": pa.array([], pa.string())}), "columns"),
                        (pa.record_batch({"value": pa.array([], pa.string())}), "json")):  # fmt: skip
        matched = match_rows(index, batch, form, "value")
        assert len(matched.pairs) == 0
        assert matched.rejected == []


def test_times_as_text_and_without_a_column():
    index = index_of("x > 0")
    batch = pa.record_batch({"id": ["a"], "x": [1], "time": ["2026-11-15T12:00:00Z"]})
    assert match_rows(index, batch, "columns", "").times.to_pylist() == [NOON]
    assert match_rows(index, pa.record_batch({"id": ["a"], "x": [1]}), "columns", "").times.to_pylist() == [None]


@pytest.mark.parametrize("asked", ['time > t"2026-01-01T00:00:00Z"', "exists id"])
def test_a_time_that_is_none_rejects_only_its_row(asked):
    """Whether a filter asks for it or not: in JSON such a row is no event either."""
    index = index_of(asked)
    times = ["2026-11-15T12:00:00Z", "yesterday", None, "2026-11-15T12:00:00", "2026-11-15T12:00:00.000000000Z"]
    ids = list("abcde")
    batch = pa.record_batch({"id": ids, "time": times})
    matched = match_rows(index, batch, "columns", "")
    assert {row for row, _ in found(matched, index)} == ({0, 4} if "time" in asked else {0, 2, 4})
    assert matched.times.to_pylist() == [NOON, None, None, None, NOON]
    assert [row for row, _ in matched.rejected] == [1, 3]
    events = [{"id": id} | ({} if time is None else {"time": time}) for id, time in zip(ids, times, strict=True)]
    texts = pa.record_batch({"value": [msgspec.json.encode(one).decode() for one in events]})
    in_json = match_rows(index, texts, "json", "value")
    assert found(in_json, index) == found(matched, index)
    assert [row for row, _ in in_json.rejected] == [1, 3]


def test_the_text_of_a_rejected_row():
    batch = pa.record_batch({"id": ["a"], "x": [1], "time": pa.array([NOON])})
    assert msgspec.json.decode(text_of_row(batch, 0, "columns", ""))["x"] == 1
    long = pa.record_batch({"value": ["x" * (LONGEST_KEPT + 5)]})
    assert len(text_of_row(long, 0, "json", "value")) == LONGEST_KEPT


@given(st.lists(filters(max_leaves=4), min_size=1, max_size=6), st.lists(events(), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_json_rows_equal_the_oracle(some, happened):
    index, naive = Index(), NaiveMatcher()
    for number, one in enumerate(some):
        for engine in (index, naive):
            engine.add(Subscription(f"s{number}", one))
    texts = [write_flat(event).decode() for event in happened]
    matched = match_rows(index, pa.record_batch({"value": texts}), "json", "value")
    expected = [(row, id) for row, event in enumerate(happened) for id in naive.match(event)]
    assert found(matched, index) == sorted(expected)


def test_a_batch_of_good_rows_is_encoded_once(monkeypatch):
    index = index_of("x > 1")
    sizes = []

    def counted(index, batch):
        sizes.append(batch.num_rows)
        return match_batch(index, batch)

    monkeypatch.setattr("recado.pipeline.events.match_batch", counted)
    found = match_rows(index, pa.record_batch({"id": ["a", "b"], "x": [1, 2]}), "columns", "")
    assert (found.pairs.offsets.tolist(), sizes) == ([0, 0, 1], [2])
    for rows in (0, 3):
        wrong = pa.record_batch({"id": ["a"] * rows, "x": pa.array([b"1"] * rows, pa.binary())})
        with pytest.raises(EventError, match="x"):
            match_rows(index, wrong, "columns", "")
