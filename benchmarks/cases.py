"""Which workloads are run at which size, and against whom: the full plan and the quick one.

A peer stands where it can take the workload in reasonable time: the joins and bitsets on conjunctions that are not
too many, the engines that ask every filter in turn on 10,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from benchmarks.workloads import Boolean, Mix, Ranges, Sensor, Stock, TextMatch, Wide, Words, Workload, growth
from benchmarks.workloads.sensor import PUBLICATIONS

Extra = Literal["updates", "snapshot", "load", "churn", "texts"]

BITSETS = ("numpy bitset", "blocked bitset")
JOINS = ("polars", "duckdb")
ONE_BY_ONE = ("python function", "rule-engine", "cel")
NAMES = ("sensor", "stock", "mix", "ranges", "wide", "text", "boolean", "words", "churn", "growth")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One workload with what is to be measured on it."""

    name: str
    workload: Workload
    peers: tuple[str, ...] = ()
    extras: tuple[Extra, ...] = ()
    naive_events: int = 3
    single_events: int = 4_096
    batch_events: int = 65_536
    batch_size: int = 8_192


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how thoroughly: seconds a measurement, and the sample for the oracle."""

    seconds: float = 2.0
    sample_subscriptions: int = 2_000
    sample_events: int = 20
    updates: int = 2_000
    churn_seconds: float = 5.0
    churn_rate: int = 10_000


FULL_SETTINGS = Settings()
QUICK_SETTINGS = Settings(seconds=0.5, sample_subscriptions=1_000, sample_events=10, updates=500, churn_seconds=1.5)
MILLION = 1_000_000


def full_plan() -> Iterator[Case]:
    sensors = Case(name="sensor", workload=Sensor(size=10_000), single_events=PUBLICATIONS, batch_events=PUBLICATIONS)
    yield replace(sensors, peers=(*BITSETS, "python function"))
    yield replace(sensors, workload=Sensor(size=MILLION), naive_events=1, batch_size=81)  # 39,000 matches an event
    yield Case(name="stock", workload=Stock(size=MILLION), extras=("updates", "snapshot", "load"), naive_events=2)
    yield Case(name="mix", workload=Mix(size=10_000), peers=(*BITSETS, *JOINS, *ONE_BY_ONE), naive_events=10)
    yield Case(name="mix", workload=Mix(size=100_000), peers=(*BITSETS, *JOINS), batch_events=16_384)
    yield Case(name="ranges", workload=Ranges(size=100_000), peers=BITSETS, batch_events=16_384)
    for share, words in ((1e-6, 100), (1e-4, 20), (1e-3, 4)):
        workload = Wide(size=MILLION, share=share, words=words)
        yield Case(name="wide", workload=workload, naive_events=1, batch_events=8_192)
    yield Case(name="text", workload=TextMatch(size=100_000), peers=("python function",), batch_events=8_192)
    yield Case(name="boolean", workload=Boolean(size=10_000), peers=ONE_BY_ONE, naive_events=5)
    yield Case(name="boolean", workload=Boolean(size=100_000), batch_events=16_384)
    yield Case(name="words", workload=Words(size=100_000), extras=("texts",))
    yield Case(name="churn", workload=Stock(size=MILLION), extras=("churn",), naive_events=1)
    for size in (1_000, 10_000, 100_000, MILLION):
        yield Case(name="growth", workload=growth(size), naive_events=1)


def quick_plan() -> Iterator[Case]:
    """The same workloads, smaller: for a first impression, and to see that everything works."""
    cases = [
        Case(name="sensor", workload=Sensor(size=10_000), peers=("numpy bitset",)),
        Case(name="stock", workload=Stock(size=20_000), extras=("updates", "snapshot", "load")),
        Case(name="mix", workload=Mix(size=10_000), peers=(*BITSETS, *JOINS, "python function")),
        Case(name="ranges", workload=Ranges(size=10_000), peers=BITSETS),
        Case(name="wide", workload=Wide(size=20_000, share=1e-4, words=20)),
        Case(name="text", workload=TextMatch(size=5_000)),
        Case(name="boolean", workload=Boolean(size=2_000), peers=("python function",)),
        Case(name="words", workload=Words(size=10_000), extras=("texts",)),
        Case(name="churn", workload=Stock(size=20_000), extras=("churn",)),
        *(Case(name="growth", workload=growth(size)) for size in (1_000, 10_000)),
    ]
    for case in cases:
        yield replace(case, naive_events=1, single_events=1_024, batch_events=8_192, batch_size=4_096)
