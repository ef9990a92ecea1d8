"""The check of the write-ahead log counts as SQLite does."""

from __future__ import annotations

import re
import sqlite3
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.store.wal import _summed, _words, wal_damage


def plain_sums(raw: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """The definition in SQLite's documentation, word by word."""
    first, second = sums
    words = struct.unpack(f"{order}{len(raw) // 4}I", raw)
    for x, y in zip(words[::2], words[1::2], strict=True):
        first = (first + x + second) % 2**32
        second = (second + y + first) % 2**32
    return first, second


@given(st.binary(min_size=8, max_size=200), st.sampled_from("<>"), st.tuples(*[st.integers(0, 2**32 - 1)] * 2))
def test_sums_are_those_of_the_definition(raw, order, sums):
    raw = raw[: len(raw) // 8 * 8]
    import numpy as np

    assert _summed(sums, _words(raw, np.dtype(f"{order}u4"))) == plain_sums(raw, order, sums)


@pytest.fixture
def wal(tmp_path):
    """A write-ahead log of a table and ten commits."""
    db = sqlite3.connect(tmp_path / "db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE numbers (number)")
    for number in range(10):
        db.execute("INSERT INTO numbers VALUES (?)", (number,))
    raw = (tmp_path / "db-wal").read_bytes()
    db.close()
    path = tmp_path / "copy-wal"
    path.write_bytes(raw)
    return path


def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def test_a_sound_log_passes_and_so_does_none(wal, tmp_path):
    assert wal_damage(wal) == ""
    assert wal_damage(tmp_path / "missing") == ""
    wal.write_bytes(b"")
    assert wal_damage(wal) == ""


def test_a_log_that_ends_in_the_middle_of_a_commit_passes(wal):
    wal.write_bytes(wal.read_bytes()[:-100])
    assert wal_damage(wal) == ""


def test_a_torn_last_commit_passes(wal):
    flip(wal, wal.stat().st_size - 100)
    assert wal_damage(wal) == ""


def test_damage_before_that_is_refused(wal):
    frame = 24 + 4096
    flip(wal, wal.stat().st_size - frame - 100)
    assert re.search(r"copy-wal is damaged from byte .* on: 2 commits cannot be read", wal_damage(wal))


@pytest.mark.parametrize("at", [0, 10, 17, 30])
def test_a_damaged_header_is_refused(wal, at):
    flip(wal, at)
    assert "is damaged in its header" in wal_damage(wal)
