"""SIP over TCP with peers that misbehave, and the loop that watches the address."""

import asyncio

from net.sip_cast import Player
from protocols.sip.torture import message
from recado.net.sip import (
    Connection,
    StreamLimits,
    Streams,
    host_of,
    local_address_towards,
    open_endpoint,
    watch_address,
)
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings, Established, Updated
from recado.protocols.sip.registration import LinkBack, LinkLost, Moved
from recado.protocols.sip.uri import Address

OPTIONS = message("OPTIONS sip:broker@127.0.0.1 SIP/2.0", "Via: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bK1;rport")


async def served(**limits):
    settings = AgentSettings(user="sip:broker@lac.example", device="b")
    return await open_endpoint(
        lambda local: UserAgent(settings, local), Address("tcp", "127.0.0.1", 0), limits=StreamLimits(**limits)
    )


async def connect(endpoint):
    return await asyncio.open_connection(endpoint.local.host, endpoint.local.port)


async def ended(reader):
    async with asyncio.timeout(60):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


def test_messages_in_pieces_and_keep_alives_between():
    async def story():
        endpoint = await served()
        reader, writer = await connect(endpoint)
        for byte in b"\r\n\r\n" + OPTIONS:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        assert answer.startswith(b"SIP/2.0 200 OK")
        writer.write(b"\r\n\r\n" + OPTIONS.replace(b"z9hG4bK1", b"z9hG4bK2"))
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"SIP/2.0 200 OK")
        writer.close()
        await endpoint.close()

    asyncio.run(story())


def test_connections_that_misbehave_are_closed():
    async def story():
        endpoint = await served(message_seconds=0.2)
        for rubbish in (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"x" * 70_000,
            OPTIONS.replace(b"Content-Length: 0", b"Content-Length: 99999999"),
            OPTIONS[:40],  # and then nothing more
        ):
            reader, writer = await connect(endpoint)
            writer.write(rubbish)
            assert b"200 OK" not in await ended(reader)
            writer.close()
        await endpoint.close()

    asyncio.run(story())


def test_a_message_that_comes_one_byte_at_a_time_has_only_so_much_time():
    async def story():
        endpoint = await served(message_seconds=0.3)
        reader, writer = await connect(endpoint)
        task = asyncio.create_task(ended(reader))
        for byte in OPTIONS:
            if task.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        assert await task == b""
        writer.close()
        await endpoint.close()

    asyncio.run(story())


def test_there_is_room_for_so_many_connections_and_idle_ones_leave():
    async def story():
        endpoint = await served(connections=2, idle_seconds=0.3)
        first = [await connect(endpoint) for _ in range(2)]
        await asyncio.sleep(0.05)
        reader, writer = await connect(endpoint)
        assert await ended(reader) == b""
        writer.close()
        for reader, writer in first:
            assert await ended(reader) == b""
            writer.close()
        reader, writer = await connect(endpoint)
        writer.write(OPTIONS)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"SIP/2.0 200 OK")
        writer.close()
        await endpoint.close()

    asyncio.run(story())


def test_silent_connections_hold_no_place_for_long_and_one_host_not_all():
    """256 silent connections held every place for ten minutes."""

    async def story():
        endpoint = await served(connections=8, connections_per_host=4, first_seconds=0.3)
        host, port = endpoint.local.host, endpoint.local.port
        silent = [await asyncio.open_connection(host, port, local_addr=("127.0.0.66", 0)) for _ in range(8)]
        await asyncio.sleep(0.05)
        assert len(endpoint._streams) == 4, "the others of this host were refused"
        reader, writer = await connect(endpoint)
        writer.write(OPTIONS)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"SIP/2.0 200 OK")
        for _, other in silent:
            other.write(b"\r\n\r\n")  # a keep-alive is no message
        for other, _ in silent:
            assert await ended(other) == b""
        assert len(endpoint._streams) == 1
        assert endpoint._streams._by_host == {"127.0.0.1": 1}
        for _, one in (*silent, (reader, writer)):
            one.close()
        await endpoint.close()

    asyncio.run(story())


