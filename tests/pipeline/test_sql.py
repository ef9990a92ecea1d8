"""SQL and ``DataFrame.transform`` give what ``match`` gives, in every form of events, and what the oracle gives."""

import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import foreign_filters as foreign
from pipeline.test_forms import DECIMALS, SCHEMA
from recado import pipeline
from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.codec import read_event, write_flat
from recado.model.subscription import Subscription
from recado.pipeline import matching, register
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.match import NOTIFICATION_FIELDS, match
from recado.pipeline.meanings import events_of
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.sql import shape
from recado.store.log import SqliteEventLog
from samples import EVENTS, SUBSCRIPTIONS, events, expected, pairs, subscriptions

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """Events of all types, the filters on them, and the pairs that are right; the set is called ``foreign``."""
    rows, filters = foreign.make(120, 40, seed=4)
    folder = tmp_path_factory.mktemp("foreign")
    SubscriptionSet(folder).publish(Subscription(f"s{n}", parse(foreign.text(one))) for n, one in enumerate(filters))
    register(spark, {"foreign": folder, "sample": spark.read.text(SUBSCRIPTIONS)})
    spark.createDataFrame(rows, SCHEMA).createOrReplaceTempView("typed")
    return rows, filters, sorted(foreign.oracle(rows, filters)), folder


def ask(spark, query):
    with user_errors():
        return pairs(spark.sql(query))


def test_the_sample(spark, made):
    spark.read.text(EVENTS).createOrReplaceTempView("texts")
    found = spark.sql("SELECT * FROM recado_match(TABLE(texts), 'sample', json => 'value')")
    assert tuple(found.columns) == NOTIFICATION_FIELDS
    same = match(spark.table("texts"), spark.read.text(SUBSCRIPTIONS), json="value").schema
    assert found.schema.simpleString() == same.simpleString()
    assert pairs(found) == expected()
    owners = {one.id: one.owner for one in subscriptions()}
    assert all(row.owner == owners[row.subscription_id] for row in found.collect())


def test_transform(spark, made):
    assert pairs(spark.table("typed").transform(matching(made[3]))) == made[2]
    texts = spark.read.text(EVENTS).transform(matching(spark.read.text(SUBSCRIPTIONS), json="value", output="nested"))
    assert "matches" in texts.columns


FORMS = {
    "columns": ("typed", ""),
    "some columns": ("SELECT * EXCEPT (Note), Note FROM typed", ""),
    "variant": ("SELECT to_variant_object(struct(*)) AS payload FROM typed", ", variant => 'payload'"),
    "json": (
        "SELECT to_json(to_variant_object(struct(* EXCEPT (time, when, pickup)))) AS value FROM typed",
        ", json => 'value'",
    ),
    "a variant among columns": ("SELECT * EXCEPT (pickup), to_variant_object(pickup) AS pickup FROM typed", ""),
    "a map among columns": (
        "SELECT * EXCEPT (flag, extra), extra FROM (SELECT *, map('inner', flag) AS extra FROM typed)",
        "",
    ),
    "cloudevents": (
        "SELECT id, 's' AS source, coalesce(type, 't') AS type, to_json(struct(fare, tolls, big)) AS data FROM typed",
        ", cloudevents => true",
    ),
}


REPEATED = ("some columns", "json", "a variant among columns")
"""Go the way of another form: of all columns, of a variant (as texts), of a map among columns."""


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.long] if form in REPEATED else []) for form in FORMS]
)
def test_every_form_gives_what_match_gives(spark, made, form):
    table, options = FORMS[form]
    query = table if table == "typed" else f"SELECT * FROM ({table})"
    found = ask(spark, f"SELECT * FROM recado_match(TABLE({query}), 'foreign'{options})")
    name, _, value = options.removeprefix(", ").partition(" => ")
    frame = spark.table("typed") if table == "typed" else spark.sql(query)
    given = {name: True if value == "true" else value.strip("'")} if name else {}
    assert found == pairs(match(frame, made[3], **given))
    assert found
    if form in ("columns", "variant", "a variant among columns"):
        assert found == made[2]


def test_decimals(spark, made):
    wanted = spark.createDataFrame([], DECIMALS).schema
    frame = spark.table("typed").select(*(F.col(field.name).cast(field.dataType) for field in wanted))
    frame.createOrReplaceTempView("decimals")
    assert ask(spark, "SELECT * FROM recado_match(TABLE(decimals), 'foreign')") == made[2]


