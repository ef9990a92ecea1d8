"""The counting join, in Polars and in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks.baselines.bitset import Column, Conjunctions, Numbers
from recado.model.subscription import Subscription

# --- polars join ------------------------------------------------------------------------------------------------------
# The counting join in Polars: pairs (event, subscription) for every predicate that holds, counted.
#
# For each attribute the events' values are joined with the points (an equality join) and with the ranges (an inequality
# join). Each predicate that holds gives one pair; a subscription matches where it has as many pairs as predicates. One
# thread: ``POLARS_MAX_THREADS=1`` has to be in the environment before Polars is imported.


class PolarsJoin:
    name: ClassVar[str] = "polars"
    package: ClassVar[str] = "polars"
    batch_size: ClassVar[int | None] = 1_000

    def build(self, subscriptions: Iterable[Subscription]) -> None:
        self._polars: Any = import_module("polars")
        table = Conjunctions(subscriptions)
        self._points = {name: self._point_frame(column) for name, column in table.columns.items()}
        self._ranges = {name: self._range_frame(column) for name, column in table.columns.items()}
        self._needed = self._polars.Series("needed", table.needed, dtype=self._polars.UInt32)

    def bytes_used(self) -> int:
        frames = (*self._points.values(), *self._ranges.values())
        return int(sum(frame.estimated_size() for frame in frames))

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        pl = self._polars
        events = pl.from_arrow(batch).lazy().with_row_index("event")
        joins = [join for name in self._points for join in self._joins(events, name)]
        pairs = pl.concat(joins).group_by("event", "owner").agg(pl.len().alias("held")).collect()
        matched = pairs.filter(pairs["held"] == self._needed.gather(pairs["owner"]))
        return matched["event"].to_numpy(), matched["owner"].to_numpy()

    def _joins(self, events: Any, name: str) -> list[Any]:
        pl = self._polars
        values = events.select("event", pl.col(name).alias("value"))
        joins = []
        if self._points[name].height:
            joins.append(values.join(self._points[name].lazy(), on="value").select("event", "owner"))
        if self._ranges[name].height:
            inside = (pl.col("value") >= pl.col("low"), pl.col("value") <= pl.col("high"))
            joins.append(values.join_where(self._ranges[name].lazy(), *inside).select("event", "owner"))
        return joins

    def _point_frame(self, column: Column) -> Any:
        return self._frame(owner=column.point_owners, value=column.point_values)

    def _range_frame(self, column: Column) -> Any:
        return self._frame(owner=column.range_owners, low=column.range_lows, high=column.range_highs)

    def _frame(self, **columns: list[Any]) -> Any:
        return self._polars.DataFrame(columns, schema_overrides={"owner": self._polars.UInt32})


# --- duckdb join ------------------------------------------------------------------------------------------------------
# The counting join in DuckDB, in SQL: the same plan as with Polars, on one thread.
#
# Tables of points and ranges stand ready for each attribute; the record batch is read in place. Each predicate that
# holds gives a row (event, owner), and a subscription matches where its rows are as many as its predicates.


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
