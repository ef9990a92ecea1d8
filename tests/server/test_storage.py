"""A disk that is full, files that are gone: the service says that it is not ready, and means it."""

import asyncio
import logging
import os
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from recado.server import maintenance
from recado.server import storage as storage_module
from recado.server.storage import PROBE_FILE, Storage
from server.running import http, run, serving, until


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(maintenance, "TURN_SECONDS", 0.02)


@contextmanager
def small_disk(folder, options="size=8m"):
    """A file system of its own; whoever may not make one does without the test."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=False)
    if made.returncode:
        pytest.skip("no file system can be made here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def standing(client):
    """What /readyz, /v1/status and /metrics say, and whether a publication and a subscription are accepted."""
    ready = await client.get("/readyz")
    status = (await client.get("/v1/status")).json()
    lines = (await client.get("/metrics")).text.splitlines()
    trouble = {line.split('"')[1] for line in lines if line.startswith("recado_trouble{") and line.endswith(" 1.0")}
    assert (ready.status_code == 200) == status["ready"] == ("recado_ready 1.0" in lines)
    return ready.json()["status"], status["trouble"], trouble


async def accepted(client, number):
    published = await client.post("/v1/events", json={"id": f"e-{number}", "type": "t", "text": "x" * 20_000})
    subscribed = await client.post("/v1/subscriptions", json={"id": f"s-{number}"})
    return published.status_code, subscribed.status_code


def fill(path):
    """Write until the disk is full, whatever else writes to it meanwhile."""
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        write_for_ever(file)


def write_for_ever(file):
    while True:
        file.write(bytes(4096))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file system")
def test_a_full_disk_is_told_before_anybody_publishes_and_no_longer_than_it_lasts(tmp_path, caplog):
    async def main():
        with small_disk(tmp_path / "disk") as disk:
            async with serving(disk) as server, http(server) as client:
                assert await standing(client) == ("ready", [], set())
                fill(disk / "large")
                await until(lambda: server.engine.storage.trouble)
                word, [text], kinds = await standing(client)
                assert (word, kinds) == ("trouble", {"storage"})
                assert "No space left" in text
                assert await accepted(client, 1) == (503, 503)
                (disk / "large").unlink()
                await until(lambda: server.engine.accepts)
                assert await standing(client) == ("ready", [], set())
                assert await accepted(client, 2) == (202, 201)
                assert not (disk / "data" / PROBE_FILE).exists()

    with caplog.at_level(logging.WARNING):
        run(main())
    assert caplog.text.count("nothing is accepted") == 1
    assert "events are accepted again" in caplog.text


def test_a_log_that_could_not_be_written_is_tried_again_though_nobody_publishes(tmp_path):
    async def main():
        async with serving(tmp_path) as server, http(server) as client:
            db = server.engine.log._tail._db
            db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
            answer = await client.post("/v1/events", json={"id": "e", "type": "t", "text": "x" * 60_000})
            assert answer.status_code == 503
            await until(lambda: not server.engine.committer.trouble)
            assert (await standing(client))[0] == "ready"

    run(main())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file system")
def test_a_disk_that_was_made_read_only_is_told_before_anybody_publishes(tmp_path):
    with small_disk(tmp_path / "disk", "size=512m") as disk:
        storage = Storage(disk)
        storage.look()
        assert storage.trouble == ""
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        storage.look()
        assert "Read-only file system" in storage.trouble
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        storage.look()
        assert storage.trouble == ""


@pytest.mark.parametrize("what", ["data", "data/log/tail.sqlite", "data/state.sqlite"])
def test_nothing_is_accepted_when_the_files_are_gone_and_again_when_they_are_back(tmp_path, what):
    async def main():
        async with serving(tmp_path) as server, http(server) as client:
            assert await accepted(client, 1) == (202, 201)
            (tmp_path / what).rename(tmp_path / "away")
            assert await accepted(client, 2) == (503, 503)
            await until(lambda: server.engine.storage.trouble)
            word, troubles, kinds = await standing(client)
            assert word == "trouble"
            assert "was deleted, moved or replaced" in troubles[0]
            assert "storage" in kinds
            (tmp_path / "away").rename(tmp_path / what)
            await until(lambda: server.engine.accepts)
            assert await accepted(client, 3) == (202, 201)

    run(main())


def test_a_state_that_cannot_be_written_is_tried_again_and_told_once(tmp_path, caplog, monkeypatch):
    """A line every second for as long as it lasts would fill another disk."""
    monkeypatch.setattr("recado.server.state_writer.RETRY", 0.01)

    async def main():
        async with serving(tmp_path) as server, http(server) as client:
            assert await accepted(client, 1) == (202, 201)
            writer, tries = server.engine.state_writer, []
            check = writer._check_files
            monkeypatch.setattr(writer, "_check_files", lambda: (tries.append(1), check()))
            (tmp_path / "data").rename(tmp_path / "away")
            assert await accepted(client, 2) == (503, 503)
            await until(lambda: len(tries) > 5)
            (tmp_path / "away").rename(tmp_path / "data")
            await until(lambda: not writer.trouble)

    run(main())
    assert sum("the state cannot be written" in record.getMessage() for record in caplog.records) == 1


def test_another_file_of_the_same_name_is_not_taken_for_the_one_that_was_opened(tmp_path):
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"x")
    storage = Storage(tmp_path, path)
    storage.look()
    assert storage.trouble == ""
    kept = path.open("rb")
    path.unlink()
    path.write_bytes(b"x")
    storage.look()
    kept.close()
    assert "replaced under the running service" in storage.trouble


def test_nothing_is_written_to_see_how_it_stands_where_there_is_room(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    def filesystem(bytes=storage_module.LITTLE_BYTES, files=10, free_files=10, flags=0):
        return SimpleNamespace(f_bavail=bytes, f_frsize=1, f_files=files, f_favail=free_files, f_flag=flags)

    monkeypatch.setattr(storage_module.files, "replace", fail)
    for fine in (filesystem(), filesystem(files=0, free_files=0)):
        storage = Storage(tmp_path)
        monkeypatch.setattr(storage_module.os, "statvfs", lambda _, found=fine: found)
        storage.look()
        assert storage.trouble == ""
    for full in (filesystem(storage_module.LITTLE_BYTES - 1), filesystem(free_files=0), filesystem(flags=os.ST_RDONLY)):
        storage = Storage(tmp_path)
        monkeypatch.setattr(storage_module.os, "statvfs", lambda _, found=full: found)
        storage.look()
        assert "No space left on device" in storage.trouble


def test_a_service_whose_folder_was_deleted_stops_cleanly(tmp_path):
    async def main():
        async with serving(tmp_path) as server, http(server) as client:
            assert await accepted(client, 1) == (202, 201)
            subprocess.run(["rm", "-rf", str(tmp_path / "data")], check=True)
            assert await accepted(client, 2) == (503, 503)
            assert (await client.get("/healthz")).status_code == 200
            await asyncio.sleep(0.1)

    run(main())
