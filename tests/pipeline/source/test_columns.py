from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, _parse_datatype_json_value

from recado.model.codec import write_flat
from recado.model.event import Event
from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import LOG_COLUMNS, Columns, default_schema
from recado.store.log import LOG_SCHEMA

WHEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
TYPES = ("string", "long", "double", "boolean", "timestamp")


def schema(**columns):
    """A struct of named columns; ``[long]`` is an array."""
    fields = []
    for name, kind in columns.items():
        plain = _parse_datatype_json_value(kind.strip("[]"))
        fields.append(StructField(name, ArrayType(plain) if kind.startswith("[") else plain))
    return StructType(fields)


def rows_of(*attributes):
    events = [Event(f"e-{n}", "t", "", WHEN, held) for n, held in enumerate(attributes)]
    columns = {
        "position": range(len(events)),
        "id": [event.id for event in events],
        "type": [event.type for event in events],
        "source": [event.source for event in events],
        "time": [event.time for event in events],
        "accepted_at": [WHEN] * len(events),
        "event": [write_flat(event).decode() for event in events],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in LOG_SCHEMA]
    return pa.record_batch(arrays, schema=LOG_SCHEMA)


def test_the_default_columns_are_those_of_the_log():
    batch = rows_of({"a": 1}, {})
    assert Columns(LOG_COLUMNS, False).build(batch).equals(batch)
    assert default_schema(True).fieldNames() == [*LOG_SCHEMA.names, "damage"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", ("x", None, None, None, None)),
        ("", ("", None, None, None, None)),
        (5, (None, 5, 5.0, None, None)),
        (5.0, (None, 5, 5.0, None, None)),
        (2.5, (None, None, 2.5, None, None)),
        (2**63, (None, None, float(2**63), None, None)),
        (-(2**63), (None, -(2**63), float(-(2**63)), None, None)),
        (2**53 + 1, (None, 2**53 + 1, float(2**53), None, None)),
        (float("inf"), (None, None, float("inf"), None, None)),
        (True, (None, None, None, True, None)),
        (WHEN, (None, None, None, None, WHEN)),
        ((5, 6), (None,) * 5),
    ],
)
def test_a_value_of_another_kind_is_null(value, expected):
    batch = rows_of({"a": value})
    got = tuple(Columns(schema(a=kind), False).build(batch).column("a")[0].as_py() for kind in TYPES)
    assert got == expected
    absent = [Columns(schema(b=kind), False).build(batch).column("b")[0].as_py() for kind in TYPES]
    assert absent == [None] * 5


def test_nan_is_a_double():
    got = Columns(schema(a="double"), False).build(rows_of({"a": float("nan")})).column("a")[0].as_py()
    assert got != got


def test_array_columns():
    batch = rows_of({"a": (1, "x", 2.5, 7)}, {"a": 3}, {"a": "x"}, {"a": ()}, {"a": (WHEN,)})
    assert Columns(schema(a="[long]"), False).build(batch).column("a").to_pylist() == [
        [1, None, None, 7],
        [3],
        None,
        None,
        [None],
    ]
    assert Columns(schema(a="[timestamp]"), False).build(batch).column("a").to_pylist()[-1] == [WHEN]


def test_columns_come_in_the_order_asked_and_dotted_names_are_plain_names():
    asked = schema(**{"data.level": "long", "event": "string", "id": "string"})
    batch = Columns(asked, False).build(rows_of({"data.level": 7}))
    assert batch.schema.names == ["data.level", "event", "id"]
    assert batch.to_pylist()[0]["data.level"] == 7
    assert batch.to_pylist()[0]["id"] == "e-0"


def test_rows_for_damage_hold_the_position_the_reason_and_nulls():
    asked = schema(position="long", damage="string", price="double")
    batches = list(Columns(asked, True).damaged(5, 8, "lost", rows=2))
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"position": n, "damage": "lost", "price": None} for n in (5, 6, 7)
    ]
    assert Columns(asked, True).build(rows_of({"damage": "x"})).column("damage").to_pylist() == [None]


def test_without_damage_rows_damage_is_an_attribute_like_any_other():
    assert Columns(schema(damage="string"), False).build(rows_of({"damage": "x"})).column("damage")[0].as_py() == "x"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (schema(position="string"), "column 'position' of the log is a bigint, not a string"),
        (schema(a="integer"), "column 'a': an attribute cannot be read as int; use string, long"),
        (schema(a="[date]"), "cannot be read as array<date>"),
        (StructType([StructField("a", schema(b="long"))]), "a nested member is the column `outer.inner`"),
        (StructType([StructField("a", StringType("UTF8_LCASE"))]), "cannot be read as string collate UTF8_LCASE"),
        (StructType([StructField("a", LongType(), False)]), "an event may lack it"),
        (StructType([StructField("time", LOG_COLUMNS["time"].dataType, False)]), "an event may lack it"),
        (StructType([StructField("a", ArrayType(LongType(), False))]), "the array must allow nulls"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(asked, message):
    with pytest.raises(PipelineError) as caught:
        Columns(asked, False)
    assert message in str(caught.value)


def test_the_position_may_be_declared_as_always_there():
    asked = StructType([StructField("position", LongType(), False), StructField("id", StringType(), False)])
    assert Columns(asked, False).build(rows_of({})).to_pylist() == [{"position": 0, "id": "e-0"}]
    with pytest.raises(PipelineError, match="'id': an event may lack it"):
        Columns(asked, True)
