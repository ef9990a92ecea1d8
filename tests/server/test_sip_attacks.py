"""What a stranger can do to the service over SIP and RUDP: nothing, at a bounded cost. Each attack worked once."""

import asyncio
import struct
import threading
from contextlib import asynccontextmanager

import recado
from protocols.sip.torture import SDP, message
from recado.net.address_policy import may_reach
from recado.net.sip import NameLimits, Names, open_registrar
from recado.protocols.session import messages as m
from recado.protocols.sip.uri import Address, read_address
from server.running import http, until
from server.test_sip import client_at, sip_serving, url

HEADER = struct.Struct("!HBBIIIHHI")


class Stranger(asyncio.DatagramProtocol):
    """A socket somewhere else, and everything that was ever sent to it."""

    def __init__(self):
        self.got = []

    def datagram_received(self, data, addr):
        self.got.append(data)


@asynccontextmanager
async def stranger(host="127.0.0.66"):
    transport, found = await asyncio.get_running_loop().create_datagram_endpoint(Stranger, local_addr=(host, 0))
    found.send, found.address = transport.sendto, transport.get_extra_info("sockname")
    try:
        yield found
    finally:
        transport.close()


async def settled(server):
    """The service has read everything that was sent to its RUDP socket before."""
    for _ in range(20):
        await asyncio.sleep(0.005)


def test_a_session_cannot_be_taken_over_by_whoever_guesses_its_number(tmp_path):
    """Not even with the right number: a PING that resets the sequence, then DATA that runs as the user."""

    async def main():
        async with (
            sip_serving(tmp_path) as server,
            stranger() as eve,
            recado.connect(url(server), device="phone") as ana,
        ):
            every = await ana.subscribe(id="all").ready()
            rudp = server._sip._rudp
            (link,) = rudp.links
            frame = m.encode([m.Subscribe(1, m.msgspec.Raw(b'{"id": "of eve"}'))])
            before = link.counters.received, link.source
            for version in (1, 2):
                for tag in (b"", bytes(16)):
                    seq = 1_000_000
                    ping = HEADER.pack(0x4543, version, 3, link.connection_id, seq, 0, 0, 1, seq)
                    data = HEADER.pack(0x4543, version, 1, link.connection_id, seq + 1, 0, 0, 1, 9)
                    eve.send(ping + tag, rudp.address)
                    eve.send(data + frame + tag, rudp.address)
            await settled(server)
            assert eve.got == [], "a stranger is not answered"
            assert (link.counters.received, link.source) == before
            async with http(server) as client:
                metrics = (await client.get("/metrics")).text
            for reason, count in (
                ("no session", 5),
                ("wrong tag", 3),
            ):  # what is too short, or of another version, names none
                assert f'recado_datagrams_refused_total{{reason="{reason}"}} {count}.0' in metrics
            assert [one["id"] for one in await ana.subscriptions()] == ["all"]
            assert await ana.publish("Tick", {"n": 1}) == 0, "and the session goes on"
            async for one in every:
                assert one["n"] == 1
                break

    asyncio.run(main())


def test_a_recorded_packet_moves_nothing(tmp_path):
    """Whoever can read the wire may send its packets again, from elsewhere: no answer goes there, and no data."""

    async def main():
        async with sip_serving(tmp_path) as server, stranger() as eve:
            client, line = client_at(server, "127.0.0.2")
            async with client as ana:
                recorded, send = [], line._rudp._socket.send
                line._rudp._socket.send = lambda datagram, address: (recorded.append(datagram), send(datagram, address))
                await ana.subscribe(id="all").ready()
                await ana.publish("Tick", {"n": 1})
                (link,) = server._sip._rudp.links
                source = link.source
                assert len(recorded) > 2
                for datagram in recorded:
                    eve.send(datagram, server._sip._rudp.address)
                await settled(server)
                assert (eve.got, link.source) == ([], source)
                assert [one["id"] for one in await ana.subscriptions()] == ["all"]

    asyncio.run(main())


# -- the registrar as a relay


@asynccontextmanager
async def other_service(host="127.0.0.1"):
    """Something that listens on TCP and was not meant: what is written to it is kept."""
    got = []

    async def serve(reader, writer):
        got.append(b"")
        while data := await reader.read(1000):
            got.append(data)
        writer.close()

    listener = await asyncio.start_server(serve, host, 0)
    try:
        yield got, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()


def test_the_registrar_relays_no_response_and_dials_for_none():
    """One UDP "200" with a second Via made it connect there and write the sender's bytes."""

    async def main():
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), ("localhost",))
        home = ("127.0.0.1", registrar.local.port)
        async with stranger() as eve, stranger("127.0.0.67") as third, other_service() as (got, port):
            for below in (f"TCP 127.0.0.1:{port}", f"UDP {third.address[0]}:{third.address[1]}"):
                own = f"Via: SIP/2.0/UDP 127.0.0.1:{home[1]};branch=z9hG4bKx"
                eve.send(message("SIP/2.0 200 OK", own, f"Via: SIP/2.0/{below};branch=z9hG4bKy"), home)
            eve.send(
                message("OPTIONS sip:localhost SIP/2.0", "Via: SIP/2.0/UDP 127.0.0.66;branch=z9hG4bKz;rport"), home
            )
            await until(lambda: eve.got)  # it has read all that came before
            registrar._send(Address("tcp", "127.0.0.1", port), b"SIP/2.0 200 OK\r\n\r\n")  # whatever made it
            await asyncio.sleep(0.1)
            assert (got, third.got, len(registrar._streams)) == ([], [], 0)
        await registrar.close()

    asyncio.run(main())


