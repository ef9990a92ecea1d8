"""A session over a WebSocket: what it can do, and how it ends."""

import asyncio

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from recado.server.consumer import OutgoingNotification
from recado.server.session import FRAME_BYTES, FRAME_MESSAGES, Outgoing
from server.running import Agent, agent, http, m, raw, run, serving, until, ws_url


def event_of(notify):
    return msgspec.json.decode(notify.event)


def test_a_whole_session(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana, agent(server, "bob") as bob:
            assert (ana.welcome.user, ana.welcome.device, ana.welcome.window) == ("ana", "d", 1024)
            held = await ana.subscribe(1, id="s", filter="n > 1", type="T")
            assert held.sub_id == "s"
            assert (await bob.publish(1, id="e1", type="T", n=1)).position == 0
            assert (await bob.publish(2, id="e2", type="T", n=2)).position == 1
            notify = await ana.next(m.Notify)
            assert (notify.sub_id, notify.queued, event_of(notify)) == ("s", False, {"id": "e2", "type": "T", "n": 2})
            await ana.send(m.Ack(notify.nid))
            [listed] = (await ana.ask(m.QuerySubs(2), m.Subs)).subs
            assert (listed["id"], listed["filter"]) == ("s", "n > 1")
            renewed = await ana.ask(m.Renew(3, "s", ttl=9000), m.Subscribed)
            assert renewed.expires_at > held.expires_at
            await ana.ask(m.Ping(4))
            await ana.ask(m.Unsubscribe(5, "s"))
            assert (await ana.ask(m.Unsubscribe(6, "s"), m.Error)).code == 404
            await ana.ask(m.DiscardSubs(7))
            await ana.send(m.Replay(8, raw({"id": "r", "filter": "n == 1"}), position=0))
            assert (await ana.next(m.Replayed)).position == 0
            await ana.ask(m.Ping(9))
            await ana.send(m.Bye())
            assert (await ana.next(m.Closing)).reason == "bye"
            async with http(server) as client:
                assert (await client.get("/v1/sessions")).json() == {"sessions": []}

    run(check())


def test_requests_take_effect_in_the_order_in_which_they_were_sent(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            frame = []
            for number in range(0, 60, 3):
                frame += [
                    m.Subscribe(number, raw({"id": f"s-{number}", "filter": "n > 1"})),
                    m.Unsubscribe(number + 1, f"s-{number}"),
                    m.QuerySubs(number + 2),
                ]
            await ana.send(*frame)
            for _ in range(20):
                assert (await ana.next(m.Subs)).subs == ()

    run(check())


def test_what_was_not_acknowledged_comes_again_with_the_same_number(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            async with agent(server) as ana:
                await ana.subscribe(1, id="s")
                for number in range(3):
                    await ana.publish(10 + number, id=str(number))
                first = [await ana.next(m.Notify) for _ in range(3)]
                await ana.send(m.Ack(first[0].nid))
                await ana.ask(m.Ping(99))
            async with agent(server) as ana:
                assert ana.welcome.waiting == 2
                again = [await ana.next(m.Notify) for _ in range(2)]
                assert [n.nid for n in again] == [n.nid for n in first[1:]]
                assert all(n.queued for n in again)
            async with agent(server, seen=first[1].nid) as ana:
                assert (await ana.next(m.Notify)).nid == first[2].nid

    run(check())


def test_many_messages_in_one_frame_are_answered_in_few(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            frames = server.gateway.metrics.frames_out
            await ana.send(*(m.Publish(n, raw({"id": str(n)})) for n in range(1_000)))
            answers = [await ana.next(m.Ok) for _ in range(1_000)]
            assert [(a.req, a.position) for a in answers] == [(n, n) for n in range(1_000)]
            assert server.gateway.metrics.frames_out - frames < 10

    run(check())


def test_one_bad_publication_of_a_frame_spoils_no_other(tmp_path):
    async def check():
        access = {"default_publish": ["T"]}
        async with serving(tmp_path, access=access) as server, agent(server) as ana:
            bad = {1: {"type": "no"}, 3: {"id": {}, "type": "T"}}
            frame = [m.Publish(n, raw(bad.get(n, {"id": str(n), "type": "T"}))) for n in range(5)]
            await ana.send(*frame)
            answers = [await ana.next((m.Ok, m.Error)) for _ in range(5)]
            assert sorted(a.req for a in answers if isinstance(a, m.Ok)) == [0, 2, 4]
            assert {a.req: a.code for a in answers if isinstance(a, m.Error)} == {1: 403, 3: 400}
            async with http(server) as client:
                ids = [
                    msgspec.json.decode(x)["event"]["id"]
                    for x in (await client.get("/v1/replay?type=T")).text.splitlines()
                ]
            assert ids == ["0", "2", "4"]

    run(check())


def test_the_window_holds_back_what_is_not_acknowledged(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server, window=2) as ana:
            await ana.subscribe(1, id="s")
            await ana.send(*(m.Publish(n, raw({"id": str(n)})) for n in range(6)))
            nids = []
            for _ in range(3):
                pair = [await ana.next(m.Notify) for _ in range(2)]
                await ana.ask(m.Ping(50))
                assert not [x for x in ana.unread if isinstance(x, m.Notify)]
                await ana.send(m.Ack(pair[1].nid))
                nids += [n.nid for n in pair]
            assert len(nids) == 6
            assert nids == sorted(nids)

    run(check())


def test_a_second_connection_takes_over(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as old, agent(server) as new:
            assert (await old.next(m.Closing)).reason == "taken over"
            with pytest.raises(ConnectionClosed):
                await old.socket.recv()
            await new.subscribe(1, id="s")
            await new.publish(2, id="1")
            assert await new.next(m.Notify)

    run(check())


def test_gaps_are_told_and_confirmed(tmp_path):
    async def check():
        async with serving(tmp_path, mailbox={"length": 2}) as server:
            async with agent(server) as ana:
                await ana.subscribe(1, id="s")
            async with agent(server, "bob") as bob:
                for number in range(5):
                    await bob.publish(number, id=str(number))
            async with agent(server) as ana:
                gap = await ana.next(m.Gap)
                assert (gap.count, len(gap.nids), gap.reason) == (3, 3, "full")
                assert [event_of(await ana.next(m.Notify))["id"] for _ in range(2)] == ["3", "4"]
                await ana.send(m.Ack(notices=(gap.notice,)))
                await ana.ask(m.Ping(1))
            async with agent(server) as ana:
                await ana.next(m.Notify)
                await ana.ask(m.Ping(2))  # a gap would have come before its answer
                assert not [x for x in ana.unread if isinstance(x, m.Gap)]

    run(check())


def test_tokens_in_the_header_in_hello_or_not_at_all(tmp_path):
    from recado.server.tokens import add_token

    async def check():
        token = add_token(tmp_path / "tokens", "t", "ana")
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with serving(tmp_path, access=access) as server:
            url = ws_url(server)
            async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
                one = Agent(socket)
                await one.send(m.Hello("d"))
                assert (await one.next(m.Welcome)).user == "ana"
            async with connect(url, proxy=None) as socket:
                one = Agent(socket)
                await one.send(m.Hello("d", token=token))
                assert (await one.next(m.Welcome)).user == "ana"
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers={"Authorization": "Bearer wrong"}, proxy=None)
            assert refused.value.response.status_code == 401
            for hello in (m.Hello("d", token="wrong"), m.Hello("d")):
                async with connect(url, proxy=None) as socket:
                    one = Agent(socket)
                    await one.send(hello)
                    assert (await one.next(m.Error)).code == 401
                    with pytest.raises(ConnectionClosed):
                        await socket.recv()

    run(check())


def test_connections_of_one_user_are_bounded(tmp_path):
    async def check():
        async with serving(tmp_path, sessions={"connections_per_user": 1}) as server, agent(server):
            async with connect(ws_url(server, "ana"), proxy=None) as socket:
                late = Agent(socket)
                await late.send(m.Hello("other"))
                assert (await late.next(m.Error)).code == 429
            async with agent(server, "bob"):
                pass
            async with agent(server, "bob"):
                pass

    run(check())


def test_draining_answers_what_was_published_then_says_so(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana, http(server) as client:
            await client.get("/healthz")  # an idle connection that must not hold up the end
            await ana.send(*(m.Publish(n, raw({"id": str(n)})) for n in range(500)))
            await until(lambda: server.gateway.metrics.frames_in > 1)
            await server.drain()
            answers = [await ana.next((m.Ok, m.Closing)) for _ in range(501)]
            assert sum(isinstance(a, m.Ok) for a in answers) == 500
            assert answers[-1] == m.Closing("draining")
            with pytest.raises(ConnectionClosed) as closed:
                await ana.socket.recv()
            assert closed.value.rcvd.code == 1012

    run(check())


def test_replays_wait_for_their_reader_and_are_few(tmp_path):
    async def check():
        limits = {"outgoing_bytes": 20_000}
        async with serving(tmp_path, limits=limits) as server, agent(server) as ana, http(server) as client:
            await client.post("/v1/events", json=[{"id": str(n), "pad": "x" * 1_000} for n in range(300)])
            await ana.send(m.Replay(1, raw({"id": "r"})))
            positions = [(await ana.next(m.Replayed)).position for _ in range(300)]
            assert positions == list(range(300))
            assert (await ana.next(m.Ok)).req == 1
            assert (await ana.ask(m.Replay(2, raw({"id": "r", "filter": "("})), m.Error)).code == 400
            assert (await ana.ask(m.Replay(3, raw({"id": "r"}), since="monday"), m.Error)).code == 400
            await ana.send(*(m.Replay(n, raw({"id": "r"})) for n in range(10, 20)))
            answers = [await ana.next((m.Ok, m.Error)) for _ in range(10)]
            assert sum(isinstance(a, m.Error) and a.code == 429 for a in answers) == 6

    run(check())


def test_a_silent_connection_is_asked_and_closed(tmp_path):
    async def check():
        async with serving(tmp_path, sessions={"ping_seconds": 0.1}) as server:
            reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
            writer.write(
                b"GET /v1/session?user=ana HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            hello = b'{"type":"HELLO","device":"d"}'
            writer.write(bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello)  # a mask of zeros
            async with asyncio.timeout(60):
                rest = await reader.read()
            assert b"WELCOME" in rest
            assert b"\x89\x00" in rest  # a ping
            async with agent(server) as living:  # whose library answers pings
                await asyncio.sleep(0.5)
                await living.ask(m.Ping(1))
            writer.close()

    run(check())


def test_rates_and_second_hellos_are_answered(tmp_path):
    async def check():
        limits = {"publish_per_second": 0.1, "requests_per_second": 0.1}
        async with serving(tmp_path, limits=limits) as server, agent(server) as ana:
            await ana.publish(1, id="1")
            assert (await ana.ask(m.Publish(2, raw({"id": "2"})), m.Error)).code == 429
            await ana.ask(m.QuerySubs(3), m.Subs)
            assert (await ana.ask(m.QuerySubs(4), m.Error)).code == 429
            await ana.send(m.Hello("again"))
            assert (await ana.next(m.Error)).req is None

    run(check())


def test_failures_that_nobody_foresaw_are_answered(tmp_path, caplog):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            server.engine.subscriptions = lambda *_: 1 / 0
            answer = await ana.ask(m.QuerySubs(1), m.Error)
            assert (answer.code, "division" in answer.text) == (500, False)

    run(check())
    assert "division" in caplog.text


# -- outgoing frames ---------------------------------------------------------------------------------------------------


def test_what_waits_becomes_few_frames_in_order():
    frames, turns = [], []
    out = Outgoing(lambda batch: frames.append(batch.payload), turns.append)
    out.put([b"1", b"2"])
    out.push([OutgoingNotification(7, "s", b"{}", "now", False)])
    out.put_first(b"0")
    assert (len(turns), frames) == (1, [])
    turns.pop()()
    decoded = msgspec.json.decode(frames[0])
    assert decoded[:3] == [0, 1, 2]
    assert decoded[3]["nid"] == 7
    out.put([b"3"])
    out.flush()
    assert frames[1] == b"3"


def test_a_full_socket_stops_frames_and_large_ones_are_cut():
    frames = []
    out = Outgoing(lambda batch: frames.append(batch.payload), lambda call: call())
    out.pause()
    big = b'"' + b"x" * (FRAME_BYTES // 2) + b'"'
    out.put([big] * 5)
    assert (frames, out.answer_bytes) == ([], 5 * len(big))
    out.resume()
    assert [len(msgspec.json.decode(f)) if f[:1] == b"[" else 1 for f in frames] == [2, 2, 1]
    assert out.answer_bytes == 0
    out.pause()
    out.put([b"1"] * (FRAME_MESSAGES + 1))
    out.push([OutgoingNotification(7, "s", b"{}", "now", True)])
    out.drop()
    assert len(out) == FRAME_MESSAGES + 1
    out.drop(answers=True)
    assert (len(out), out.answer_bytes) == (0, 0)


def test_an_error_for_a_message_of_an_unknown_type_keeps_its_req(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            await ana.socket.send('{"type": "NOPE", "req": 7}')
            error = await ana.next(m.Error)
            assert (error.req, error.code) == (7, 400)
            assert "'NOPE' is none of HELLO, SUBSCRIBE" in error.text
            await ana.socket.send(
                '[{"type": "PING", "req": 8}, {"type": "PING", "req": "x"}, {"type": "PING", "req": 9}]'
            )
            assert [(await ana.next(m.Error)).req for _ in range(2)] == [8, 9]
            half = r'{"type": "PUBLISH", "req": 10, "event": {"a": "\\\ud800", "b": "\ud83d\ude00"}}'
            await ana.socket.send(f'[{half}, {{"type": "PING", "req": 11}}]')
            errors = [await ana.next(m.Error) for _ in range(2)]
            assert [error.req for error in errors] == [10, 11], "whoever waits for an answer gets one"
            assert "lone surrogate" in errors[0].text

    run(check())
