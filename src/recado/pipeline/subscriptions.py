"""Subscriptions out of DataFrames: one row each, the columns named as the members of a subscription record.

``id`` is required; ``filter``, ``syntax``, ``type``, ``owner``, ``expires_at`` are text (``expires_at`` may be a
timestamp); ``filters``, ``constraints`` and ``semantic`` may be JSON text, or nested columns of the same shape. A
single string column named ``value`` is taken as lines of NDJSON, as ``spark.read.text`` gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from recado.errors import RecadoError
from recado.filters.records import read_subscription
from recado.model.subscription import Subscription
from recado.model.times import format_time
from recado.pipeline.errors import PipelineError, user_errors

NESTED = ("filters", "constraints", "semantic")
MEMBERS = ("id", "filter", "syntax", "type", "owner", "expires_at", *NESTED)


def check_columns(names: list[str]) -> None:
    """Refuse a DataFrame that cannot hold subscriptions."""
    if names == ["value"]:
        return
    if "id" not in names:
        raise PipelineError(f"subscriptions need a column 'id'; there are: {', '.join(names)}")
    unknown = [name for name in names if name not in MEMBERS]
    if unknown:
        raise PipelineError(f"subscriptions have no column {unknown[0]!r}; there may be: {', '.join(MEMBERS)}")


def read_subscriptions(subscriptions: DataFrame, strict: bool = True) -> Iterator[Subscription]:
    """The subscriptions of a DataFrame, on the driver; a PipelineError names a wrong row, or it is left out."""
    check_columns(subscriptions.columns)
    with user_errors():
        table = subscriptions.toArrow()
    first = 0
    for batch in table.to_batches():
        for row, found in enumerate(read_batch(batch), first + 1):
            if not isinstance(found, RecadoError):
                yield found
            elif strict:
                raise PipelineError(f"subscriptions, row {row}: {found}")
        first += batch.num_rows


def read_batch(batch: pa.RecordBatch) -> Iterator[Subscription | RecadoError]:
    """Each row as a subscription, or as the error that says why it is none."""
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        try:
            yield read_subscription(_line(row))
        except RecadoError as error:
            yield error


def _line(row: Mapping[str, Any]) -> bytes | str:
    if list(row) == ["value"]:
        return row["value"] or ""
    members: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name in NESTED:
            members[name] = msgspec.Raw(value.encode()) if isinstance(value, str) else _plain(value)
        else:
            members[name] = format_time(value) if isinstance(value, datetime) else value
    return msgspec.json.encode(members)


def _plain(value: Any) -> Any:
    """Nested values without the members that are null, which a struct column cannot leave out."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
