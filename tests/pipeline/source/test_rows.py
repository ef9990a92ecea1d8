from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from recado.errors import EventError
from recado.model.codec import read_event
from recado.model.event import Event
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import LOG_COLUMNS, check_written, events_of

WHEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def events(rows, schema=None):
    return list(map(read_event, events_of(iter(pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=2)))))


def test_columns_become_the_envelope_and_attributes():
    rows = [
        {"id": "1", "type": "sale", "time": WHEN, "price": 24.9, "n": 3, "open": True, "tags": ["a", "b"], "at": WHEN},
        {"id": "2", "type": None, "time": None, "price": None, "n": 4, "open": None, "tags": [], "at": None},
    ]
    schema = pa.Table.from_pylist(rows[:1]).schema
    assert events(rows, schema) == [
        Event("1", "sale", "", WHEN, {"price": 24.9, "n": 3, "open": True, "tags": ("a", "b"), "at": WHEN}),
        Event("2", "", "", None, {"n": 4}),
    ]


def test_structs_become_dotted_names():
    rows = [{"id": "1", "data": {"level": 7, "who": {"name": "x"}}, "items": [{"price": 1}, {"price": 2}]}]
    assert events(rows)[0].attributes == {"data.level": 7, "data.who.name": "x", "items.price": (1, 2)}


def test_the_log_gives_its_own_positions():
    assert events([{"id": "1", "position": 77, "accepted_at": WHEN, "damage": "none"}]) == [
        Event("1", attributes={"damage": "none"})
    ]


def test_the_column_event_holds_the_whole_event_flat_or_as_a_cloudevent():
    flat = '{"id": "1", "type": "t", "a": 1}'
    cloud = '{"specversion": "1.0", "id": "2", "source": "/s", "type": "t", "data": {"a": 1}}'
    rows = [{"position": 5, "type": "t", "event": flat}, {"position": 6, "type": None, "event": cloud}]
    assert events(rows) == [Event("1", "t", attributes={"a": 1}), Event("2", "t", "/s", attributes={"a": 1})]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "1"}, {"id": None}], "row 2 of a partition, id None: $.id: the event has no id"),
        ([{"id": "1"}, {"id": "2"}, {"id": ""}], "row 3 of a partition, id ''"),
        ([{"event": None}], "row 1 of a partition, id None: the column 'event' is null"),
        ([{"event": "{"}], "the JSON text ends too early"),
        ([{"event": '{"id": "1", "type": "a"}', "type": "b"}], "column 'type' says 'b' and the event 'a'"),
    ],
)
def test_a_row_that_is_no_event_is_named(rows, message):
    with pytest.raises(EventError) as caught:
        events(rows, pa.schema([("event", pa.string())]) if rows == [{"event": None}] else None)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("type string", "an event needs an id"),
        ("id string, m map<string,int>", "column 'm': an event cannot hold map<string,int>; cast it"),
        ("id string, d decimal(10,2)", "cannot hold decimal(10,2)"),
        ("id string, s struct<day: date>", "column 's.day': an event cannot hold date"),
        ("id string, a array<binary>", "cannot hold binary"),
        ("id string, t timestamp_ntz", "cannot hold timestamp_ntz"),
        ("event binary", "column 'event' must be a string"),
        ("event string, price double", "column 'price' stands beside 'event'"),
    ],
)
def test_columns_that_no_event_can_hold_are_refused(spark, ddl, message):
    with pytest.raises(PipelineError) as caught:
        check_written(StructType.fromDDL(ddl))
    assert message in str(caught.value)


def test_the_columns_of_a_log_can_be_written(spark):
    check_written(LOG_COLUMNS)
    check_written(StructType.fromDDL("id string, a byte, b short, c int, d float, e array<struct<f: timestamp>>"))
