"""Abuse: whatever is sent costs bounded time and memory, is refused with a reason, and harms nobody else."""

import asyncio
import logging
import os
import random
import zlib
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from recado.server.tokens import add_token
from server.running import Agent, agent, http, m, raw, run, serving, until, ws_url

UPGRADE = (
    b"GET /v1/session?user=ana HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
HELLO = b'{"type":"HELLO","device":"d"}'


def frame(payload, first=0x81):
    """A frame as a client sends it, with a mask of zeros."""
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 65_536:
        head = bytes([first, 0xFE]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, 0xFF]) + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


@asynccontextmanager
async def wire(server):
    """A plain TCP connection."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def said(server, *sent, upgrade=False):
    """Send bytes, and read until the service closes the connection."""
    async with wire(server) as (reader, writer), asyncio.timeout(60):
        if upgrade:
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
        for part in sent:
            writer.write(part)
        try:
            await writer.drain()
            return await reader.read()
        except ConnectionError:
            return b""


async def is_well(server):
    async with http(server, "well") as client:
        assert (await client.post("/v1/events", json={})).status_code == 202


# -- before there is a session -----------------------------------------------------------------------------------------


def test_slow_loris_is_closed_whatever_it_is_slow_with(tmp_path):
    async def check():
        async with serving(tmp_path, sessions={"hello_seconds": 0.3}) as server:
            async with wire(server) as (reader, writer), asyncio.timeout(60):  # nothing at all
                assert b" 408 " in await reader.read()
            async with wire(server) as (reader, writer), asyncio.timeout(60):  # a header now and then
                writer.write(b"GET /healthz HTTP/1.1\r\n")
                drip = asyncio.create_task(_drip(writer, b"X: y\r\n"))
                assert b" 408 " in await reader.read()
                drip.cancel()
            async with wire(server) as (reader, writer), asyncio.timeout(60):  # a body that never ends
                writer.write(
                    b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Recado-User: a\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
                )
                drip = asyncio.create_task(_drip(writer, b" "))
                assert b" 408 " in await reader.read()
                drip.cancel()
            async with wire(server) as (reader, writer), asyncio.timeout(60):  # a WebSocket without HELLO
                writer.write(UPGRADE)
                assert b"no HELLO came in time" in await reader.read()
            await until(lambda: server.gateway.connections == 0)
            assert server.gateway.metrics.by["connections_refused"]["silent"] == 3

    run(check())


def test_the_rest_of_a_refused_body_is_not_waited_for_for_ever(tmp_path):
    """Otherwise anybody, without a token, could hold all connections by a byte now and then."""

    async def check():
        async with serving(tmp_path, sessions={"hello_seconds": 0.3}) as server:
            for head in (b"POST /v1/events HTTP/1.1\r\nAuthorization: Bearer wrong", b"GET /healthz HTTP/1.1"):
                async with wire(server) as (reader, writer), asyncio.timeout(60):
                    writer.write(head + b"\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
                    drip = asyncio.create_task(_drip(writer, b" "))
                    assert (await reader.read()).startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 200 "))
                    drip.cancel()
            await until(lambda: server.gateway.connections == 0)

    run(check())


def test_a_connection_goes_on_after_the_whole_of_a_refused_body(tmp_path):
    async def check():
        async with serving(tmp_path) as server, wire(server) as (reader, writer), asyncio.timeout(60):
            for status in (b"401", b"401"):
                writer.write(
                    b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n"
                    b"Content-Length: 10\r\n\r\n"
                )
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.split()[1] == status
                await reader.readuntil(b"}")
                writer.write(b"0123456789")

    run(check())


async def _drip(writer, part):
    while True:
        writer.write(part)
        await asyncio.sleep(0.05)


NO_HTTP = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400),  # TLS
    (b"GET / HTTP/1.1\r\nHost: a\r\n bad\r\n: x\r\n\r\n", 400),
    (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 400_000 + b"\r\n\r\n", 431),
    (b"GET /" + b"y" * 400_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    (b"\0" * 1000, 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"GET /v1/session HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 426),
    (b"POST /v1/session HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n", 426),
    (
        b"GET /v1/session HTTP/1.1\r\nHost:a\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n",
        426,
    ),
]


def test_what_is_no_http_is_told_so(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            for sent, status in NO_HTTP:
                answer = await said(server, sent)
                assert answer.startswith(b"HTTP/1.1 %d " % status), (sent[:100], answer[:100])
                assert b"application/problem+json" in answer
            await is_well(server)

    run(check())


TRICKS = [
        "/v1/../etc/passwd", "/v1/%2e%2e/status", "//v1/events", "/v1/mailboxes/%2e%2e/notifications",
        "/v1/mailboxes/ana%2fnotifications", "/v1/mailboxes/ana%00/notifications", "/V1/EVENTS", "/v1/events;x=1",
        "/v1/subscriptions/%ff%fe", "/v1/mailboxes/*/notifications", "/v1/mailboxes/%2a", "http://evil.example/v1/status",
        "/v1/sessions/__proto__", "/v1/mailboxes/me%20", "/v1/dead-letters/-1", "/v1/dead-letters/99999999999999999999",
    ]  # fmt: skip


def test_tricks_with_paths_lead_nowhere(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            for path in TRICKS:
                head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Recado-User: eva\r\nConnection: close\r\n\r\n"
                answer = await said(server, head.encode())
                assert answer.split(b" ")[1] in (b"400", b"403", b"404", b"405"), (path, answer[:200])

    run(check())


def test_a_browser_page_cannot_use_an_open_loopback(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            for field in (
                {"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"},
                {"host": "127.0.0.1.evil.example"}, {"host": "["},
            ):  # fmt: skip
                async with http(server, **field) as client:
                    answer = await client.post("/v1/events", json={})
                    assert answer.status_code in (400, 403), field
            async with http(server, origin=server.url) as client:
                assert (await client.post("/v1/events", json={})).status_code == 202
            for mark in ("X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via", "Forwarded", "CF-Connecting-IP"):
                async with http(server, **{mark: "1.2.3.4"}) as client:  # someone behind a proxy on loopback
                    assert (await client.post("/v1/events", json={})).status_code == 401, mark
            reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
            writer.write(b"GET /v1/subscriptions?user=ana HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")  # one that adds none
            assert (await reader.readline()).startswith(b"HTTP/1.1 401")
            writer.close()
            with pytest.raises(InvalidStatus) as refused:
                await connect(ws_url(server, "ana"), origin="https://evil.example", proxy=None)
            assert refused.value.response.status_code == 403
            field = {"X-Forwarded-For": "1.2.3.4"}
            async with connect(ws_url(server, "ana"), additional_headers=field, proxy=None) as socket:
                page = Agent(socket)
                await page.send(m.Hello("d"))
                assert (await page.next(m.Error)).code == 401

    run(check())


def test_wrong_tokens_are_refused_and_slowed_down(tmp_path):
    async def check():
        token = add_token(tmp_path / "tokens", "t", "ana")
        access = {"tokens": str(tmp_path / "tokens")}
        limits = {"failed_logins_per_minute": 5}
        async with serving(tmp_path, access=access, limits=limits) as server, http(server, token="rcd_wrong") as guess:
            statuses = [(await guess.get("/v1/status")).status_code for _ in range(10)]
            assert statuses == [401] * 5 + [429] * 5
            async with http(server, token=token) as ana:  # who has the right one is not hurt
                assert (await ana.get("/v1/subscriptions")).status_code == 200
            for wrong in ("Basic YTpi", "Bearer", "Bearer " + "x" * 5000, "bearer", ""):
                async with http(server, authorization=wrong) as client:
                    client.headers.pop("x-recado-user")
                    assert (await client.get("/v1/status")).status_code in (401, 429), wrong
            assert server.gateway.metrics.failed_logins >= 10

    run(check())


def test_two_thousand_idle_connections_leave_room_and_go_away(tmp_path):
    async def check():
        async with serving(tmp_path, sessions={"hello_seconds": 15, "connections": 1_500}) as server:
            host, port = server.url.removeprefix("http://").split(":")
            held = await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(2_000)))
            await until(lambda: server.gateway.connections == 1_500)
            await is_well(server)  # at once: who says nothing makes room
            assert server.gateway.metrics.by["connections_refused"]["displaced"] >= 501
            await until(lambda: server.gateway.connections == 0, 60)  # by patience alone
            assert not server.gateway.strangers
            for _, writer in held:
                writer.close()

    run(check())


def test_whoever_has_said_who_it_is_is_not_displaced_and_beyond_the_bound_nobody_comes_in(tmp_path):
    async def check():
        async with serving(tmp_path, sessions={"hello_seconds": 30, "connections": 3}) as server, http(server) as ana:
            host, port = server.url.removeprefix("http://").split(":")
            assert (await ana.get("/v1/subscriptions")).status_code == 200
            async with agent(server, device="phone"), wire(server) as (reader, writer):
                writer.write(UPGRADE)
                await reader.readuntil(b"\r\n\r\n")
                assert (server.gateway.connections, len(server.gateway.strangers)) == (3, 1)
                opened = await asyncio.open_connection(host, int(port))
                assert await reader.read() == b"", "the one that waits with HELLO makes room"
                opened[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await opened[0].readuntil(b"\r\n\r\n")  # that names nobody
                async with agent(server, device="laptop"):
                    assert await opened[0].read() in (b"", b'{"status":"ok"}')
                    assert (server.gateway.connections, len(server.gateway.strangers)) == (3, 0)
                    assert (await said(server)).startswith(b"HTTP/1.1 503 ")
                    assert server.gateway.metrics.by["connections_refused"]["too many"] == 1
                opened[1].close()

    run(check())


# -- frames ------------------------------------------------------------------------------------------------------------


BEFORE_HELLO = [
    (frame(b"x" * 5_000), b"exceeds limit"),  # 4 KiB before HELLO
    (frame(b'{"type":"PUBLISH","req":1,"event":{}}'), b"must be HELLO"),
    (frame(b"[]"), b"must be HELLO"),
    (frame(b"["), b"no message"),
    (frame(b"7"), b"no message"),
    (frame(b'{"type":"HELLO"}'), b"no message"),
    (frame(b'{"type":"HELLO","device":7}'), b"no message"),
    (frame(b'{"type":"HELLO","device":"a/b"}'), b"cannot name a device"),
    (frame(b'{"type":"HELLO","device":"\xff"}', 0x82), b"not UTF-8"),
    (frame(b'{"type":"WELCOME"}'), b"no message"),
    (frame(b"[" * 4_000), b"no message"),
    (bytes([0x81, 5]) + b"hello", b""),  # without a mask
    (bytes([0x83, 0x80, 0, 0, 0, 0]), b""),  # an opcode that there is not
    (bytes([0x81, 0xFF]) + b"\xff" * 8, b""),  # 2**64 - 1 bytes announced
    (bytes([0x80, 0x80, 0, 0, 0, 0]), b""),  # a continuation of nothing
    (bytes([0x89, 0xFE, 1, 0, 0, 0, 0, 0]) + b"x" * 256, b""),  # a ping that is too long
    (b"GET / HTTP/1.1\r\n\r\n", b""),
]


def test_frames_before_hello(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            for sent, words in BEFORE_HELLO:
                answer = await said(server, sent, upgrade=True)
                assert words in answer, (sent[:100], answer)
            await until(lambda: server.gateway.connections == 0)
            await is_well(server)

    run(check())


def test_who_is_refused_and_stays_is_closed(tmp_path):
    """The service ends its side at once, and the whole a moment later, though the peer never does."""

    async def check():
        async with serving(tmp_path) as server, wire(server) as (reader, writer):
            writer.write(UPGRADE + frame(b"x" * 5_000))
            await reader.read()
            writer.write(b"y" * 1_000)
            await until(lambda: server.gateway.connections == 0)

    run(check())


def test_a_message_may_come_in_many_fragments(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            await ana.socket.send(list(m.encode([m.Publish(1, raw({"id": "é"}))]).decode()))
            assert (await ana.next(m.Ok)).req == 1

    run(check())


def test_malformed_frames_after_hello_are_answered(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana:
            for bad in (
                "{",
                "7",
                '{"type":"NONE"}',
                '{"type":"ACK","upto":"x"}',
                "[" * 10_000,
                '{"type":"NONE","req":18446744073709551617}',
            ):
                await ana.socket.send(bad)
                answer = await ana.next(m.Error)
                assert (answer.req, answer.code) == (None, 400)
            await ana.socket.send('{"type":"PUBLISH","req":1}')
            answer = await ana.next(m.Error)
            assert (answer.req, answer.code) == (1, 400)
            await ana.send(m.Ack(2**62), m.Ack(-1, notices=(7, -1)))
            await ana.publish(5, id="still here")

    run(check())


def test_oversized_frames_end_the_connection(tmp_path):
    async def check():
        async with serving(tmp_path, limits={"frame_bytes": 10_000}) as server, agent(server) as ana:
            await ana.send(m.Publish(1, raw({"id": "1", "pad": "x" * 9_000})))
            assert (await ana.next(m.Ok)).req == 1
            await ana.socket.send("x" * 10_001)
            with pytest.raises(ConnectionClosed) as closed:
                await ana.next(m.Ok)
            assert closed.value.rcvd.code == 1009
            async with agent(server) as again:  # and in fragments
                await again.socket.send(["x" * 4_000] * 3)
                with pytest.raises(ConnectionClosed):
                    await again.next(m.Ok)

    run(check())


def test_a_compression_bomb_is_not_inflated(tmp_path):
    async def check():
        async with serving(tmp_path) as server:
            async with connect(ws_url(server, "ana"), compression="deflate", proxy=None) as socket:
                assert not socket.protocol.extensions  # offered, and not taken
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush(zlib.Z_SYNC_FLUSH)
            async with wire(server) as (reader, writer), asyncio.timeout(60):
                writer.write(UPGRADE + frame(HELLO))
                await reader.readuntil(b"WELCOME")
                writer.write(frame(bomb[:-4], 0xC1))
                assert (await reader.read()).endswith(b"reserved bits must be 0")
            await is_well(server)

    run(check())


def test_random_bytes_never_break_it(tmp_path, caplog):
    rng = random.Random(7)

    async def check():
        async with serving(tmp_path, sessions={"hello_seconds": 0.2, "ping_seconds": 0.2}) as server:
            for number in range(45):
                noise = rng.randbytes(rng.randrange(1, 400))
                if number % 3 == 0:
                    await said(server, noise)
                elif number % 3 == 1:
                    await said(server, noise, upgrade=True)
                else:
                    await said(server, frame(HELLO), frame(noise, 0x82), noise, upgrade=True)
            await until(lambda: server.gateway.connections == 0)
            await is_well(server)

    caplog.set_level(logging.ERROR)
    run(check())
    assert not caplog.records


@pytest.mark.long
def test_malformed_beginnings_leave_no_memory_behind(tmp_path):
    """R33: of every kind, many times; what the process holds grows by less than 5 MB."""
    beginnings = [sent for sent, _ in NO_HTTP if len(sent) < 1_000]

    async def check():
        async with serving(tmp_path, seconds=1_800, sessions={"hello_seconds": 1}) as server:

            async def some(count):
                for number in range(count):
                    await said(server, beginnings[number % len(beginnings)])
                    sent, _ = BEFORE_HELLO[number % len(BEFORE_HELLO)]
                    await said(server, sent, upgrade=True)
                await until(lambda: server.gateway.connections == 0)

            await asyncio.gather(*(some(50) for _ in range(10)))
            before = _resident()
            await asyncio.gather(*(some(300) for _ in range(10)))
            assert _resident() - before < 5_000_000
            await is_well(server)

    run(check())


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- slow and greedy ---------------------------------------------------------------------------------------------------


def test_a_slow_consumer_is_held_back_and_hurts_nobody(tmp_path):
    """It stops at its window and at full sockets; the fast ones get everything meanwhile."""

    async def check():
        limits = {"event_bytes": 300_000}
        async with serving(tmp_path, limits=limits, sessions={"window": 64}) as server, wire(server) as (_, slow):
            slow.write(UPGRADE + frame(HELLO))
            await until(lambda: "ana" in server.engine.broker.state.users)
            async with agent(server, "fast", window=1000) as fast, agent(server, "pub") as pub, http(server) as client:
                await client.post("/v1/subscriptions", json={"id": "s"})
                await fast.subscribe(1, id="f")
                for number in range(100):
                    await pub.publish(number, id=str(number), pads=["x" * 60_000] * 3)
                    told = await fast.next(m.Notify)
                    await fast.send(m.Ack(told.nid))
                [consumer] = [
                    consumer for consumer in server.engine.broker.state.consumers if consumer.who.user == "ana"
                ]
                assert len(consumer._out) <= 64
                assert consumer._out.answer_bytes < 1_000
                info = next(i for i in (await client.get("/v1/sessions")).json()["sessions"] if i["device"] == "d")
                assert info["unacknowledged"] <= 64
                [box] = (await client.get("/v1/mailboxes/me")).json()["mailboxes"]
                assert box["length"] == 100

    run(check())


def test_who_takes_no_answers_is_cut_off(tmp_path):
    async def check():
        limits = {"outgoing_bytes": 50_000}
        async with serving(tmp_path, limits=limits) as server, wire(server) as (reader, greedy), http(server) as client:
            await client.post("/v1/subscriptions", json={"id": "s", "filter": f'pad != "{"x" * 10_000}"'})
            greedy.write(UPGRADE + frame(HELLO))
            await reader.readuntil(b"WELCOME")
            query = frame(b"[" + b",".join([b'{"type":"QUERY_SUBS","req":1}'] * 200) + b"]")
            async with asyncio.timeout(50):
                while not server.gateway.metrics.slow_consumers:
                    greedy.write(query)
                    await asyncio.sleep(0.01)
            await until(lambda: not server.engine.broker.state.users["ana"].consumers)
            await is_well(server)

    run(check())


def test_a_flood_of_pings_that_are_not_read_is_cut_off(tmp_path):
    async def check():
        limits = {"outgoing_bytes": 50_000}
        async with serving(tmp_path, limits=limits) as server, wire(server) as (_, flood), asyncio.timeout(30):
            flood.write(UPGRADE + frame(HELLO))
            pings = frame(b"p" * 125, 0x89) * 2_000
            try:
                while not server.gateway.metrics.slow_consumers:
                    flood.write(pings)
                    await flood.drain()
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            assert server.gateway.metrics.slow_consumers == 1

    run(check())


def test_publishers_wait_for_a_slow_disk_instead_of_filling_memory(tmp_path):
    async def check():
        async with serving(tmp_path) as server, agent(server) as ana, http(server, "bob") as other:
            gate = asyncio.Event()
            held = []
            put = server.engine.publish_soon
            server.engine.publish_soon = lambda *args: put(*args) if gate.is_set() else held.append(args)
            sending = asyncio.create_task(_publish_much(ana, 300, 10_000))
            await asyncio.sleep(0.5)
            [consumer] = server.engine.broker.state.consumers
            assert consumer.busy
            assert consumer.waiting_bytes < 2_000_000  # of three million
            assert (await other.get("/healthz")).status_code == 200
            gate.set()
            for args in held:
                put(*args)
            await sending
            answers = [await ana.next(m.Ok) for _ in range(300)]
            assert [a.req for a in answers] == list(range(300))

    run(check())


async def _publish_much(agent_, count, size):
    for number in range(count):
        await agent_.send(m.Publish(number, raw({"id": str(number), "pad": "x" * size})))


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_no_secret_gets_into_a_log_at_debug(tmp_path):
    import io

    from recado.server.config import Logging
    from recado.server.logs import configure_logs

    out = io.StringIO()
    token = add_token(tmp_path / "tokens", "t", "ana")
    payload = os.urandom(8).hex()

    async def check():
        access = {"tokens": str(tmp_path / "tokens")}
        hooks = {"private": True, "attempts": 1}
        async with serving(tmp_path, access=access, webhooks=hooks) as server, http(server, token=token) as client:
            hook = {"id": "h", "webhook": {"url": "http://127.0.0.1:9/", "secret": "hush-hush"}}
            await client.post("/v1/subscriptions", json=hook)
            await client.post("/v1/events", json={"id": "1", "content": payload})
            async with http(server, token="rcd_AAAAAAAAAAAAAAAAAAAAAAAA") as guess:
                await guess.get("/v1/status")
            async with connect(ws_url(server), proxy=None) as socket:
                one = Agent(socket)
                await one.send(m.Hello("d", token=token))
                await one.next(m.Welcome)
                await one.publish(1, id="2", content=payload)
            await until(lambda: server.gateway.metrics.webhooks_dead == 2)
            text = (await client.get("/metrics")).text
            assert "hush" not in text
            assert token not in text
            server.reload()

    root = logging.getLogger()
    before = root.level
    try:
        configure_logs(Logging(level="debug", format="json"), out)
        run(check())
    finally:
        root.setLevel(before)
        for handler in [h for h in root.handlers if getattr(h, "recado", False)]:
            root.removeHandler(handler)
    logged = out.getvalue()
    assert len(logged.splitlines()) > 5
    assert all(msgspec.json.decode(line)["level"] for line in logged.splitlines())
    for secret in (token, token[4:], "hush-hush", "rcd_AAAA", payload):
        assert secret not in logged, secret
