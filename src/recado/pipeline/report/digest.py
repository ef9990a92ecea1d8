"""Subscriptions as the report needs them: one row each, with the key of its filter; then one row a distinct filter.

Filters are read, checked and brought to their key in executors, on Arrow batches; grouping by key is Spark's own
work, so equality is exact for sets of any size. A row that is no subscription keeps its place with a reason, and
takes part in nothing but the count of bad rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.filters.expression import format
from recado.filters.normal import filter_key
from recado.model.subscription import Subscription
from recado.pipeline.report.shape import event_type
from recado.pipeline.subscriptions import MEMBERS, check_columns, read_batch

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
        "filter": format(whole),
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
