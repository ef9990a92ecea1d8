"""The cases of the event log and of RUDP, for a moment each: what they measure is not asserted, that they do is."""

import asyncio

import pytest

from benchmarks import log
from benchmarks.harness import make_tables
from benchmarks.log import BARE, LogRate, Rows
from benchmarks.rudp import SUBJECT as RUDP
from benchmarks.rudp import send_messages


def test_appends_are_events_a_second(tmp_path):
    assert log.sync_bare(tmp_path, 0.02) > 0
    assert log.append(tmp_path, 0.02, 10) > 0


def test_reading_covers_tail_and_segments(tmp_path):
    rates = log.read(tmp_path, 1_000)
    assert list(rates)[:3] == ["read the tail", "seal", "read segments"]
    assert len(rates) == 5
    assert min(rates.values()) > 0


@pytest.mark.parametrize("work", [log.write_rows, log.seal_rows])
def test_rows_are_written_and_sealed_in_both_ways(work, tmp_path):
    (found,) = log._rows("both", lambda *arguments: work(*arguments, beside=True), 600, 1, tmp_path)
    assert isinstance(found, Rows)
    assert min(found.one_by_one, found.together) > 0


def test_the_best_round_counts(tmp_path):
    rates = iter([1.0, 3.0, 2.0])
    (found,) = log._best_rates("append", lambda folder: {"work": next(rates)}, 3, tmp_path)
    assert found == LogRate("append", "work", 3.0)


def test_appends_stand_beside_the_bare_disk():
    records = [LogRate("append", BARE, 100.0), LogRate("append", "ours", 50.0), LogRate("read", "read", 9.0)]
    (grid,) = make_tables(log.SUBJECT, records)
    assert [row[2] for row in grid.rows] == ["1", "0.5", ""]


def test_messages_arrive():
    found = asyncio.run(send_messages("fast", 200, 0.05))
    assert found.messages > 0
    assert found.datagrams >= found.messages
    (grid,) = make_tables(RUDP, [found])
    assert grid.rows[0][0] == "fast"
