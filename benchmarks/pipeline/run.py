"""A whole run: a session with all cores for every part, then one with a single core for the growth curve."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from benchmarks.machine import describe
from benchmarks.pipeline.apart import start
from benchmarks.pipeline.plan import Plan
from benchmarks.pipeline.records import AnyRecord, Step
from benchmarks.pipeline.targets import targets

PACKAGES = ("numpy", "numba", "pyarrow", "pyspark")


def run_plan(plan: Plan, announce: Callable[[str], None]) -> Iterator[AnyRecord]:
    """The machine, the records of all parts as they come, and the targets."""
    records: list[AnyRecord] = [describe(PACKAGES)]
    yield records[0]
    with tempfile.TemporaryDirectory(prefix="recado-bench-") as folder:
        for session in sessions(plan):
            for record in start(session, Path(folder)):
                if isinstance(record, Step):
                    announce(record.title)
                else:
                    records.append(record)
                    yield record
    yield from targets(records)


def sessions(plan: Plan) -> list[Plan]:
    """The plan of each session."""
    alone = [replace(plan, cores=1, parts=("growth",))] if "growth" in plan.parts and plan.cores > 1 else []
    return [plan, *alone]