def test_hosts_that_take_every_place_lock_out_no_other():
    """A request that needs no credentials bought a place for ten minutes, and four hosts had all."""

    async def story():
        endpoint = await served(connections=8, connections_per_host=4)
        host, port = endpoint.local.host, endpoint.local.port
        greedy = []
        for number in range(8):
            one = await asyncio.open_connection(host, port, local_addr=(f"127.0.0.{60 + number % 2}", 0))
            one[1].write(OPTIONS)
            await asyncio.wait_for(one[0].readuntil(b"\r\n\r\n"), 60)
            greedy.append(one)
        others = [await connect(endpoint) for _ in range(2)]
        for reader, writer in others:
            writer.write(OPTIONS)
            assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"SIP/2.0 200 OK")
        assert [await ended(greedy[number][0]) for number in (0, 1)] == [b"", b""], "the oldest made room"
        assert len(endpoint._streams) == 8
        assert endpoint._streams._by_host == {"127.0.0.60": 3, "127.0.0.61": 3, "127.0.0.1": 2}
        reader, writer = await connect(endpoint)
        assert await ended(reader) == b"", "nobody gets as much as those who have most"
        for _, one in (*greedy, *others, (reader, writer)):
            one.close()
        await asyncio.sleep(0.1)
        assert not endpoint._streams._by_host
        await endpoint.close()

    asyncio.run(story())


def test_a_host_is_an_address_or_a_network_of_ipv6():
    assert host_of(Address("tcp", "192.0.2.7", 5060)) == "192.0.2.7"
    assert host_of(Address("tcp", "2001:db8:1:2:3::4", 1)) == host_of(Address("tls", "2001:db8:1:2:ffff::9%eth0", 2))
    assert host_of(Address("tcp", "2001:db8:1:2::4", 1)) != host_of(Address("tcp", "2001:db8:1:3::4", 1))


class FullTransport(asyncio.Transport):
    """A connection whose peer does not read."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 9)})
        self.aborted, self.written = False, []

    def get_write_buffer_size(self):
        return sum(map(len, self.written))

    def is_closing(self):
        return self.aborted

    def write(self, data):
        self.written.append(data)

    def abort(self):
        self.aborted = True


def test_one_who_does_not_read_is_cut():
    async def story():
        streams = Streams(StreamLimits(queue_bytes=1_000), lambda *_: None, lambda _: None)
        connection, transport = Connection(streams, StreamLimits(queue_bytes=1_000), dialled=False), FullTransport()
        connection.connection_made(transport)
        peer = Address("tcp", "127.0.0.1", 9)
        for _ in range(10):
            streams.send(b"x" * 400, peer, "127.0.0.1") if connection.usable else connection.send(b"x")
        assert transport.aborted
        assert len(transport.written) == 3
        connection.connection_lost(None)
        assert len(streams) == 0
        await streams.close()

    asyncio.run(story())


# -- the address monitor


def test_the_way_to_the_home_server():
    assert local_address_towards(Address("udp", "127.0.0.1", 5060)) == "127.0.0.1"
    assert local_address_towards(Address("udp", "no such host", 5060)) is None


def test_a_device_that_moves_updates_its_session():
    """The whole of the mobility document's section 3.4: watched, rebound, registered, updated."""

    async def story():
        broker = await Player().open("sip:broker@127.0.0.1")
        agent = await Player().open("sip:user1@127.0.0.1", "127.0.0.2", home=broker.local)
        call = agent.do("invite", "sip:broker@127.0.0.1", agent.media())
        await agent.until(Established)
        where, changes = ["127.0.0.2"], []

        async def on_change(change):
            changes.append(change)
            if isinstance(change, Moved):
                await agent.endpoint.rebind(change.host)
            if isinstance(change, Moved | LinkBack):
                agent.do("reinvite", call, agent.media())

        watcher = asyncio.create_task(watch_address("127.0.0.2", lambda: where[0], on_change, poll_seconds=0.01))
        where[0] = "127.0.0.3"
        assert (await broker.until(Updated)).remote.media.host == "127.0.0.3"
        where[0] = None
        async with asyncio.timeout(60):
            while LinkLost() not in changes:
                await asyncio.sleep(0.01)
        where[0] = "127.0.0.3"
        assert (await broker.until(Updated, 2)).remote.version == 3
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        assert changes == [Moved("127.0.0.3", "127.0.0.2"), LinkLost(), LinkBack("127.0.0.3")]
        await agent.close()
        await broker.close()

    asyncio.run(story())
