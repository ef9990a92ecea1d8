"""The counting join in DuckDB, in SQL: the same plan as with Polars, on one thread.

Tables of points and ranges stand ready for each attribute; the record batch is read in place. Each predicate that
holds gives a row (event, owner), and a subscription matches where its rows are as many as its predicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks.yardsticks.base import Numbers
from benchmarks.yardsticks.conjunctions import Column, Conjunctions
from recado.model.subscription import Subscription


class DuckdbJoin:
    name: ClassVar[str] = "duckdb"
    package: ClassVar[str] = "duckdb"
    batch_size: ClassVar[int | None] = 1_000

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        self._database: Any = import_module("duckdb").connect(":memory:", config={"threads": 1})
        table = Conjunctions(subscriptions)
        joins = [
            join
            for number, (name, column) in enumerate(table.columns.items())
            for join in self._store(number, name, column)
        ]
        self._create("needed", {"owner": range(len(table.needed)), "needed": table.needed})
        self._query = f"""
            SELECT event, owner FROM (
                SELECT event, owner, count(*) AS held FROM ({" UNION ALL ".join(joins)}) GROUP BY event, owner
            ) JOIN needed USING (owner) WHERE held = needed
        """

    def bytes_used(self) -> int:
        """What DuckDB's own account of its memory says."""
        used = self._database.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()
        return int(used[0])

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        numbered = batch.append_column("event", pa.array(range(len(batch)), pa.int32()))
        self._database.register("events", pa.Table.from_batches([numbered]))
        found = self._database.execute(self._query).fetchnumpy()
        return found["event"], found["owner"]

    def _store(self, number: int, name: str, column: Column) -> Iterable[str]:
        """Create the tables of one attribute; give the joins that read them."""
        if column.point_owners:
            self._create(f"points_{number}", {"owner": column.point_owners, "value": column.point_values})
            yield f'SELECT event, owner FROM events JOIN points_{number} ON "{name}" = value'
        if column.range_owners:
            ranges = {"owner": column.range_owners, "low": column.range_lows, "high": column.range_highs}
            self._create(f"ranges_{number}", ranges)
            yield f'SELECT event, owner FROM events JOIN ranges_{number} ON "{name}" BETWEEN low AND high'

    def _create(self, table: str, columns: dict[str, Any]) -> None:
        self._database.register("columns", pa.table({name: pa.array(values) for name, values in columns.items()}))
        self._database.execute(f"CREATE TABLE {table} AS SELECT * REPLACE (owner::INTEGER AS owner) FROM columns")
        self._database.unregister("columns")
