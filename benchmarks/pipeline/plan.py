"""How much of everything: the full plan and the quick one."""

from __future__ import annotations

import os
from typing import Literal, get_args

import msgspec

Part = Literal["compare", "kernel", "growth", "state"]
PARTS: tuple[Part, ...] = get_args(Part)

MILLION = 1_000_000


class StatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """``keys`` subscriptions with a frequency; each micro-batch brings ``rows_per_key`` notifications for each."""

    keys: int = 100_000
    batches: int = 6
    rows_per_key: int = 2


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A timed run takes about ``seconds``; ``block`` is how many events are written, more are read again and again."""

    cores: int
    parts: tuple[Part, ...] = PARTS
    seconds: float = 3.0
    runs: int = 3
    block: int = 500_000
    sample_events: int = 40
    compare_sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    keyed_size: int = 100_000
    kernel_size: int = MILLION
    kernel_seconds: float = 10.0
    growth_sizes: tuple[int, ...] = (10_000, 100_000, MILLION)
    growth_events: tuple[int, ...] = (100_000, MILLION, 10 * MILLION)
    state: StatePlan = StatePlan()


def full_plan(parts: tuple[Part, ...] = ()) -> Plan:
    return Plan(cores=_cores(), parts=parts or PARTS)


def quick_plan(parts: tuple[Part, ...] = ()) -> Plan:
    """The same, smaller: for a first impression, and to see that everything works."""
    return Plan(
        cores=_cores(),
        parts=parts or PARTS,
        seconds=0.7,
        runs=1,
        block=50_000,
        sample_events=10,
        compare_sizes=(1_000, 4_000),
        keyed_size=4_000,
        kernel_size=20_000,
        kernel_seconds=2.0,
        growth_sizes=(10_000, 50_000),
        growth_events=(100_000, 400_000),
        state=StatePlan(keys=10_000, batches=3),
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