def test_matches_is_the_plain_evaluator(spark, made):
    rows, filters, right, _ = made
    texts = spark.createDataFrame(
        [(row["id"], json.dumps(foreign.as_json(row))) for row in rows], "id string, e string"
    )
    texts.createOrReplaceTempView("one_by_one")
    wanted = spark.createDataFrame(
        [(f"s{n}", foreign.text(one)) for n, one in enumerate(filters[:8])], "s string, f string"
    )
    wanted.createOrReplaceTempView("wanted")
    some = [pair for pair in right if pair[1] in {f"s{n}" for n in range(8)}]
    assert some
    for event in ("e", "parse_json(e)"):
        query = f"SELECT id AS event_id, s AS subscription_id FROM one_by_one, wanted WHERE recado_matches(f, {event})"
        assert ask(spark, query) == some
    query = "SELECT id AS event_id, s AS subscription_id FROM typed, wanted WHERE recado_matches(f, struct(typed.*))"
    assert ask(spark, query) == some


def test_matches_on_the_sample(spark, made):
    """Without an id, with null on either side, and as a CloudEvent."""
    rows = [(write_flat(event).decode(),) for event in events()[:50]]
    spark.createDataFrame(rows, "value string").createOrReplaceTempView("flat")
    text = "type == 'trip' or exists Price"
    given = [row.m for row in spark.sql(f'SELECT recado_matches("{text}", parse_json(value)) m FROM flat').collect()]
    assert given == [matches(parse(text), read_event(row[0])) for row in rows]
    one = spark.sql("""SELECT recado_matches('x > 1', parse_json('{"x": 2}')) a, recado_matches(NULL, '{}') b,
        recado_matches('x > 1', CAST(NULL AS VARIANT)) c, recado_matches('x > 1', '{"x": 1}') d""").first()
    assert tuple(one) == (True, None, None, False)


def test_an_instant_inside_a_variant_is_one(spark, made):
    query = "SELECT recado_matches(\"at > t'2026-01-01T00:00:00Z'\", to_variant_object(named_struct('at', {}))) m"
    assert spark.sql(query.format("timestamp'2026-02-01 00:00:00'")).first().m is True
    assert spark.sql(query.format("timestamp'2025-02-01 00:00:00'")).first().m is False


def test_the_time_of_matching_and_what_has_expired(spark, tmp_path):
    SubscriptionSet(tmp_path).publish([
        Subscription("until noon", parse("x > 0"), expires_at=NOON),
        Subscription("open", parse("x > 0"), owner="ana"),
    ])  # fmt: skip
    register(spark, {"expiring": tmp_path})
    rows = [("before", 1, NOON - timedelta(seconds=1)), ("at", 1, NOON), ("untimed", 1, None)]
    spark.createDataFrame(rows, "id string, x int, time timestamp").createOrReplaceTempView("timed")
    found = spark.sql(
        "SELECT * FROM recado_match(TABLE(timed), 'expiring', now => timestamp'2026-11-15 11:00:00+00:00')"
    ).collect()
    assert sorted((row.event_id, row.subscription_id) for row in found) == [
        ("at", "open"), ("before", "open"), ("before", "until noon"), ("untimed", "open"), ("untimed", "until noon"),
    ]  # fmt: skip
    assert len({row.matched_at for row in found}) == 1
    later = "SELECT * FROM recado_match(TABLE(timed), 'expiring', now => timestamp'2026-11-15 12:00:00+00:00')"
    assert ("untimed", "until noon") not in ask(spark, later)
    now = spark.sql(
        "SELECT current_timestamp() c, * FROM recado_match(TABLE(timed), 'expiring', now => current_timestamp())"
    )
    assert all(row.matched_at == row.c for row in now.collect())


def test_a_name_keeps_its_version_until_it_is_registered_again(spark, tmp_path):
    one = SubscriptionSet(tmp_path / "set")
    one.publish([Subscription("first", parse("x > 0"))])
    register(spark, [str(tmp_path / "set")])
    query = f"SELECT * FROM recado_match(TABLE(SELECT 'e' AS id, 1 AS x), '{tmp_path / 'set'}')"
    assert ask(spark, query) == [("e", "first")]
    one.publish([Subscription("second", parse("x > 0"))])
    assert ask(spark, query) == [("e", "first")]
    register(spark, [str(tmp_path / "set")])
    assert ask(spark, query) == [("e", "second")]
    register(spark)  # names stay
    assert ask(spark, query) == [("e", "second")]
    version = f"SELECT * FROM recado_match(TABLE(SELECT 'e' AS id, 1 AS x), '{tmp_path / 'set' / '000001'}')"
    assert ask(spark, version) == [("e", "first")]


