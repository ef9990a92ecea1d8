"""Sets, outputs, checkpoints and reports on file systems other than the local one.

``far_url`` is a folder on two of them in turn, one that renames in one step and one that does not.
"""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline import locations
from recado.pipeline.errors import PipelineError, explained
from recado.pipeline.jobs import run_report_on
from recado.pipeline.locations import HadoopPath, digest_of, for_spark, keep_copy, locate
from recado.pipeline.match import match
from recado.pipeline.partitioned import PartitionedSet, build_partitions, match_partitioned
from recado.pipeline.partitioned.match import place_of
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.stream import start_stream
from samples import EVENTS, SUBSCRIPTIONS, expected, pairs, subscriptions


def test_which_paths_are_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert locate("a/b") == tmp_path / "a" / "b"
    assert locate("file:///a/b") == locate("file:/a/b") == Path("/a/b")
    assert locate("odd:name") == tmp_path / "odd:name"
    bucket = locate("s3a://bucket/x/")
    assert isinstance(bucket, HadoopPath)
    assert str(bucket / "y") == "s3a://bucket/x/y"
    assert (bucket.name, str(bucket.parent), (bucket / "e.json").suffix) == ("x", "s3a://bucket", ".json")
    assert pickle.loads(pickle.dumps(bucket)) == locate(bucket) == bucket
    assert (for_spark(Path("/a b")), for_spark(bucket)) == ("file:///a b", "s3a://bucket/x")


def test_a_path_with_pathlibs_words(far_url):
    folder = locate(far_url) / "folder"
    assert not folder.exists()
    assert not folder.is_dir()
    (folder / "a.txt").write_bytes(b"some bytes")
    assert folder.is_dir()
    assert (folder / "a.txt").is_file()
    assert (folder / "a.txt").read_bytes() == b"some bytes"
    assert (folder / "a.txt").read_bytes(4) == b"some"
    assert (folder / "a.txt").size() == 10
    with pytest.raises(FileExistsError):
        (folder / "a.txt").write_bytes(b"", new=True)
    with pytest.raises(FileNotFoundError):
        (folder / "b.txt").read_bytes()
    (folder / "a.txt").rename(folder / "b.txt")
    assert [path.name for path in folder.iterdir()] == [path.name for path in folder.glob("*.txt")] == ["b.txt"]
    (folder / "c.txt").write_bytes(b"")
    with pytest.raises(FileExistsError):
        (folder / "b.txt").rename(folder / "c.txt")
    folder.remove()
    folder.remove()
    assert not folder.exists()


def test_a_set_at_a_url(spark, far_url):
    one = SubscriptionSet(f"{far_url}/set")
    with pytest.raises(PipelineError, match="publish one first"):
        one.current()
    assert one.publish(subscriptions()).number == 1
    texts = spark.read.text(EVENTS)
    assert pairs(match_of(texts, one)) == expected()
    assert one.change(remove=[subscriptions()[0].id]).subscriptions == len(subscriptions()) - 1
    assert one.versions() == [1, 2]
    assert pairs(match_of(texts, f"{far_url}/set")) == expected(some_subscriptions=subscriptions()[1:])

    (one.path(3) / "claim").write_bytes(b"")  # somebody is writing
    assert one.versions() == [1, 2]
    assert one.current().number == 2
    with pytest.raises(PipelineError, match=r"version 3 of .* was published meanwhile, or is being; try again"):
        one.change()
    assert one.publish([]).number == 4
    assert one.prune(1) == [1, 2]
    assert one.versions() == [4]


def match_of(texts, subscription_set):
    return match(texts, subscription_set, json="value")


def test_a_report_at_a_url(spark, far_url):
    run_report_on(spark, SUBSCRIPTIONS, f"{far_url}/report")
    report = locate(far_url) / "report"
    assert (report / "index.html").read_bytes().startswith(b"<!")
    assert json.loads((report / "summary.json").read_bytes())["files"]


