"""Rows in SQLite beside a busy thread, one by one and together: ``python -m benchmarks.rows_beside_a_thread``.

``sqlite3`` gives up the interpreter at every step of a statement and has to get it back before the next; so with
another thread at work, a statement for each row waits once a row. Both sides write the same commits, and seal a log
whose tail is read in the one way or the other, by turns, alone and beside a thread that computes, with the switch
interval of the service; the best of ``--rounds`` counts.
"""

import argparse
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from unittest.mock import patch

from recado.model.event import Event
from recado.server.engine import SWITCH_SECONDS
from recado.store.log import SqliteEventLog, tail
from recado.store.log.rows import stored
from recado.store.log.tail import read_together
from recado.store.sqlite import run_many

COMMIT = 48
ONE = "INSERT INTO tail VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
TABLE = "CREATE TABLE tail (position INTEGER PRIMARY KEY, accepted_at, time, id, type, source, event, checksum)"


@contextmanager
def busy(wanted):
    stop = threading.Event()

    def compute():
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


def opened(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.text_factory = bytes
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", TABLE):
        db.execute(statement)
    return db


def write(path, rows, together, beside):
    """Seconds a row, without the commit itself."""
    spent = 0.0
    with closing(opened(path)) as db, busy(beside):
        for start in range(0, len(rows), COMMIT):
            some = rows[start : start + COMMIT]
            db.execute("BEGIN IMMEDIATE")
            began = time.perf_counter()
            if together:
                run_many(db, "INSERT INTO tail VALUES {}", some)
            else:
                db.executemany(ONE, some)
            spent += time.perf_counter() - began
            db.execute("COMMIT")
    return spent / len(rows)


def seal(folder, rows, together, beside):
    """Seconds a row, to turn the tail of a log into a segment."""
    with (
        SqliteEventLog.open(folder) as log,
        patch.object(tail, "read_together", read_together if together else nothing),
    ):
        for start in range(0, rows, 600):
            log.append([Event(f"e-{start + n}", "t", "s", None, {"text": "x" * 160}) for n in range(600)])
        with busy(beside):
            began = time.perf_counter()
            log.seal(force=True)
            return (time.perf_counter() - began) / rows


def nothing(*_):
    """So every row is read by itself."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=9_600)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    rows = [stored(n, 5, (None, b"e-%d" % n, b"t", b"s", b"x" * 200)) for n in range(options.rows)]
    print(f"SQLite {sqlite3.sqlite_version}, {options.rows:,} rows of 200 bytes, commits of {COMMIT}, us a row")
    print(f"{'':24}{'one by one':>12}{'together':>12}{'ratio':>8}")
    for beside in (False, True):
        best = {}
        for _ in range(options.rounds):
            for together in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    took = {
                        "write": write(f"{folder}/rows", rows, together, beside),
                        "seal": seal(f"{folder}/log", len(rows), together, beside),
                    }
                for name, seconds in took.items():
                    best[name, together] = min(seconds * 1e6, best.get((name, together), seconds * 1e6))
        for name in ("write", "seal"):
            apart, joined = best[name, False], best[name, True]
            title = f"{name} {'beside a thread' if beside else 'alone'}"
            print(f"{title:24}{apart:>12.1f}{joined:>12.1f}{apart / joined:>8.1f}")


if __name__ == "__main__":
    main()
