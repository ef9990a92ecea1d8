"""The socket below: batches, refusals, and datagrams that cannot be sent."""

import asyncio

from net.bad_link import run, until
from recado.net.udp import BATCH, UdpSocket

LOOPBACK = ("127.0.0.1", 0)


def nothing(*_):
    pass


def test_many_datagrams_come_in_order():
    async def scene():
        got = []
        a, b = (
            UdpSocket(LOOPBACK, nothing),
            UdpSocket(LOOPBACK, lambda datagram, source: got.append((datagram, source))),
        )
        for number in range(3 * BATCH):
            a.send(b"%d" % number, b.address)
        await until(lambda: len(got) == 3 * BATCH)
        assert got == [(b"%d" % number, a.address) for number in range(3 * BATCH)]
        a.close()
        b.close()

    run(scene())


def test_a_refusal_names_the_address_and_stops_nothing():
    async def scene():
        got, refused = [], []
        a = UdpSocket(LOOPBACK, nothing, refused.extend)
        b = UdpSocket(LOOPBACK, lambda datagram, _: got.append(datagram))
        dead = UdpSocket(LOOPBACK, nothing)
        dead.close()
        for number in range(5):
            a.send(b"nobody is there", dead.address)
            a.send(b"%d" % number, b.address)
        await until(lambda: len(got) == 5 and refused)
        assert got == [b"%d" % number for number in range(5)]
        assert set(refused) == {dead.address}
        assert a.unsent == 0
        a.close()
        b.close()

    run(scene())


def test_what_cannot_be_sent_is_counted():
    async def scene():
        a = UdpSocket(LOOPBACK, nothing)
        a.send(bytes(70_000), a.address)
        a.send(b"", ("127.0.0.1", 70_000))
        a.send(b"to everybody", ("255.255.255.255", 9))
        assert a.unsent == 3
        a.close()
        a.close()
        a.send(b"", a.address)
        assert a.unsent == 4

    run(scene())


def test_a_handler_may_fail_or_close_the_socket():
    async def scene():
        complaints, got = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

        def handle(datagram, source):
            got.append(datagram)
            if datagram == b"close":
                b.close()
            if datagram == b"fail":
                raise ValueError("as asked")

        a, b = UdpSocket(LOOPBACK, nothing), UdpSocket(LOOPBACK, handle)
        for datagram in (b"fail", b"close", b"more"):
            a.send(datagram, b.address)
        await until(lambda: b.closed)
        await asyncio.sleep(0)
        assert got == [b"fail", b"close"]
        assert complaints == [f"a datagram from {a.address}"]
        a.close()

    run(scene())
