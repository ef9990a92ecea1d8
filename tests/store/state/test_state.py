"""The state store: what is written is loaded, damage is found, older files are brought up to date."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import msgspec
import pytest

from recado.broker.persistence import (
    DEVICES,
    MAILBOXES,
    NOTICES,
    SUBSCRIPTIONS,
    Batch,
    DeviceRow,
    MailboxRow,
    NoticeRow,
    NotificationRow,
    SubscriptionRow,
)
from recado.store.protocols import FencedError
from recado.store.state import STATE_FILE, SqliteStateStore, StateError, copy_state
from recado.store.state.rows import decoded
from recado.store.state.store import VERSION, migrate


def subscription(serial, **more):
    fields = {"user": "ana", "id": f"s{serial}", "ordinal": serial, "device": "d", "scope": "", "record": b"{}"}
    return SubscriptionRow(serial=serial, expires_at=5, since=0, **{**fields, **more})


FULL = Batch(
    dispatched=7,
    rows={
        "subscriptions": [subscription(1), subscription(2, until=6, reason="expired", last_notified=4)],
        "boxes": [MailboxRow(1, "ana", ""), MailboxRow(2, "ben", "phone")],
        "notices": [NoticeRow(9, "ana", "", "full", -1, (), 2, b"x" * 16)],
        "devices": [DeviceRow("ana", "d", 1, True)],
    },
    notifications=[
        NotificationRow(3 << 20 | 1, 1, 10, "s1"),
        NotificationRow(3 << 20 | 1, 2, 10, "t"),
        NotificationRow(4 << 20 | 1, 1, 11, "s1"),
    ],
    events={3: b"three", 4: b"four"},
    values={("webhooks", "a"): b"1"},
)


@pytest.fixture
def store(tmp_path):
    made = SqliteStateStore(tmp_path)
    yield made
    made.close()


def test_what_is_written_is_loaded(store):
    store.write(FULL)
    loaded = store.load()
    assert loaded.dispatched == 7
    assert loaded.rows == FULL.rows
    assert loaded.notifications == FULL.notifications
    assert loaded.events == FULL.events
    assert store.values("webhooks") == {"a": b"1"}
    assert loaded.damage == loaded.unreadable == []


def test_an_event_goes_with_the_last_mail_that_needs_it(store):
    store.write(FULL)
    store.write(Batch(gone=[(3 << 20 | 1, 1)]))
    assert store.load().events == FULL.events
    store.write(Batch(gone=[(3 << 20 | 1, 2)]))
    assert store.load().events == {4: b"four"}


def test_forgetting(store):
    store.write(FULL)
    store.write(
        Batch(
            forgotten={"subscriptions": [1], "notices": [9], "devices": [("ana", "d")]},
            values={("webhooks", "a"): None},
        )
    )
    loaded = store.load()
    assert [row.serial for row in loaded.of(SUBSCRIPTIONS)] == [2]
    assert loaded.of(NOTICES) == loaded.of(DEVICES) == []
    assert store.values("webhooks") == {}
    assert loaded.dispatched == 7  # a batch without a mark leaves it


def test_all_of_a_batch_or_nothing(store):
    store.write(FULL)
    store._db.execute("CREATE TRIGGER no BEFORE INSERT ON devices BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(StateError, match="cannot be written"):
        store.write(
            Batch(dispatched=8, rows={"subscriptions": [subscription(5)], "devices": [DeviceRow("x", "y", 1, False)]})
        )
    loaded = store.load()
    assert loaded.dispatched == 7
    assert len(loaded.of(SUBSCRIPTIONS)) == 2


def test_a_full_disk_passes(store):
    store.write(FULL)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError) as caught:
        store.write(Batch(events={100: b"x" * 100_000}))
    assert caught.value.passing
    store._db.execute("PRAGMA max_page_count = 100000")
    store.write(Batch(events={100: b"x" * 100_000}))


def test_starts_are_counted(tmp_path):
    for number in (1, 2, 3):
        store = SqliteStateStore(tmp_path)
        assert store.starts == number
        store.close()


def test_who_was_opened_before_is_fenced(tmp_path):
    older, newer = SqliteStateStore(tmp_path), SqliteStateStore(tmp_path)
    newer.write(FULL)
    with pytest.raises(FencedError, match="opened by another process"):
        older.write(Batch(dispatched=99))
    assert newer.load().dispatched == 7
    older.close()
    newer.close()


def test_an_older_file_is_brought_up_to_date(tmp_path):
    store = SqliteStateStore(tmp_path)
    store.write(FULL)
    store.close()
    db = sqlite3.connect(tmp_path / STATE_FILE, isolation_level=None)
    db.executescript("DROP TABLE kept; DROP TABLE damaged; PRAGMA user_version = 1")
    db.close()
    store = SqliteStateStore(tmp_path)
    loaded = store.load()
    assert loaded.of(SUBSCRIPTIONS) == FULL.rows["subscriptions"]
    assert loaded.notifications == FULL.notifications
    store.write(Batch(values={("a", "b"): b"c"}))
    assert store.values("a") == {"b": b"c"}
    assert store._db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    store.close()


def test_every_version_can_be_migrated(tmp_path):
    for version in range(VERSION):
        path = tmp_path / f"{version}.sqlite"
        db = sqlite3.connect(path, isolation_level=None)
        if version:
            migrate(db, path, version)
        migrate(db, path)
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
        db.close()


def test_a_newer_file_is_refused(tmp_path):
    SqliteStateStore(tmp_path).close()
    with sqlite3.connect(tmp_path / STATE_FILE) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StateError, match="version 99"):
        SqliteStateStore(tmp_path)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.sqlite"
    db = sqlite3.connect(path, isolation_level=None)
    migrate(db, path, 1)
    db.execute("CREATE TABLE damaged (x)")  # in the way
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, path)
    assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    assert not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'kept'").fetchall()
    db.close()


def test_damaged_mail_of_one_box_is_set_aside_and_that_of_others_stays(tmp_path):
    """Two users have notifications with the same nid, which is only theirs together with the box."""
    store = SqliteStateStore(tmp_path)
    store.write(FULL)
    nid = 3 << 20 | 1
    store._db.execute("UPDATE mail SET at = 99 WHERE nid = ? AND box = 2", (nid,))
    assert store.load().unreadable == [(nid, 2)]
    store.close()
    store = SqliteStateStore(tmp_path)
    again = store.load()
    assert [(row.nid, row.mailbox) for row in again.notifications] == [(nid, 1), (4 << 20 | 1, 1)]
    assert again.damage == again.unreadable == []
    store.close()


@pytest.mark.parametrize("nid", [b"\x01", 1.5, "then"])
def test_mail_whose_number_is_none_is_set_aside(tmp_path, nid):
    store = SqliteStateStore(tmp_path)
    store.write(FULL)
    store._db.execute("UPDATE mail SET nid = ? WHERE box = 2", (nid,))
    loaded = store.load()
    assert loaded.unreadable == []  # nobody can be told which one it was
    assert [text for text in loaded.damage if "mail" in text]
    assert [row.mailbox for row in loaded.notifications] == [1, 1]
    assert store.load().damage == []
    store.close()


def test_a_schema_that_is_no_text_is_damage_like_any_other(tmp_path):
    store = SqliteStateStore(tmp_path)
    store.write(FULL)
    store.close()
    path = tmp_path / STATE_FILE
    raw = path.read_bytes()
    assert b"WITHOUT ROWID" in raw
    path.write_bytes(raw.replace(b"WITHOUT ROWID", b"WITHOUT \xd2OWID"))
    store = SqliteStateStore(tmp_path)
    assert "it was set aside as state.damaged-1.sqlite" in store.load().damage[0]
    store.close()


def test_a_damaged_mark_is_known_from_its_copy(store):
    store.write(Batch(dispatched=7))  # there is no mail from which it could be guessed
    store._db.execute("UPDATE marks SET value = 9 WHERE name = 'dispatched'")
    loaded = store.load()
    assert loaded.dispatched == 7
    assert loaded.damage == ["the mark 'dispatched' does not have its checksum"]


def test_boxes_are_forgotten(store):
    store.write(FULL)
    store.write(Batch(gone=[(3 << 20 | 1, 2)], forgotten={"boxes": [2]}))
    loaded = store.load()
    assert loaded.of(MAILBOXES) == [MailboxRow(1, "ana", "")]
    assert len(loaded.notifications) == 2


def changes_of(loaded):
    return (
        loaded.of(SUBSCRIPTIONS),
        loaded.of(MAILBOXES),
        loaded.notifications,
        loaded.events,
        loaded.of(NOTICES),
        loaded.of(DEVICES),
    )


def test_no_changed_byte_is_believed(tmp_path):
    """Flip bits of the file: every row that is loaded is one that was written, and loss is named."""
    folder = tmp_path / "whole"
    store = SqliteStateStore(folder)
    store.write(FULL)
    for serial in range(10, 60):
        store.write(Batch(rows={"subscriptions": [subscription(serial)]}, events={serial: b"e" * 200}))
    whole = changes_of(store.load())
    store.close()
    raw = (folder / STATE_FILE).read_bytes()
    rng = random.Random(1)
    for number in range(150):
        damaged = bytearray(raw)
        damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        copy = tmp_path / str(number)
        copy.mkdir()
        (copy / STATE_FILE).write_bytes(damaged)
        try:
            store = SqliteStateStore(copy)
            loaded = store.load()
        except StateError as error:
            assert str(error)  # refused, with a reason
            continue
        for found, wanted in zip(changes_of(loaded), whole, strict=True):
            if isinstance(wanted, dict):
                assert found.items() <= wanted.items()
            else:
                assert all(row in wanted for row in found)
        if changes_of(loaded) != whole:
            assert loaded.damage
        store.close()


def test_the_copy_is_whole(tmp_path):
    store = SqliteStateStore(tmp_path / "a")
    store.write(FULL)
    (tmp_path / "b").mkdir()
    copy_state(tmp_path / "a" / STATE_FILE, tmp_path / "b" / STATE_FILE)
    with pytest.raises(StateError, match="exists already"):
        copy_state(tmp_path / "a" / STATE_FILE, tmp_path / "b" / STATE_FILE)
    store.write(Batch(dispatched=100))
    copy = SqliteStateStore(tmp_path / "b")
    assert changes_of(copy.load()) == changes_of(store.load())
    assert copy.load().dispatched == 7
    for one in (store, copy):
        one.close()


def test_damage_in_the_write_ahead_log_is_noticed(tmp_path):
    store = SqliteStateStore(tmp_path / "a")
    for serial in range(30):
        store.write(Batch(rows={"subscriptions": [subscription(serial)]}))
    copy = tmp_path / "b"
    copy.mkdir()
    for suffix in ("", "-wal"):
        Path(f"{copy / STATE_FILE}{suffix}").write_bytes(Path(f"{store.path}{suffix}").read_bytes())
    store.close()
    wal = Path(f"{copy / STATE_FILE}-wal")
    raw = bytearray(wal.read_bytes())
    raw[len(raw) // 2] ^= 4
    wal.write_bytes(raw)
    damaged = SqliteStateStore(copy)
    assert "commits cannot be read" in damaged.load().damage[0]
    damaged.close()


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateError, match="cannot be used"):
        SqliteStateStore(tmp_path / "file" / "below")


def test_rows_of_earlier_versions_are_read():
    """Members that came later have a default."""
    device = decoded(DeviceRow, msgspec.msgpack.encode(["ana", "phone", 7, True]))
    assert (device.seen_at, device.connected, device.beyond) == (7, True, -1)
    notice = decoded(NoticeRow, msgspec.msgpack.encode([1, "ana", "", "full", -1, [], 2, b""]))
    assert (notice.count, notice.at) == (2, None)
