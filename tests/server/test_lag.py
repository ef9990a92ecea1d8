"""Lag over HTTP: of each mailbox and consumer, of the slowest, and in the metrics by class."""

import asyncio
from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from recado.broker.consumers import mailbox_of
from recado.broker.state import DELIVERED, QueuedNotification
from recado.server.requests import Lag
from recado.server.tokens import TokenLine, hash_token, write_tokens
from server.engine_kit import ANA, Clock, attached, event, opened, settled, story, subscribed
from server.running import http, run, serving, until


@story
async def test_lag_is_the_age_of_the_oldest_that_waits(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(ANA, [event(1)])
    await settled(engine)
    clock.pass_(30)
    await engine.publish(ANA, [event(2)])
    await settled(engine)
    clock.pass_(12.5)
    (info,) = engine.mailboxes(ANA)
    assert (info.length, info.lag_seconds, info.consumers) == (2, 42.5, [])
    assert (await engine.lag())["away"] == Lag(2, 42.5)
    consumer = await attached(engine, window=1)
    (info,) = engine.mailboxes(ANA)
    assert [(one.device, one.kind, one.window, one.in_flight) for one in info.consumers] == [("phone", "test", 1, 1)]
    lag = await engine.lag()
    assert (lag["away"].notifications, lag["connected"].seconds) == (0, 42.5)
    engine.acknowledge(consumer, consumer.got[0].nid)
    assert (await engine.lag())["connected"].seconds == 12.5
    engine.acknowledge(consumer, consumer.got[1].nid)
    assert (await engine.lag())["connected"].seconds == 0.0
    assert engine.slowest_of_all(5) == []
    await engine.close()


@story
async def test_lag_is_known_after_a_restart(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock)
    await engine.publish(ANA, [event(1)])
    await settled(engine)
    await engine.close()
    clock.pass_(100)
    engine = await opened(tmp_path, clock)
    await settled(engine)
    assert (await engine.lag())["away"].seconds == 100
    assert [one.user for one in engine.slowest_of_all(5)] == ["ana"]
    await engine.close()


@story
async def test_the_loop_goes_on_while_many_mailboxes_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("recado.server.engine._SETTLED", 10)
    engine = await subscribed(tmp_path)
    state = engine.broker.state
    for number in range(100):
        mailbox = mailbox_of(state, state.user(f"u{number}"), "")
        for nid in (1, 2):
            at = engine.clock() + timedelta(seconds=100 * nid)
            mailbox.append(QueuedNotification(nid, "s", b"{}", at, mailbox))
        mailbox.take_out(mailbox.notifications[0], DELIVERED)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    lag = await engine.lag()
    counting.cancel()
    assert lag["away"].notifications == 100
    assert state.waiting.away.oldest() == engine.clock() + timedelta(seconds=200)
    assert turns >= 9
    await engine.close()


def test_over_http(tmp_path):
    async def check():
        lines = [TokenLine(name, name, hash_token(name), admin=name == "root") for name in ("ana", "eva", "root")]
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with (
            serving(tmp_path, access=access) as server,
            http(server, token="ana") as ana,
            http(server, token="eva") as eva,
            http(server, token="root") as root,
        ):
            await ana.post("/v1/subscriptions", json={"id": "s"})
            await ana.post("/v1/events", json=[{"type": "t"}, {"type": "t"}])
            await until(lambda: server.engine.broker.state.waiting.length == 2)
            await asyncio.sleep(0.05)
            for _ in range(2):  # the second answer repeats the first
                await ana.post("/v1/mailboxes/me/take", json={"wait": 5})
            mine = (await ana.get("/v1/lag")).json()
            assert set(mine) == {"slowest"}
            (box,) = mine["slowest"]
            assert box["lag_seconds"] >= 0.05
            (consumer,) = box["consumers"]
            assert consumer == {"device": "poll", "kind": "poll", "window": 1000, "in_flight": 2, "redelivered": 2}
            (session,) = (await ana.get("/v1/sessions")).json()["sessions"]
            assert (session["unacknowledged"], session["redelivered"]) == (2, 2)
            assert (await eva.get("/v1/lag")).json() == {"slowest": []}
            assert (await eva.get("/v1/lag?user=*")).status_code == 403
            assert (await root.get("/v1/lag?limit=101")).status_code == 400
            everybody = (await root.get("/v1/lag?user=*")).json()
            assert [one["user"] for one in everybody["slowest"]] == ["ana"]
            assert everybody["classes"]["connected"]["notifications"] == 2
            found = {one.name: one for one in text_string_to_metric_families((await root.get("/metrics")).text)}
            ages = {one.labels["class"]: one.value for one in found["recado_mailbox_lag_seconds"].samples}
            assert set(ages) == {"connected", "away", "webhook"}
            assert found["recado_lag_seconds"].samples[0].value == ages["connected"] >= 0.05
            assert found["recado_in_flight_notifications"].samples[0].value == 2
            assert found["recado_redelivered"].samples[0].value == 2
            status = (await root.get("/v1/status")).json()
            assert (status["in_flight"], status["redelivered"]) == (2, 2)

    run(check())


def test_whoever_may_see_the_metrics_sees_the_slowest_of_all(tmp_path):
    """``recado top`` on a service that is open on loopback showed the caller's own mailboxes alone: none, mostly."""

    async def check():
        async with serving(tmp_path) as server, http(server, user="ana") as ana, http(server, user="eva") as eva:
            await ana.post("/v1/subscriptions", json={"id": "s"})
            await ana.post("/v1/events", json={"type": "t"})
            await until(lambda: server.engine.broker.state.waiting.length == 1)
            assert [one["user"] for one in (await eva.get("/v1/lag?user=*")).json()["slowest"]] == ["ana"]
            assert (await eva.get("/v1/lag")).json()["slowest"] == []
            assert (await eva.get("/v1/lag?user=ana")).status_code == 403
            assert (await eva.get("/v1/mailboxes?user=*")).status_code == 403

    run(check())
