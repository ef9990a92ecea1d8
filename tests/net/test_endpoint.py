"""RUDP over real sockets."""

import asyncio

import pytest

from net.bad_link import BRIEF, QUICK, BadLink, close, joined, run, until
from recado.errors import LimitError
from recado.net import DatagramError, RudpEndpoint
from recado.protocols.rudp import QueueFull, RudpSettings, Unreachable, profile


def numbered(first, last):
    return [b"%d" % number for number in range(first, last)]


def test_messages_go_both_ways_in_order():
    async def scene():
        a, b = joined(profile("fast"))
        for message in numbered(0, 500):
            a.link.post(message)
            b.link.post(message)
        await asyncio.gather(a.link.ping(), b.link.ping())
        assert a.got == b.got == numbered(0, 500)
        assert a.link.pending == 0
        assert a.link.inspect()["counters"]["messages_acked"] == 501
        assert a.endpoint.unsent == 0
        assert 0 < a.link.rtt_seconds < 1
        close(a, b)

    run(scene())


def test_send_waits_for_room_and_for_the_acknowledgement():
    async def scene():
        a, b = joined(RudpSettings(rto_init_seconds=0.3, rto_min_seconds=0.1, max_queue_messages=4))
        await asyncio.gather(*(a.link.send(message) for message in numbered(0, 50)))
        assert sorted(b.got, key=int) == numbered(0, 50)
        for _ in range(4):
            a.link.post(b"")
        with pytest.raises(QueueFull):
            a.link.post(b"")
        with pytest.raises(LimitError):
            await a.link.send(bytes(2_000_000))
        close(a, b)

    run(scene())


def test_a_message_of_a_megabyte():
    async def scene():
        a, b = joined(profile("fast"))
        message = bytes(range(256)) * 4096
        await a.link.send(message)
        assert b.got == [message]
        close(a, b)

    run(scene())


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_link_loses_nothing(seed):
    async def scene():
        link = BadLink(seed, loss=0.2, twice=0.1, delay=(0.0, 0.01))
        a, b = joined(through=link)
        await asyncio.gather(a.link.ping(), b.link.ping())
        done = []
        for message in numbered(0, 300):
            a.link.post(message * 500, done.append)
            b.link.post(message, None)
        await asyncio.gather(a.link.ping(), b.link.ping())
        assert b.got == [message * 500 for message in numbered(0, 300)]
        assert a.got == numbered(0, 300)
        assert done == [None] * 300
        assert not a.failures
        assert not b.failures
        assert link.lost > 100
        assert link.repeated > 50
        counters = a.endpoint.counters()
        assert counters.resent > 20
        assert counters.duplicates > 20
        close(a, b, link)

    run(scene())


def test_hand_over_in_the_middle_of_a_stream():
    async def scene():
        a, b = joined(hosts=("127.0.0.2", "127.0.0.1"))
        ended = asyncio.Event()

        async def stream():
            for message in numbered(0, 400):
                await a.link.send(message)
                b.link.post(message)
                await asyncio.sleep(0.001)
            ended.set()

        task = asyncio.create_task(stream())
        for host in ("127.0.0.3", "127.0.0.2", "127.0.0.3", "127.0.0.4"):
            reached = len(a.got) + 40
            await until(lambda reached=reached: len(a.got) > reached)
            a.endpoint.rebind((host, 0))
            await asyncio.sleep(0.01)  # the session update takes its time
            b.link.move(a.endpoint.address)
        await task
        await asyncio.gather(a.link.ping(), b.link.ping())
        assert a.got == b.got == numbered(0, 400)
        assert a.endpoint.address[0] == "127.0.0.4"
        assert not a.failures
        assert not b.failures
        close(a, b)

    run(scene())


def test_a_dead_peer_fails_everything_in_order_and_a_new_address_revives():
    async def scene():
        link = BadLink()
        a, b = joined(BRIEF, through=link)
        await asyncio.gather(a.link.ping(), b.link.ping())
        link.cut = True
        failed = []
        for message in numbered(0, 5):
            a.link.post(message, lambda error, message=message: failed.append((message, error)))
        waiting = asyncio.create_task(a.link.send(b"5"))
        with pytest.raises(Unreachable, match="did not acknowledge packet"):
            await waiting
        assert [message for message, _ in failed] == numbered(0, 5)
        assert len(a.failures) == 1
        assert a.link.failed
        with pytest.raises(Unreachable, match="after a session update"):
            a.link.post(b"")
        link.cut = False
        a.link.move(b.endpoint.address)
        for message in numbered(0, 6):
            a.link.post(message)
        await a.link.ping()
        assert b.got == numbered(0, 6)
        assert a.endpoint.counters().failures == 1
        close(a, b, link)

    run(scene())


