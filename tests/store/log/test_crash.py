"""A crash at any step leaves every position readable exactly once.

A run of the real code is watched: before each of its operations on files and on the tail, the folder is copied as
a crash would leave it there, also with the file that was about to be synced cut short. Every copy must read like the
log itself, without repair, and must open for writing and go on.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from recado import files
from recado.store.log import LogError, LogReader, SqliteEventLog
from recado.store.log.tail import Tail
from store.log.logs import SMALL, Ticking, contents, events, filled, image

STEPS = ["create", "sync", "rename", "sync_folder", "remove"]


@pytest.fixture
def watch(monkeypatch):
    """Call a function before every step, with the step's name and the file it is about."""

    def install(see: Callable[[str, object], None]) -> None:
        def watched(name, act):
            def step(*arguments):
                see(name, arguments[0])
                return act(*arguments)

            return step

        for name in STEPS:
            monkeypatch.setattr(files, name, watched(name, getattr(files, name)))
        for name in ("create", "append", "delete_before"):
            monkeypatch.setattr(Tail, name, watched(f"tail.{name}", getattr(Tail, name)))

    yield install
    monkeypatch.undo()


def crashes(folder: Path, images: Path) -> tuple[list[Path], Callable[[str, object], None]]:
    """The list of images that will be taken, and what takes them."""
    taken: list[Path] = []

    def see(name: str, subject: object) -> None:
        if not folder.exists():
            return
        taken.append(image(folder, images / f"{len(taken):03}-{name}"))
        if name == "sync":
            subject.flush()
            whole = Path(subject.name).read_bytes()
            taken.append(image(folder, images / f"{len(taken):03}-{name}-half"))
            (taken[-1] / Path(subject.name).relative_to(folder)).write_bytes(whole[: len(whole) // 2])

    return taken, see


def check(path: Path, expected: dict[int, object], first: int = 0, seal: bool = True) -> None:
    """The image reads like the log, opens, goes on, seals, and has nothing left over."""
    count = first + len(expected)
    assert contents(path) == expected, path
    with SqliteEventLog.open(path, SMALL, Ticking()) as log:
        assert (log.first, log.end) == (first, count), path
        assert log.append(events(count, count + 3)) == range(count, count + 3)
        if seal:
            log.seal(force=True)
    assert contents(path) == expected | dict(enumerate(events(count, count + 3), count)), path
    assert LogReader(path).check() == []
    named = {segment.path.name for segment in LogReader(path).segments()}
    assert {file.name for file in (path / "segments").iterdir()} == named
    assert not list(path.glob("*.draft"))


def test_sealing_survives_a_crash_at_every_step(tmp_path, watch, monkeypatch):
    monkeypatch.setattr("recado.store.log.tail.DELETE_ROWS", 15)
    with SqliteEventLog.open(filled(tmp_path / "log", 65, sealed=20), SMALL, Ticking()) as log:
        taken, see = crashes(log.path, tmp_path / "images")
        watch(see)
        assert [(s.first, s.end) for s in log.seal(force=True)] == [(20, 60), (60, 65)]
        taken.append(image(log.path, tmp_path / "images" / "end"))
    monkeypatch.undo()
    names = [path.name.split("-")[1] for path in taken[:-1]]
    assert names.count("rename") == 6  # two segments, each with a new and a previous manifest
    assert names.count("tail.delete_before") == 4
    for number, path in enumerate(taken):
        check(path, dict(enumerate(events(0, 65))), seal=number % 4 == 0)


def test_retention_survives_a_crash_at_every_step(tmp_path, watch, monkeypatch):
    with SqliteEventLog.open(filled(tmp_path / "log", 65, sealed=60), SMALL, Ticking()) as log:
        taken, see = crashes(log.path, tmp_path / "images")
        watch(see)
        assert [s.first for s in log.retain(max_bytes=0)] == [0, 40]
    monkeypatch.undo()
    for number, path in enumerate(taken):
        first = LogReader(path).extent().first
        assert first in (0, 60)
        check(path, dict(enumerate(events(first, 65), first)), first, seal=number % 4 == 0)
    assert {LogReader(path).extent().first for path in taken} == {0, 60}


def test_making_a_log_survives_a_crash_at_every_step(tmp_path, watch, monkeypatch):
    taken, see = crashes(tmp_path / "log", tmp_path / "images")
    watch(see)
    SqliteEventLog.open(tmp_path / "log").close()
    monkeypatch.undo()
    assert len(taken) > 5
    for path in taken:
        with SqliteEventLog.open(path, SMALL, Ticking()) as log:
            assert log.append(events(0, 3)) == range(3)
        assert contents(path) == dict(enumerate(events(0, 3)))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_at_any_step_of_sealing_harms_nothing(tmp_path, watch, monkeypatch, code):
    with SqliteEventLog.open(filled(tmp_path / "log", 60, sealed=20), SMALL, Ticking()) as log:
        fail_at = failures = 0
        while True:
            steps = iter(range(1000))

            def see(name, _subject, steps=steps, fail_at=fail_at):
                if next(steps) == fail_at:
                    raise LogError("it failed") if name.startswith("tail") else OSError(code, "it failed")

            watch(see)
            try:
                log.seal(force=True)
            except LogError as error:
                failures += 1
                assert "it failed" in str(error)
            else:
                break
            finally:
                monkeypatch.undo()
            start = log.end
            assert log.append(events(start, start + 1)) == range(start, start + 1)
            assert contents(log.path) == dict(enumerate(events(0, log.end)))
            fail_at += 1
    assert failures > 8
    check(tmp_path / "log", dict(enumerate(events(0, 60 + failures))))
