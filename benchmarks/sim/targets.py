"""What the simulator has to reach, next to what a run measured, on one core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.records import Target
from benchmarks.sim.cases import TOKENS, TREES
from benchmarks.sim.records import AnyRecord, Speed

RATES = {TOKENS: 300_000, TREES: 100_000}
SMALL, LARGE = 100, 20_000
TIMES = 3.0


def targets(records: Sequence[AnyRecord]) -> list[Target]:
    """All targets; one whose size was not part of the run says so."""
    speeds = {(r.protocol, r.network, r.nodes): r for r in records if isinstance(r, Speed)}
    return [*_rates(speeds), *_growth(speeds)]


Speeds = dict[tuple[str, str, int], Speed]


def _rates(speeds: Speeds) -> Iterator[Target]:
    for protocol, least in RATES.items():
        name, required = f"{protocol}, {SMALL} nodes: steps/s", f"at least {least:,}"
        found = speeds.get((protocol, "unit delay", SMALL))
        if found is None:
            yield Target(name, required, "", None)
        else:
            yield Target(name, required, f"{found.rate.best:,.0f}", found.rate.best >= least)


def _growth(speeds: Speeds) -> Iterator[Target]:
    cases = dict.fromkeys((protocol, network) for protocol, network, _ in speeds)
    for protocol, network in cases:
        name = f"{protocol}, {network}: time a step with {LARGE:,} nodes against {SMALL}"
        small, large = (speeds.get((protocol, network, nodes)) for nodes in (SMALL, LARGE))
        required = f"at most {TIMES:g} x"
        if small is None or large is None:
            yield Target(name, required, "", None)
        else:
            ratio = large.microseconds / small.microseconds
            yield Target(name, required, f"{ratio:.2f} x", ratio <= TIMES)
