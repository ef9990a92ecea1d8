"""Faults inside the service stay where they are: one event, one publisher, one start."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from recado.broker import dispatch as broker_dispatch
from recado.broker.constraints import Frequency
from recado.server import dispatcher as dispatch
from recado.server import maintenance
from recado.server.engine import Engine
from recado.server.permissions import Busy
from server.engine_kit import (
    ANA,
    BEN,
    Clock,
    TestConsumer,
    attached,
    config,
    die,
    event,
    opened,
    positions,
    settled,
    story,
    subscribed,
)


@story
async def test_an_event_that_cannot_be_matched_stops_no_other(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    sifting = engine.matcher.sifting

    def broken(events, texts):
        if any(event.id == "1" for event in events):
            raise RuntimeError("broken")
        return sifting(events, texts)

    monkeypatch.setattr(engine.matcher, "sifting", broken)
    await engine.publish(BEN, [event(number) for number in range(3)])
    await settled(engine)
    assert await positions(engine) == [0, 2]
    await engine.close()


@story
async def test_a_fault_at_one_event_loses_no_other_of_its_slice(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    notify = broker_dispatch.notify

    def broken(state, subscription, position, *rest):
        if position == 1:
            raise RuntimeError("broken")
        return notify(state, subscription, position, *rest)

    monkeypatch.setattr(broker_dispatch, "notify", broken)
    await engine.publish(BEN, [event(number) for number in range(3)])
    await settled(engine)
    assert await positions(engine) == [0, 2]
    assert engine.status()["faults"] == 1
    await engine.close()


@story
async def test_a_fault_at_one_subscription_is_told_to_its_owner(tmp_path, caplog):
    engine = await subscribed(tmp_path)
    await engine.subscribe(BEN, b'{"id": "s"}', "phone")
    engine.broker.state.users["ana"].subscriptions["s"].constraints = (None,)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    assert await positions(engine, BEN) == [0]
    consumer = await attached(engine)
    assert [(n.nids, n.reason) for n in consumer.notices] == [((1,), "damaged")]
    assert (engine.status()["faults"], engine.metrics.by["dropped"]["damaged"]) == (1, 1)
    assert "subscription 's' of user 'ana'" in caplog.text
    await engine.close()


@story
async def test_a_publisher_that_cannot_be_told_keeps_nobody_waiting(tmp_path):
    engine = await opened(tmp_path)

    def broken(_):
        raise RuntimeError("broken")

    engine.publish_soon(ANA, [event(1)], broken)
    assert await engine.publish(BEN, [event(2)]) == range(1, 2)
    await engine.close()


@story
async def test_publishers_wait_while_dispatch_is_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "BACKLOG", 4)
    monkeypatch.setattr(dispatch, "SLICE", 2)
    engine = await subscribed(tmp_path)
    results = await asyncio.gather(*(engine.publish(BEN, [event(n, m=k) for k in range(7)]) for n in range(20)))
    assert sorted(p for positions in results for p in positions) == list(range(140))
    await settled(engine)
    assert engine.mailboxes(ANA)[0].length == 140
    await engine.close()


@story
async def test_too_much_waiting_is_refused(tmp_path):
    engine = await opened(tmp_path, log={"waiting_bytes": 1_000})
    first = asyncio.ensure_future(engine.publish(BEN, [event(1, text="x" * 2_000)]))
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="more events wait"):
        await engine.publish(BEN, [event(2)])
    assert await first == range(1)
    assert await engine.publish(BEN, [event(2)]) == range(1, 2)
    await engine.close()


@story
async def test_a_state_that_cannot_be_loaded_still_accepts_events(tmp_path, monkeypatch):
    engine = await Engine.open(config(tmp_path), clock=Clock())

    def broken():
        raise RuntimeError("broken")

    monkeypatch.setattr(engine.state_writer._store, "load", broken)
    with pytest.raises(RuntimeError, match="broken"):
        await engine.when_loaded()
    assert await engine.publish(BEN, [event(1)]) == range(1)
    assert "cannot be loaded: broken" in engine.status()["trouble"][0]
    with pytest.raises(Busy, match="still being loaded"):
        engine.mailboxes(ANA)
    await engine.close()


@story
async def test_stopping_while_loading(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(1)])
    await engine.close()
    engine = await Engine.open(config(tmp_path), clock=clock)
    await engine.close()
    engine = await opened(tmp_path, clock)
    assert engine.mailboxes(ANA)[0].length == 1
    await engine.close()


@story
async def test_nothing_is_written_before_everything_is_loaded(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(1)])
    await engine.close()
    engine = await Engine.open(config(tmp_path), clock=clock)
    engine.state_writer.put("space", "key", b"value")
    kept = asyncio.ensure_future(engine.state_writer.flush())
    await asyncio.sleep(0)
    assert not kept.done()
    await kept
    assert engine.loaded
    assert engine.status()["dispatched"] == 1
    assert engine.mailboxes(ANA)[0].length == 1
    await engine.close()


@story
async def test_the_sweep_ends_what_no_event_meets_and_tells_watchers(tmp_path):
    clock, heard = Clock(), []
    engine = await opened(tmp_path, clock, subscriptions={"grace_seconds": 100}, mailbox={"age_seconds": 50})
    engine.watchers.append(lambda held, active: heard.append((held.id, active)))
    await engine.subscribe(ANA, b'{"id": "short", "ttl": 10, "type": "never"}', "phone")
    await engine.subscribe(ANA, b'{"id": "long"}', "phone")
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    clock.pass_(60)
    await engine.maintenance.sweep()
    assert heard == [("short", True), ("long", True), ("short", False)]
    assert len(engine.matcher) == 1
    assert engine.mailboxes(ANA)[0].length == 0
    assert (engine.metrics.expired, engine.metrics.by["dropped"]["age"]) == (1, 1)
    clock.pass_(60)
    await engine.maintenance.sweep()
    assert list(engine.broker.state.users["ana"].subscriptions) == ["long"]
    await engine.close()


@story
async def test_a_fault_in_one_step_of_maintenance_stops_no_other(tmp_path, caplog, monkeypatch):
    """It ended all of it without a word: nothing was sealed, nothing expired, and a full disk was not told."""
    monkeypatch.setattr(maintenance, "TURN_SECONDS", 0.01)
    engine = await opened(tmp_path, subscriptions={"sweep_seconds": 0.01})
    turns = {"log": 0, "expire": 0, "sweep": 0}

    def failing(name, error):
        async def step(*_):
            turns[name] += 1
            raise error

        return step

    monkeypatch.setattr(engine.maintenance, "_maintain_log", failing("log", KeyError("one")))
    monkeypatch.setattr(engine.maintenance, "expire", failing("expire", ValueError("two")))
    monkeypatch.setattr(engine.maintenance, "sweep", failing("sweep", ValueError("three")))
    while min(turns.values()) < 3:
        await asyncio.sleep(0.01)
    assert caplog.text.count("failed, and is tried again") == 3, "each is told once"
    assert engine.status()["faults"] == 3
    monkeypatch.undo()
    monkeypatch.setattr(maintenance, "TURN_SECONDS", 0.01)
    while engine.maintenance._failing:
        await asyncio.sleep(0.01)
    await engine.close()


@story
async def test_a_smaller_mailbox_is_enforced_at_the_next_start(tmp_path):
    engine = await subscribed(tmp_path)
    await engine.publish(BEN, [event(number) for number in range(5)])
    await engine.close()
    engine = await opened(tmp_path, mailbox={"length": 2})
    consumer = await attached(engine)
    assert consumer.ids == ["3", "4"]
    assert [n.count for n in consumer.notices] == [3]
    await engine.close()


@story
async def test_a_connected_device_loses_nothing_to_a_small_mailbox(tmp_path):
    engine = await subscribed(tmp_path, mailbox={"length": 2})
    consumer = TestConsumer(window=100, auto=engine)
    engine.attach(ANA, "phone", consumer)
    await engine.publish(BEN, [event(number) for number in range(50)])
    await settled(engine)
    assert consumer.ids == [str(number) for number in range(50)]
    assert consumer.notices == []
    await engine.close()


@story
async def test_a_replaced_subscription_gets_what_was_accepted_before(tmp_path):
    """Events that are stored but not dispatched when the filter changes belong to the old filter."""
    engine = await opened(tmp_path)
    await engine.subscribe(ANA, b'{"id": "s", "type": "a"}', "phone")
    engine.publish_soon(BEN, [event(1, type="a"), event(2, type="b")], lambda _: None)
    while engine.dispatcher.end < 2:
        await asyncio.sleep(0)
    await engine.subscribe(ANA, b'{"id": "s", "type": "b"}', "phone")
    await engine.publish(BEN, [event(3, type="a"), event(4, type="b")])
    await settled(engine)
    assert await positions(engine) == [0, 3]
    assert len(engine.matcher) == 1
    await engine.close()


@story
async def test_old_segments_go_and_replay_begins_where_the_log_does(tmp_path):
    clock = Clock()
    engine = await opened(tmp_path, clock, log={"segment_rows": 10})
    await engine.publish(BEN, [event(number) for number in range(10)])
    clock.pass_(100)
    await engine.publish(BEN, [event(number) for number in range(10, 15)])
    await asyncio.to_thread(engine.log.seal)
    await asyncio.to_thread(engine.log.retain, timedelta(seconds=50))
    assert engine.status()["first"] == 10
    assert [p async for p, _ in engine.replay(ANA, b"{}")] == list(range(10, 15))
    assert [p async for p, _ in engine.replay(ANA, b"{}", position=3)] == list(range(10, 15))
    await engine.close()


@story
async def test_constraints_that_hold_while_away_are_judged_by_what_was_known(tmp_path):
    """A device was connected when the state was last written: its notifications come again after a crash."""
    clock = Clock()
    engine = await opened(tmp_path, clock)
    rule = b'{"kind": "frequency", "amount": 1, "unit": "hours", "when": "disconnected"}'
    await engine.subscribe(ANA, b'{"id": "s", "constraints": [%b]}' % rule, "phone")
    engine.attach(ANA, "phone", TestConsumer())
    await engine.state_writer.flush()
    subscription = engine.broker.state.users["ana"].subscriptions["s"]
    assert subscription.constraints == (Frequency(1, "hours", "disconnected"),)
    await engine.publish(BEN, [event(1), event(2)])
    await settled(engine)
    await die(engine)
    engine = await opened(tmp_path, clock)
    assert await positions(engine) == [0, 1]
    await engine.publish(BEN, [event(3)])
    await settled(engine)
    assert len(await engine.peek(ANA, "ana", 9)) == 2  # now they are away, and it is too soon
    await engine.close()


@story
async def test_what_a_device_saw_of_a_longer_log_is_not_relied_on(tmp_path, caplog):
    """As after a restore from an older backup: new events get positions that the device has seen."""
    engine = await subscribed(tmp_path)
    consumer = await attached(engine, seen=5 << 20 | 1)
    assert "the log ends at 0" in caplog.text
    engine.lose(consumer, "story")
    await engine.publish(BEN, [event(number) for number in range(8)])
    await settled(engine)
    await engine.close()
    engine = await opened(tmp_path)
    assert (await attached(engine, seen=5 << 20 | 1)).ids == [str(number) for number in range(8)]
    await engine.close()


@story
async def test_a_subscription_gets_what_was_accepted_before_it_was_cancelled(tmp_path):
    engine = await subscribed(tmp_path)
    await engine.publish(BEN, [event(1)])  # it is stored, but not dispatched yet
    await engine.cancel(ANA, "s")
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert await positions(engine) == [0]
    assert len(engine.matcher) == 0
    await engine.close()
