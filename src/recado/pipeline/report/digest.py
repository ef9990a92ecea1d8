"""Subscriptions as the report needs them: one row each, with the key of its filter; then one row a distinct filter.

Filters are read, checked and brought to their key in executors, on Arrow batches; grouping by key is Spark's own
work, so equality is exact for sets of any size. A row that is no subscription keeps its place with a reason, and
takes part in nothing but the count of bad rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import lgamma, log
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.filters.expression import format_expression
from recado.filters.normal import filter_key
from recado.model.subscription import Subscription
from recado.model.values import format_time
from recado.pipeline.report.shape import event_type
from recado.pipeline.sets import MEMBERS, check_columns, read_batch

DIGEST = "id string, owner string, type string, key string, filter string, reason string"
_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "owner", "type", "key", "filter", "reason")])
_UNREAD = ("expires_at", "constraints", "semantic")
"""Carried along by a record, and no matter of the filter."""

NEVER = "false"
"""The key of a filter that no event can satisfy."""


def digest(subscriptions: DataFrame) -> DataFrame:
    """id, owner, type, key and filter of each subscription; or ``reason``, why the row is none."""
    check_columns(subscriptions.columns)
    known = [name for name in subscriptions.columns if name in MEMBERS and name not in _UNREAD]
    rows = subscriptions.select(*known) if known else subscriptions
    return rows.mapInArrow(digest_batches, DIGEST)


def digest_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What runs in executors."""
    for batch in batches:
        rows = [_row(found) for found in read_batch(batch)]
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _row(found: Subscription | RecadoError) -> dict[str, str]:
    if isinstance(found, RecadoError):
        return {"reason": str(found)}
    whole = found.whole_filter()
    return {
        "id": found.id,
        "owner": found.owner,
        "type": event_type(whole, found.type),
        "key": filter_key(whole),
        "filter": format_expression(whole),
    }


def good(digests: DataFrame) -> DataFrame:
    """The rows that are subscriptions."""
    return digests.where("reason is null")


def rejected(digests: DataFrame, limit: int = 100) -> DataFrame:
    """Why rows are no subscriptions: each reason with its number of rows, the most frequent first."""
    bad = digests.where("reason is not null")
    return bad.groupBy("reason").agg(F.count("*").alias("rows")).orderBy(F.desc("rows"), "reason").limit(limit)


def distinct_filters(digests: DataFrame) -> DataFrame:
    """key, type, filter and how many subscriptions have it."""
    return (
        good(digests)
        .groupBy("key")
        .agg(F.min("type").alias("type"), F.min("filter").alias("filter"), F.count("*").alias("subscriptions"))
    )


def written_filters(digests: DataFrame) -> DataFrame:
    """Each filter as it is written, and how many subscriptions have it: equal meanings are told apart."""
    return good(digests).groupBy("filter").agg(F.count("*").alias("subscriptions"))


# --- How popular filters are: families of equal filters, and the Zipf exponent of their sizes ------------------------
#
# A *family* is all subscriptions with one filter. In a super-node overlay one of them represents the others, so with N
# subscriptions and F families the redundancy is ``R = 1 - F / N``, a super node has ``N / F - 1`` children on average,
# and the longest list of children is the largest family less one. The Zipf exponent tells whether popularity is even
# (0) or concentrated: the family of rank r has a size in proportion to ``r ** -s``. It is fitted by maximum likelihood
# over all ranks; ranks by observed size make even popularity look somewhat concentrated, the more so the smaller the
# families.


MOST_EXPONENT = 5.0
_SUMMED = 100_000
"""Ranks that are summed one by one; beyond, the sum is an integral."""


def families(filters: DataFrame) -> DataFrame:
    """How many filters are shared by ``size`` subscriptions; from distinct filters, the smallest size first."""
    counted = filters.groupBy(F.col("subscriptions").alias("size")).agg(F.count("*").alias("filters"))
    return counted.withColumn("subscriptions", F.col("size") * F.col("filters")).orderBy("size")


def popular(filters: DataFrame, limit: int = 20) -> DataFrame:
    """The filters that most subscriptions have."""
    columns = ("filter", "type", "subscriptions")
    return filters.select(*columns).orderBy(F.desc("subscriptions"), "filter").limit(limit)


def zipf_exponent(sizes: Sequence[tuple[int, int]]) -> float:
    """The exponent that fits families given as (size, how many of it) best; 0 if all have one size."""
    ordered = sorted(sizes, reverse=True)
    total = sum(size * number for size, number in ordered)
    ranks = sum(number for _, number in ordered)
    if len(ordered) < 2:
        return 0.0
    logs = _sum_of_logs(ordered)
    return _lowest(lambda s: s * logs + total * log(harmonic(ranks, s)))


