"""Death at any point: what was acknowledged is notified, with the nid that it had, and nothing else is."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections import defaultdict

import pytest

from recado.broker.core import HANDLERS
from recado.broker.persistence import SUBSCRIPTIONS
from recado.broker.stimuli import Dispatch
from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server import dispatcher, state_writer
from recado.server import recovery as engine_recovery
from recado.server.engine import Engine
from recado.server.matching import ServiceMatcher
from recado.server.permissions import Busy
from recado.store.state import SqliteStateStore
from server.engine_kit import (
    ANA,
    BEN,
    Clock,
    TestConsumer,
    attached,
    die,
    event,
    opened,
    positions,
    settled,
    story,
    subscribed,
)

USERS = (ANA, BEN)


class Ledger:
    """Who should have got what, and who got it."""

    def __init__(self):
        self.active = {}  # (user, id) -> kind of event
        self.wanted = defaultdict(set)  # (user, id) -> event ids, of events acknowledged while it was active
        self.possible = defaultdict(set)  # and of events that may have been stored while it was
        self.nids = {}  # (user, id, event id) -> nid
        self.got = defaultdict(list)
        self.told = defaultdict(dict)  # user -> nid -> reason

    def sent(self, event_id, kind):
        for key, wanted in self.active.items():
            if wanted == kind:
                self.possible[key].add(event_id)

    def acknowledged(self, event_id, kind, active):
        for key in active:
            if self.active.get(key) == kind:
                self.wanted[key].add(event_id)

    def took(self, user, notifications):
        for n in notifications:
            event_id = read_event(n.event).id
            key = user, n.sub_id, event_id
            assert self.nids.setdefault(key, n.nid) == n.nid, "a repeated notification has another nid"
            self.got[user, n.sub_id].append(event_id)

    def check(self):
        for key, wanted in self.wanted.items():
            assert wanted <= set(self.got[key]), f"lost: {sorted(wanted - set(self.got[key]))}"
        for key, got in self.got.items():
            assert set(got) <= self.possible[key], f"unexpected: {sorted(set(got) - self.possible[key])}"


class Device(TestConsumer):
    def __init__(self, user, ledger, window):
        super().__init__(window)
        self.user, self.ledger, self.open = user, ledger, []

    def push(self, notifications):
        nids = [n.nid for n in notifications]
        assert nids == sorted(nids)
        assert not self.open or self.open[-1] < nids[0]
        self.open += nids
        self.ledger.took(self.user, notifications)


async def a_life(engine, rng, ledger, consumers, number):
    """Some random deeds; returns at a random point, perhaps in the middle of things."""
    for _ in range(rng.randrange(5, 40)):
        user = rng.choice(USERS)
        deed = rng.randrange(12)
        if deed < 5:
            kind = rng.choice("ab")
            some = [f"e{next(number)}" for _ in range(rng.randrange(1, 6))]
            for id in some:
                ledger.sent(id, kind)
            active = list(ledger.active)

            def done(result, some=some, kind=kind, active=active):
                if isinstance(result, range):
                    for id in some:
                        ledger.acknowledged(id, kind, active)

            engine.publish_soon(user, [event(id, type=kind) for id in some], done)
        elif deed == 5:
            kind, id = rng.choice("ab"), rng.choice(["s1", "s2"])
            ledger.active.pop((user.user, id), None)
            await settled(engine)
            await engine.subscribe(user, b'{"id": "%b", "type": "%b"}' % (id.encode(), kind.encode()), "d")
            ledger.active[user.user, id] = kind
        elif deed == 6 and (keys := [key for key in ledger.active if key[0] == user.user]):
            key = rng.choice(keys)
            del ledger.active[key]
            await engine.cancel(user, key[1])
        elif deed == 7:
            consumer = Device(user.user, ledger, rng.choice([1, 5, 100]))
            engine.attach(user, rng.choice("xy"), consumer)
            consumers.append(consumer)
        elif deed == 8 and consumers:
            engine.lose(consumers.pop(rng.randrange(len(consumers))), "story")
        elif deed == 9 and consumers:
            consumer = rng.choice(consumers)
            if consumer.open:
                upto = rng.choice(consumer.open)
                consumer.open = [nid for nid in consumer.open if nid > upto]
                engine.acknowledge(consumer, upto)
        else:
            await asyncio.sleep(rng.choice([0, 0, 0.002, 0.12]))


@pytest.mark.parametrize("seed", range(6))
@story
async def test_death_at_random_points(tmp_path, seed):
    rng, ledger, clock = random.Random(seed), Ledger(), Clock()
    number = iter(range(10**9))
    for _ in range(8):
        engine = await opened(tmp_path, clock)
        assert engine.damage == []
        consumers = []
        await a_life(engine, rng, ledger, consumers, number)
        if rng.random() < 0.3:
            await engine.close()
        else:
            await die(engine)
        clock.pass_(1)
    engine = await opened(tmp_path, clock)
    consumers = [Device(user.user, ledger, 10_000) for user in USERS]
    for user, consumer in zip(USERS, consumers, strict=True):
        engine.attach(user, "last", consumer)
    await settled(engine)
    ledger.check()
    await engine.close()


@story
async def test_what_was_dispatched_but_not_kept_is_dispatched_again(tmp_path):
    engine = await subscribed(tmp_path)
    await engine.publish(BEN, [event(number) for number in range(3)])
    await settled(engine)
    nids = [n.nid for n in await engine.peek(ANA, "ana", 10)]
    await die(engine)
    engine = await opened(tmp_path)
    assert [n.nid for n in await engine.peek(ANA, "ana", 10)] == nids
    assert len(nids) == 3
    await engine.close()


@story
async def test_events_that_cannot_be_dispatched_stop_no_start(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    await settled(engine)
    engine.state_writer._dispatched = lambda: 0  # as if nothing had been kept as dispatched when it died
    engine.broker.state.changes.notifications.clear()
    await engine.publish(BEN, [event(1)])
    await die(engine)
    with monkeypatch.context() as broken:
        broken.setitem(HANDLERS, Dispatch, lambda *_: 1 / 0)
        engine = await opened(tmp_path)
    assert engine.loaded
    assert engine.status()["faults"] == 1
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert await positions(engine) == [1]
    await engine.close()


@story
async def test_a_cancelled_subscription_still_gets_what_came_before(tmp_path):
    engine = await subscribed(tmp_path)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    engine.state_writer._dispatched = lambda: 0  # as if the mail had not been kept when it died
    engine.state_writer._values["x", "y"] = None
    subscription = engine.broker.state.users["ana"].subscriptions["s"]
    engine.broker.state.changes.notifications.clear()
    await engine.cancel(ANA, "s")
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert subscription.until == 1
    await die(engine)
    engine = await opened(tmp_path)
    assert await positions(engine) == [0]
    assert engine.subscriptions(ANA) == []
    assert len(engine.matcher) == 0
    await engine.close()
    engine = await opened(tmp_path)
    assert engine.broker.state.subscriptions == {}
    await engine.close()


@story
async def test_constraints_and_notices_survive(tmp_path):
    clock = Clock()
    engine = await opened(tmp_path, clock, mailbox={"length": 2})
    frequency = b'{"id": "f", "constraints": [{"kind": "frequency", "amount": 60, "unit": "seconds"}]}'
    await engine.subscribe(ANA, frequency, "phone")
    await engine.subscribe(ANA, b'{"id": "short", "ttl": 10}', "phone")
    for number in range(4):
        await engine.publish(BEN, [event(number)])
        clock.pass_(5)
    await settled(engine)
    await engine.state_writer.flush()
    await die(engine)
    engine = await opened(tmp_path, clock, mailbox={"length": 2})
    await engine.publish(BEN, [event("soon")])  # 20 s after the last
    clock.pass_(60)
    await engine.publish(BEN, [event("later")])
    await settled(engine)
    consumer = await attached(engine)
    assert consumer.ids == ["1", "later"]
    gaps = [n for n in consumer.notices if isinstance(n, Gap)]
    assert sorted(nid for gap in gaps for nid in gap.nids) == [1, 2]
    assert [n.sub_ids for n in consumer.notices if isinstance(n, SubCancelled)] == [("short",)]
    await engine.close()


@story
async def test_publishing_and_attaching_need_not_wait_for_loading(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(1)])
    await engine.close()
    engine = await Engine.open(engine.config, clock=clock)
    assert engine.ready
    assert not engine.loaded
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer)
    assert await engine.publish(BEN, [event(2)]) == range(1, 2)
    await engine.when_loaded()
    await settled(engine)
    assert consumer.ids == ["1", "2"]
    await engine.close()


def held_up(monkeypatch):
    """Matchers are not filled before the event is set."""
    go = threading.Event()
    fill = ServiceMatcher.add_many

    def filled(self, subscriptions, checked=True):
        assert go.wait(60)
        return fill(self, subscriptions, checked)

    monkeypatch.setattr(ServiceMatcher, "add_many", filled)
    return go


@story
async def test_what_waits_is_delivered_before_events_can_be_matched(tmp_path, monkeypatch):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(number) for number in range(5)])
    await engine.close()
    go = held_up(monkeypatch)
    engine = await Engine.open(engine.config, clock=clock)
    consumer = TestConsumer(window=2, auto=engine)
    engine.attach(ANA, "phone", consumer)
    assert await engine.publish(BEN, [event("new")]) == range(5, 6)
    while len(consumer.got) < 5 or not engine.listed:
        await asyncio.sleep(0.001)
    assert consumer.ids == ["0", "1", "2", "3", "4"]
    assert [held.id for held in engine.subscriptions(ANA)] == ["s"]
    assert not engine.loaded
    go.set()
    await engine.when_loaded()
    await settled(engine)
    assert consumer.ids == ["0", "1", "2", "3", "4", "new"]
    assert all(n.queued for n in consumer.got)
    await engine.close()
    engine = await opened(tmp_path, clock)
    assert await positions(engine) == []  # what was acknowledged meanwhile is kept as such
    await engine.close()


@story
async def test_death_while_matching_is_made_ready_repeats_what_was_acknowledged(tmp_path, monkeypatch):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(number) for number in range(5)])
    await engine.close()
    with monkeypatch.context() as slow:
        go = held_up(slow)
        engine = await Engine.open(engine.config, clock=clock)
        consumer = TestConsumer(window=2, auto=engine)
        engine.attach(ANA, "phone", consumer)
        await engine.publish(BEN, [event("new")])
        while len(consumer.got) < 5:
            await asyncio.sleep(0.001)
        await die(engine)
        go.set()
    engine = await opened(tmp_path, clock)
    again = await attached(engine, device="tablet")
    assert [n.nid for n in again.got[:5]] == [n.nid for n in consumer.got]
    assert again.ids == ["0", "1", "2", "3", "4", "new"]
    await engine.close()


@story
async def test_mail_of_users_who_want_events_told_otherwise_waits_for_the_matcher(tmp_path, monkeypatch):
    clock = Clock()
    record = b'{"id": "s", "filter": "{price, GT, 5}", "semantic": {"measure": "levenshtein", "rename": true}}'
    engine = await subscribed(tmp_path, clock, record=record)
    await engine.publish(BEN, [event(1, prices=7)])
    await settled(engine)
    told = [n.event for n in await engine.peek(ANA, "ana", 10)]
    assert len(told) == 1
    assert b'"price"' in told[0]
    await engine.close()
    go = held_up(monkeypatch)
    engine = await Engine.open(engine.config, clock=clock)
    consumer = TestConsumer(auto=engine)
    engine.attach(ANA, "phone", consumer)
    while not engine.listed:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert consumer.got == []
    go.set()
    await engine.when_loaded()
    await settled(engine)
    assert [n.event for n in consumer.got] == told
    await engine.close()


@story
async def test_damaged_state_is_named_and_the_rest_is_used(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    await engine.subscribe(BEN, b'{"id": "s"}', "phone")
    await engine.publish(BEN, [event(number) for number in range(3)])
    await engine.close()
    with sqlite3.connect(tmp_path / "state.sqlite") as db:
        db.execute("UPDATE subscriptions SET body = zeroblob(20) WHERE serial = 2")
        db.execute("UPDATE held SET body = replace(CAST(body AS TEXT), '1', '9') WHERE position = 1")
    db.close()
    engine = await opened(tmp_path)
    assert len(engine.damage) == 4  # the subscription, the event, and the two notifications of it
    assert engine.status()["damage"] == engine.damage
    monkeypatch.setattr("recado.server.engine._DAMAGE_SHOWN", 3)
    assert engine.status()["damage"] == [*engine.damage[:3], "and 1 more, which the log names"]
    assert engine.subscriptions(BEN) == []
    consumer = await attached(engine)
    assert consumer.ids == ["0", "2"]
    assert [(n.nids, n.reason) for n in consumer.notices] == [(((1 << 20) + 1,), "damaged")]
    await engine.close()


@pytest.mark.parametrize("where", ["header", "middle", "garbage"])
@story
async def test_a_file_that_is_no_database_any_more_is_set_aside(tmp_path, where):
    engine = await opened(tmp_path)
    for number in range(50):
        await engine.subscribe(ANA, b'{"id": "s%d", "type": "%b"}' % (number, b"x" * 500), "phone")
    await engine.publish(BEN, [event(1)])
    await engine.close()
    path = tmp_path / "state.sqlite"
    raw = bytearray(path.read_bytes())
    if where == "header":
        raw[:50] = bytes(50)
    elif where == "middle":
        page = raw.index(b"s25") // 4096 * 4096
        raw[page : page + 4096] = bytes(4096)
    else:
        raw = bytearray(b"nothing of a database" * 1000)
    path.write_bytes(raw)
    engine = await opened(tmp_path)
    assert "set aside" in engine.damage[0]
    assert (tmp_path / "state.damaged-1.sqlite").exists()
    if where == "middle":
        assert 0 < len(engine.subscriptions(ANA)) < 50
    await engine.publish(BEN, [event(2)])  # it goes on
    await engine.subscribe(ANA, b'{"id": "new"}', "phone")
    await engine.close()
    engine = await opened(tmp_path)
    assert "new" in [held.id for held in engine.subscriptions(ANA)]
    assert engine.damage == []
    await engine.close()


@pytest.mark.parametrize("marks", ["UPDATE marks SET checksum = zeroblob(8)", "DELETE FROM marks"])
@story
async def test_without_the_mark_of_what_was_dispatched_nothing_is_left_out(tmp_path, marks):
    engine = await opened(tmp_path)
    await engine.publish(BEN, [event(0)])  # before anybody subscribed
    await engine.subscribe(ANA, b'{"id": "s"}', "phone")
    consumer = await attached(engine)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    engine.acknowledge(consumer, consumer.got[-1].nid)
    await engine.state_writer.flush()
    await engine.publish(BEN, [event(2)])
    await die(engine)
    with sqlite3.connect(tmp_path / "state.sqlite") as db:
        db.execute(marks + " WHERE name LIKE 'dispatched%'")
    db.close()
    engine = await opened(tmp_path)
    assert "those from position 1 on are dispatched again" in engine.damage[-1]
    again = await attached(engine, device="tablet")
    assert again.ids == ["1", "2"]
    assert again.got[0].nid == consumer.got[0].nid
    await engine.close()


@story
async def test_an_event_that_cannot_be_read_again_stops_no_other(tmp_path, monkeypatch):
    engine = await subscribed(tmp_path)
    await engine.state_writer.flush()
    engine.state_writer._begin = lambda: None
    await engine.publish(BEN, [event(number) for number in range(3)])
    await die(engine)

    def broken(text, **options):
        if b'"1"' in text:
            raise RecadoError("broken")
        return read_event(text, **options)

    monkeypatch.setattr(engine_recovery, "read_event", broken)
    engine = await opened(tmp_path)
    assert await positions(engine) == [0, 2]
    assert engine.damage == ["the event at position 1 cannot be read: broken"]
    await engine.close()


@story
async def test_a_new_device_has_its_mailbox_before_anything_more_is_accepted(tmp_path):
    engine = await subscribed(tmp_path, mailbox={"per_device": True})
    await attached(engine, device="tablet")
    await engine.state_writer.flush()
    await attached(engine, device="phone")
    await engine.publish(BEN, [event(1)])
    await die(engine)
    engine = await opened(tmp_path, mailbox={"per_device": True})
    assert {box.device: box.length for box in engine.mailboxes(ANA)} == {"tablet": 1, "phone": 1}
    await engine.close()


@story
async def test_events_that_memory_does_not_hold_are_read_from_the_log(tmp_path, monkeypatch):
    """The dispatcher follows the log: what was committed long before its turn is not in memory any more."""
    monkeypatch.setattr(dispatcher, "TAIL_EVENTS", 2)
    engine = await subscribed(tmp_path)
    consumer = await attached(engine)
    engine.dispatcher._stopped = True
    for number in range(7):
        await engine.publish(BEN, [event(number)])
    assert engine.dispatcher.tail.first == 5
    assert consumer.ids == []
    engine.dispatcher.resume()
    await settled(engine)
    assert consumer.ids == [str(number) for number in range(7)]
    await engine.close()


@story
async def test_what_comes_while_the_state_is_loaded_is_read_from_the_log_and_then_from_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatcher, "TAIL_EVENTS", 2)
    engine = await subscribed(tmp_path)
    await engine.close()
    go = held_up(monkeypatch)
    engine = await Engine.open(engine.config, clock=Clock())
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer)
    for number in range(6):
        await engine.publish(BEN, [event(number)])
    assert engine.dispatcher.tail.first == 4
    go.set()
    await engine.when_loaded()
    await settled(engine)
    assert consumer.ids == [str(number) for number in range(6)]
    await engine.close()


@story
async def test_a_state_that_somebody_else_has_opened_is_written_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(state_writer, "RETRY", 0.001)
    engine = await subscribed(tmp_path)
    other = SqliteStateStore(tmp_path)
    with pytest.raises(Busy, match="opened by another process"):
        await engine.subscribe(ANA, b'{"id": "late"}', "phone")
    writes = []
    monkeypatch.setattr(engine.state_writer._store, "write", writes.append)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    await asyncio.sleep(0.05)
    assert writes == []
    assert [row.id for row in other.load().of(SUBSCRIPTIONS)] == ["s"]
    other.close()
    await engine.close()
