"""The workloads of the benchmark; each module says what its events and subscriptions look like."""

from benchmarks.workloads.base import CHUNK, Workload, subscription_id, to_events
from benchmarks.workloads.boolean import Boolean
from benchmarks.workloads.mix import Mix
from benchmarks.workloads.ranges import Ranges
from benchmarks.workloads.sensor import Sensor
from benchmarks.workloads.stock import Growth, Stock, growth
from benchmarks.workloads.text import TextMatch
from benchmarks.workloads.wide import Wide
from benchmarks.workloads.words import Words

__all__ = [
    "CHUNK",
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
