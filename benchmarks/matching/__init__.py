"""Matching on one core: our engines on nine workloads and a growth curve, against the oracle and against peers.

A peer stands where it can take the workload in reasonable time: the joins and bitsets on conjunctions that are not
too many, the engines that ask every filter in turn on 10,000 subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from benchmarks.baselines import peer_packages
from benchmarks.harness import OWN_PACKAGES, Case, Subject
from benchmarks.matching.measure import Plan, Settings, run_apart
from benchmarks.matching.report import MILLION, TABLES, TARGETS
from benchmarks.workloads import (
    PUBLICATIONS,
    Boolean,
    Mix,
    Ranges,
    Sensor,
    Stock,
    TextMatch,
    Wide,
    Words,
    growth,
)

BITSETS = ("numpy bitset", "blocked bitset")
JOINS = ("polars", "duckdb")
ONE_BY_ONE = ("python function", "rule-engine", "cel")
NAMES = ("sensor", "stock", "mix", "ranges", "wide", "text", "boolean", "words", "churn", "growth")

FULL_SETTINGS = Settings()
QUICK_SETTINGS = Settings(seconds=0.5, sample_subscriptions=1_000, sample_events=10, updates=500, churn_seconds=1.5)


def full_plan() -> Iterator[Plan]:
    sensors = Plan(name="sensor", workload=Sensor(size=10_000), single_events=PUBLICATIONS, batch_events=PUBLICATIONS)
    yield replace(sensors, peers=(*BITSETS, "python function"))
    yield replace(sensors, workload=Sensor(size=MILLION), naive_events=1, batch_size=81)  # 39,000 matches an event
    yield Plan(name="stock", workload=Stock(size=MILLION), extras=("updates", "snapshot", "load"), naive_events=2)
    yield Plan(name="mix", workload=Mix(size=10_000), peers=(*BITSETS, *JOINS, *ONE_BY_ONE), naive_events=10)
    yield Plan(name="mix", workload=Mix(size=100_000), peers=(*BITSETS, *JOINS), batch_events=16_384)
    yield Plan(name="ranges", workload=Ranges(size=100_000), peers=BITSETS, batch_events=16_384)
    for share, words in ((1e-6, 100), (1e-4, 20), (1e-3, 4)):
        workload = Wide(size=MILLION, share=share, words=words)
        yield Plan(name="wide", workload=workload, naive_events=1, batch_events=8_192)
    yield Plan(name="text", workload=TextMatch(size=100_000), peers=("python function",), batch_events=8_192)
    yield Plan(name="boolean", workload=Boolean(size=10_000), peers=ONE_BY_ONE, naive_events=5)
    yield Plan(name="boolean", workload=Boolean(size=100_000), batch_events=16_384)
    yield Plan(name="words", workload=Words(size=100_000), extras=("texts",))
    yield Plan(name="churn", workload=Stock(size=MILLION), extras=("churn",), naive_events=1)
    for size in (1_000, 10_000, 100_000, MILLION):
        yield Plan(name="growth", workload=growth(size), naive_events=1)


def quick_plan() -> Iterator[Plan]:
    """The same workloads, smaller: for a first impression, and to see that everything works."""
    cases = [
        Plan(name="sensor", workload=Sensor(size=10_000), peers=("numpy bitset",)),
        Plan(name="stock", workload=Stock(size=20_000), extras=("updates", "snapshot", "load")),
        Plan(name="mix", workload=Mix(size=10_000), peers=(*BITSETS, *JOINS, "python function")),
        Plan(name="ranges", workload=Ranges(size=10_000), peers=BITSETS),
        Plan(name="wide", workload=Wide(size=20_000, share=1e-4, words=20)),
        Plan(name="text", workload=TextMatch(size=5_000)),
        Plan(name="boolean", workload=Boolean(size=2_000), peers=("python function",)),
        Plan(name="words", workload=Words(size=10_000), extras=("texts",)),
        Plan(name="churn", workload=Stock(size=20_000), extras=("churn",)),
        *(Plan(name="growth", workload=growth(size)) for size in (1_000, 10_000)),
    ]
    for case in cases:
        yield replace(case, naive_events=1, single_events=1_024, batch_events=8_192, batch_size=4_096)


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    plans, settings = (quick_plan(), QUICK_SETTINGS) if quick else (full_plan(), FULL_SETTINGS)
    return [Case(one.name, one.title, partial(run_apart, one, settings)) for one in plans]


SUBJECT = Subject(
    name="matching",
    title="Matching, measured",
    parts=NAMES,
    plan=plan,
    tables=TABLES,
    targets=TARGETS,
    packages=(*OWN_PACKAGES, *peer_packages()),
)
