"""``recado pipeline`` with URLs: what a user of HDFS or S3 types."""

import shutil
from pathlib import Path

import pytest

from recado.pipeline.errors import PipelineError
from recado.pipeline.jobs import run_match
from recado.pipeline.readers import read_events
from recado.pipeline.sets import SubscriptionSet
from samples import EVENTS, SUBSCRIPTIONS, expected, pairs


def test_a_whole_job_at_urls(recado, spark, far_url, tmp_path):
    for path, name in ((EVENTS, "events.ndjson"), (SUBSCRIPTIONS, "subscriptions.txt")):
        shutil.copy(path, tmp_path / "far" / name)
    with (tmp_path / "far" / "events.ndjson").open("a") as file:
        file.write("{bad\n")
    done = recado("pipeline", "publish", SUBSCRIPTIONS, "--set", f"{far_url}/set")
    assert done.code == 0, done.err
    assert done.records[-1]["set"] == f"{far_url}/set"
    for given in (f"{far_url}/set", f"{far_url}/subscriptions.txt"):
        done = recado("pipeline", "match", given, f"{far_url}/*.ndjson", "--out", f"{far_url}/out", "--overwrite")
        assert done.code == 0, done.err
        assert pairs(spark.read.parquet(f"{far_url}/out")) == expected()
        assert spark.read.parquet(f"{far_url}/out-rejected").count() == done.records[-1]["rejected"] == 1
    again = recado("pipeline", "match", f"{far_url}/set", f"{far_url}/events.ndjson", "--out", f"{far_url}/out")
    assert again.code == 2
    assert "is there already" in again.err
    with pytest.raises(PipelineError, match="no version 7; there are: 1"):
        SubscriptionSet(f"{far_url}/set").version(7)


def test_subscriptions_to_publish_may_be_parquet_and_at_urls(recado, spark, far_url, tmp_path):
    spark.read.text(SUBSCRIPTIONS).repartition(2).write.parquet(f"{far_url}/rows")
    shutil.copy(SUBSCRIPTIONS, tmp_path / "far" / "subscriptions.txt")
    for given in ("rows", "subscriptions.txt"):
        done = recado("pipeline", "publish", f"{far_url}/{given}", "--set", f"file://{tmp_path}/{given}-set")
        assert done.code == 0, done.err
        assert done.records[-1]["subscriptions"] == 40
    rows = "select 's' id, 'x > 0' filter union all select 't', '(' order by id"
    spark.sql(rows).coalesce(1).write.parquet(str(tmp_path / "local"))
    done = recado("pipeline", "publish", f"file://{tmp_path}/local", "--set", f"{far_url}/set")
    assert (done.code, done.records[-1]["subscriptions"], done.records[-1]["bad_lines"]) == (0, 1, 1)
    assert ".parquet, row 2: " in done.err
    missing = recado("pipeline", "publish", f"{far_url}/none", "--set", f"{far_url}/set")
    assert (missing.code, "/none does not exist" in missing.err) == (2, True)


def test_a_file_without_any_subscription_publishes_nothing(recado, tmp_path):
    (tmp_path / "events.ndjson").write_text('{"id": "e", "x": 1}\n')
    done = recado("pipeline", "publish", str(tmp_path / "events.ndjson"), "--set", str(tmp_path / "set"))
    assert done.code == 2
    assert "nothing was published: none of the subscriptions can be read" in done.err
    assert not (tmp_path / "set").exists()


def test_file_urls_are_local(recado, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = recado("pipeline", "publish", SUBSCRIPTIONS, "--set", f"file://{tmp_path}/set")
    assert done.code == 0, done.err
    run_match(spark, f"file://{tmp_path}/set", read_events(spark, f"file://{EVENTS}"), f"file://{tmp_path}/out")
    assert pairs(spark.read.parquet(str(tmp_path / "out"))) == expected()
    assert {path.name for path in tmp_path.iterdir()} == {"set", "out"}


@pytest.mark.parametrize("verb", ["publish", "match"])
def test_a_connector_that_spark_was_not_given_is_named(recado, spark, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    arguments = {
        "publish": ("publish", SUBSCRIPTIONS, "--set", "s3a://bucket/set"),
        "match": ("match", SUBSCRIPTIONS, EVENTS, "--out", "s3a://bucket/out"),
    }
    done = recado("pipeline", *arguments[verb])
    assert done.code == 2
    assert "s3a: URLs; give it the connector, as in --conf spark.jars.packages=org.apache.hadoop:hadoop-aws" in done.err
    assert len(done.err.splitlines()) < 6
    assert list(tmp_path.iterdir()) == []


def test_a_partitioned_set_that_executors_compile(recado, spark, far_url, tmp_path):
    with (tmp_path / "far" / "subscriptions.ndjson").open("w") as file:
        file.write(Path(SUBSCRIPTIONS).read_text() + "{bad\n")
    done = recado(
        "pipeline", "publish", f"{far_url}/subscriptions.ndjson", "--set", f"{far_url}/set", "--partitions", "3"
    )
    assert done.code == 0, done.err
    told = {key: done.records[-1][key] for key in ("partitions", "subscriptions", "bad_lines")}
    assert told == {"partitions": 3, "subscriptions": 40, "bad_lines": 1}
    assert "{bad: " in done.err
    done = recado("pipeline", "match", f"{far_url}/set", EVENTS, "--out", f"{far_url}/out")
    assert done.code == 0, done.err
    assert pairs(spark.read.parquet(f"{far_url}/out")) == expected()
    done = recado("pipeline", "publish", "-", "--set", f"{far_url}/other", "--partitions", "3")
    assert "--partitions takes a file of subscriptions" in done.err