def _sum_of_logs(ordered: Sequence[tuple[int, int]]) -> float:
    """The sum over all subscriptions of the logarithm of their family's rank."""
    out, before = 0.0, 0
    for size, number in ordered:
        out += size * (lgamma(before + number + 1) - lgamma(before + 1))
        before += number
    return out


def harmonic(ranks: int, exponent: float) -> float:
    """The sum of ``r ** -exponent`` over the ranks."""
    direct = min(ranks, _SUMMED)
    out = float((np.arange(1, direct + 1, dtype=np.float64) ** -exponent).sum())
    if ranks > direct:
        low, high = direct + 0.5, ranks + 0.5
        rest = log(high / low) if exponent == 1 else (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
        out += rest
    return out


def _lowest(cost: Callable[[float], float]) -> float:
    """Where a function with one valley is lowest between 0 and ``MOST_EXPONENT``, by golden section."""
    ratio = (5**0.5 - 1) / 2
    low, high = 0.0, MOST_EXPONENT
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    return (low + high) / 2


# --- Arrow batches out of Python rows, in the types that Spark was told ----------------------------------------------


def batch_of_rows(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """One batch from rows; their members in the schema's order."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --- The figures of a report in one dictionary: what ``summary.json`` holds and the page tells in words --------------
#
# ``super_nodes`` is what an overlay with one representative a filter needs to know, ``routing`` what a broker's table
# comes to: *simple* keeps every subscription, *identity* one of equal filters, *covering* only what nothing covers.


Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Rows]

_NOTHING: dict[str, Any] = {
    "subscriptions": 0, "filters": 0, "redundancy": 0.0, "equal": 0, "largest": 0, "never": 0, "judged": 0,
    "covered": 0.0, "covered_share": 0.0, "covered_margin": 0.0, "covered_is": "exact",
    "mergeable": 0.0, "mergeable_share": 0.0, "mergeable_margin": 0.0, "mergeable_is": "exact",
    "coverers": 0.0, "depth": 0, "depth_is": "exact",
}  # fmt: skip


def summarise(tables: Tables, title: str, now: datetime) -> dict[str, Any]:
    """The summary of all tables that there are."""
    whole = tables["redundancy"][-1] if tables["redundancy"] else _NOTHING
    out: dict[str, Any] = {
        "title": title,
        "made_at": format_time(now),
        "subscriptions": whole["subscriptions"],
        "rejected_subscriptions": _first(tables, "rejected_rows", "rows"),
        "never_matching": whole["never"],
        "types": max(len(tables["redundancy"]) - 1, 0),
        "filters": whole["filters"],
        "equal": whole["equal"],
        "covered": _figure(whole, "covered"),
        "mergeable": _figure(whole, "mergeable"),
        "super_nodes": _super_nodes(whole, tables["families"]),
        "routing": _routing(whole),
        "attributes": _attributes(tables["attributes"]),
    }
    return out | _activity(tables, whole["subscriptions"])


def _figure(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "filters": round(row[name]),
        "share": row[f"{name}_share"],
        "margin": row[f"{name}_margin"],
        "is": row[f"{name}_is"],
        "judged": row["judged"],
    }


def _super_nodes(whole: Mapping[str, Any], families: Rows) -> dict[str, Any]:
    filters, subscriptions = whole["filters"], whole["subscriptions"]
    return {
        "redundancy": whole["redundancy"],
        "representatives": filters,
        "children_mean": subscriptions / filters - 1 if filters else 0.0,
        "children_most": max(whole["largest"] - 1, 0),
        "zipf_exponent": zipf_exponent([(row["size"], row["filters"]) for row in families]),
    }


def _routing(whole: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "simple": whole["subscriptions"],
        "identity": whole["filters"],
        "covering": round(whole["filters"] - whole["covered"]),
        "coverers_mean": whole["coverers"],
        "depth": whole["depth"],
        "depth_is": whole["depth_is"],
    }


def _attributes(rows: Rows) -> dict[str, Any]:
    out: dict[str, Any] = {"named": len(rows), "hottest": [row["attribute"] for row in rows[:5]]}
    if any("present" in row for row in rows):
        out["in_no_event"] = [row["attribute"] for row in rows if not row["present"]]
    return out


def _activity(tables: Tables, subscriptions: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if "reached" in tables:
        reached = _first(tables, "reached", "subscriptions")
        out["notifications"] = _first(tables, "reached", "pairs")
        out["reached_subscriptions"] = reached
        out["reached_share"] = reached / subscriptions if subscriptions else 0.0
    if tables.get("selectivity"):
        row = tables["selectivity"][-1]
        out["events"] = row["events"]
        out["rejected_events"] = sum(bad["rows"] for bad in tables["rejected_events"])
        out["matches_an_event"] = {name: row[name] for name in ("mean", "median", "p99", "most")}
        out["selectivity"] = row["share"]
        out["unwanted_events"] = row["none"]
    return out


def _first(tables: Tables, table: str, column: str) -> int:
    return int(tables[table][0][column]) if tables[table] else 0
