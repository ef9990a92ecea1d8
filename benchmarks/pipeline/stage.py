"""Where the parts of a run take place: a Spark session, the plan and the data, which every part needs together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.pipeline.data import Data, Form
from benchmarks.pipeline.plan import Plan
from benchmarks.pipeline.timing import rate_of, seconds_of
from benchmarks.records import Rate
from benchmarks.workloads import Workload

Way = Callable[[DataFrame], DataFrame]
"""From events to pairs of an event and a subscription."""


class Stage(NamedTuple):
    spark: SparkSession
    plan: Plan
    data: Data

    def seconds(self, workload: Workload, way: Way, count: int, form: Form = "columns") -> float:
        """How long it takes to match so many events."""
        return seconds_of(way(self.data.events(self.spark, workload, count, form)))

    def rate(
        self, workload: Workload, way: Way, first: int, seconds: float, form: Form = "columns"
    ) -> tuple[int, Rate]:
        """How many events fill about ``seconds``, and their rate; ``first`` is the number to begin with."""
        return rate_of(
            lambda count: self.seconds(workload, way, count, form),
            first,
            seconds,
            self.plan.runs,
            lambda count: self.data.fit(workload, count),
        )
