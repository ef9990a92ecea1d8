"""Part one: Recado on Spark against what a Spark user would write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from benchmarks.baselines import UnsuitableError
from benchmarks.baselines.rules import PythonFunction
from benchmarks.harness import DisagreementError, Step
from benchmarks.oracle import sample_events
from benchmarks.pipeline.fixture import Fixture, Way, with_envelope, write_files
from benchmarks.pipeline.report import HASH_JOIN, LOOP_JOIN, RECADO, RULES, Side
from benchmarks.workloads import Mix, Stock, Workload, subscription_id
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, Filter, In
from recado.model.subscription import Subscription
from recado.pipeline.match import match

# --- compare ----------------------------------------------------------------------------------------------------------
# Part one: Recado on Spark against what a Spark user would write, at several numbers of subscriptions.
#
# *mix* has no attribute that all subscriptions ask for, so Spark can only join it in a nested loop. *stock* is added
# for honesty: all its subscriptions name a symbol, which is a key for Spark's hash join, and there the join does well.
#
# All sides must give the same pairs on a sample before any is timed. The sample has events of the workload and events
# made to match a subscription.


HUGE_METHODS = "spark.sql.codegen.hugeMethodLimit"


def compare(fixture: Fixture) -> Iterator[Side | Step]:
    """The rate of each side on each workload."""
    fixture.spark.conf.set(HUGE_METHODS, "8000")  # the nested-loop join is faster without what HotSpot does not compile
    try:
        yield from _sides(fixture)
    finally:
        fixture.spark.conf.unset(HUGE_METHODS)


def _sides(fixture: Fixture) -> Iterator[Side | Step]:
    plan = fixture.plan
    for workload in (*(Mix(size=size) for size in plan.compare_sizes), Stock(size=plan.keyed_size)):
        yield Step(f"compare: {workload.title}, same pairs on a sample")
        sides = ways(fixture, workload)
        checked = check(fixture, workload, sides)
        for name, way in sides.items():
            yield Step(f"compare: {workload.title}, {name}")
            first = fixture.data.block(workload) // 4 if name == RECADO else 2 * plan.sample_events
            events, rate = fixture.rate(workload, way, first, plan.seconds)
            yield Side(workload.name, workload.size, name, plan.cores, checked, events, rate)


def ways(fixture: Fixture, workload: Workload) -> dict[str, Way]:
    """How each side gets from events to pairs."""
    subscription_set = fixture.data.subscriptions(workload)
    table = as_table(workload.subscriptions(), workload.events(1).schema)
    path = fixture.data.folder / "tables" / f"{workload.name}-{workload.size}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path)
    rows = fixture.spark.read.parquet(str(path))
    return {
        RECADO: lambda events: match(events, subscription_set),
        HASH_JOIN if has_key(table) else LOOP_JOIN: lambda events: joined(events, table, rows),
        RULES: lambda events: by_rules(events, workload),
    }


def check(fixture: Fixture, workload: Workload, sides: dict[str, Way]) -> int:
    """How many pairs the sides agree on; a DisagreementError if they do not."""
    subscriptions = list(islice(workload.subscriptions(), 10_000))
    folder = fixture.data.folder / "samples" / f"{workload.name}-{workload.size}"
    folder.mkdir(parents=True)
    write_files(folder, with_envelope(sample_events(workload, subscriptions, fixture.plan.sample_events)))
    events = fixture.spark.read.parquet(str(folder))
    digests = {name: digest(way(events)) for name, way in sides.items()}
    if len(set(digests.values())) > 1:
        told = "; ".join(f"{name}: {pairs:,} pairs, digest {sum}" for name, (pairs, sum) in digests.items())
        raise DisagreementError(f"{workload.title} on Spark: not all sides give the same pairs: {told}")
    return digests[RECADO][0]


def digest(pairs: DataFrame) -> tuple[int, int]:
    """The number of pairs, and a sum over their hashes, whatever their order."""
    hashed = pairs.select(sql.xxhash64("event_id", "subscription_id").cast("decimal(20, 0)").alias("hash"))
    row = hashed.agg(sql.count("hash"), sql.coalesce(sql.sum("hash"), sql.lit(0))).collect()[0]
    return int(row[0]), int(row[1])


# --- the baselines ----------------------------------------------------------------------------------------------------
# What a Spark user would write today: subscriptions as a table to join with, or a Python function with all the rules.
#
# *The join.* A row for each subscription; of each attribute the value it must equal, the values it may have, its
# bounds. Null asks nothing, and a column without nulls needs no test for it. Where all subscriptions ask for equality
# of the same attribute, that is a key and Spark makes a hash join of it; else it compares every event with every
# subscription, in a nested loop over the broadcast table.
#
# *The rules.* One generated Python function with an ``if`` for each subscription, made once in a worker process and
# asked row by row in ``mapInArrow``: the interpreter's own best, without a call or a lookup for a rule.


PAIRS = "event_id string, subscription_id string"

# -- the join


def as_table(subscriptions: Iterable[Subscription], schema: pa.Schema) -> pa.Table:
    """Conjunctions as columns: ``a_eq``, ``a_in``, ``a_lo`` and ``a_hi`` for each attribute of the events' schema."""
    rows = [{"subscription_id": one.id} | _cells(one.filter) for one in subscriptions]
    used = {name for row in rows for name in row}
    fields = [
        pa.field(name, pa.list_(field.type) if suffix == "in" else field.type)
        for field in schema
        for suffix in ("eq", "in", "lo", "hi")
        if (name := f"{field.name}_{suffix}") in used
    ]
    return pa.Table.from_pylist(rows, pa.schema([("subscription_id", pa.string()), *fields]))


