"""The counting join in Polars: pairs (event, subscription) for every predicate that holds, counted.

For each attribute the events' values are joined with the points (an equality join) and with the ranges (an inequality
join). Each predicate that holds gives one pair; a subscription matches where it has as many pairs as predicates. One
thread: ``POLARS_MAX_THREADS=1`` has to be in the environment before Polars is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from benchmarks.yardsticks.base import Numbers
from benchmarks.yardsticks.conjunctions import Column, Conjunctions
from recado.model.subscription import Subscription


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