def test_a_port_where_nobody_listens_is_noticed_and_still_given_its_time():
    async def scene():
        a, b = joined(BRIEF)
        b.endpoint.close()
        with pytest.raises(Unreachable):
            await a.link.send(b"x")
        assert a.link.counters.resent > BRIEF.max_retries, "refusals lead to repeats of their own"
        close(a)

    run(scene())


def test_a_call_back_may_answer_close_and_fail():
    async def scene():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        a, b = joined()

        def answer(message):
            b.got.append(message)
            if message == b"2":
                raise ValueError("a fault of the application")
            b.link.post(b"answer to " + message)
            if message == b"3":
                b.link.close()

        b.link._on_message = answer
        for message in numbered(1, 4):
            await a.link.send(message)
        assert b.got == numbered(1, 4)
        await until(lambda: len(a.got) == 2)
        assert a.got == [b"answer to 1", b"answer to 3"]
        assert complaints == [f"unexpected error in Deliver of the RUDP connection {b.conn_id:08x}"]
        close(a, b)

    run(scene())


def test_a_closed_link_gives_up_what_waits():
    async def scene():
        link = BadLink(loss=1.0)
        a, b = joined(through=link)
        done = []
        a.link.post(b"x", done.append)
        sending = asyncio.create_task(a.link.send(b"y"))
        await asyncio.sleep(0)
        a.link.close()
        a.link.close()
        with pytest.raises(Unreachable, match="was closed before this was acknowledged"):
            await sending
        assert len(done) == 1
        for call in (lambda: a.link.post(b""), a.link.resume):
            with pytest.raises(Unreachable, match="was closed; open another"):
                call()
        assert a.endpoint.links == ()
        assert a.endpoint.counters().sent == 2
        close(a, b, link)

    run(scene())


def test_strangers_are_counted_and_dropped():
    async def scene():
        a, b = joined()
        for datagram in (b"", b"hello", bytes(24), b"\x45\x43\x01\x01" + bytes(20)):
            b.endpoint.transmit(a.endpoint.address, datagram)
        await until(lambda: a.endpoint.strangers == 4)
        await b.link.send(b"after them")
        assert a.got == [b"after them"]
        close(a, b)

    run(scene())


def test_many_connections_on_one_socket():
    async def scene():
        server, client = RudpEndpoint(("127.0.0.1", 0), QUICK), RudpEndpoint(("127.0.0.1", 0), QUICK)
        got, links, keys = {}, [], {"local_key": bytes(16), "remote_key": bytes(16)}
        for number in range(200):
            near, far = client.new_conn_id(), server.new_conn_id()
            got[number] = []
            server.open(client.address, far, near, got[number].append, print, **keys)
            links.append(client.open(server.address, near, far, print, print, **keys))
        await asyncio.gather(*(link.send(b"%d" % n) for n, link in enumerate(links) for _ in range(5)))
        assert all(messages == [b"%d" % n] * 5 for n, messages in got.items())
        assert client.counters().messages_acked == 1000
        server.close()
        client.close()

    run(scene())


def test_keepalive_finds_a_peer_that_is_gone():
    async def scene():
        link = BadLink()
        settings = RudpSettings(
            rto_init_seconds=0.02, rto_min_seconds=0.02, rto_max_seconds=0.05, max_retries=4, keepalive_seconds=0.02
        )
        a, b = joined(settings, through=link)
        await until(lambda: a.link.counters.acked > 2 and b.link.counters.acked > 2)
        link.cut = True
        await until(lambda: a.failures and b.failures)
        assert a.link.failed
        close(a, b, link)

    run(scene())


def test_addresses_that_cannot_be():
    async def scene():
        with pytest.raises(DatagramError, match=r"cannot use UDP port 0 of 192\.0\.2\.1: .*an address of this machine"):
            RudpEndpoint(("192.0.2.1", 0))
        with pytest.raises(DatagramError, match="cannot use UDP port 70000"):
            RudpEndpoint(("127.0.0.1", 70_000))
        a, b = joined()
        for host, port, message in (
            ("example.org", 5, "'example.org' is no IP address"),
            ("127.0.0.1", 0, "0 is no UDP port"),
        ):
            with pytest.raises(DatagramError, match=message):
                a.link.move((host, port))
        with pytest.raises(DatagramError, match="is open already"):
            a.open(("127.0.0.1", 1), b)
        with pytest.raises(DatagramError):
            a.endpoint.rebind(("192.0.2.1", 0))
        await a.link.send(b"still on the old socket")
        close(a, b)

    run(scene())


def test_ipv6():
    async def scene():
        try:
            RudpEndpoint(("::1", 0)).close()
        except DatagramError as error:
            pytest.skip(str(error))
        a, b = joined(hosts=("::1", "::1"))
        await a.link.send(b"six")
        assert b.got == [b"six"]
        assert b.link.source == b.link.remote_address == a.endpoint.address, "it is where it says it is"
        close(a, b)

    run(scene())
