"""Events from files of every format, found out from names and first bytes."""

import gzip
import json
from pathlib import Path

import pytest

from recado.model.codec import write_batch
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import match, notifications, rejections
from recado.pipeline.readers import follow_events, read_events, read_subscriptions_at
from recado.pipeline.sets import SubscriptionSet
from recado.store.log import LogSettings, SqliteEventLog
from samples import EVENTS, events, expected, pairs, subscriptions


@pytest.fixture(scope="module")
def sample_set(tmp_path_factory):
    subscription_set = SubscriptionSet(tmp_path_factory.mktemp("set"))
    subscription_set.publish(subscriptions())
    return subscription_set


def matched(source, subscription_set):
    return match(source.events, subscription_set, bad_rows="keep", **source.form)


def test_ndjson_packed_with_a_byte_order_mark_and_blank_lines(spark, tmp_path, sample_set):
    content = b"\xef\xbb\xbf" + Path(EVENTS).read_bytes() + b"\n   \n"
    with gzip.open(tmp_path / "events.ndjson.gz", "wb") as file:
        file.write(content)
    found = matched(read_events(spark, str(tmp_path)), sample_set)
    assert pairs(notifications(found)) == expected()
    assert rejections(found).collect() == []


def test_cloudevents_batch_files_one_of_them_broken(spark, tmp_path, sample_set):
    whole = [e for e in events() if e.type and e.source]
    (tmp_path / "1.json").write_bytes(write_batch(whole[:30]))
    (tmp_path / "2.json").write_bytes(b"\xef\xbb\xbf" + write_batch(whole[30:60]))
    (tmp_path / "3.json").write_text("[{]")
    found = matched(read_events(spark, str(tmp_path)), sample_set)
    assert pairs(notifications(found)) == expected(whole[:60])
    assert [row.row for row in rejections(found).collect()] == ["[{]"]


def test_parquet(spark, tmp_path, sample_set):
    frame = spark.createDataFrame(
        [("e", "StockExchange", "PETR4", 1.0)], "id string, type string, Stock string, Price double"
    )
    frame.write.parquet(str(tmp_path / "events"))
    source = read_events(spark, str(tmp_path / "events"))
    assert source.form == {}
    assert matched(source, sample_set).count() > 0


def test_a_log_once_and_as_a_stream(spark, tmp_path, sample_set):
    with SqliteEventLog.open(tmp_path / "log") as log:
        log.append(events())
    assert pairs(notifications(matched(read_events(spark, str(tmp_path / "log")), sample_set))) == expected()
    stream = follow_events(spark, str(tmp_path / "log"), most=100)
    query = (
        matched(stream, sample_set)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert pairs(notifications(spark.read.parquet(str(tmp_path / "out")))) == expected()
    assert len(query.recentProgress) >= 4


def test_positions_of_a_log_that_cannot_be_read_are_rejected_and_the_rest_is_matched(spark, tmp_path, sample_set):
    with SqliteEventLog.open(tmp_path / "log", LogSettings(segment_rows=100)) as log:
        log.append(events())
        damaged = log.seal(force=True)[1].path
    damaged.write_bytes(damaged.read_bytes()[:-50] + b"?" * 50)
    found = matched(read_events(spark, str(tmp_path / "log")), sample_set)
    assert pairs(notifications(found)) == expected(events()[:100] + events()[200:])
    told = sorted(row.row for row in rejections(found).collect())
    assert [text.partition(":")[0] for text in told] == [f"position {n} cannot be read" for n in range(100, 200)]
    assert damaged.name in told[0]
    query = (
        matched(follow_events(spark, str(tmp_path / "log")), sample_set)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    followed = spark.read.parquet(str(tmp_path / "out"))
    assert pairs(notifications(followed)) == pairs(notifications(found))
    assert sorted(row.row for row in rejections(followed).collect()) == told


@pytest.mark.parametrize("format", ["ndjson", "cloudevents", "parquet"])
def test_folders_that_grow(spark, tmp_path, format):
    (tmp_path / "in").mkdir()
    if format == "parquet":
        spark.range(1).selectExpr("string(id) as id").write.mode("append").parquet(str(tmp_path / "in"))
    source = follow_events(spark, str(tmp_path / "in"), format, most=1)
    assert source.events.isStreaming


def test_subscriptions_from_parquet(spark, tmp_path):
    spark.createDataFrame([("s", "x > 1")], "id string, filter string").write.parquet(str(tmp_path / "s"))
    assert read_subscriptions_at(spark, str(tmp_path / "s")).columns == ["id", "filter"]


def test_paths_that_hold_nothing(spark, tmp_path):
    with pytest.raises(PipelineError, match=r"missing\.ndjson does not exist"):
        read_events(spark, str(tmp_path / "missing.ndjson"))
    with pytest.raises(PipelineError, match="is an empty folder; say what will come with --format"):
        follow_events(spark, str(tmp_path))
    with pytest.raises(PipelineError, match="does not exist"):
        read_events(spark, str(tmp_path / "missing"), "parquet")


def test_paths_that_are_something_else(spark, tmp_path):
    (tmp_path / "e.parquet").write_text("no Parquet at all")
    with pytest.raises(PipelineError, match=r"e\.parquet cannot be read: .*not a Parquet file"):
        read_events(spark, str(tmp_path / "e.parquet"))
    with pytest.raises(PipelineError, match="is a file; a stream follows a folder or a log"):
        follow_events(spark, EVENTS)
    with pytest.raises(PipelineError, match="give a number from 1 on"):
        follow_events(spark, str(tmp_path), "ndjson", most=0)


def test_globs(spark, tmp_path):
    for day in ("01", "02"):
        (tmp_path / f"day-{day}.ndjson").write_text(json.dumps({"id": day}) + "\n")
    assert read_events(spark, str(tmp_path / "day-*.ndjson")).events.count() == 2
