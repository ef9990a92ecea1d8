"""The workloads of the benchmark; each module says what its events and subscriptions look like."""

from recado.bench.workloads.base import CHUNK, Workload, subscription_id, to_events
from recado.bench.workloads.boolean import Boolean
from recado.bench.workloads.mix import Mix
from recado.bench.workloads.ranges import Ranges
from recado.bench.workloads.sensor import Sensor
from recado.bench.workloads.stock import Growth, Stock, growth
from recado.bench.workloads.text import TextMatch
from recado.bench.workloads.wide import Wide
from recado.bench.workloads.words import Words

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
