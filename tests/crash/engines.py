"""An engine in this process, consumers that remember what they get, and images of its folder as a power cut leaves it.

SQLite syncs its write-ahead log at every commit (``synchronous = FULL``), so what a power cut may take away is what was
written to it since. ``Disk`` remembers the write-ahead logs as they were at the last commit of each, and makes images
of the folder with those in the place of the current ones; or with a part of what was written since, as it may be too.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from pathlib import Path

import msgspec

from recado.model.event import Event
from recado.server import state_writer as state_writer_module
from recado.server.config import make_config
from recado.server.engine import Engine
from recado.server.permissions import Principal
from recado.store.log.tail import Tail
from recado.store.state import SqliteStateStore

ANA = Principal("ana", publish=("*",), subscribe=("*",))
BOB = Principal("bob", publish=("*",), subscribe=("*",))
RECORD = msgspec.json.encode({"id": "all", "type": "Reading", "ttl": 86_400})


class Leg:
    """Takes everything; acknowledges when it is told to."""

    kind, address = "test", "nowhere"

    def __init__(self, window: int = 1_024) -> None:
        self.window = window
        self.got: list[tuple[int, str]] = []
        self.events: dict[str, bytes] = {}
        self.notices = []
        self.closed = ""

    def push(self, notifications) -> None:
        for one in notifications:
            id = msgspec.json.decode(one.event)["id"]
            self.got.append((one.nid, id))
            self.events[id] = one.event

    def notice(self, notices) -> None:
        self.notices += notices

    def say(self, messages) -> None: ...

    def close(self, reason: str) -> None:
        self.closed = reason


def config_of(folder: Path, **sections):
    return make_config({"data": str(folder), **sections})


def event(number: int) -> Event:
    return Event(f"e-{number}", "Reading", attributes={"number": number, "text": "x" * (number % 50)})


async def opened(folder: Path, **sections) -> Engine:
    engine = await Engine.open(config_of(folder, **sections))
    await engine.when_loaded()
    return engine


async def drained(engine: Engine, rounds: int = 200) -> Leg:
    """A device comes and takes all that waits for ana."""
    consumer = Leg()
    engine.attach(ANA, "desk", consumer)
    for _ in range(rounds):
        before = len(consumer.got)
        if consumer.got:
            engine.acknowledge(consumer, consumer.got[-1][0])
        await asyncio.sleep(0.002)
        if len(consumer.got) == before:
            break
    engine.lose(consumer, "the test is over")
    return consumer


class Disk:
    """Watches the commits of an engine on ``folder``.

    ``images`` are folders, how many events each must have at least and at most, and what was acknowledged by then.
    """

    def __init__(self, folder: Path, target: Path, acknowledged: dict[str, int], monkeypatch, seed: int = 0) -> None:
        self.folder, self.target = folder, target
        self.images: list[tuple[Path, int, int, dict[str, int]]] = []
        self._acknowledged = acknowledged
        self._rng = random.Random(seed)
        self._lock = threading.RLock()
        self._synced: dict[Path, bytes] = {}
        self._stored = 0
        monkeypatch.setattr(state_writer_module, "SOON", 0.005)
        disk = self
        append, write = Tail.append, SqliteStateStore.write

        def watched_append(tail, rows, state):
            with disk._lock:
                disk.image("before the log")
                append(tail, rows, state)
                disk.image("unsynced, in part", pending=len(rows))
                disk._stored += len(rows)
                disk._remember()
                disk.image("after the log")

        def watched_write(store, batch):
            with disk._lock:
                disk.image("before the state")
                write(store, batch)
                disk.image("unsynced, in part")
                disk._remember()

        monkeypatch.setattr(Tail, "append", watched_append)
        monkeypatch.setattr(SqliteStateStore, "write", watched_write)

    def _wals(self) -> list[Path]:
        return list(self.folder.rglob("*-wal"))

    def _remember(self) -> None:
        for path in self._wals():
            self._synced[path.relative_to(self.folder)] = path.read_bytes()

    def image(self, why: str, pending: int = 0) -> None:
        """The folder as it is if the power fails now: between ``stored`` and ``stored + pending`` events are there."""
        if not self._synced:
            self._remember()
        copy = self.target / f"{len(self.images):04} {why}"
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns("*-shm", "lock*", "*.lock"))
        for path in self._wals():
            name = path.relative_to(self.folder)
            now, synced = path.read_bytes(), self._synced.get(name, b"")
            if "in part" in why and now != synced:
                cut = self._rng.randrange(len(now) + 1)
                now = now[:cut] + synced[cut:]
            elif "in part" not in why:
                now = synced
            (copy / name).write_bytes(now)
        self.images.append((copy, self._stored, self._stored + pending, dict(self._acknowledged)))