def test_a_stream_in_sql(spark, made, tmp_path):
    (tmp_path / "in").mkdir()
    spark.table("typed").write.mode("overwrite").parquet(str(tmp_path / "in"))
    spark.readStream.schema(spark.table("typed").schema).parquet(str(tmp_path / "in")).createOrReplaceTempView("live")
    found = spark.sql("SELECT * FROM recado_match(TABLE(live), 'foreign', now => current_timestamp())")
    assert found.isStreaming
    query = found.writeStream.format("memory").queryName("from_sql").trigger(availableNow=True).start()
    query.awaitTermination()
    assert pairs(spark.table("from_sql")) == made[2]


def test_one_call_registers_the_format_too(spark, made, tmp_path):
    with SqliteEventLog.open(tmp_path / "log") as log:
        log.append(events())
    spark.read.format("recado").load(str(tmp_path / "log")).createOrReplaceTempView("logged")
    assert ask(spark, "SELECT * FROM recado_match(TABLE(logged), 'sample', json => 'event')") == expected()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("recado_match(TABLE(SELECT 'e' AS id), 'nowhere')", "no set is registered as 'nowhere'; there are: .*foreign"),
        ("recado_match(TABLE(SELECT 1 AS x), 'foreign')", "need a column 'id'; there are: x"),
        ("recado_match(TABLE(SELECT 1 AS x), 'foreign', json => 'y')", "no column 'y'; the columns are x"),
        ("recado_match(TABLE(SELECT 1 AS x), 'foreign', json => 'x')", "type int32; a string column with JSON"),
        ("recado_match(TABLE(SELECT '{' AS x), 'foreign', json => 'x')", "row 1 of a batch: .*JSON"),
        ("recado_match(TABLE(SELECT 'e' AS id), 'foreign', json => 'id', cloudevents => true)", "only one of json"),
        ("recado_match(TABLE(SELECT 'e' AS id, date'2026-01-01' AS fare, map('a', 1) AS big), 'foreign')", "'fare'"),
        ("recado_match(TABLE(SELECT 'e' AS id, map(1, 1) AS big), 'foreign')", "'big' is a map with keys of the type"),
        ("recado_match('e', 'foreign')", r"takes a table first, as in recado_match\(TABLE"),
        ("(SELECT recado_matches('x >', '{}'))", "expected"),
        ("(SELECT recado_matches('x > 1', '[]'))", "recado_matches: .*an event is a JSON object"),
    ],
)  # fmt: skip
def test_mistakes_are_told(spark, made, call, message):
    with pytest.raises(PipelineError, match=message), user_errors():
        spark.sql(f"SELECT * FROM {call}").collect()


def test_columns_that_spark_does_not_tell_apart():
    with pytest.raises(PipelineError, match="the columns 'a' and 'A' have names"):
        shape(pa.record_batch({"id": ["e"], "a": [1], "A": [2]}), None)


def test_only_columns_that_some_filter_names_are_looked_at():
    batch = pa.record_batch({"id": ["e"], "x": [1], "blob": pa.array([b"1"]), "m": pa.array([{"a": 1}])})
    shaped, form = shape(batch, {"x", "y.z"})
    assert (shaped.schema.names, form.form) == (["id", "x"], "columns")


def test_a_cloudevent_has_inside_what_a_variant_has():
    day = pa.array([date(2026, 1, 2)])
    data = pa.StructArray.from_arrays([day, pa.array([b"\x00\xff"]), pa.array([NOON])], ["d", "b", "time"])
    batch = pa.record_batch({"id": ["e"], "source": ["s"], "type": ["t"], "day": day, "data": data})
    shaped, form = shape(batch, None, cloudevents=True)
    (event,) = events_of(form.named(shaped), form.form, form.column)
    assert event.attributes == {"day": "2026-01-02", "d": "2026-01-02", "b": "AP8=", "data.time": NOON}


def test_the_front_door_of_the_pipeline():
    assert set(pipeline.__all__) <= set(dir(pipeline))
    for name in pipeline.__all__:
        assert getattr(pipeline, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pipeline.nothing  # noqa: B018
    light = "import sys, recado; recado.pipeline.__all__; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True).stdout == "False\n"


PAGE = Path(__file__).parents[2] / "docs" / "spark-sql.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_print_what_they_say(spark, capsys, monkeypatch):
    monkeypatch.setattr("recado.pipeline.session.start_session", lambda: spark)
    names = {}
    examples = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) >= 3
    for code, printed in examples:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out.strip() == printed.strip()
