"""What semantic matching has to reach, next to what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.records import Target
from benchmarks.semantics.records import AnyRecord, Many, Subscribers

PUBLISHED, TIMES = 286.0, 100
SUBSCRIBERS, SUBSCRIPTIONS = 50, 100_000
HALF = 0.5


def targets(records: Sequence[AnyRecord]) -> Iterator[Target]:
    """All targets; one whose size was not part of the run says so."""
    few = next((r for r in records if isinstance(r, Subscribers) and r.subscribers == SUBSCRIBERS), None)
    name = f"{SUBSCRIBERS} subscribers: events/s through the matcher"
    required = f"at least {TIMES} x the published {PUBLISHED:.0f}: {TIMES * PUBLISHED:,.0f}"
    if few is None:
        yield Target(name, required, "", None)
    else:
        measured = f"{few.rate.best:,.0f} ({few.rate.best / PUBLISHED:,.0f} x)"
        yield Target(name, required, measured, few.rate.best >= TIMES * PUBLISHED)
    many = next((r for r in records if isinstance(r, Many) and r.subscriptions == SUBSCRIPTIONS), None)
    required = f"at least {HALF:g} x exact"
    for what in ("one event at a time", f"in batches of {256}"):
        name = f"{SUBSCRIPTIONS:,} semantic subscriptions, known shapes, {what}"
        if many is None:
            yield Target(name, required, "", None)
        else:
            ratio = many.ratio if what.startswith("one") else many.batch_ratio
            yield Target(name, required, f"{ratio:.2f} x", ratio >= HALF)
