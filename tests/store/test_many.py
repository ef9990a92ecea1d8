"""Many rows in a few statements, and many rows in one step."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.store.log.rows import Entry, Row, stored
from recado.store.log.tail import State, Tail, read_together
from recado.store.sqlite import Connection, Statement, for_rows
from recado.store.state.store import FORGET_HELD, FORGET_MAIL, migrate

MUCH = 1 << 30


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1_000])
def test_rows_arrive_whole_and_in_order(count: int) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    db.execute("CREATE TABLE t (number INTEGER, square INTEGER)")
    rows = [(number, number * number) for number in range(count)]
    db.write(for_rows("INSERT INTO t VALUES {}", iter(rows)), lambda what, error: AssertionError(what))
    assert db.execute("SELECT number, square FROM t ORDER BY rowid").fetchall() == rows


class CannotWriteError(Exception):
    pass


@pytest.mark.parametrize("fault", ["ours", "SQLite's"])
def test_nothing_of_a_transaction_that_fails_is_written(fault: str) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    db.execute("CREATE TABLE t (number INTEGER PRIMARY KEY)")

    def statements() -> Iterator[Statement]:
        yield "INSERT INTO t VALUES (?)", (1,)
        assert db.execute("SELECT count(*) FROM t").fetchone() == (1,), "what makes statements sees what is there"
        if fault == "ours":
            raise ArithmeticError
        yield "INSERT INTO t VALUES (?)", (1,)

    with pytest.raises(ArithmeticError if fault == "ours" else CannotWriteError):
        db.write(statements(), CannotWriteError)
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize("statement", [FORGET_MAIL, FORGET_HELD])
def test_what_is_forgotten_is_found_by_its_key(statement: str) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db, Path("memory"))
    values = "(1, 2), (3, 4)" if statement is FORGET_MAIL else "(1), (3)"
    plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + statement.format(values))]
    assert plan[0].startswith("SEARCH")
    assert not [step for step in plan if step.startswith(("SCAN mail", "SCAN held"))]


texts = st.binary(max_size=40)
entries: st.SearchStrategy[Entry] = st.tuples(
    st.none() | st.integers(-(2**62), 2**62), texts, texts, texts, st.binary(max_size=200)
)


@given(st.lists(entries, max_size=30), st.integers(0, 35), st.integers(0, 35))
def test_rows_read_together_are_those_that_were_written(found: list[Entry], start: int, stop: int) -> None:
    """Bytes with zeros in them may have to be read one by one; they are never read wrongly."""
    rows = [stored(number, number * 7, entry) for number, entry in enumerate(found)]
    with _tail(rows) as tail:
        together = read_together(tail._db, start, stop, MUCH)
        wanted = [row for row in rows if start <= row[0] < stop]
        assert together == wanted or together is None
        assert tail.read(start, max(start, stop), 100).rows == wanted


def test_events_as_they_are_come_together() -> None:
    rows = [stored(number, 5, (None, b"e-%d" % number, b"", b"s", b'{"a":"\xc3\xa9"}')) for number in range(700)]
    with _tail(rows) as tail:
        assert read_together(tail._db, 10, 600, MUCH) == rows[10:600]
        assert read_together(tail._db, 700, 900, MUCH) == []
        assert read_together(tail._db, 0, 700, 1_000) is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tail SET event = x'7b7d' WHERE position = 3",
        "UPDATE tail SET checksum = x'00' WHERE position = 3",
        "UPDATE tail SET time = 'then' WHERE position = 3",
        "UPDATE tail SET id = 'e-3' || source, source = x'' WHERE position = 3",
        "UPDATE tail SET accepted_at = accepted_at + 1 WHERE position = 3",
    ],
)
def test_a_damaged_row_is_left_to_the_careful_way(change: str) -> None:
    rows = [stored(number, 5, (None, b"e-%d" % number, b"t", b"s", b"{}" * 9)) for number in range(8)]
    with _tail(rows) as tail:
        tail._db.execute(change)
        assert read_together(tail._db, 0, 8, MUCH) is None
        found = tail.read(0, 8, 100)
        assert [row[0] for row in found.rows] == [0, 1, 2, 4, 5, 6, 7]
        assert list(found.reasons) == [3]


def _tail(rows: list[Row]) -> Tail:
    tail = _in_memory()
    tail.create("log", 0)
    if rows:
        tail.append(rows, State("log", len(rows)))
    return tail


def _in_memory() -> Tail:
    tail = Tail.__new__(Tail)
    tail.path = Path("memory")
    tail._db = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    tail._db.text_factory = bytes
    return tail