def _cells(condition: Filter) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for part in condition.parts if isinstance(condition, And) else (condition,):
        match part:
            case Compare(name, "==", str(value)):
                cells[f"{name}_eq"] = value
            case Compare(name, "==", value):  # numbers have bounds anyway
                cells |= {f"{name}_lo": value, f"{name}_hi": value}
            case In(name, values):
                cells[f"{name}_in"] = list(values)
            case Between(name, low, high):
                cells |= {f"{name}_lo": low, f"{name}_hi": high}
            case _:
                raise UnsuitableError(f"a column for {part} was not thought of")
    return cells


def has_key(table: pa.Table) -> bool:
    """Do all subscriptions ask for equality of one attribute?"""
    return any(name.endswith("_eq") and not table[name].null_count for name in table.column_names)


def joined(events: DataFrame, table: pa.Table, subscriptions: DataFrame) -> DataFrame:
    """The pairs; ``subscriptions`` holds the rows of the table."""
    condition = reduce(Column.__and__, _conditions(table))
    return events.join(sql.broadcast(subscriptions), condition).select(
        sql.col("id").alias("event_id"), "subscription_id"
    )


def _conditions(table: pa.Table) -> Iterator[Column]:
    for name in table.column_names[1:]:
        attribute, _, suffix = name.rpartition("_")
        asked = sql.col(name)
        test = _test(suffix, asked, sql.col(attribute))
        yield asked.isNull() | test if table[name].null_count else test


def _test(suffix: str, asked: Column, value: Column) -> Column:
    match suffix:
        case "eq":
            return value == asked
        case "in":
            return sql.array_contains(asked, value)
        case "lo":
            return value >= asked
        case _:
            return value <= asked


# -- the rules


def by_rules(events: DataFrame, workload: Workload) -> DataFrame:
    """The pairs, found by a Python function."""
    return events.mapInArrow(_rules(workload), PAIRS)


def _rules(workload: Workload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = compiled(workload)
        for batch in batches:
            yield _matched(rules, batch)

    return run


def _matched(rules: PythonFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
    events: list[str] = []
    subscriptions: list[str] = []
    for row in batch.to_pylist():
        found = rules.match(Event(row["id"], attributes=row))
        events += [row["id"]] * len(found)
        subscriptions += map(subscription_id, found)
    return pa.RecordBatch.from_pydict(
        {"event_id": pa.array(events, pa.string()), "subscription_id": pa.array(subscriptions, pa.string())}
    )


_compiled: dict[Workload, PythonFunction] = {}


def compiled(workload: Workload) -> PythonFunction:
    """The function of a workload; a worker process keeps one."""
    if workload not in _compiled:
        _compiled.clear()
        rules = PythonFunction()
        rules.build(workload.subscriptions())
        _compiled[workload] = rules
    return _compiled[workload]
