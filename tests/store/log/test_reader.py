"""Reading: bounds, batches, filters, instants, and what is told about positions that are gone."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event, write_flat
from recado.store.log import LOG_SCHEMA, Damage, Extent, LogError, LogReader, SqliteEventLog
from store.log.logs import SMALL, START, Ticking, contents, event, events, filled, positions


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Positions 0 to 39 and 40 to 49 in segments, 50 to 76 in the tail."""
    return filled(tmp_path_factory.mktemp("reader") / "log", 77, sealed=50)


def test_the_extent(log):
    assert LogReader(log).extent() == Extent(0, 50, 77)
    assert [(s.first, s.end) for s in LogReader(log).segments()] == [(0, 40), (40, 50)]


@given(st.integers(0, 90), st.integers(0, 90), st.integers(1, 30))
@settings(max_examples=60)
def test_any_stretch_in_batches_of_any_size(log, start, end, rows):
    batches = list(LogReader(log).read(start, end, batch_rows=rows))
    found = [position for batch in batches for position in batch.column("position").to_pylist()]
    assert found == list(range(start, min(end, 77)))
    assert all(0 < batch.num_rows <= rows and batch.schema.equals(LOG_SCHEMA) for batch in batches)


def test_the_columns_are_those_of_the_event(log):
    rows = [row for batch in LogReader(log).read() for row in batch.to_pylist()]
    for row in rows:
        stored = read_event(row["event"])
        assert stored == event(row["position"])
        assert (row["id"], row["type"], row["source"], row["time"]) == (
            stored.id,
            stored.type,
            stored.source,
            stored.time,
        )
        assert row["event"].encode() == write_flat(stored)
        assert row["accepted_at"] == START + timedelta(seconds=row["position"] // 10 + 1)


def test_a_segment_is_plain_parquet(log):
    table = pq.read_table(LogReader(log).segments()[0].path, page_checksum_verification=True)
    assert table.schema.equals(LOG_SCHEMA)
    assert table.column("position").to_pylist() == list(range(40))


@pytest.mark.parametrize(
    "text",
    ["level > 70", "type == 'alarm'", "not exists type", "id in {'e-3', 'e-70'}", "false", "level == 5 or time > 9"],
)
def test_a_filter_chooses_what_it_matches(log, text):
    where = parse_filter(text)
    expected = {position: event(position) for position in range(77) if matches(where, event(position))}
    assert contents(log, where=where) == expected


def test_a_segment_without_a_possible_match_is_not_opened(tmp_path):
    path = tmp_path / "log"
    with SqliteEventLog.open(path, SMALL) as log:
        log.append([event(1), event(4)])
        log.seal(force=True)
        log.append([event(2)])
    LogReader(path).segments()[0].path.unlink()
    with pytest.raises(LogError, match="the file is missing"):
        positions(path, where=parse_filter("type like 'a*' and level == 1"))
    for text in ("type == 'reading'", "type > 'b' and level == 1", "time > t'2026-11-16T00:00:00Z'", "not exists time"):
        assert positions(path, where=parse_filter(text)) == []
    assert positions(path, where=parse_filter("not exists type"), on_damage=lambda _: None) == [2]


def test_position_at(log):
    reader = LogReader(log)
    assert reader.position_at(START) == 0
    assert reader.position_at(START + timedelta(seconds=1)) == 0
    assert reader.position_at(START + timedelta(seconds=1, microseconds=1)) == 10
    assert reader.position_at(START + timedelta(seconds=5)) == 40
    assert reader.position_at(START + timedelta(seconds=6)) == 50
    assert reader.position_at(START + timedelta(seconds=8)) == 70
    assert reader.position_at(START + timedelta(days=1)) == 77


def test_expired_positions_are_an_error_or_a_report(tmp_path):
    with SqliteEventLog.open(filled(tmp_path / "log", 50, sealed=40), SMALL) as log:
        log.retain(max_bytes=0)
    assert positions(tmp_path / "log") == list(range(40, 50))
    with pytest.raises(
        LogError, match="positions 5 to 39 cannot be read: retention removed them; the log begins at 40"
    ):
        positions(tmp_path / "log", 5, 45)
    found = []
    assert positions(tmp_path / "log", 5, 45, on_damage=found.append) == list(range(40, 45))
    assert [(damage.first, damage.end, damage.expired) for damage in found] == [(5, 40, True)]
    found.clear()
    assert positions(tmp_path / "log", 5, 8, on_damage=found.append) == []
    assert [(damage.first, damage.end) for damage in found] == [(5, 8)]


def test_a_folder_without_a_log(tmp_path):
    with pytest.raises(LogError, match="there is no event log in"):
        LogReader(tmp_path)


def test_arguments_are_checked_before_reading(log):
    with pytest.raises(LogError, match="the start -1 is not a position"):
        LogReader(log).read(-1, 5)
    with pytest.raises(LogError, match="batch_rows is 0"):
        LogReader(log).read(0, 5, batch_rows=0)


def test_a_log_of_large_events_is_read_in_small_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("recado.store.log.tail.PIECE_BYTES", 2_000)
    with SqliteEventLog.open(tmp_path / "log") as log:
        log.append([event(number, text="x" * 900) for number in range(10)])
    assert positions(tmp_path / "log") == list(range(10))


def test_a_reader_sees_only_whole_appends_and_an_end_that_was_true(tmp_path):
    with SqliteEventLog.open(tmp_path / "log", SMALL, Ticking()) as log:
        log.append(events(0, 30))
        batches = LogReader(tmp_path / "log").read(batch_rows=10)
        assert next(batches).num_rows == 10
        log.append(events(30, 40))
        log.seal(force=True)
        assert [p for batch in batches for p in batch.column("position").to_pylist()] == list(range(10, 30))


def test_damage_reads_like_a_sentence():
    assert str(Damage(5, 6, "why", "where")) == "position 5 cannot be read: why (where)"
    assert str(Damage(1000, 1002, "why", "where")) == "positions 1,000 to 1,001 cannot be read: why (where)"
    assert str(Damage(5, 5, "why", "where")) == "damage at position 5: why (where)"
