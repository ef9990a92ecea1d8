"""Arrow batches out of Python rows, in the types that Spark was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def batch_of_rows(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """One batch from rows; their members in the schema's order."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
