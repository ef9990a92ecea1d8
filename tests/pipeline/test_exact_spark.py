"""Matching on Spark is exact at size: the filters and events of ``matching.exact``, in every form of rows."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from matching.exact.check import expected
from matching.exact.generator import events, subscriptions
from matching.exact.ways import fill, to_arrow, to_json
from recado.filters.expression import format_expression
from recado.model.codec import write_cloudevent
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.sets import SubscriptionSet

SUBSCRIPTIONS, EVENTS = 3_000, 240


@pytest.fixture(scope="module")
def some_subscriptions():
    return subscriptions(random.Random(11), SUBSCRIPTIONS)


@pytest.fixture(scope="module")
def mixed_events():
    return events(random.Random(12), EVENTS)


@pytest.fixture(scope="module")
def typed_events():
    rng = random.Random(13)
    return events(rng, EVENTS // 2, mixed=False) + events(rng, EVENTS // 2, mixed=False, arrays=False, first=EVENTS)


@pytest.fixture(scope="module")
def whole(some_subscriptions, tmp_path_factory):
    one = SubscriptionSet(tmp_path_factory.mktemp("exact"))
    one.publish(some_subscriptions)
    return one


@pytest.fixture(scope="module")
def parts(spark, some_subscriptions, tmp_path_factory):
    records = [{"id": s.id, "filter": format_expression(s.filter), "type": s.type} for s in some_subscriptions]
    lines = [(json.dumps({name: value for name, value in record.items() if value}),) for record in records]
    frame = spark.createDataFrame(lines, "value string")
    return build_partitions(frame, tmp_path_factory.mktemp("exact-parts") / "set", partitions=3)


@pytest.fixture(scope="module")
def texts(spark, mixed_events):
    lines = [(to_json(event, at),) for at, event in enumerate(mixed_events)]
    return spark.createDataFrame(lines, "value string").repartition(2)


@pytest.fixture(scope="module")
def columns(spark, typed_events):
    table = pa.Table.from_batches([to_arrow(typed_events)])
    other = {"m1": pa.int32(), "code": pa.string()}  # Spark has neither unsigned numbers nor dictionaries
    other["price"] = pa.decimal128(12, 2)  # taken as the nearest float
    for name, kind in other.items():
        table = table.set_column(table.schema.get_field_index(name), name, pc.cast(table[name], kind))
    return spark.createDataFrame(table).repartition(2)


def check(found, some_subscriptions, some_events):
    numbers = {event.id: at for at, event in enumerate(some_events)}
    table = found.select("event_id", "subscription_id").toArrow()
    columns = np.array([numbers[id] for id in table["event_id"].to_pylist()], np.int64)
    ids = table["subscription_id"].combine_chunks().cast(pa.large_string())
    got = fill(some_subscriptions, some_events, [(0, (ids, columns))])
    right = expected(some_subscriptions, some_events)
    assert right.sum() > 10_000
    wrong = np.argwhere(got != right)
    first = [(some_events[at].id, some_subscriptions[row].filter, bool(right[row, at])) for row, at in wrong[:3]]
    assert not len(wrong), f"{len(wrong)} pairs are wrong, such as (event, filter, should match) {first}"


def test_json(texts, whole, some_subscriptions, mixed_events):
    check(match(texts, whole, json="value"), some_subscriptions, mixed_events)


@pytest.mark.long  # the same texts: what a VARIANT makes of them is in test_forms.py
def test_variant(texts, whole, some_subscriptions, mixed_events):
    variants = texts.select(F.parse_json("value").alias("event"))
    check(match(variants, whole, variant="event"), some_subscriptions, mixed_events)


@pytest.mark.long  # rows that are read one by one, as in test_forms.py
def test_cloudevents_in_columns(spark, whole, some_subscriptions, mixed_events):
    some = [event for event in mixed_events if event.type and event.source]
    lines = [json.loads(write_cloudevent(event)) for event in some]
    rows = [(e["id"], e["source"], e["type"], e.get("time"), json.dumps(e.get("data"))) for e in lines]
    assert all(set(e) <= {"specversion", "id", "source", "type", "time", "data", "datacontenttype"} for e in lines)
    frame = spark.createDataFrame(rows, "id string, source string, type string, time string, data string")
    check(match(frame, whole, cloudevents=True), some_subscriptions, some)


def test_typed_columns(columns, whole, some_subscriptions, typed_events):
    check(match(columns, whole), some_subscriptions, typed_events)


@pytest.mark.long  # partitions take typed columns below, and texts in partitioned/test_match.py
def test_partitions_with_json(texts, parts, some_subscriptions, mixed_events):
    check(match_partitioned(texts, parts, json="value"), some_subscriptions, mixed_events)


def test_partitions_with_typed_columns(columns, parts, some_subscriptions, typed_events):
    check(match_partitioned(columns, parts), some_subscriptions, typed_events)
