"""What matching finds out: records, tables, and targets.

Every target is computed from the records of the same run. Ratios are of best rates. A peer that takes record batches is
compared with our batch path, one that takes events with the better of our two, and the naive evaluator with our
single-event path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.harness import Grid, Rate, Record, Target, at_least, at_most, cell, number, of_kind, table

MILLION = 1_000_000

# --- records ----------------------------------------------------------------------------------------------------------


class Matching(Record, frozen=True, tag="matching"):
    """Our engines on one workload.

    ``single`` gives sorted ids event by event, ``slots`` is the same with numbers in place of ids. ``batch`` gives
    pairs of numbers for record batches of ``batch_size`` events, ``batch_ids`` looks up the ids as well. ``bytes`` is
    the index's own account, ``process_bytes`` what the process grew by. ``checked`` matches were compared with the
    oracle's before.
    """

    case: str
    workload: str
    subscriptions: int
    checked: int
    matches_per_event: float
    candidates_per_event: float
    candidates_per_match: float
    build_seconds: float
    bytes: int
    process_bytes: int
    batch_size: int
    single: Rate
    slots: Rate
    batch: Rate
    batch_ids: Rate
    naive: Rate

    @property
    def bytes_per_subscription(self) -> float:
        return self.bytes / self.subscriptions

    @property
    def batch_gain(self) -> float:
        """Batch over single, like for like: ids with ids."""
        return self.batch_ids.best / self.single.best


class Peer(Record, frozen=True, tag="peer"):
    """A baseline on the same workload in the same run; ``note`` says why it has no rate."""

    case: str
    workload: str
    subscriptions: int
    peer: str
    version: str
    rate: Rate | None = None
    single_ratio: float | None = None
    batch_ratio: float | None = None
    build_seconds: float | None = None
    bytes: int | None = None
    note: str = ""


class Updates(Record, frozen=True, tag="updates"):
    """Seconds for one insert and one delete, the middle one and the slowest of a hundred."""

    case: str
    subscriptions: int
    insert_p50: float
    insert_p99: float
    delete_p50: float
    delete_p99: float


class Load(Record, frozen=True, tag="load"):
    """Subscriptions from an NDJSON file into an index, parsing and checking included."""

    case: str
    subscriptions: int
    file_bytes: int
    seconds: float


class FromText(Record, frozen=True, tag="from text"):
    """Events as lines of JSON into pairs of numbers: through columns, and each line read as an event before.

    ``with_ids`` looks up the ids of events and subscriptions as well.
    """

    case: str
    subscriptions: int
    columns: Rate
    with_ids: Rate
    one_by_one: Rate


class Snapshot(Record, frozen=True, tag="snapshot"):
    """An index written to a file and mapped into memory again; ``first_match`` is the first event after that."""

    case: str
    subscriptions: int
    file_bytes: int
    save_seconds: float
    load_seconds: float
    first_match_seconds: float


class Churn(Record, frozen=True, tag="churn"):
    """Matching while subscriptions come and go in the same thread; rates include the time that the changes took."""

    case: str
    subscriptions: int
    changes_per_second: float
    single: float
    single_undisturbed: float
    batch: float
    batch_undisturbed: float

    @property
    def slowdown(self) -> float:
        return max(self.single_undisturbed / self.single, self.batch_undisturbed / self.batch)


# --- tables -----------------------------------------------------------------------------------------------------------


def _operations(records: Sequence[Record]) -> Grid:
    rows: list[tuple[str, str, str]] = []
    for r in records:
        match r:
            case Updates():
                rows += [
                    (r.case, "one insert, median / 99%", _micro(r.insert_p50, r.insert_p99)),
                    (r.case, "one delete, median / 99%", _micro(r.delete_p50, r.delete_p99)),
                ]
            case Snapshot():
                rows += [
                    (r.case, "save a snapshot", f"{r.save_seconds:.2f} s, {r.file_bytes / 1e6:,.0f} MB"),
                    (r.case, "load it by memory map", f"{r.load_seconds:.3f} s"),
                    (r.case, "first event after that", f"{r.first_match_seconds * 1e3:.1f} ms"),
                ]
            case Load():
                rows.append((r.case, "load from NDJSON", f"{r.seconds:.1f} s"))
            case FromText():
                pair = f"{cell(r.columns)} / {cell(r.with_ids)} a second"
                rows.append((r.case, "events from NDJSON, numbers / ids of matches", pair))
                rows.append((r.case, "each line read as an event", f"{cell(r.one_by_one)} a second"))
            case Churn():
                rows += [
                    (r.case, "changes applied", f"{r.changes_per_second:,.0f} a second"),
                    (r.case, "single, while changing / left alone", _pair(r.single, r.single_undisturbed)),
                    (r.case, "batch, while changing / left alone", _pair(r.batch, r.batch_undisturbed)),
                ]
    heads = ("workload", "what", "measured")
    return Grid(title="Changes, snapshots, loading", heads=heads, rows=rows, words=2)


def _micro(median: float, slow: float) -> str:
    return f"{median * 1e6:,.0f} / {slow * 1e6:,.0f} us"


def _pair(disturbed: float, undisturbed: float) -> str:
    return f"{disturbed:,.0f} / {undisturbed:,.0f} events/s"


TABLES = (
    table(
        "Engines",
        Matching,
        {
            "workload": lambda r: r.case,
            "matches/event": lambda r: r.matches_per_event,
            "single events/s": lambda r: r.single,
            "without ids": lambda r: r.slots,
            "batch events/s": lambda r: r.batch,
            "events/batch": lambda r: r.batch_size,
            "x single": lambda r: r.batch_gain,
            "naive events/s": lambda r: r.naive,
            "x naive": lambda r: r.single.best / r.naive.best,
            "candidates/match": lambda r: r.candidates_per_match,
            "build s": lambda r: r.build_seconds,
            "bytes/subscription": lambda r: r.bytes_per_subscription,
        },
        where=lambda r: r.workload != "growth",
    ),
    table(
        "Peers in the same run",
        Peer,
        {
            "workload": lambda r: r.case,
            "peer": lambda r: f"{r.peer} {r.version}".strip(),
            "events/s": lambda r: r.rate,
            "ours, batch": lambda r: f"{number(r.batch_ratio)} x",
            "ours, single": lambda r: f"{number(r.single_ratio)} x",
            "build s": lambda r: r.build_seconds,
            "MB": lambda r: None if r.bytes is None else r.bytes / 1e6,
        },
        words=2,
        keys=2,
        measured=lambda r: r.rate is not None,
    ),
    table(
        "Growth at equal matches per event",
        Matching,
        {
            "subscriptions": lambda r: r.subscriptions,
            "matches/event": lambda r: r.matches_per_event,
            "candidates/event": lambda r: r.candidates_per_event,
            "single: us/event": lambda r: 1e6 / r.slots.best,
            "batch: us/event": lambda r: 1e6 / r.batch.best,
        },
        where=lambda r: r.workload == "growth",
    ),
    _operations,
)

# --- targets ----------------------------------------------------------------------------------------------------------


def _bitset(records: Sequence[Record]) -> Iterator[Target]:
    for workload, size in (("mix", 10_000), ("mix", 100_000), ("ranges", 100_000)):
        name = f"{workload} {size:,}: batch against the NumPy bitset"
        plain, blocked = (_peer_ratio(records, workload, size, peer) for peer in ("numpy bitset", "blocked bitset"))
        shown = f"{_times(plain)} ({_times(blocked)} against the blocked one)" if plain and blocked else _times(plain)
        yield at_least(name, plain, 4, shown=shown)


def _memory(records: Sequence[Record]) -> Iterator[Target]:
    found = _find(records, "mix", 100_000)
    yield at_most("mix 100,000: memory of the index", found.bytes / 1e6 if found else None, 300, "MB")


def _ranges(records: Sequence[Record]) -> Iterator[Target]:
    found = _find(records, "ranges", 100_000)
    yield at_least("ranges 100,000: single events", found.single.best if found else None, 5_000, "events/s")
    yield at_most("ranges 100,000: memory of the index", found.bytes / 1e6 if found else None, 100, "MB")


def _polars(records: Sequence[Record]) -> Iterator[Target]:
    ratio = _peer_ratio(records, "mix", 10_000, "polars")
    yield at_least("mix 10,000: batch against the Polars counting join", ratio, 100)


def _boolean(records: Sequence[Record]) -> Iterator[Target]:
    ratio = _peer_ratio(records, "boolean", 10_000, "python function")
    yield at_least("boolean 10,000: against the generated Python function", ratio, 50)
    found = _find(records, "boolean", 10_000)
    rate = max(found.single.best, found.batch.best) if found else None
    yield at_least("boolean 10,000: rate", rate, 20_000, "events/s")


def _naive(records: Sequence[Record]) -> Iterator[Target]:
    for found in _million(records):
        ratio = found.single.best / found.naive.best
        yield at_least(f"{found.case}: against the naive evaluator", ratio, 1_000)
    if not _million(records):
        yield at_least("stock and wide 1,000,000: against the naive evaluator", None, 1_000)


def _growth(records: Sequence[Record]) -> Iterator[Target]:
    first, last = (_find(records, "growth", size) for size in (1_000, MILLION))
    for path in ("slots", "batch"):
        cost = None if first is None or last is None else getattr(first, path).best / getattr(last, path).best
        label = "single events" if path == "slots" else "batches"
        yield at_most(f"growth: cost of 1,000 times the subscriptions, {label}", cost, 10, "x")


def _batch(records: Sequence[Record]) -> Iterator[Target]:
    for found in of_kind(records, Matching):
        if found.workload != "growth":
            shown = f"{_times(found.batch_gain)} ({_times(found.batch.best / found.slots.best)} without ids)"
            yield at_least(f"{found.case}: batch against single events", found.batch_gain, 3, shown=shown)


def _bytes(records: Sequence[Record]) -> Iterator[Target]:
    for found in _million(records):
        yield at_most(f"{found.case}: bytes a subscription", found.bytes_per_subscription, 200, "bytes")
    if not _million(records):
        yield at_most("stock and wide 1,000,000: bytes a subscription", None, 200, "bytes")


def _load(records: Sequence[Record]) -> Iterator[Target]:
    found = [load for load in of_kind(records, Load) if load.subscriptions == MILLION]
    yield at_most("1,000,000 subscriptions from NDJSON", found[0].seconds if found else None, 20, "s")


def _updates(records: Sequence[Record]) -> Iterator[Target]:
    found = [update for update in of_kind(records, Updates) if update.subscriptions == MILLION]
    insert = found[0].insert_p99 * 1e3 if found else None
    delete = found[0].delete_p99 * 1e3 if found else None
    yield at_most("one insert among 1,000,000, 99 of 100", insert, 1, "ms")
    yield at_most("one delete among 1,000,000, 99 of 100", delete, 1, "ms")


def _text(records: Sequence[Record]) -> Iterator[Target]:
    texts = [found for found in of_kind(records, FromText) if found.subscriptions == 100_000]
    single = _find(records, "words", 100_000)
    for name, rate, bound in (
        ("words 100,000: events from NDJSON", texts[0].columns.best if texts else None, 400_000),
        ("words 100,000: single events", single.single.best if single else None, 150_000),
    ):
        shown = f"{number(rate)} events/s"
        if texts and "NDJSON" in name:
            shown += f" ({_times(texts[0].columns.best / texts[0].one_by_one.best)} each line by itself)"
        yield at_least(name, rate, bound, "events/s", shown)


def _churn(records: Sequence[Record]) -> Iterator[Target]:
    found = [churn for churn in of_kind(records, Churn) if churn.subscriptions == MILLION]
    name = "churn: slowdown by 10,000 changes a second"
    if found and found[0].changes_per_second < 9_900:
        shown = f"only {found[0].changes_per_second:,.0f} changes a second were possible"
        yield Target(name, "at most 2 x", shown, False)
    else:
        yield at_most(name, found[0].slowdown if found else None, 2, "x")


TARGETS = (
    _bitset, _memory, _ranges, _polars, _boolean, _naive, _growth, _batch, _bytes, _load, _text, _updates, _churn,
)  # fmt: skip


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{number(ratio)} x"


def _find(records: Iterable[Record], workload: str, size: int) -> Matching | None:
    found = [r for r in of_kind(records, Matching) if (r.workload, r.subscriptions) == (workload, size)]
    return found[0] if found else None


def _million(records: Iterable[Record]) -> list[Matching]:
    """*stock* and *wide* at full size."""
    found = of_kind(records, Matching)
    return [record for record in found if record.workload in ("stock", "wide") and record.subscriptions == MILLION]


def _peer_ratio(records: Iterable[Record], workload: str, size: int, name: str) -> float | None:
    """How many times the peer's rate ours is."""
    for peer in of_kind(records, Peer):
        if (peer.workload, peer.subscriptions, peer.peer) == (workload, size, name):
            ratios = [ratio for ratio in (peer.single_ratio, peer.batch_ratio) if ratio is not None]
            return max(ratios, default=None)
    return None
