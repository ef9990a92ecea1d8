"""What the engine refuses leaves things as they were, and a connection that fails is closed."""

from __future__ import annotations

import pytest

from recado.server import dispatcher as dispatch
from recado.server.permissions import Busy
from recado.store.state import StateError
from server.engine_kit import ANA, BEN, TestConsumer, event, opened, positions, settled, story, subscribed


def fail_writes(engine, monkeypatch):
    def full(batch):
        raise StateError("the disk is full", passing=True)

    monkeypatch.setattr(engine.state_writer._store, "write", full)


@story
async def test_a_replacement_that_cannot_be_stored_leaves_a_subscription(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    with monkeypatch.context() as patch:
        fail_writes(engine, patch)
        for _ in range(3):
            with pytest.raises(Busy):
                await engine.subscribe(ANA, b'{"id": "s"}', "phone")
            with pytest.raises(Busy):
                await engine.subscribe(ANA, b'{"id": "other"}', "phone")
        await engine.publish(BEN, [event(1)])
        await settled(engine)
    assert [held.id for held in engine.subscriptions(ANA)] == ["s"]
    assert len(await engine.peek(ANA, "ana", 9)) == 1
    assert len(engine.broker.state.subscriptions) <= 2  # refusals leave nothing behind
    await engine.close()


@story
async def test_a_connection_that_fails_is_closed(tmp_path):
    """Else its device would believe to be connected, and get nothing."""

    class Broken(TestConsumer):
        def push(self, notifications):
            raise RuntimeError("broken")

    engine = await subscribed(tmp_path)
    consumer = Broken()
    engine.attach(ANA, "phone", consumer)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    assert consumer.closed == "failed"
    assert len(await engine.peek(ANA, "ana", 9)) == 1
    await engine.close()


@story
async def test_rows_of_boxes_that_nobody_needs_go(tmp_path):
    engine = await opened(tmp_path)
    await engine.subscribe(ANA, b'{"id": "s", "scope": "this device"}', "phone")
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    await engine.state_writer.flush()
    consumer = TestConsumer(auto=engine)
    engine.attach(ANA, "phone", consumer)
    await engine.state_writer.flush()
    assert consumer.ids == ["1"]
    engine.end(consumer)
    await engine.maintenance.sweep()
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    await engine.close()

    engine = await opened(tmp_path)
    assert await positions(engine) == [1]
    rows = engine.state_writer._store._db.execute("SELECT count(*) FROM boxes").fetchone()
    assert rows == (1,)
    await engine.close()


@story
async def test_whoever_watches_hears_last_of_the_subscription_that_is_there(tmp_path, monkeypatch):
    """One is replaced while events from before that still wait: the old one ends after the new one is there."""
    monkeypatch.setattr(dispatch, "SLICE", 1)
    engine = await opened(tmp_path)
    heard = []
    await engine.subscribe(ANA, b'{"id": "s"}', "phone")
    engine.watchers.append(lambda held, active: heard.append((held.id, active)))
    await engine.publish(BEN, [event(number) for number in range(8_000)])
    await engine.subscribe(ANA, b'{"id": "s"}', "phone")
    assert engine.dispatcher.backlog
    await settled(engine)
    assert ("s", False) in heard
    assert heard[-1] == ("s", True)
    await engine.close()
