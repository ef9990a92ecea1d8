"""How redundant a set of filters is: equal, covered, mergeable, by event type.

*Equal* is exact, for any number of subscriptions: filters are grouped by key. *Covered* and *mergeable* compare
filters with filters, so of a type with more distinct filters than ``sample`` only so many are judged, chosen by a hash
of the key; each of these is compared with every filter of the whole set, and the shares found are those of the type,
give or take the 95% margin that stands beside them. ``depth``, the longest chain of filters that cover one another, and
mergers of complex filters (alternatives, opaque predicates) look at all pairs among at most ``PAIRS`` filters of a
type: for larger types these figures are lower bounds.

One type is one row; beyond the ``TYPES`` types with most filters they share a row, and the last row is the whole set. A
filter is *covered* if another one of the set, of whatever type, covers it; of filters that cover each other one counts
as not covered. It is *mergeable* if it has a perfect merger with another one of its type, neither covering the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recado.pipeline.report.arrow import batch_of_rows
from recado.pipeline.report.digest import NEVER, digest, distinct_filters
from recado.pipeline.report.estimates import ROW_SCHEMA, Judged, TypeCounts, rows_of
from recado.pipeline.report.pairs import places
from recado.pipeline.report.sampled import Sampled
from recado.pipeline.report.shape import Shape, shape_of

SAMPLE = 2_000
"""Of each event type, this many distinct filters are compared with all others."""
SAMPLE_ALL = 40_000
"""And of all types together, this many: they travel to every worker."""
PAIRS = 300
"""Of each event type, this many filters are compared in all pairs."""
TYPES = 200
OTHER_TYPES = "(other types)"

_BUCKETS = 1 << 30
_FOUND = "number long, coverers long, joined boolean"
_FOUND_SCHEMA = pa.schema([("number", pa.int64()), ("coverers", pa.int64()), ("joined", pa.bool_())])
_PLACED = "number long, level long, coverers long, joined boolean"
_PLACED_SCHEMA = pa.schema(
    [("number", pa.int64()), ("level", pa.int64()), ("coverers", pa.int64()), ("joined", pa.bool_())]
)
_COMPLEX = -1
"""The number under which a task says how many complex filters it met."""


def redundancy(subscriptions: DataFrame, sample: int = SAMPLE) -> DataFrame:
    """One row an event type, the largest first, then one for the whole set; columns as in ``estimates.TypeRow``."""
    filters = distinct_filters(digest(subscriptions)).persist()
    try:
        return redundancy_of(filters, sample)
    finally:
        filters.unpersist()


def redundancy_of(filters: DataFrame, sample: int = SAMPLE) -> DataFrame:
    """The same from distinct filters: key, type, filter, subscriptions."""
    spark = filters.sparkSession
    counts = type_counts(filters)
    named = {count.type for count in counts}
    strata = filters.withColumn("type", F.when(F.col("type").isin(*named), F.col("type")).otherwise(OTHER_TYPES))
    chosen = _chosen(strata, counts, sample)
    judged, any_complex = _judge(strata, chosen) if chosen.num_rows else ([], False)
    return spark.createDataFrame(rows_of(counts, judged, any_complex, PAIRS), ROW_SCHEMA)


def type_counts(filters: DataFrame) -> list[TypeCounts]:
    """Of each event type: subscriptions, distinct filters, and how many subscriptions share theirs."""
    shared = F.when(F.col("subscriptions") > 1, F.col("subscriptions")).otherwise(0)
    never = F.when(F.col("key") == NEVER, F.col("subscriptions")).otherwise(0)
    ranked = filters.groupBy("type").agg(
        F.sum("subscriptions").alias("subscriptions"),
        F.count("*").alias("filters"),
        F.sum(shared).alias("equal"),
        F.max("subscriptions").alias("largest"),
        F.sum(never).alias("never"),
    )
    top = ranked.orderBy(F.desc("filters"), "type").limit(TYPES + 1).collect()
    out = [TypeCounts(**row.asDict()) for row in top[:TYPES]]
    if len(top) > TYPES:
        out.append(_others(ranked, [count.type for count in out]))
    return out


def _others(ranked: DataFrame, named: list[str]) -> TypeCounts:
    rest = ranked.where(~F.col("type").isin(*named))
    sums = [F.sum(name).alias(name) for name in ("subscriptions", "filters", "equal", "never")]
    row = rest.agg(*sums, F.max("largest").alias("largest")).collect()[0]
    return TypeCounts(type=OTHER_TYPES, **row.asDict())


# -- the sample --------------------------------------------------------------------------------------------------------


def _chosen(strata: DataFrame, counts: list[TypeCounts], sample: int) -> pa.Table:
    """The filters to be judged, on the driver: type, key, filter."""
    quota = _quota([count.filters for count in counts], sample)
    bar = F.lit(0)
    for count in counts:
        share = min(1.0, quota / count.filters)
        bar = F.when(F.col("type") == count.type, F.lit(int(share * _BUCKETS))).otherwise(bar)
    place = F.pmod(F.xxhash64("key"), F.lit(_BUCKETS))
    some = strata.where(place < bar).select("type", "key", "filter", place.alias("place"))
    return some.toArrow().sort_by([("type", "ascending"), ("place", "ascending"), ("key", "ascending")])


def _quota(sizes: list[int], sample: int) -> int:
    """How many filters of each type may be judged, so that the whole sample keeps within its bound."""
    quota = max(sample, 1)
    while quota > 1 and sum(min(size, quota) for size in sizes) > SAMPLE_ALL:
        quota //= 2
    return quota


# -- in executors ------------------------------------------------------------------------------------------------------


def _judge(strata: DataFrame, chosen: pa.Table) -> tuple[list[Judged], bool]:
    """What was found about each sampled filter, and whether the set has complex filters."""
    table = chosen.select(["type", "key", "filter"])
    numbers = pa.array(range(len(table)), pa.int64())
    packed = _packed(table)
    found = strata.select("type", "key", "filter").mapInArrow(lambda batches: _meet_all(batches, packed), _FOUND)
    found = found.groupBy("number").agg(F.sum("coverers").alias("coverers"), F.max("joined").alias("joined"))
    met = {row["number"]: row for row in found.toArrow().to_pylist()}

    few = strata.sparkSession.createDataFrame(_first_of_each_type(table.append_column("number", numbers)))
    placed = {row["number"]: row for row in few.groupBy("type").applyInArrow(_place, _PLACED).toArrow().to_pylist()}
    judged = [_judged(type, met.get(n), placed.get(n)) for n, type in enumerate(table.column("type").to_pylist())]
    return judged, _COMPLEX in met


def _judged(type: str, met: Mapping[str, Any] | None, placed: Mapping[str, Any] | None) -> Judged:
    return Judged(
        type=type,
        coverers=met["coverers"] if met else 0,
        joined=bool(met and met["joined"]) or bool(placed and placed["joined"]),
        level=placed["level"] if placed else None,
        own_coverers=placed["coverers"] if placed else None,
    )


def _first_of_each_type(table: pa.Table) -> pa.Table:
    """At most ``PAIRS`` rows of each type; the table is sorted by type."""
    seen: dict[str, int] = {}
    keep = []
    for type in table.column("type").to_pylist():
        seen[type] = seen.get(type, 0) + 1
        keep.append(seen[type] <= PAIRS)
    return table.filter(pa.array(keep))


def _meet_all(batches: Iterator[pa.RecordBatch], packed: bytes) -> Iterator[pa.RecordBatch]:
    """Let the filters of a partition pass by the sample; one row for each sampled filter with something found."""
    shapes, types = _sample(packed)
    sample = Sampled(shapes, types)
    complex = 0
    for batch in batches:
        for row in batch.to_pylist():
            shape = shape_of(row["key"], row["filter"])
            complex += shape.box is None
            sample.meet(shape, row["type"])
    rows = ((sample.coverers > 0) | sample.joined).nonzero()[0].tolist()
    found = [(number, int(sample.coverers[number]), bool(sample.joined[number])) for number in rows]
    if complex:
        found.append((_COMPLEX, complex, False))
    yield batch_of_rows(_FOUND_SCHEMA, found)


@lru_cache(maxsize=2)
def _sample(packed: bytes) -> tuple[list[Shape], list[str]]:
    """The sampled filters, read once a worker and not once a task."""
    with pa.ipc.open_stream(pa.py_buffer(zlib.decompress(packed))) as reader:
        columns = reader.read_all().to_pydict()
    return [shape_of(*pair) for pair in zip(columns["key"], columns["filter"], strict=True)], columns["type"]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return zlib.compress(sink.getvalue().to_pybytes(), 1)


def _place(table: pa.Table) -> pa.Table:
    """All pairs among the few filters of one type."""
    columns = table.to_pydict()
    shapes = [shape_of(*pair) for pair in zip(columns["key"], columns["filter"], strict=True)]
    found = places(shapes)
    return pa.table([columns["number"], *zip(*found, strict=True)], schema=_PLACED_SCHEMA)
