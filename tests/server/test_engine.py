"""The engine through its interface: publish, subscribe, notify, sessions, mailboxes, replay, permissions."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from recado.errors import LimitError, RecadoError, SubscriptionError
from recado.net.clock import SteadyClock
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server import maintenance
from recado.server.engine import Engine
from recado.server.permissions import Busy, Denied, Principal, Unknown
from server.engine_kit import (
    ANA,
    BEN,
    ROOT,
    START,
    Clock,
    TestConsumer,
    attached,
    config,
    event,
    opened,
    settled,
    story,
    subscribed,
)

HOURLY = b'{"kind": "frequency", "amount": 1, "unit": "hours"}'
SUB = b'{"id": "s", "filter": "x > 3"}'


@story
async def test_publish_subscribe_notify(tmp_path):
    engine = await opened(tmp_path)
    held = await engine.subscribe(ANA, SUB, "phone")
    assert held.members() == {
        "id": "s",
        "filter": "x > 3",
        "expires_at": "2026-11-15T13:00:00Z",
        "scope": "all",
    }
    consumer = TestConsumer()
    welcome = engine.attach(ANA, "phone", consumer)
    assert (welcome.user, welcome.device, welcome.waiting) == ("ana", "phone", 0)
    assert await engine.publish(BEN, [event(1, x=1), event(2, x=5)]) == range(2)
    await settled(engine)
    (got,) = consumer.got
    assert got.message() == (
        b'{"type":"NOTIFY","nid":%d,"sub_id":"s","event":{"id":"2","type":"t","x":5},'
        b'"generated_at":"2026-11-15T12:00:00Z"}' % ((1 << 20) + 1)
    )
    engine.acknowledge(consumer, got.nid)
    assert engine.mailboxes(ANA)[0].length == 0
    await engine.close()


@story
async def test_what_waits_is_sent_in_order_within_the_window(tmp_path):
    engine = await opened(tmp_path)
    await engine.subscribe(ANA, SUB, "phone")
    for number in range(10):
        await engine.publish(BEN, [event(number, x=5)])
    await settled(engine)
    consumer = TestConsumer(window=4)
    assert engine.attach(ANA, "phone", consumer).waiting == 10
    await settled(engine)
    assert consumer.ids == ["0", "1", "2", "3"]
    assert all(n.queued for n in consumer.got)
    engine.acknowledge(consumer, consumer.got[1].nid)
    assert consumer.ids == ["0", "1", "2", "3", "4", "5"]
    engine.lose(consumer, "gone")
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer, seen=None)
    await settled(engine)
    assert consumer.ids == [str(number) for number in range(2, 10)]
    await engine.close()


@story
async def test_an_event_sent_again_is_the_same_event(tmp_path):
    engine = await opened(tmp_path)
    assert await engine.publish(ANA, [event(1, x=1), event(2, x=2)]) == range(2)
    assert await engine.publish(ANA, [event(1, x=1)]) == range(1)
    assert await engine.publish(ANA, [event(2, x=2), event(3, x=3)]) == range(1, 3)
    assert await engine.publish(ANA, [event(3, x=3), event(1, x=1)]) == [2, 0]
    assert await engine.publish(ANA, [event(1, x=7)]) == range(3, 4)  # another content, another event
    assert await engine.publish(BEN, [event(1, x=1)]) == range(4, 5)  # another user
    first, again = await asyncio.gather(engine.publish(ANA, [event(9)]), engine.publish(ANA, [event(9)]))
    assert first == again == range(5, 6)
    assert engine.status()["end"] == 6
    await engine.close()
    engine = await opened(tmp_path)
    assert await engine.publish(ANA, [event(9)]) == range(5, 6)  # also after a restart
    await engine.close()


@story
async def test_overflow_is_told_exactly(tmp_path):
    engine = await opened(tmp_path, mailbox={"length": 3})
    await engine.subscribe(ANA, SUB, "phone")
    await engine.publish(BEN, [event(number, x=5) for number in range(8)])
    await settled(engine)
    consumer = await attached(engine)
    (gap,) = consumer.notices
    assert isinstance(gap, Gap)
    assert (gap.count, gap.reason) == (5, "full")
    assert list(gap.nids) == [(position << 20) + 1 for position in range(5)]
    assert consumer.ids == ["5", "6", "7"]
    engine.confirm_notices(consumer, [gap.notice])
    other = TestConsumer()
    engine.attach(ANA, "tablet", other)
    await settled(engine)
    assert other.notices == []
    await engine.close()


@story
async def test_expiry_renewal_and_grace(tmp_path):
    clock = Clock()
    engine = await opened(tmp_path, clock, subscriptions={"grace_seconds": 100})
    await engine.subscribe(ANA, b'{"id": "s", "ttl": 60}', "phone")
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer)
    clock.pass_(59)
    await engine.publish(BEN, [event(1)])
    clock.pass_(1)
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert consumer.ids == ["1"]
    assert [type(n) for n in consumer.notices] == [SubCancelled]
    assert engine.subscriptions(ANA) == []
    clock.pass_(50)
    renewed = await engine.renew(ANA, "s", ttl=10)
    assert renewed.expires_at == clock.now + timedelta(seconds=10)
    await engine.publish(BEN, [event(3)])
    await settled(engine)
    assert consumer.ids == ["1", "3"]
    await engine.renew(ANA, "s", ttl=10_000_000)
    assert engine.subscriptions(ANA)[0].expires_at == clock.now + timedelta(days=7)
    with pytest.raises(Unknown, match="no subscription 'x'"):
        await engine.renew(ANA, "x", ttl=1)
    with pytest.raises(SubscriptionError, match="past"):
        await engine.renew(ANA, "s", START)
    await engine.close()


@story
async def test_replaced_cancelled_and_discarded(tmp_path):
    engine = await opened(tmp_path)
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer)
    await engine.subscribe(ANA, SUB, "phone")
    await engine.subscribe(ANA, b'{"id": "s", "filter": "x < 3"}', "phone")
    await engine.publish(BEN, [event(1, x=5), event(2, x=1)])
    await settled(engine)
    assert consumer.ids == ["2"]
    await engine.cancel(ANA, "s")
    await engine.publish(BEN, [event(3, x=1)])
    await settled(engine)
    assert consumer.ids == ["2"]
    for id in "abc":
        await engine.subscribe(ANA, b'{"id": "%b"}' % id.encode(), "phone")
    await engine.subscribe(ANA, b'{"id": "mine", "scope": "this device"}', "tablet")
    assert await engine.discard(ANA, "phone") == 3
    assert [held.id for held in engine.subscriptions(ANA)] == ["mine"]
    assert len(engine.matcher) == 1
    await engine.close()


@story
async def test_an_administrator_ends_the_subscription_of_another_who_is_told(tmp_path):
    engine = await subscribed(tmp_path)
    consumer = await attached(engine)
    with pytest.raises(Denied, match="belongs to another user"):
        await engine.cancel(BEN, "s", "ana")
    with pytest.raises(Unknown, match="'ben' has no subscription 's'"):
        await engine.cancel(ROOT, "s", "ben")
    await engine.cancel(ROOT, "s", "ana")
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    assert consumer.ids == []
    assert [(notice.sub_ids, notice.reason) for notice in consumer.notices] == [(("s",), "cancelled")]
    assert engine.subscriptions(ANA) == []
    await engine.close()


@story
async def test_for_one_device_only(tmp_path):
    engine = await opened(tmp_path)
    await engine.subscribe(ANA, b'{"id": "s", "scope": "this device"}', "phone")
    phone, tablet = TestConsumer(auto=engine), TestConsumer(auto=engine)
    engine.attach(ANA, "phone", phone)
    assert engine.attach(ANA, "tablet", tablet).connected == ("phone",)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    engine.lose(phone, "gone")
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert (phone.ids, tablet.ids) == (["1"], [])
    phone = TestConsumer(auto=engine)
    engine.attach(ANA, "phone", phone)
    await settled(engine)
    assert phone.ids == ["2"]
    await engine.close()


@story
async def test_sessions_end_and_are_taken_over(tmp_path):
    engine = await opened(tmp_path)
    old, new = TestConsumer(), TestConsumer()
    engine.attach(ANA, "phone", old)
    engine.attach(ANA, "phone", new)
    await settled(engine)
    assert (old.closed, new.closed) == ("taken over", None)
    engine.lose(old, "late news")
    (info,) = engine.sessions(ANA)
    assert (info.device, info.connected, info.kind, info.address) == ("phone", True, "test", "here")
    engine.lose(new, "gone")
    assert [info.connected for info in engine.sessions(ANA)] == [False]
    engine.attach(ANA, "phone", new)
    assert engine.end_session(ROOT, "ana") == 1
    assert new.closed == "ended"
    assert engine.sessions(ANA) == []
    engine.attach(ANA, "phone", TestConsumer())
    await engine.close()


@story
async def test_peek_and_purge(tmp_path):
    engine = await subscribed(tmp_path)
    await engine.publish(BEN, [event(number) for number in range(5)])
    await settled(engine)
    first, *_ = peeked = await engine.peek(ANA, "ana", 3)
    assert [n.nid >> 20 for n in peeked] == [0, 1, 2]
    assert [n.nid >> 20 for n in await engine.peek(ANA, "ana", 9, after_nid=first.nid)] == [1, 2, 3, 4]
    assert await engine.purge(ROOT, "ana") == 5
    consumer = await attached(engine)
    assert [(n.count, n.reason) for n in consumer.notices] == [(5, "purged")]
    with pytest.raises(Unknown, match="nothing is known of user 'zoe'"):
        await engine.peek(ROOT, "zoe", 1)
    await engine.close()


@story
async def test_replay(tmp_path):
    clock = Clock()
    engine = await opened(tmp_path, clock)
    for number in range(10):
        await engine.publish(BEN, [event(number, x=number)])
        clock.pass_(1)

    async def replayed(record=b"{}", **where):
        return [position async for position, _ in engine.replay(ANA, record, **where)]

    assert await replayed() == list(range(10))
    assert await replayed(b'{"filter": "x > 6"}') == [7, 8, 9]
    assert await replayed(position=4, limit=3) == [4, 5, 6]
    assert await replayed(since=START + timedelta(seconds=8)) == [8, 9]
    with pytest.raises(RecadoError, match="at least 1"):
        await replayed(limit=0)
    await engine.close()


@story
async def test_permissions(tmp_path):
    engine = await opened(tmp_path)
    stock = Principal("tom", publish=("stock.*",), subscribe=("stock.*",), deny_publish=("stock.secret",))
    await engine.publish(stock, [event(1, type="stock.a")])
    for type in ("news", "stock.secret"):
        with pytest.raises(Denied, match="may not publish"):
            await engine.publish(stock, [event(2, type="stock.a"), event(3, type=type)])
    assert engine.status()["end"] == 1  # all or none
    with pytest.raises(Denied, match=r"allowed are stock\.\*"):
        await engine.subscribe(stock, b'{"id": "s"}', "phone")
    with pytest.raises(Denied):
        await engine.subscribe(stock, b'{"id": "s", "type": "*"}', "phone")
    await engine.subscribe(stock, b'{"id": "s", "type": "stock.a*"}', "phone")
    with pytest.raises(Denied):
        [_ async for _ in engine.replay(stock, b"{}")]
    assert [p async for p, _ in engine.replay(stock, b'{"type": "stock.*"}')] == [0]
    for call in (
        lambda: engine.subscriptions(BEN, "tom"),
        lambda: engine.sessions(BEN, "tom"),
        lambda: engine.sessions(BEN, "*"),
        lambda: engine.mailboxes(BEN, "tom"),
        lambda: engine.end_session(BEN, "tom"),
    ):
        with pytest.raises(Denied):
            call()
    for call in (engine.peek(BEN, "tom", 1), engine.purge(BEN, "tom")):
        with pytest.raises(Denied):
            await call
    with pytest.raises(Unknown):
        await engine.cancel(BEN, "s")
    assert [held.id for held in engine.subscriptions(ROOT, "tom")] == ["s"]
    await engine.close()


@story
async def test_bad_requests_are_named(tmp_path):
    engine = await opened(tmp_path, subscriptions={"per_user": 1})
    for record, place in (
        (b"[]", "no JSON object"),
        (b'{"owner": "x"}', r"\$\.owner"),
        (b'{"ttl": -1}', r"\$\.ttl"),
        (b'{"ttl": 1, "expires_at": "2027-01-01T00:00:00Z"}', "either ttl or expires_at"),
        (b'{"scope": "mine"}', r"\$\.scope"),
        (b'{"semantic": {"threshold": 7}}', r"\$\.semantic\.threshold"),
        (b'{"filter": "x >"}', "at character"),
        (b'{"filtre": "x"}', "filtre"),
        (b'{"filter": "x > 1", "filter": "x > 2"}', "the key 'filter' is given twice"),
        (b'{"constraints": [%b, %b]}' % (HOURLY, HOURLY), "second frequency"),  # 17.14
        (b'{"expires_at": "2020-01-01T00:00:00Z"}', "past"),
        (b'{"id": "' + b"x" * 70_000 + b'"}', "70,0"),
    ):
        with pytest.raises(SubscriptionError, match=place):
            await engine.subscribe(ANA, record, "phone")
    await engine.subscribe(ANA, b"{}", "phone")
    with pytest.raises(LimitError):
        await engine.subscribe(ANA, b"{}", "phone")
    assert len(engine.subscriptions(ANA)) == len(engine.matcher) == 1
    await engine.close()


async def refusal(call, *arguments):
    """Why it is refused, when it is: a file may have some room left."""
    for _ in range(100):
        try:
            await call(ANA, *arguments)
        except Busy as error:
            return str(error)
        arguments = (_again(arguments[0]), *arguments[1:])
    raise AssertionError("it is never refused")


def _again(what):
    return (
        what.replace(b'"t', b'"tt', 1) if isinstance(what, bytes) else [event(what[0].id + "x", **what[0].attributes)]
    )


@story
async def test_disk_full_and_back(tmp_path):
    engine = await subscribed(tmp_path)
    tail, store = engine.log._tail._db, engine.state_writer._store._db
    for db in (tail, store):
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    assert "nothing was stored" in await refusal(engine.publish, [event(1, text="x" * 60_000)])
    accepted = engine.status()["end"]
    assert engine.status()["trouble"]
    assert "try again later" in await refusal(
        engine.subscribe, b'{"id": "t", "filters": [{"exact": {"a": "%b"}}]}' % (b"x" * 1_000), "phone"
    )
    for db in (tail, store):
        db.execute("PRAGMA max_page_count = 1000000")
    assert await engine.publish(ANA, [event("after")]) == range(accepted, accepted + 1)
    engine.state_writer._schedule(0)
    while engine.state_writer.trouble:
        await asyncio.sleep(0.01)
    await engine.subscribe(ANA, b'{"id": "u"}', "phone")
    assert engine.status()["trouble"] == []
    await engine.close()
    engine = await opened(tmp_path)
    assert engine.status()["end"] == accepted + 1
    assert {"s", "u"} <= {held.id for held in engine.subscriptions(ANA)}
    assert engine.mailboxes(ANA)[0].length == accepted + 1
    await engine.close()


@story
async def test_backup_can_be_started(tmp_path):
    engine = await subscribed(tmp_path / "a", log={"segment_rows": 10})
    await engine.publish(BEN, [event(number) for number in range(25)])
    await settled(engine)
    await asyncio.to_thread(engine.log.seal)
    await engine.backup(tmp_path / "b")
    with pytest.raises(Exception, match="not empty"):
        await engine.backup(tmp_path / "b")
    await engine.publish(BEN, [event("later")])
    await engine.close()
    engine = await opened(tmp_path / "b")
    assert engine.damage == []
    assert engine.mailboxes(ANA)[0].length == 25
    assert await engine.publish(BEN, [event("x")]) == range(25, 26)
    await engine.close()


@story
async def test_stopping_refuses_and_tells(tmp_path):
    engine = await opened(tmp_path)
    consumer = TestConsumer()
    engine.attach(ANA, "phone", consumer)
    publishing = asyncio.ensure_future(engine.publish(BEN, [event(1)]))
    await asyncio.sleep(0)
    await engine.close()
    assert await publishing == range(1)
    assert consumer.closed == "draining"
    with pytest.raises(Busy):
        await engine.publish(BEN, [event(2)])
    with pytest.raises(Busy):
        engine.attach(ANA, "phone", TestConsumer())


@story
async def test_a_leg_that_fails_hurts_nobody_else(tmp_path, caplog):
    class Broken(TestConsumer):
        def push(self, notifications):
            raise OSError("broken")

    engine = await subscribed(tmp_path)
    await engine.subscribe(BEN, b'{"id": "s"}', "phone")
    engine.attach(ANA, "phone", Broken())
    consumer = TestConsumer()
    engine.attach(BEN, "phone", consumer)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    assert consumer.ids == ["1"]
    assert [info.connected for info in engine.sessions(ANA)] == [False]
    assert engine.mailboxes(ANA)[0].length == 1
    await engine.close()


@story
async def test_values_of_other_parts_survive(tmp_path):
    engine = await opened(tmp_path)
    engine.state_writer.put("webhooks", "a", b"1")
    engine.state_writer.put("webhooks", "b", b"2")
    await engine.state_writer.flush()
    engine.state_writer.put("webhooks", "a", None)
    await engine.close()
    engine = await opened(tmp_path)
    assert await engine.state_writer.values("webhooks") == {"b": b"2"}
    await engine.close()


@story
async def test_watchers_hear_of_subscriptions(tmp_path):
    heard = []
    engine = await opened(tmp_path)
    engine.watchers.append(lambda held, active: heard.append((held.id, active)))
    await engine.subscribe(ANA, b'{"id": "s", "webhook": {"url": "https://example.org"}}', "phone")
    await engine.cancel(ANA, "s")
    assert heard == [("s", True), ("s", False)]
    await engine.close()


@story
async def test_the_state_file_is_a_database_with_full_sync(tmp_path):
    engine = await opened(tmp_path)
    db = engine.state_writer._store._db
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == b"wal"
    await engine.close()
    assert sqlite3.connect(tmp_path / "state.sqlite").execute("PRAGMA user_version").fetchone()[0] == 2


@story
async def test_a_frequency_goes_on_when_the_clock_is_set_back(tmp_path):
    """The service's clock goes on, a little slower, and begins after a restart where the log ends."""
    wall, monotonic = [1_800_000_000.0], [100.0]

    def clock():
        steady = SteadyClock(lambda: wall[0], lambda: monotonic[0])
        return steady, lambda: datetime.fromtimestamp(steady(), UTC)

    def pass_(seconds, set_by=0.0):
        wall[0] += seconds + set_by
        monotonic[0] += seconds

    record = b'{"id": "s", "constraints": [{"kind": "frequency", "amount": 1, "unit": "seconds"}]}'
    engine = await subscribed(tmp_path, clock()[1], record=record)
    consumer = await attached(engine, auto=engine)
    await engine.publish(BEN, [event(1)])
    pass_(0.5, set_by=-7_200)
    await engine.publish(BEN, [event(2)])
    pass_(1)
    await engine.publish(BEN, [event(3)])
    await settled(engine)
    assert consumer.ids == ["1", "3"]
    await engine.close()
    steady, again = clock()
    steady.start_from(engine.log.latest.timestamp())
    engine = await opened(tmp_path, again)
    consumer = await attached(engine)
    pass_(2)
    await engine.publish(BEN, [event(4)])
    await settled(engine)
    assert consumer.ids == ["4"]
    await engine.close()


@story
async def test_a_service_begins_with_the_instant_at_which_its_log_ends(tmp_path):
    """The system's clock may have been set back while the service did not run."""
    clock = Clock()
    clock.now = datetime.now(UTC) + timedelta(hours=2)
    engine = await subscribed(tmp_path, clock)
    await engine.publish(BEN, [event(1)])
    await engine.close()
    engine = await Engine.open(config(tmp_path))
    assert engine.clock() >= clock.now
    before = engine.clock()
    await asyncio.sleep(0.01)
    assert engine.clock() > before
    await engine.close()


@story
async def test_the_end_of_a_subscription_is_told_within_seconds_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance, "TURN_SECONDS", 0.02)
    clock = Clock()
    engine = await subscribed(tmp_path, clock, record=b'{"id": "s", "ttl": 60}')
    consumer = await attached(engine)
    clock.pass_(61)
    async with asyncio.timeout(60):
        while not consumer.notices:
            await asyncio.sleep(0.01)
    [notice] = consumer.notices
    assert (notice.sub_ids, notice.reason) == (("s",), "expired")
    assert b'"reason":"expired"' in msgspec.json.encode(notice)
    await engine.close()
