"""The canary of Spark jobs: an index that is wrong is found out, told to the driver, corrected and built anew."""

from __future__ import annotations

import json
import logging
from datetime import date, timedelta
from random import Random

import pyarrow as pa
import pytest

from recado.filters.expression import parse
from recado.matching.canary import Canary
from recado.model.subscription import Subscription
from recado.pipeline import canary as canary_module
from recado.pipeline.canary import Verification, Watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.jobs import run_match
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.partitioned.folder import partition_path
from recado.pipeline.readers import read_events
from recado.pipeline.sets import DETAIL_SCHEMA, LoadedSet, SubscriptionSet, build, load_folder, write_folder
from recado.pipeline.stream import start_stream
from recado.pipeline.worker import EventForm, match_record_batch


def of(**filters):
    return [Subscription(id, parse(text)) for id, text in filters.items()]


RIGHT = of(low="n < 50", high="n >= 50", all="n >= 0")
WRONG = of(low="n > 1000", high="n >= 0", all="n >= 0")
FIELDS = ("event_id", "subscription_id")


def faulty(folder):
    """A folder whose index was built of other filters than it says."""
    write_folder(folder, build(WRONG)[0], build(RIGHT)[1])
    return folder


@pytest.fixture
def faulty_set(tmp_path):
    found = SubscriptionSet(tmp_path / "set")
    version = found.publish(RIGHT)
    faulty(found.path(version.number))
    return found


def rows(numbers):
    return pa.RecordBatch.from_pydict({"id": [f"e-{n}" for n in numbers], "n": list(numbers)})


def found_by(loaded, batch, watch):
    out = list(match_record_batch(loaded, batch, EventForm("columns"), FIELDS, "fail", watch=watch))
    return sorted((row["event_id"], row["subscription_id"]) for part in out for row in part.to_pylist())


def right(numbers):
    return sorted((f"e-{n}", id) for n in numbers for id in ("all", "low" if n < 50 else "high"))


class Counted(Verification):
    """Counts here, and not at a driver."""

    def __init__(self):
        super().__init__()
        self.agreed, self.wrong = 0, []

    def add(self, agreements, wrong):
        super().add(agreements, wrong)
        self.agreed += agreements
        self.wrong += wrong


@pytest.fixture
def watch(monkeypatch):
    """Compares every batch: by its clock that takes no time."""
    monkeypatch.setattr(canary_module, "_canaries", {1.0: Canary(1.0, Random(1), lambda: 0.0)})
    return Watch(1.0, Counted())


def test_agreement_is_counted(watch):
    loaded = LoadedSet(*build(RIGHT))
    assert found_by(loaded, rows(range(100)), watch) == right(range(100))
    assert (watch.verification.agreed, watch.verification.wrong) == (3, [])
    assert not loaded.is_new


def test_columns_of_other_types_do_not_count_in_a_comparison(watch):
    """Filters do not name them, so it is nobody's business what they hold."""
    day = pa.array([date(2026, 11, 15)], pa.date32())
    batch = pa.record_batch(
        {"id": [7], "n": [60], "day": day, "more": pa.StructArray.from_arrays([day], ["day"]), "span": [timedelta(1)]}
    )
    assert found_by(LoadedSet(*build(RIGHT)), batch, watch) == [("7", "all"), ("7", "high")]
    assert (watch.verification.agreed, watch.verification.wrong) == (3, [])


def test_an_index_that_is_wrong_is_built_anew(tmp_path, watch, caplog):
    caplog.set_level(logging.ERROR)
    loaded = load_folder(faulty(tmp_path))
    assert found_by(loaded, rows([10, 20, 30]), None) != right([10, 20, 30])
    assert found_by(loaded, rows([10, 20, 30]), watch) == right([10, 20, 30])
    assert sorted((one.subscription, one.found) for one in watch.verification.wrong) == [("high", True), ("low", False)]
    assert loaded.is_new
    assert "and subscription 'low': the index misses it; filter: n < 50; event: {" in caplog.text
    assert found_by(loaded, rows(range(100)), None) == right(range(100))


def test_what_a_new_index_gets_wrong_as_well_is_corrected_for_the_event_that_was_compared(tmp_path, watch, monkeypatch):
    loaded = load_folder(faulty(tmp_path))
    monkeypatch.setattr(LoadedSet, "build_anew", lambda self: False)
    for number in (10, 60, 10):
        assert found_by(loaded, rows([number]), watch) == right([number])
    assert len(watch.verification.wrong) == 4


def test_slots_and_details_belong_together_after_a_change(tmp_path, watch):
    held = SubscriptionSet(tmp_path)
    held.publish([Subscription("gone", parse("n > 3"), owner="gone"), *RIGHT])
    version = held.change(remove=["gone"], add=[Subscription("late", parse("n == 7"), owner="late")])
    loaded = held.load(version.number)
    assert loaded.build_anew()
    assert found_by(loaded, rows([7]), watch) == sorted([*right([7]), ("e-7", "late")])
    owners = dict(zip(loaded.column("id").to_pylist(), loaded.column("owner").to_pylist(), strict=True))
    assert owners["late"] == "late"
    assert watch.verification.wrong == []


