"""The workloads of the benchmark; each says what its events and subscriptions look like."""

from benchmarks.workloads.base import CHUNK, Workload, subscription_id, to_events
from benchmarks.workloads.mix import Boolean, Mix, Wide
from benchmarks.workloads.ranges import PUBLICATIONS, Ranges, Sensor
from benchmarks.workloads.stock import Growth, Stock, growth
from benchmarks.workloads.words import TextMatch, Words

__all__ = [
    "CHUNK",
    "PUBLICATIONS",
    "Boolean",
    "Growth",
    "Mix",
    "Ranges",
    "Sensor",
    "Stock",
    "TextMatch",
    "Wide",
    "Words",
    "Workload",
    "growth",
    "subscription_id",
    "to_events",
]
