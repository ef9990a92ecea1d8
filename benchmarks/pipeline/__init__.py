"""The pipeline on Spark: against what a Spark user would write, against the bare matcher, growth, state.

The same data for all sides; whatever is timed was first checked to give the same pairs. A JVM keeps its number of cores
for life, so each number of cores has a child process of its own (``child``), which runs the parts (``compare``,
``kernel``, ``outputs``, ``growth``, ``state``, ``partitions``) and tells their records. Nothing here needs Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from benchmarks.harness import Case, DisagreementError, Subject
from benchmarks.pipeline.report import MILLION, NOTES, TABLES, TARGETS, AnyRecord, draw_growth
from benchmarks.timing import ONE_THREAD

Part = Literal["compare", "kernel", "outputs", "growth", "state", "ways", "partitions"]
PARTS: tuple[Part, ...] = ("compare", "kernel", "outputs", "growth", "state")
EXTRA_PARTS: tuple[Part, ...] = ("ways", "partitions")
"""Behind decisions that were taken; they run for long, and have sessions of their own."""
DISAGREED = 3
_ROOT = Path(__file__).parents[2]
_SEARCH_PATH = {"PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))}
"""The child and Spark's workers find this package wherever they are started."""


class StatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """``keys`` subscriptions with a frequency; each micro-batch brings ``rows_per_key`` notifications for each."""

    keys: int = 100_000
    batches: int = 6
    rows_per_key: int = 2


class WaysPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Micro-batches of ``rows`` notifications for ``keys`` subscriptions; our way with each number of buckets."""

    keys: int = 100_000
    rows: int = 100_000
    batches: int = 3
    buckets: tuple[int, ...] = (256, 64, 1024)


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
    output_events: int = MILLION
    growth_sizes: tuple[int, ...] = (10_000, 100_000, MILLION)
    growth_events: tuple[int, ...] = (100_000, MILLION, 10 * MILLION)
    state: StatePlan = StatePlan()
    ways: WaysPlan = WaysPlan()
    partition_sizes: tuple[int, ...] = (100_000, MILLION)
    partition_events: int = 200_000


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
        output_events=100_000,
        growth_sizes=(10_000, 50_000),
        growth_events=(100_000, 400_000),
        state=StatePlan(keys=10_000, batches=3),
        ways=WaysPlan(keys=5_000, rows=10_000, batches=3, buckets=(64, 256)),
        partition_sizes=(50_000,),
        partition_events=20_000,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Order(msgspec.Struct, frozen=True):
    """What a child is to do, and in which folder."""

    plan: Plan
    folder: str


def start_child(plan: Plan, folder: Path) -> Iterator[AnyRecord]:
    """The records of a plan, from a process of its own, as they come."""
    order = msgspec.json.encode(Order(plan, str(folder))).decode()
    command = [sys.executable, "-m", "benchmarks.pipeline.child", order]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | ONE_THREAD | _SEARCH_PATH) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield msgspec.json.decode(line, type=AnyRecord)
    if child.returncode == DISAGREED:
        raise DisagreementError((folder / "disagreement").read_text())
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command[:3])


def sessions(plan: Plan) -> list[Plan]:
    """The plan of each session: the usual parts on all cores, growth on one as well, each extra part by itself."""
    usual = tuple(part for part in plan.parts if part in PARTS)
    found = [replace(plan, parts=usual)] if usual else []
    if "growth" in usual and plan.cores > 1:
        found.append(replace(plan, cores=1, parts=("growth",)))
    return found + [replace(plan, parts=(part,)) for part in plan.parts if part in EXTRA_PARTS]


def make_cases(quick: bool, parts: Sequence[str]) -> list[Case]:
    """A case for each session."""
    chosen = tuple(part for part in get_args(Part) if part in parts)
    return [
        Case("", f"starting Spark on {one.cores} cores: {', '.join(one.parts)}", partial(start_child, one))
        for one in sessions((quick_plan if quick else full_plan)(chosen))
    ]


SUBJECT = Subject(
    name="pipeline",
    title="The pipeline, measured",
    parts=PARTS,
    extra_parts=EXTRA_PARTS,
    plan=make_cases,
    tables=TABLES,
    targets=TARGETS,
    notes=NOTES,
    draw=draw_growth,
    packages=("numpy", "numba", "pyarrow", "pyspark"),
    one_core=False,
)
