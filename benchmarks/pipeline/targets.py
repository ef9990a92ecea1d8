"""What the pipeline has to reach, next to what a run measured. Ratios are of best rates, within the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.pipeline.plan import MILLION
from benchmarks.pipeline.records import EXCHANGE, LOOP_JOIN, RECADO, RULES, AnyRecord, Cost, Kernel, Side
from benchmarks.records import Target

TIMES = 100
COMPARED_SIZE = 100_000
SHARE = 0.6


def targets(records: Sequence[AnyRecord]) -> list[Target]:
    """All targets; one whose size was not part of the run says so."""
    return [_against_spark(records), *_against_kernel(records)]


def better_rate(records: Sequence[AnyRecord], workload: str, size: int) -> float | None:
    """Of what a Spark user would write, the faster."""
    rates = [side.rate.best for side in _sides(records, workload, size) if side.side != RECADO]
    return max(rates, default=None)


def _against_spark(records: Sequence[AnyRecord]) -> Target:
    name = f"mix {COMPARED_SIZE:,}: against the better of {LOOP_JOIN} and {RULES}"
    ours = [side.rate.best for side in _sides(records, "mix", COMPARED_SIZE) if side.side == RECADO]
    theirs = better_rate(records, "mix", COMPARED_SIZE)
    if not ours or theirs is None:
        return Target(name, f"at least {TIMES} x", "", None)
    return Target(name, f"at least {TIMES} x", f"{ours[0] / theirs:,.0f} x", ours[0] / theirs >= TIMES)


def _against_kernel(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for workload, form in (("stock", "columns"), ("wide", "columns"), ("wide", "JSON")):
        title = f"{workload} {MILLION:,}, {form}"
        found = [r for r in records if isinstance(r, Kernel) and r.title == title]
        cores = f"{found[0].cores} cores" if found else "n cores"
        name = f"{title}: Spark on {cores} against as many times the matcher alone"
        if found:
            share = found[0].share
            more = [f"{found[0].share_of_machine:.0%} of plain processes on all cores at once"]
            more += [f"{floor:.0%} with no matching at all" for floor in _floors(records, found[0])]
            yield Target(name, f"at least {SHARE:.0%}", f"{share:.0%} ({'; '.join(more)})", share >= SHARE)
        else:
            yield Target(name, f"at least {SHARE:.0%}", "", None)


def _floors(records: Sequence[AnyRecord], kernel: Kernel) -> list[float]:
    """The share that a matcher which costs nothing would reach."""
    return [
        r.rate.best / (kernel.cores * kernel.alone.best)
        for r in records
        if isinstance(r, Cost) and (r.title, r.step) == (kernel.title, EXCHANGE)
    ]


def _sides(records: Sequence[AnyRecord], workload: str, size: int) -> list[Side]:
    return [r for r in records if isinstance(r, Side) and (r.workload, r.subscriptions) == (workload, size)]
