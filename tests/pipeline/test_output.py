"""One row an event: nested matches and ordinals say what rows say."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline import worker
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import NOTIFICATION_FIELDS, match, notifications, rejections, subscriptions
from recado.pipeline.sets import SubscriptionSet, build
from recado.pipeline.worker import EventForm, match_record_batch
from samples import EVENTS, expected, pairs
from samples import subscriptions as sample

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def sample_set(tmp_path_factory):
    one = SubscriptionSet(tmp_path_factory.mktemp("set"))
    one.publish(sample())
    return one


@pytest.fixture(scope="module")
def mixed(spark):
    """The sample, and a row that is no event."""
    return spark.read.text(EVENTS).unionByName(spark.createDataFrame([("{bad",)], "value string"))


def test_nested(mixed, sample_set):
    found = match(mixed, sample_set, json="value", output="nested", bad_rows="keep", include_event=True)
    assert found.columns == ["event_id", "event_time", "matched_at", "matches", "event", "rejected"]
    matched = found.where("rejected is null")
    assert matched.count() == matched.select("event_id").distinct().count() == len({e for e, _ in expected()})
    flat = notifications(found)
    assert tuple(flat.columns) == (*NOTIFICATION_FIELDS, "event")
    assert pairs(flat) == expected()
    assert [row.row for row in rejections(found).collect()] == ["{bad"]
    owners = {(row.subscription_id, row.owner) for row in flat.collect()}
    assert owners <= {(one.id, one.owner) for one in sample()}


def test_ordinals_and_what_they_stand_for(spark, mixed, sample_set):
    found = match(mixed, sample_set, json="value", output="ordinals", bad_rows="keep")
    assert found.columns == ["event_id", "event_time", "matched_at", "ordinals", "rejected"]
    assert found.schema["ordinals"].dataType.simpleString() == "array<int>"
    named = subscriptions(spark, sample_set)
    assert named.columns == ["ordinal", "subscription_id", "owner"]
    assert named.count() == len(sample())
    assert pairs(notifications(found).join(named, "ordinal")) == expected()


@pytest.mark.parametrize("output", ["nested", "ordinals"])
def test_what_has_expired_is_not_in_the_arrays(spark, tmp_path, output):
    one = SubscriptionSet(tmp_path)
    one.publish([
        Subscription("until noon", parse("x > 0"), expires_at=NOON),
        Subscription("open", parse("x > 1")),
    ])  # fmt: skip
    rows = [("before", 1, NOON - timedelta(seconds=1)), ("at", 1, NOON), ("two", 2, NOON)]
    frame = spark.createDataFrame(rows, "id string, x int, time timestamp")
    found = match(frame, one, output=output)
    assert found.columns == ["event_id", "event_time", "matched_at", {"nested": "matches"}.get(output, output)]
    assert {row.event_id for row in found.collect()} == {"before", "two"}
    flat = notifications(found)
    named = flat if output == "nested" else flat.join(subscriptions(spark, one), "ordinal")
    assert pairs(named) == [("before", "until noon"), ("two", "open")]
    assert pairs(named) == pairs(match(frame, one))


def test_constraints_of_nested_matches(spark, tmp_path):
    hourly = ({"kind": "frequency", "amount": 1, "unit": "hours"},)
    one = SubscriptionSet(tmp_path)
    one.publish([
        Subscription("a", parse("x > 0")),
        Subscription("b", parse("x > 1"), owner="bea"),
        Subscription("hourly", parse("x > 0"), constraints=hourly, owner="hal"),
    ])  # fmt: skip
    rows = [("e0", 0), ("e1", 1), ("e2", 2), (None, 3)]
    frame = spark.createDataFrame(
        [(id, x, NOON + timedelta(minutes=x)) for id, x in rows], "id string, x int, time timestamp"
    )
    found = match(frame, one, output="nested", include_constraints=True, bad_rows="keep")
    kept = constrain(found)
    assert kept.columns == found.columns
    assert kept.schema["matches"].dataType.elementType.names == ["subscription_id", "owner"]
    assert rejections(kept).count() == 1
    plain = constrain(match(frame, one, include_constraints=True, bad_rows="keep")).drop("constraints")
    flat = notifications(kept)
    assert sorted(flat.drop("matched_at").collect()) == sorted(notifications(plain).drop("matched_at").collect())
    assert pairs(flat) == [("e1", "a"), ("e1", "hourly"), ("e2", "a"), ("e2", "b")]
    with pytest.raises(PipelineError, match="the matches have no 'constraints'"):
        constrain(match(frame, one, output="nested"))


def test_wishes_that_cannot_be_met(spark, sample_set):
    frame = spark.createDataFrame([], "id string")
    with pytest.raises(PipelineError, match="ordinals have no room for constraints"):
        match(frame, sample_set, output="ordinals", include_constraints=True)
    with pytest.raises(PipelineError, match="output is 'columns'; there are rows, nested and ordinals"):
        match(frame, sample_set, output="columns")


def test_an_event_has_one_row_unless_it_matches_very_many(monkeypatch):
    monkeypatch.setattr(worker, "ROWS_OUT", 4)
    index, details = build(
        [*(Subscription(f"s{n}", parse("x > 0")) for n in range(3)), Subscription("t", parse("x == 2"))]
    )
    loaded = worker.LoadedSet(index, details)
    batch = pa.record_batch({"id": ["a", "b", "c", "d"], "x": [1, 1, 0, 2]})
    form, fields = EventForm("columns"), ("event_id", "ordinals")
    out = list(match_record_batch(loaded, batch, form, fields, "fail", nested=("ordinal",)))
    assert [part.column("event_id").to_pylist() for part in out] == [["a"], ["b"], ["d"]]
    assert [len(row) for part in out for row in part.column("ordinals").to_pylist()] == [3, 3, 4]
    monkeypatch.setattr(worker, "ROWS_OUT", 2)
    out = list(match_record_batch(loaded, batch.slice(3), form, fields, "fail", nested=("ordinal",)))
    assert [part.column("event_id").to_pylist() for part in out] == [["d"], ["d"]]


def test_ordinals_are_those_on_disk_also_of_an_index_that_was_built_anew(tmp_path):
    one = SubscriptionSet(tmp_path)
    one.publish(Subscription(f"s{n}", parse(f"x > {n}")) for n in range(20))
    one.change(remove=["s0", "s7"])
    loaded = one.load(2)
    before = {loaded.column("id")[slot].as_py(): slot for slot in range(len(loaded.details))}
    assert loaded.build_anew()
    for slot, id in enumerate(loaded.column("id").to_pylist()):
        if id is not None:
            assert loaded.ordinals([slot])[0] == before[id]
