"""The event log: durable appends, sealing, reading; and rows in SQLite beside a busy thread, one by one and together.

Every append returns after its fsync, so the figures are those of the disk under the temporary folder (``TMPDIR``); the
first row shows what a bare write and fsync costs there. Each measurement is made on a log of its own, and the best of
several rounds counts, so that what else the machine does disturbs less.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.harness import Case, Grid, Record, Subject, of_kind, table
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.values import Value
from recado.server.engine import SWITCH_SECONDS
from recado.store.log import LogReader, SqliteEventLog, tail
from recado.store.log.rows import stored
from recado.store.log.tail import read_together
from recado.store.sqlite import for_rows

START = datetime(2026, 11, 15, 10, tzinfo=UTC)
BARE = "bare write and fsync, 4 KiB"


class LogRate(Record, frozen=True, tag="log rate"):
    """Events a second of one thing that a log does; the best round."""

    part: str
    what: str
    rate: float


class Rows(Record, frozen=True, tag="rows"):
    """Seconds a row, one by one and together, alone or beside a thread that computes."""

    what: str
    one_by_one: float
    together: float


# --- appends, sealing, reading ----------------------------------------------------------------------------------------


def make_event(number: int) -> Event:
    """An event of four attributes and an envelope, about 140 bytes of JSON."""
    attributes: dict[str, Value | tuple[Value, ...]] = {
        "room": f"r-{number % 50}",
        "level": number % 1000,
        "ok": number % 7 != 0,
    }
    attributes["value"] = number * 0.25
    return Event(f"e-{number}", "reading", f"/sensor/{number % 20}", START + timedelta(seconds=number), attributes)


def _rate(seconds: float, work: Callable[[], int]) -> float:
    """Call ``work`` for the time given; it returns how many events it dealt with."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        done += work()
    return done / spent


def sync_bare(folder: Path, seconds: float) -> float:
    with (folder / "bare").open("wb", buffering=0) as file:

        def work() -> int:
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            return 1

        return _rate(seconds, work)


def append(folder: Path, seconds: float, group: int) -> float:
    with SqliteEventLog.open(folder / "log") as log:
        return _rate(seconds, lambda: len(log.append([make_event(log.end + offset) for offset in range(group)])))


def read(folder: Path, count: int) -> dict[str, float]:
    """Events a second for reading the tail, sealing it, and reading segments, plain and with filters."""
    rates = {}
    with SqliteEventLog.open(folder / "log") as log:
        for start in range(0, count, 1_000):
            log.append([make_event(number) for number in range(start, start + 1_000)])
        rates["read the tail"] = _scan(log.path, count)
        began = time.perf_counter()
        log.seal(force=True)
        rates["seal"] = count / (time.perf_counter() - began)
        rates["read segments"] = _scan(log.path, count)
        for text in ("type == 'reading'", "level < 10"):
            rates[f"read segments where {text}"] = _scan(log.path, count, parse_filter(text))
    return rates


def _scan(path: Path, count: int, where: Filter | None = None) -> float:
    began = time.perf_counter()
    for _ in LogReader(path).read(where=where):
        pass
    return count / (time.perf_counter() - began)


# --- rows beside a thread ---------------------------------------------------------------------------------------------
#
# ``sqlite3`` gives up the interpreter at every step of a statement and has to get it back before the next; so with
# another thread at work, a statement for each row waits once a row. Both sides write the same commits, and seal a log
# whose tail is read in the one way or the other, by turns, with the switch interval of the service.

COMMIT = 48
ONE = "INSERT INTO tail VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
TABLE = "CREATE TABLE tail (position INTEGER PRIMARY KEY, accepted_at, time, id, type, source, event, checksum)"


@contextmanager
def busy_thread(wanted: bool) -> Iterator[None]:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            for _ in range(1_000):
                pass

    thread = threading.Thread(target=compute)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if wanted:
            thread.join()


def write_rows(folder: Path, rows: Sequence[Any], together: bool, beside: bool) -> float:
    """Seconds a row, without the commit itself."""
    spent = 0.0
    with closing(sqlite3.connect(folder / "rows", isolation_level=None)) as db, busy_thread(beside):
        db.text_factory = bytes
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", TABLE):
            db.execute(statement)
        for start in range(0, len(rows), COMMIT):
            some = rows[start : start + COMMIT]
            db.execute("BEGIN IMMEDIATE")
            began = time.perf_counter()
            if together:
                for insert, values in for_rows("INSERT INTO tail VALUES {}", some):
                    db.execute(insert, values)
            else:
                db.executemany(ONE, some)
            spent += time.perf_counter() - began
            db.execute("COMMIT")
    return spent / len(rows)


