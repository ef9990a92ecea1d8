"""Every part of the pipeline's benchmark on a real session, with a handful of events: what it counts must be right."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

import pyarrow as pa
import pytest
from msgspec.structs import replace

from benchmarks.harness import DisagreementError, Rate, Step
from benchmarks.oracle import naive_answers
from benchmarks.pipeline import Plan, StatePlan, WaysPlan, start_child
from benchmarks.pipeline import kernel as kernel_part
from benchmarks.pipeline.child import run_parts
from benchmarks.pipeline.compare import check, compare, ways
from benchmarks.pipeline.fixture import START_MICROS, Data, Fixture
from benchmarks.pipeline.growth import growth
from benchmarks.pipeline.kernel import Bare, Job, ReadyMade, costs, exchanged, kernel, read_batch, run_bare
from benchmarks.pipeline.kernel import check as check_sample
from benchmarks.pipeline.outputs import check_outputs, outputs
from benchmarks.pipeline.report import (
    EXCHANGE,
    HASH_JOIN,
    LOOP_JOIN,
    PACKED,
    READ,
    RECADO,
    ROWS_BEFORE,
    RULES,
    SENT,
    SINGLE,
    WHOLE,
    Growth,
    Kernel,
    Loading,
    Outcome,
    Partitioning,
    Side,
    State,
    StateWay,
)
from benchmarks.pipeline.state import WAYS, micro_batch, state
from benchmarks.workloads import Mix, Stock, to_events
from recado.broker.constraints import decode_constraints, satisfied
from recado.pipeline.match import match

PLAN = Plan(
    cores=2,
    seconds=0.0,
    runs=1,
    block=400,
    sample_events=4,
    compare_sizes=(),
    keyed_size=60,
    kernel_size=300,
    kernel_seconds=0.0,
    output_events=400,
    growth_sizes=(200, 400),
    growth_events=(100, 800),
    state=StatePlan(keys=40, batches=2, rows_per_key=3),
    ways=WaysPlan(keys=20, rows=60, batches=2, buckets=(2, 4)),
    partition_sizes=(200,),
    partition_events=200,
)

pytestmark = pytest.mark.long  # jobs of half a minute that measure; what they measure is tested with the pipeline


READY = pa.RecordBatch.from_pydict(
    {
        "event_id": ["e"] * 3,
        "subscription_id": ["s"] * 3,
        "owner": [""] * 3,
        "event_time": pa.nulls(3, pa.timestamp("us", "UTC")),
    }
)
"""Fewer notifications than a batch of events gets."""


@pytest.fixture
def fixture(spark, tmp_path):
    return Fixture(spark, PLAN, Data(tmp_path, PLAN.block))


def records(part, kind):
    return [record for record in part if isinstance(record, kind)]


def test_all_sides_find_what_the_naive_matcher_finds(fixture):
    workload = Mix(size=300)
    batch = workload.events(PLAN.block)
    expected = {
        (f"e{number}", id)
        for number, ids in enumerate(naive_answers(workload.subscriptions(), to_events(batch.slice(0, 60))))
        for id in ids
    }
    assert len(expected) > 5
    events = fixture.data.events(fixture.spark, workload, 60)
    sides = ways(fixture, workload)
    assert list(sides) == [RECADO, LOOP_JOIN, RULES]
    for name, way in sides.items():
        rows = way(events).select("event_id", "subscription_id").collect()
        assert len(rows) == len(expected), name
        assert {tuple(row) for row in rows} == expected, name


def test_sides_are_checked_and_timed(fixture):
    sides = records(compare(fixture), Side)
    assert [(side.workload, side.side) for side in sides] == [("stock", RECADO), ("stock", HASH_JOIN), ("stock", RULES)]
    assert all(side.checked > 0 and side.rate.best > 0 for side in sides)


def test_a_side_that_finds_something_else_ends_the_run(fixture):
    workload = Stock(size=60)
    ours = ways(fixture, workload)[RECADO]
    with pytest.raises(DisagreementError, match=r"stock 60 on Spark: not all sides .* nothing: 0 pairs, digest 0"):
        check(fixture, workload, {RECADO: ours, "nothing": lambda events: ours(events).limit(0)})


def test_every_output_by_turns_with_the_bare_matcher(fixture):
    found = records(outputs(fixture), Outcome)
    assert (
        len(found) == 14
    )  # three outputs of three workloads, arrays of columns with either reader, and rows as before
    assert {record.output for record in found} == {"rows", "nested", "ordinals", ROWS_BEFORE}
    assert all(record.share > 0 and record.cpu_share > 0 for record in found)


def test_an_output_that_differs_from_the_oracle_ends_the_run(fixture):
    workload = Stock(size=60)
    one = fixture.data.subscriptions(workload)
    assert check_outputs(fixture, workload, "JSON", one) > 0
    with pytest.raises(DisagreementError, match="stock 60, columns: nothing disagrees with the oracle on event"):
        check_sample(fixture, workload, "columns", {"nothing": lambda events: match(events, one).limit(0)})


def test_the_matcher_without_spark_makes_the_same_notifications(fixture, monkeypatch):
    asked = []

    def in_processes(count, work):
        asked.append(count)
        return [Bare(Rate(3.0, 3.0), Rate(2.0, 2.0), 0.5, run_bare(work).ready)] * count

    monkeypatch.setattr(kernel_part, "_in_processes", in_processes)
    monkeypatch.setattr(kernel_part, "costs", lambda *_: iter(()))  # has a test of its own
    found = records(kernel(fixture), Kernel)
    assert [record.title for record in found] == ["stock 300, columns", "wide 300, columns", "wide 300, JSON"]
    assert asked == [1, 2, 1, 2, 1, 2]
    assert found[1].notifications_per_event == found[2].notifications_per_event
    assert found[0].together == Rate(4.0, 4.0)
    assert found[0].share == found[0].spark.best / 4
    workload = Stock(size=300)
    answers = naive_answers(workload.subscriptions(), to_events(workload.events(PLAN.block)))
    assert found[0].notifications_per_event == sum(map(len, answers)) / PLAN.block


def test_steps_of_a_job_end_with_the_job(fixture):
    workload = Stock(size=20)
    way = partial(match, subscriptions=fixture.data.subscriptions(workload))
    found = list(costs(Job(fixture, workload, "columns", 8), way, ReadyMade(READY, 1.25)))
    assert [cost.step for cost in found] == [READ, SENT, EXCHANGE, WHOLE]
    assert all(cost.rate.best > 0 and cost.title == "stock 20, columns" for cost in found)


def test_the_exchange_gives_back_as_many_rows_as_matching(fixture):
    events = fixture.data.events(fixture.spark, Stock(size=20), 8).coalesce(1)
    rows = exchanged(events, ReadyMade(READY, 1.25)).collect()
    assert len(rows) == 10
    assert {(row.event_id, row.subscription_id) for row in rows} == {("e", "s")}
    assert rows[0].matched_at is not None


def test_only_what_filters_name_is_read(fixture):
    folder = fixture.data.event_folder(Stock(size=10), 100, files=2)
    batches = [read_batch(file, {"Price"}) for file in sorted(folder.iterdir())]
    assert [batch.num_rows for batch in batches] == [50, 50]
    assert batches[0].schema.names == ["id", "time", "Price"]


def test_growth_counts_tasks_and_loads(fixture):
    found = list(growth(fixture))
    points = records(found, Growth)
    assert [(point.subscriptions, point.events) for point in points] == [(200, 100), (200, 800), (400, 100), (400, 800)]
    (loading,) = records(found, Loading)
    assert loading.sets == 2
    assert 1 <= loading.most_loads <= 2
    assert loading.loads <= 2 * loading.workers
    assert loading.tasks > loading.loads
    assert loading.mapped_bytes >= loading.mapped_once_bytes > 0
    assert loading.private_bytes > 0


def test_state_delivers_what_the_policy_delivers(fixture):
    (found,) = records(state(fixture), State)
    plan = PLAN.state
    assert found.notifications == plan.keys * plan.rows_per_key * plan.batches
    assert found.delivered == delivered_by_policy(plan)
    assert found.rate > 0
    assert found.state_rows > 0
    assert found.disk_bytes > 0


def delivered_by_policy(plan):
    rows = [row for number in range(plan.batches) for row in micro_batch(plan, number).to_pylist()]
    last, count = defaultdict(lambda: None), 0
    for row in sorted(rows, key=lambda row: row["event_time"]):
        now, id = row["event_time"].astimezone(UTC), row["subscription_id"]
        if satisfied(decode_constraints(row["constraints"]), now, now, last[id], True):
            last[id], count = now, count + 1
    return count


def test_a_micro_batch_is_a_minute_for_every_key():
    rows = micro_batch(StatePlan(keys=5, rows_per_key=2), 3).to_pylist()
    begin = datetime.fromtimestamp(START_MICROS / 1e6, UTC) + timedelta(minutes=3)
    assert {row["event_time"] - begin < timedelta(minutes=1) for row in rows} == {True}
    assert sorted(row["subscription_id"] for row in rows) == sorted(["s0", "s1", "s2", "s3", "s4"] * 2)
    assert len({row["event_id"] for row in rows}) == 10


def test_parts_run_in_the_order_of_the_plan(fixture):
    plan = replace(PLAN, parts=("state",))
    first = next(iter(run_parts(fixture._replace(plan=plan))))
    assert first == Step("state: 40 keys")


@pytest.mark.long
def test_a_session_of_its_own_tells_what_it_does(tmp_path):
    told = list(islice(start_child(replace(PLAN, parts=("kernel",), cores=1), tmp_path), 4))
    assert [type(record) for record in told] == [Step, Step, Step, Kernel]


@pytest.mark.long
def test_all_ways_to_keep_state_let_the_same_through(tmp_path):
    found = records(start_child(replace(PLAN, parts=("ways",)), tmp_path), StateWay)
    assert [(one.way, one.buckets) for one in found[:3]] == [(PACKED, 2), (PACKED, 4), ("free", 2)]
    assert {one.way for one in found} == set(WAYS)
    assert len({one.delivered for one in found if one.way != "free"}) == 1
    assert found[2].delivered == 120 > found[0].delivered > 0


@pytest.mark.long
def test_partitions_find_what_one_index_finds(tmp_path):
    single, parts, *_ = records(start_child(replace(PLAN, parts=("partitions",)), tmp_path), Partitioning)
    assert single.way == SINGLE
    assert single.notifications == parts.notifications > 0
    assert parts.visits > 0