@pytest.mark.parametrize("far_url", ["viewfs", "store"], indirect=True)
def test_a_stream_whose_set_output_and_checkpoint_are_at_urls(spark, far_url, tmp_path):
    one = SubscriptionSet(f"{far_url}/set")
    one.publish([Subscription("low", parse("x < 5"))])
    summaries = []

    def run():
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{far_url}/in")
        start_stream(
            lines, one, f"{far_url}/out", f"{far_url}/state", json="value", constraints=False,
            trigger={"availableNow": True}, on_batch=summaries.append,
        ).awaitTermination()  # fmt: skip

    (tmp_path / "far" / "in").mkdir()
    (tmp_path / "far" / "in" / "1.ndjson").write_text('{"id": "a", "x": 1}\n{bad\n')
    run()
    one.change(add=[Subscription("high", parse("x > 5"))])
    (tmp_path / "far" / "in" / "2.ndjson").write_text('{"id": "b", "x": 9}\n')
    run()
    assert pairs(spark.read.parquet(f"{far_url}/out")) == [("a", "low"), ("b", "high")]
    assert [(s.batch, s.notifications, s.rejected, s.version) for s in summaries] == [(0, 1, 1, 1), (1, 1, 0, 2)]
    assert [path.name for path in (locate(far_url) / "state" / "recado" / "versions").iterdir()] == [
        "000000000.json",
        "000000001.json",
    ]

    # A crash in the middle of writing batch 1: what is there in part is written anew, with the version of then.
    for left in (tmp_path / "far" / "state" / "commits").glob("*1*"):
        left.unlink()
    if far_url.startswith("store"):
        (tmp_path / "far" / "out" / "batch=1" / "_SUCCESS").unlink()
    else:
        shutil.rmtree(tmp_path / "far" / "out" / "batch=1")
    one.publish([])
    run()
    assert pairs(spark.read.parquet(f"{far_url}/out")) == [("a", "low"), ("b", "high")]
    assert (summaries[-1].version, summaries[-1].replayed) == (2, False)


def test_a_connector_that_is_missing_when_spark_writes(spark):
    with pytest.raises(Exception, match="S3AFileSystem") as caught:
        spark.range(1).write.parquet("s3a://bucket/x")
    assert "Spark has no file system for s3a: URLs" in explained(caught.value)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND") as caught:
        spark.range(1).write.format("nosuch").save()
    assert "Spark has no format 'nosuch'; give it the connector" in explained(caught.value)


def test_a_partitioned_set_at_a_url(spark, far_url, tmp_path, monkeypatch):
    monkeypatch.setattr("recado.pipeline.partitioned.folder.PIECE_BYTES", 1000)
    rows = spark.read.text(SUBSCRIPTIONS)
    url = f"{far_url}/parts"
    with pytest.raises(PipelineError, match="row 'x': "):
        build_partitions(rows.unionByName(spark.createDataFrame([("x",)], "value string")), url, partitions=3)
    assert not locate(url).exists()
    made = build_partitions(rows, url, partitions=3)
    assert {path.name for path in locate(url).iterdir()} == {"manifest.json", "router.recado", "parts"}
    texts = spark.read.text(EVENTS)
    assert PartitionedSet.is_one(url)
    assert pairs(match_partitioned(texts, url, json="value")) == expected()
    ids = [id for part in made.manifest.parts for id in made.load(part.number).column("id").to_pylist()]
    assert sorted(ids) == sorted(one.id for one in subscriptions())
    assert made.load_router().index is not None
    with pytest.raises(PipelineError, match=r"is there already; .* one was cut off: remove"):
        build_partitions(rows, url, partitions=3)
    (locate(url) / "manifest.json").remove()
    with pytest.raises(PipelineError, match="is no partitioned set"):
        match_partitioned(texts, url, json="value")


def test_a_partitioned_set_that_executors_do_not_see(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_COPIES", str(tmp_path / "copies"))
    made = build_partitions(spark.read.text(SUBSCRIPTIONS), tmp_path / "set", partitions=3, ship=True)
    place = place_of(spark, made, 1, True)
    assert {number for number, _ in place.sent} == {part.number for part in made.manifest.parts}
    assert pairs(match_partitioned(spark.read.text(EVENTS), made, json="value", ship=True)) == expected()
    assert pairs(match_partitioned(spark.read.text(EVENTS), made, json="value")) == expected()


def test_without_a_session_a_url_cannot_be_reached(monkeypatch):
    monkeypatch.setattr(locations.SparkContext, "_active_spark_context", None)
    with pytest.raises(PipelineError, match="s3a://b/x is reached through Spark's Java process"):
        locate("s3a://b/x").exists()


def test_copies_are_kept_by_content_and_forgotten_in_time(tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_COPIES", str(tmp_path / "copies"))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    one, two = (digest_of(tmp_path / name) for name in "ab")
    first = keep_copy(one, {"file": tmp_path / "a"})
    (tmp_path / "a").unlink()
    assert keep_copy(one, {"file": tmp_path / "a"}) == first
    assert (first / "file").read_bytes() == b"a"
    os.utime(first, (0, 0))
    keep_copy(two, {"file": tmp_path / "b"})
    assert [path.name for path in (tmp_path / "copies").iterdir()] == [two]


def test_two_subscriptions_with_one_id_are_refused(spark, tmp_path):
    twice = [Subscription("s", parse("x > 1")), Subscription("s", parse("x > 2"))]
    with pytest.raises(PipelineError, match="'s' is there more than once"):
        SubscriptionSet(tmp_path / "set").publish(twice)
    rows = spark.createDataFrame([("s", "x > 1"), ("s", "x > 2")], "id string, filter string")
    with pytest.raises(PipelineError, match="'s' is there more than once"):
        match_of(spark.read.text(EVENTS), rows)
