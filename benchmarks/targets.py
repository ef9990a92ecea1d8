"""What the engine has to reach, next to what a run measured.

Every target is computed from the records of the same run; one whose workload or size was not part of the run says so.
Ratios are of best rates. A peer that takes record batches is compared with our batch path, one that takes events with
the better of our two, and the naive evaluator with our single-event path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from benchmarks.records import AnyRecord, Churn, FromText, Load, Matching, Peer, Target, Updates

MILLION = 1_000_000
R = TypeVar("R", Churn, FromText, Load, Matching, Peer, Updates)


def targets(records: Sequence[AnyRecord]) -> list[Target]:
    """All targets, in the order in which they were set."""
    return [target for rule in _RULES for target in rule(records)]


def _bitset(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for workload, size in (("mix", 10_000), ("mix", 100_000), ("ranges", 100_000)):
        name = f"{workload} {size:,}: batch against the NumPy bitset"
        plain, blocked = (_peer_ratio(records, workload, size, peer) for peer in ("numpy bitset", "blocked bitset"))
        shown = f"{_times(plain)} ({_times(blocked)} against the blocked one)" if plain and blocked else _times(plain)
        yield _at_least(name, plain, 4, shown)


def _memory(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = _first(records, Matching, "mix", 100_000)
    yield _at_most("mix 100,000: memory of the index", found.bytes / 1e6 if found else None, 300, "MB")


def _ranges(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = _first(records, Matching, "ranges", 100_000)
    measured = f"{found.single.best:,.0f} events/s" if found else ""
    met = found.single.best >= 5_000 if found else None
    yield Target("ranges 100,000: single events", "at least 5,000 events/s", measured, met)
    yield _at_most("ranges 100,000: memory of the index", found.bytes / 1e6 if found else None, 100, "MB")


def _polars(records: Sequence[AnyRecord]) -> Iterator[Target]:
    ratio = _peer_ratio(records, "mix", 10_000, "polars")
    yield _at_least("mix 10,000: batch against the Polars counting join", ratio, 100, _times(ratio))


def _boolean(records: Sequence[AnyRecord]) -> Iterator[Target]:
    ratio = _peer_ratio(records, "boolean", 10_000, "python function")
    yield _at_least("boolean 10,000: against the generated Python function", ratio, 50, _times(ratio))
    found = _first(records, Matching, "boolean", 10_000)
    rate = max(found.single.best, found.batch.best) if found else None
    measured = "" if rate is None else f"{rate:,.0f} events/s"
    yield Target("boolean 10,000: rate", "at least 20,000 events/s", measured, None if rate is None else rate >= 20_000)


def _naive(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _million(records):
        ratio = found.single.best / found.naive.best
        yield _at_least(f"{found.case}: against the naive evaluator", ratio, 1_000, _times(ratio))
    if not _million(records):
        yield _at_least("stock and wide 1,000,000: against the naive evaluator", None, 1_000, "")


def _growth(records: Sequence[AnyRecord]) -> Iterator[Target]:
    first, last = (_first(records, Matching, "growth", size) for size in (1_000, MILLION))
    for path in ("slots", "batch"):
        cost = None if first is None or last is None else getattr(first, path).best / getattr(last, path).best
        label = "single events" if path == "slots" else "batches"
        yield _at_most(f"growth: cost of 1,000 times the subscriptions, {label}", cost, 10, "x")


def _batch(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _all(records, Matching):
        if found.workload != "growth":
            shown = f"{_times(found.batch_gain)} ({_times(found.batch.best / found.slots.best)} without ids)"
            yield _at_least(f"{found.case}: batch against single events", found.batch_gain, 3, shown)


def _bytes(records: Sequence[AnyRecord]) -> Iterator[Target]:
    for found in _million(records):
        yield _at_most(f"{found.case}: bytes a subscription", found.bytes_per_subscription, 200, "bytes")
    if not _million(records):
        yield _at_most("stock and wide 1,000,000: bytes a subscription", None, 200, "bytes")


def _load(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = [load for load in _all(records, Load) if load.subscriptions == MILLION]
    yield _at_most("1,000,000 subscriptions from NDJSON", found[0].seconds if found else None, 20, "s")


def _updates(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = [update for update in _all(records, Updates) if update.subscriptions == MILLION]
    insert = found[0].insert_p99 * 1e3 if found else None
    delete = found[0].delete_p99 * 1e3 if found else None
    yield _at_most("one insert among 1,000,000, 99 of 100", insert, 1, "ms")
    yield _at_most("one delete among 1,000,000, 99 of 100", delete, 1, "ms")


def _text(records: Sequence[AnyRecord]) -> Iterator[Target]:
    texts = [found for found in _all(records, FromText) if found.subscriptions == 100_000]
    single = _first(records, Matching, "words", 100_000)
    for name, rate, bound in (
        ("words 100,000: events from NDJSON", texts[0].columns.best if texts else None, 400_000),
        ("words 100,000: single events", single.single.best if single else None, 150_000),
    ):
        shown = "" if rate is None else f"{rate:,.0f} events/s"
        if texts and "NDJSON" in name:
            shown += f" ({_times(texts[0].columns.best / texts[0].one_by_one.best)} each line by itself)"
        yield Target(name, f"at least {bound:,} events/s", shown, None if rate is None else rate >= bound)


def _churn(records: Sequence[AnyRecord]) -> Iterator[Target]:
    found = [churn for churn in _all(records, Churn) if churn.subscriptions == MILLION]
    name = "churn: slowdown by 10,000 changes a second"
    if found and found[0].changes_per_second < 9_900:
        shown = f"only {found[0].changes_per_second:,.0f} changes a second were possible"
        yield Target(name, "at most 2 x", shown, False)
    else:
        yield _at_most(name, found[0].slowdown if found else None, 2, "x")


_RULES: tuple[Callable[[Sequence[AnyRecord]], Iterable[Target]], ...] = (
    _bitset,
    _memory,
    _ranges,
    _polars,
    _boolean,
    _naive,
    _growth,
    _batch,
    _bytes,
    _load,
    _text,
    _updates,
    _churn,
)


def _at_least(name: str, value: float | None, bound: float, shown: str) -> Target:
    return Target(name, f"at least {bound:,g} x", shown if value is not None else "", _met(value, lambda v: v >= bound))


def _at_most(name: str, value: float | None, bound: float, unit: str) -> Target:
    shown = "" if value is None else f"{value:,.3g} {unit}"
    return Target(name, f"at most {bound:,g} {unit}", shown, _met(value, lambda v: v <= bound))


def _met(value: float | None, holds: Callable[[float], bool]) -> bool | None:
    return None if value is None else holds(value)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:,.3g} x" if ratio < 100 else f"{ratio:,.0f} x"


def _all(records: Iterable[AnyRecord], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]


def _first(records: Iterable[AnyRecord], kind: type[R], workload: str, size: int) -> R | None:
    for record in _all(records, kind):
        if record.subscriptions == size and getattr(record, "workload", workload) == workload:
            return record
    return None


def _million(records: Iterable[AnyRecord]) -> list[Matching]:
    """*stock* and *wide* at full size."""
    found = _all(records, Matching)
    return [record for record in found if record.workload in ("stock", "wide") and record.subscriptions == MILLION]


def _peer_ratio(records: Iterable[AnyRecord], workload: str, size: int, name: str) -> float | None:
    """How many times the peer's rate ours is."""
    for peer in _all(records, Peer):
        if (peer.workload, peer.subscriptions, peer.peer) == (workload, size, name):
            ratios = [ratio for ratio in (peer.single_ratio, peer.batch_ratio) if ratio is not None]
            return max(ratios, default=None)
    return None