def test_a_contact_leads_nowhere_that_a_webhook_may_not(monkeypatch):
    """A registrar on a network reaches neither loopback nor link-local addresses, whatever a user registers."""
    sent = []

    async def main():
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), ("localhost",))
        registrar._policy = lambda host: may_reach(host, "10.0.0.1")
        monkeypatch.setattr(registrar, "_send_datagram", lambda data, to: sent.append(to.host))
        monkeypatch.setattr(registrar._streams, "send", lambda data, to, *_, **__: sent.append(to.host))
        for host in ("127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "255.255.255.255", "localhost"):
            for transport in ("udp", "tcp"):
                registrar._send(Address(transport, host, 6379), b"INVITE sip:a@localhost SIP/2.0\r\n\r\n")
        await until(lambda: not registrar._names.messages)
        registrar._send(Address("udp", "10.0.0.9", 5060), b"INVITE sip:a@localhost SIP/2.0\r\n\r\n")
        await registrar.close()

    asyncio.run(main())
    assert sent == ["10.0.0.9"]


# -- names


def test_names_that_do_not_answer_cost_a_bounded_amount_and_hold_up_nobody_for_ever(monkeypatch):
    """Beyond 64 look-ups names were never asked for, and their messages kept for ever."""
    limits, answers, asked = NameLimits(threads=2, names=8, messages=20, seconds=0.3), threading.Event(), []

    def look_up(self, host):
        asked.append(host)
        if host.startswith("slow"):
            answers.wait(5)
        return [(0, 0, 0, "", ("127.0.0.9", 0))]

    monkeypatch.setattr(Names, "_look_up", look_up)

    async def main():
        names, told = Names(limits), []
        for number in range(1_000):
            names.resolve(Address("udp", f"slow{number % 100}.example", 1), told.append)
        assert (len(told), names.messages, len(names._waiting)) == (980, 20, 8), (
            "what is over the bounds failed at once"
        )
        await until(lambda: len(told) == 1_000 and not names._tasks)  # a task ends after what it told
        assert (set(told), names.messages) == ({None}, 0)
        assert len(asked) <= 8, "and no more than the bound was asked"
        answers.set()
        await until(names._threads._work_queue.empty)
        names.resolve(Address("udp", "quick.example", 5), told.append)
        await until(lambda: len(told) == 1_001)
        assert told[-1] == Address("udp", "127.0.0.9", 5)
        await names.close()

    asyncio.run(main())


def test_slow_names_of_others_do_not_hide_the_home_server(tmp_path, monkeypatch):
    answers = threading.Event()

    def look_up(self, host):
        if host != "home.example":
            answers.wait(5)
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(Names, "_look_up", look_up)

    async def main():
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), ("localhost",))
        registrar._home = "home.example"
        async with stranger("127.0.0.1") as home:
            for number in range(200):
                registrar._send(Address("udp", f"slow{number}.example", 1), b"OPTIONS sip:x SIP/2.0\r\n\r\n")
            registrar._send(Address("udp", "home.example", home.address[1]), b"REGISTER sip:x SIP/2.0\r\n\r\n")
            await until(lambda: home.got, seconds=30)
        answers.set()
        await registrar.close()

    asyncio.run(main())


# -- places


def test_what_strangers_ask_of_the_service_leaves_nothing_behind(tmp_path):
    """Without credentials: thousands of requests, no transaction, no call, no timer."""

    async def main():
        async with sip_serving(tmp_path) as server, stranger() as eve:
            agent = server._sip._endpoint
            to = (agent.local.host, agent.local.port)
            before = agent.machine.inspect()
            for number in range(500):
                for method in ("CANCEL", "OPTIONS"):
                    via = f"Via: SIP/2.0/UDP 127.0.0.66:{eve.address[1]};branch=z9hG4bK{number}"
                    eve.send(message(f"{method} sip:broker@localhost SIP/2.0", via), to)
                await asyncio.sleep(0)
            await until(lambda: len(eve.got) > 100)
            await settled(server)
            after = agent.machine.inspect()
            assert (after["servers"], after["calls"]) == ({}, {})
            assert len(after["timers"]) <= len(before["timers"])
            home = read_address(server.sip_address)
            eve.got.clear()
            eve.send(message("INVITE sip:broker@localhost SIP/2.0", via, body=SDP), (home.host, home.port))
            await until(lambda: eve.got)
            assert b"503" not in eve.got[-1][:12], "there is room for others"

    asyncio.run(main())
