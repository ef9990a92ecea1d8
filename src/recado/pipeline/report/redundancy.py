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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import sqrt
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recado.filters.covering import merge
from recado.pipeline.report.digest import NEVER, batch_of_rows, digest, distinct_filters
from recado.pipeline.report.shape import Sampled, Shape, covers_shape, hides, shape_of

# --- All pairs among a few filters of one event type: chains of covering, and mergers of complex filters -------------
#
# The *level* of a filter is the length of the longest chain of ever wider filters that ends in it: 1 if nothing covers
# it. Covering without a complete test need not be transitive, so a chain is followed only from filters with fewer
# coverers to filters with more, which loses nothing between boxes.


class Place(NamedTuple):
    """Where a filter stands among the others."""

    level: int
    coverers: int
    joined: bool


def places(shapes: Sequence[Shape]) -> list[Place]:
    """The level of each filter, and whether it joins with another one where at least one of the two is complex."""
    joined = _complex_joins(shapes)
    wider = _wider(shapes)
    return [Place(level, len(wider[n]), n in joined) for n, level in enumerate(_levels(wider))]


def _wider(shapes: Sequence[Shape]) -> list[list[int]]:
    """For each filter, the numbers of those that cover it."""
    index = Sampled(shapes, [""] * len(shapes))
    wider: list[list[int]] = [[] for _ in shapes]
    for number, shape in enumerate(shapes):
        for other in index.candidates(shape):
            if hides(shape, shapes[other]):
                wider[other].append(number)
    return wider


def _levels(wider: Sequence[Sequence[int]]) -> list[int]:
    levels = [1] * len(wider)
    for number in sorted(range(len(wider)), key=lambda number: len(wider[number])):
        above = [levels[other] for other in wider[number] if len(wider[other]) < len(wider[number])]
        levels[number] = 1 + max(above, default=0)
    return levels


def _complex_joins(shapes: Sequence[Shape]) -> set[int]:
    found: set[int] = set()
    for (one, shape), (two, other) in combinations(enumerate(shapes), 2):
        if (shape.box is None or other.box is None) and not {one, two} <= found and joinable(shape, other):
            found |= {one, two}
    return found


def joinable(shape: Shape, other: Shape) -> bool:
    """Do the two have a perfect merger, although neither covers the other?"""
    if covers_shape(shape, other) or covers_shape(other, shape):
        return False
    return merge(shape.filter, other.filter) is not None


# --- From judged filters to figures of a type and of the whole set ---------------------------------------------------
#
# Within a type the judged filters are an even sample, so their share is the share of the type; its standard error is
# ``sqrt(p (1 - p) / n * (1 - n / N))`` for n judged of N. The whole set is the sum of its types, and the variances
# add. With every filter judged the margins are 0 and the figures exact. A depth is exact only if all pairs were
# compared, and no filter is covered by one of another type, such as one that takes any type: chains are followed
# within a type.


WHOLE_SET = "(whole set)"

EXACT, FROM_SAMPLE, AT_LEAST = "exact", "sample", "at least"

ROW_SCHEMA = (
    "type string, subscriptions long, filters long, redundancy double, equal long, largest long, never long, "
    "judged long, covered double, covered_share double, covered_margin double, covered_is string, "
    "mergeable double, mergeable_share double, mergeable_margin double, mergeable_is string, "
    "coverers double, depth long, depth_is string"
)


class TypeCounts(NamedTuple):
    """What is counted: ``equal`` subscriptions share their filter, ``largest`` is the most that share one."""

    type: str
    subscriptions: int
    filters: int
    equal: int
    largest: int
    never: int


class Judged(NamedTuple):
    """One filter of the sample. ``level``, and how many filters of its own type cover it, if those were compared."""

    type: str
    coverers: int
    joined: bool
    level: int | None = None
    own_coverers: int | None = None


class Estimate(NamedTuple):
    """How many of ``size`` filters have a property, and the variance of that number."""

    size: int
    number: float
    variance: float

    @property
    def share(self) -> float:
        return self.number / self.size if self.size else 0.0

    @property
    def margin(self) -> float:
        """Half the width of the 95% interval of the share."""
        return 1.96 * sqrt(self.variance) / self.size if self.size else 0.0