def seal_rows(folder: Path, rows: Sequence[Any], together: bool, beside: bool) -> float:
    """Seconds a row, to turn the tail of a log into a segment."""
    reader = read_together if together else lambda *_: None  # so every row is read by itself
    with SqliteEventLog.open(folder / "log") as log, patch.object(tail, "read_together", reader):
        for start in range(0, len(rows), 600):
            log.append([Event(f"e-{start + n}", "t", "s", None, {"text": "x" * 160}) for n in range(600)])
        with busy_thread(beside):
            began = time.perf_counter()
            log.seal(force=True)
            return (time.perf_counter() - began) / len(rows)


# --- cases ------------------------------------------------------------------------------------------------------------


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    seconds, rounds, events, rows = (0.3, 2, 20_000, 2_400) if quick else (1.0, 5, 100_000, 9_600)
    appends: dict[str, Callable[..., float]] = {
        BARE: sync_bare,
        "append, one by one": partial(append, group=1),
        "append, groups of 100": partial(append, group=100),
        "append, groups of 1,000": partial(append, group=1_000),
    }
    cases = [
        Case(
            "append",
            what,
            partial(_best_rates, "append", partial(_named, what, partial(work, seconds=seconds)), rounds),
        )
        for what, work in appends.items()
    ]
    cases.append(Case("read", "reading and sealing", partial(_best_rates, "read", partial(read, count=events), rounds)))
    for beside in (False, True):
        for name, work in (("write", write_rows), ("seal", seal_rows)):
            title = f"{name} {'beside a thread' if beside else 'alone'}"
            cases.append(Case("rows", title, partial(_rows, title, partial(work, beside=beside), rows, rounds)))
    return cases


def _named(what: str, work: Callable[..., float], seconds: float, folder: Path) -> dict[str, float]:
    return {what: work(folder, seconds)}


def _best_rates(part: str, work: Callable[[Path], dict[str, float]], rounds: int, folder: Path) -> Iterator[LogRate]:
    best: dict[str, float] = {}
    for number in range(rounds):
        place = folder / str(number)
        place.mkdir()
        for what, rate in work(place).items():
            best[what] = max(rate, best.get(what, 0.0))
    for what, rate in best.items():
        yield LogRate(part, what, rate)


def _rows(title: str, work: Callable[..., float], count: int, rounds: int, folder: Path) -> Iterator[Rows]:
    """Both ways by turns."""
    rows = [stored(n, 5, (None, b"e-%d" % n, b"t", b"s", b"x" * 200)) for n in range(count)]
    taken: dict[bool, list[float]] = {False: [], True: []}
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        for number in range(rounds):
            for together, times in taken.items():
                place = folder / f"{number}-{together}"
                place.mkdir()
                times.append(work(place, rows, together))
    finally:
        sys.setswitchinterval(before)
    yield Rows(title, min(taken[False]), min(taken[True]))


def _rate_table(records: Sequence[Record]) -> Grid:
    bare = [r.rate for r in of_kind(records, LogRate) if r.what == BARE]
    columns: dict[str, Callable[[LogRate], object]] = {
        "what": lambda r: r.what,
        "events/s": lambda r: r.rate,
        "x bare": lambda r: r.rate / bare[0] if bare and r.part == "append" else None,
    }
    return table("The event log, events a second", LogRate, columns)(records)


SUBJECT = Subject(
    name="log",
    title="The event log, measured",
    parts=("append", "read", "rows"),
    plan=plan,
    tables=(
        _rate_table,
        table(
            f"Rows in SQLite in commits of {COMMIT}",
            Rows,
            {
                "what": lambda r: r.what,
                "one by one, us/row": lambda r: r.one_by_one * 1e6,
                "together, us/row": lambda r: r.together * 1e6,
                "x faster": lambda r: f"{r.one_by_one / r.together:.1f}",
            },
        ),
    ),
    packages=("msgspec", "pyarrow"),
    programs=lambda: {"SQLite": sqlite3.sqlite_version},
    one_core=False,
)
