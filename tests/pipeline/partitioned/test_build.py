"""Building on Spark: what is wrong is told by row, and a folder appears whole or not at all."""

import json
import shutil

import pytest

from recado.pipeline.errors import PipelineError
from recado.pipeline.partitioned import PartitionedSet, build_partitions, match_partitioned
from recado.pipeline.partitioned.folder import MANIFEST
from samples import pairs

COLUMNS = "id string, filter string, constraints string"
GOOD = [(f"s{number}", f"x == {number}", None) for number in range(12)]
BAD = [("bad-filter", "x ==", None), ("bad-constraint", "x == 1", '[{"no": "such"}]'), (None, "x == 1", None)]


def test_bad_rows_end_the_job_and_leave_nothing_behind(spark, tmp_path):
    frame = spark.createDataFrame(GOOD + BAD, COLUMNS)
    with pytest.raises(PipelineError, match=r"row 'None': .*\(and 2 more rows\)"):
        build_partitions(frame, tmp_path / "set", partitions=3)
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_are_left_out_and_reported_on_request(spark, tmp_path):
    frame = spark.createDataFrame(GOOD + BAD, COLUMNS)
    held = build_partitions(frame, tmp_path / "set", partitions=3, bad_rows="skip")
    assert held.subscriptions == len(GOOD)
    assert held.manifest.rejected == len(BAD)
    reasons = {bad.row: bad.reason for bad in held.manifest.bad_rows}
    assert set(reasons) == {"bad-filter", "bad-constraint", "None"}
    assert "at character" in reasons["bad-filter"]
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    with pytest.raises(PipelineError, match="is there already"):
        build_partitions(frame, tmp_path / "set", partitions=3)


@pytest.mark.parametrize("as_lines", [True, False])
def test_an_id_may_be_there_once(spark, tmp_path, as_lines):
    ids = ["a", "b", "a"]
    rows = [(json.dumps({"id": id}),) for id in ids] if as_lines else [(id,) for id in ids]
    frame = spark.createDataFrame(rows, "value string" if as_lines else "id string")
    with pytest.raises(PipelineError, match=r"more than once are: 'a' \(2 times\)"):
        build_partitions(frame, tmp_path / "set", partitions=2)


def test_a_set_without_subscriptions_matches_nothing(spark, tmp_path):
    frame = spark.createDataFrame([], "id string, filter string")
    held = build_partitions(frame, tmp_path / "set", max_subscriptions=10)
    assert (held.subscriptions, held.manifest.partitions, held.manifest.parts) == (0, 1, ())
    events = spark.createDataFrame([("a", 1)], "id string, x long")
    assert match_partitioned(events, held).collect() == []


def test_more_partitions_than_subscriptions(spark, tmp_path):
    frame = spark.createDataFrame([("s", "x == 1"), ("t", "true")], "id string, filter string")
    held = build_partitions(frame, tmp_path / "set", partitions=6, router_keys=1)
    assert sum(part.subscriptions for part in held.manifest.parts) == 2
    events = spark.createDataFrame([("a", 1), ("b", 2)], "id string, x long")
    assert pairs(match_partitioned(events, held)) == [("a", "s"), ("a", "t"), ("b", "t")]
    shutil.rmtree(held.folder)  # what workers hold open of it must not be taken for the set that comes now
    again = build_partitions(frame.where("id = 't'"), tmp_path / "set", partitions=6)
    assert pairs(match_partitioned(events, again)) == [("a", "t"), ("b", "t")]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "either partitions"),
        ({"partitions": 2, "max_subscriptions": 5}, "either partitions"),
        ({"partitions": 0}, "at least 1"),
        ({"max_subscriptions": -1}, "at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(spark, tmp_path, options, reason):
    frame = spark.createDataFrame(GOOD, COLUMNS)
    with pytest.raises(PipelineError, match=reason):
        build_partitions(frame, tmp_path / "set", **options)


def test_columns_that_are_not_of_a_subscription_are_refused(spark, tmp_path):
    with pytest.raises(PipelineError, match="no column 'filtre'"):
        build_partitions(spark.createDataFrame([("a", "")], "id string, filtre string"), tmp_path / "s", partitions=1)


def test_folders_that_hold_something_else_are_refused(tmp_path):
    assert not PartitionedSet.is_one(tmp_path)
    with pytest.raises(PipelineError, match="is no partitioned set"):
        PartitionedSet(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(PipelineError, match="is damaged"):
        PartitionedSet(tmp_path)
    whole = {"subscriptions": 0, "expiring": 0, "constrained": 0, "names": [], "partitions": 1, "parts": []}
    (tmp_path / MANIFEST).write_text(json.dumps({**whole, "format": 99}))
    with pytest.raises(PipelineError, match="has format 99"):
        PartitionedSet(tmp_path)