class TypeRow(NamedTuple):
    """A row of the table; ``_is`` says whether a figure is exact, from a sample, or a lower bound."""

    type: str
    subscriptions: int
    filters: int
    redundancy: float
    equal: int
    largest: int
    never: int
    judged: int
    covered: float
    covered_share: float
    covered_margin: float
    covered_is: str
    mergeable: float
    mergeable_share: float
    mergeable_margin: float
    mergeable_is: str
    coverers: float
    depth: int
    depth_is: str


def rows_of(counts: Sequence[TypeCounts], judged: Sequence[Judged], any_complex: bool, pairs: int) -> list[TypeRow]:
    """The rows of all types, and that of the whole set."""
    by_type: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_type[one.type].append(one)
    groups = [(count, by_type[count.type]) for count in counts]
    covered = [estimate(count.filters, [one.coverers > 0 for one in some]) for count, some in groups]
    merged = [estimate(count.filters, [one.joined for one in some]) for count, some in groups]
    rows = [
        _row(count, some, covered[i], merged[i], any_complex and count.filters > pairs)
        for i, (count, some) in enumerate(groups)
    ]
    bound = any(row.mergeable_is == AT_LEAST for row in rows)
    return [*rows, _row(_summed(counts), list(judged), _add(covered), _add(merged), bound)] if rows else []


def estimate(size: int, flags: Sequence[bool]) -> Estimate:
    """The number of filters with a property among ``size``, from those judged."""
    judged = len(flags)
    if not judged:
        return Estimate(size, 0.0, float(size) ** 2 / 4)
    share = sum(flags) / judged
    variance = share * (1 - share) / judged * (1 - judged / size) if size else 0.0
    return Estimate(size, share * size, variance * size**2)


def _add(estimates: Sequence[Estimate]) -> Estimate:
    return Estimate(*(sum(column) for column in zip(*estimates, strict=True)))


def _summed(counts: Sequence[TypeCounts]) -> TypeCounts:
    return TypeCounts(
        WHOLE_SET,
        sum(count.subscriptions for count in counts),
        sum(count.filters for count in counts),
        sum(count.equal for count in counts),
        max(count.largest for count in counts),
        sum(count.never for count in counts),
    )


def _row(count: TypeCounts, judged: list[Judged], covered: Estimate, merged: Estimate, bound: bool) -> TypeRow:
    exact = len(judged) == count.filters
    levels = [one.level for one in judged if one.level is not None]
    seen = [2 if one.coverers else 1 for one in judged]
    whole = exact and all(one.own_coverers == one.coverers for one in judged)
    return TypeRow(
        type=count.type,
        subscriptions=count.subscriptions,
        filters=count.filters,
        redundancy=1 - count.filters / count.subscriptions,
        equal=count.equal,
        largest=count.largest,
        never=count.never,
        judged=len(judged),
        covered=covered.number,
        covered_share=covered.share,
        covered_margin=covered.margin,
        covered_is=EXACT if exact else FROM_SAMPLE,
        mergeable=merged.number,
        mergeable_share=merged.share,
        mergeable_margin=merged.margin,
        mergeable_is=AT_LEAST if bound else EXACT if exact else FROM_SAMPLE,
        coverers=sum(one.coverers for one in judged) / len(judged) if judged else 0.0,
        depth=max(levels + seen, default=0),
        depth_is=EXACT if whole else AT_LEAST,
    )


# --- How redundant a set of filters is: equal, covered, mergeable, by event type -------------------------------------

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
    chosen = _choose(strata, counts, sample)
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


def _choose(strata: DataFrame, counts: list[TypeCounts], sample: int) -> pa.Table:
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
    packed = _pack(table)
    found = strata.select("type", "key", "filter").mapInArrow(lambda batches: _meet_all(batches, packed), _FOUND)
    found = found.groupBy("number").agg(F.sum("coverers").alias("coverers"), F.max("joined").alias("joined"))
    met = {row["number"]: row for row in found.toArrow().to_pylist()}

    few = strata.sparkSession.createDataFrame(_first_of_each_type(table.append_column("number", numbers)))
    placed = {row["number"]: row for row in few.groupBy("type").applyInArrow(_place, _PLACED).toArrow().to_pylist()}
    judged = [_judged(type, met.get(n), placed.get(n)) for n, type in enumerate(table.column("type").to_pylist())]
    return judged, _COMPLEX in met


def _judged(event_type: str, met: Mapping[str, Any] | None, placed: Mapping[str, Any] | None) -> Judged:
    return Judged(
        type=event_type,
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


def _pack(table: pa.Table) -> bytes:
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
