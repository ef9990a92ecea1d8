"""A service knows what is stored through ``EventLog`` and ``StateStore`` alone; others can take their places."""

import asyncio

import pytest

from recado.server import engine as engines
from recado.store.log import SqliteEventLog
from recado.store.protocols import EventLog, StateStore
from recado.store.state import SqliteStateStore
from server.engine_kit import ANA, BEN, Clock, attached, config, die, event, settled, story


class Narrow:
    """Of an object what a protocol has, and nothing else."""

    def __init__(self, protocol, made):
        self._made = made
        self._names = {name for name in vars(protocol) if not name.startswith("_")}

    def __getattr__(self, name):
        if name not in self._names:
            raise AssertionError(f"{type(self._made).__name__}.{name} is not in the protocol")
        return getattr(self._made, name)


@pytest.fixture
def narrow(monkeypatch):
    class Log:
        @staticmethod
        def open(*arguments):
            return Narrow(EventLog, SqliteEventLog.open(*arguments))

    monkeypatch.setattr(engines, "SqliteEventLog", Log)
    monkeypatch.setattr(engines, "SqliteStateStore", lambda folder: Narrow(StateStore, SqliteStateStore(folder)))


def test_what_is_no_part_of_a_protocol_is_found(tmp_path):
    log = Narrow(EventLog, SqliteEventLog.open(tmp_path / "log"))
    assert log.end == 0
    with pytest.raises(AssertionError, match=r"SqliteEventLog\.path is not in the protocol"):
        log.path  # noqa: B018
    log.close()


@story
async def test_an_engine_runs_on_the_protocols_alone(tmp_path, narrow):
    """Publishing, delivery, maintenance, replay, a backup, a crash and what was not acknowledged after it."""
    engine = await engines.Engine.open(config(tmp_path / "data"), clock=Clock())
    await engine.when_loaded()
    await engine.subscribe(ANA, b'{"id": "s"}', "phone")
    consumer = await attached(engine)
    await engine.publish(BEN, [event(number, x=number) for number in range(3)])
    await settled(engine)
    assert consumer.ids == ["0", "1", "2"]
    await asyncio.to_thread(engine.maintenance._seal_and_expire, True)
    filter = b'{"id": "replay", "filter": "x > 0"}'
    assert [position async for position, _ in engine.replay(BEN, filter)] == [1, 2]
    assert [position async for position, _ in engine.replay(BEN, filter, since=Clock().now)] == [1, 2]
    await engine.backup(tmp_path / "copy")
    await die(engine)
    for folder in ("data", "copy"):
        again = await engines.Engine.open(config(tmp_path / folder), clock=Clock())
        await again.when_loaded()
        assert (await attached(again)).ids == ["0", "1", "2"]
        await again.close()