def test_semantic_subscriptions_are_left_out_and_stay(watch):
    named = Subscription("named", parse("n < 5"), semantic={"measure": "levenshtein"})
    loaded = LoadedSet(*build([*RIGHT, named]))
    assert found_by(loaded, rows([1]), watch) == sorted([*right([1]), ("e-1", "named")])
    assert loaded.build_anew()
    assert found_by(loaded, rows([1]), watch) == sorted([*right([1]), ("e-1", "named")])
    assert watch.verification.wrong == []


def test_a_set_from_before_filters_were_kept_is_not_compared(tmp_path, watch):
    faulty(tmp_path)
    details = pa.ipc.open_file(str(tmp_path / "details.arrow")).read_all().drop_columns(["filter"])
    with pa.ipc.new_file(str(tmp_path / "details.arrow"), details.schema) as writer:
        writer.write_table(details)
    loaded = load_folder(tmp_path)
    assert loaded.details.schema.names == DETAIL_SCHEMA.names
    found_by(loaded, rows([10]), watch)
    assert (watch.verification.agreed, watch.verification.wrong) == (0, [])
    assert not loaded.build_anew()


def test_rows_that_are_no_events_and_empty_batches(watch):
    loaded = LoadedSet(*build(RIGHT))
    assert found_by(loaded, rows([]), watch) == []
    batch = pa.RecordBatch.from_pydict({"id": [None], "n": [1]})
    out = list(match_record_batch(loaded, batch, EventForm("columns"), (*FIELDS, "rejected"), "keep", watch=watch))
    assert out[0]["rejected"][0].is_valid


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_is_a_share(spark, faulty_set, share):
    with pytest.raises(PipelineError, match="between 0 and 1"):
        match(spark.createDataFrame([("e", 1)], "id string, n long"), faulty_set, verify_share=share)


# Each share has a canary of its own in a worker, which compares the first batch that it meets.


@pytest.mark.parametrize("form", ["columns", "json"])
def test_the_driver_counts_what_executors_find(spark, faulty_set, form):
    frame = spark.createDataFrame([(f"e-{n}", n) for n in (1, 2, 3)], "id string, n long").coalesce(1)
    options = {}
    if form == "json":
        frame, options = frame.selectExpr("to_json(struct(*)) AS value"), {"json": "value"}
    verification = Verification(spark)
    share = 0.91 if form == "columns" else 0.92
    found = match(frame, faulty_set, verify_share=share, verification=verification, **options)
    got = sorted((row.event_id, row.subscription_id) for row in found.collect())
    assert got == right([1, 2, 3])
    assert (verification.agreements, verification.disagreements) == (1, 2)
    assert any("subscription 'low': the index misses it; filter: n < 50" in text for text in verification.texts)
    assert "publish the subscriptions anew" in verification.warning()


def test_agreement_is_counted_at_the_driver(spark, tmp_path):
    held = SubscriptionSet(tmp_path)
    held.publish(RIGHT)
    verification = Verification(spark)
    frame = spark.createDataFrame([("e-1", 1)], "id string, n long").coalesce(1)
    assert match(frame, held, verify_share=0.93, verification=verification).count() == 2
    assert (verification.agreements, verification.disagreements, verification.warning()) == (3, 0, "")


def test_partitions_are_compared_as_well(spark, tmp_path):
    frame = spark.createDataFrame([(one.id, "n >= 0") for one in RIGHT[2:]], "id string, filter string")
    built = build_partitions(frame, tmp_path / "set", partitions=1)
    folder = partition_path(built.folder, 0)
    _, details = build([Subscription("all", parse("n >= 0"))])
    write_folder(folder, build([Subscription("all", parse("n >= 500"))])[0], details)
    verification = Verification(spark)
    events = spark.createDataFrame([("e-1", 1)], "id string, n long")
    found = match_partitioned(events, built, verify_share=0.94, verification=verification)
    assert [(row.event_id, row.subscription_id) for row in found.collect()] == [("e-1", "all")]
    assert verification.disagreements == 1


def write_events(folder, numbers, name="events.ndjson"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"id": f"e-{n}", "n": n}) + "\n" for n in numbers))
    return str(folder)


def test_a_job_says_it_loudly(spark, tmp_path, faulty_set):
    source = read_events(spark, write_events(tmp_path / "events", range(1, 31)))
    told = run_match(spark, str(faulty_set.folder), source, tmp_path / "out", verify_share=0.95)
    compared, differed = told["compared"], told["disagreements"]  # how many is a question of time
    assert 0 < differed <= compared <= 30
    assert f"matching differed from the plain evaluator on {differed} of {compared} compared pairs" in told["warning"]
    fine = SubscriptionSet(tmp_path / "fine")
    fine.publish(RIGHT)
    told = run_match(spark, str(fine.folder), source, tmp_path / "out2", verify_share=0)
    assert (told["compared"], told["disagreements"]) == (0, 0)
    assert "warning" not in told


def test_a_stream_tells_of_each_micro_batch(spark, tmp_path, faulty_set, caplog):
    events = write_events(tmp_path / "events", [1, 2, 3])
    summaries = []
    query = start_stream(
        spark.readStream.text(events),
        faulty_set,
        tmp_path / "out",
        tmp_path / "checkpoint",
        trigger={"availableNow": True},
        on_batch=summaries.append,
        json="value",
        verify_share=0.96,
    )
    assert query.awaitTermination(280)
    [summary] = summaries
    assert summary.notifications == 6
    assert 0 < summary.disagreements <= summary.compared <= 3  # how many is a question of time
    assert "publish the subscriptions anew" in summary.warning
    assert "micro-batch 0: matching differed" in caplog.text
