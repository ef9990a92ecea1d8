"""The run: each case in this process, on one core, the collector of garbage as it is for every user.

Seconds are of the processor's time, so that other programs disturb less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.machine import describe, version_of
from benchmarks.records import Rate
from benchmarks.sim.cases import CASES, TOKENS, Advance
from benchmarks.sim.peers import SIMPY, simpy_installed, simpy_tokens
from benchmarks.sim.plan import Case, Plan
from benchmarks.sim.queues import compare
from benchmarks.sim.records import AnyRecord, Peer, Speed
from benchmarks.sim.targets import targets

PACKAGES = ("msgspec", SIMPY)


def run_plan(plan: Plan, announce: Callable[[str], None]) -> Iterator[AnyRecord]:
    """The machine, the records of all cases as they come, the peer, and the targets."""
    records: list[AnyRecord] = []
    for record in _records(plan, announce):
        records.append(record)
        yield record
    yield from targets(records)


def _records(plan: Plan, announce: Callable[[str], None]) -> Iterator[AnyRecord]:
    yield describe(PACKAGES)
    speeds = []
    for case in plan.cases:
        announce(f"{case.protocol}, {case.network}, {case.nodes:,} nodes")
        speeds.append(_speed(case, plan))
        yield speeds[-1]
    for entries in plan.queues:
        announce(f"a queue of {entries:,} entries")
        yield compare(entries, plan.rounds, plan.runs)
    for speed in speeds:
        if (speed.protocol, speed.network) == (TOKENS, "unit delay"):
            announce(f"SimPy, {speed.nodes:,} nodes")
            yield _peer(speed, plan)


def _speed(case: Case, plan: Plan) -> Speed:
    simulation, advance = CASES[case.protocol](case.nodes, case.network)
    rate = _rate(advance, plan, case.nodes)
    return Speed(case.protocol, case.network, case.nodes, simulation.steps, simulation.pending, rate)


def _peer(ours: Speed, plan: Plan) -> Peer:
    if not simpy_installed():
        return Peer("SimPy", "", ours.nodes, note="not installed: pip install simpy")
    rate = _rate(simpy_tokens(ours.nodes), plan, ours.nodes)
    return Peer("SimPy", version_of(SIMPY), ours.nodes, rate, ours.rate.best / rate.best)


def _rate(advance: Advance, plan: Plan, warm_up: int) -> Rate:
    """Warmed up until every node has had something to do, about."""
    done = advance()
    while done < warm_up:
        done += advance()
    rates = [_one_rate(advance, plan.seconds) for _ in range(plan.runs)]
    return Rate(max(rates), median(rates))


def _one_rate(advance: Advance, seconds: float) -> float:
    started, steps, taken = time.process_time(), 0, 0.0
    while taken < seconds:
        steps += advance()
        taken = time.process_time() - started
    return steps / taken
