"""The relay of the mobility document's section 12."""

import asyncio

import pytest

from net.bad_link import close, joined, run, until
from recado.net import DatagramError, MediaProxy
from recado.net.udp import UdpSocket


class Hand:
    """A plain socket, and what it received."""

    def __init__(self, host="127.0.0.1"):
        self.got = []
        self.socket = UdpSocket((host, 0), lambda datagram, source: self.got.append((datagram, source)))

    def send(self, text, address):
        self.socket.send(text, address)


def test_it_learns_and_relays_both_ways():
    async def scene():
        proxy = MediaProxy()
        relay, caller, callee = proxy.relay("dialog"), Hand("127.0.0.2"), Hand("127.0.0.3")
        caller.send(b"too early", relay.for_caller)
        await until(lambda: relay.learnt[0] is not None)
        callee.send(b"to caller", relay.for_callee)
        await until(lambda: caller.got)
        caller.send(b"to callee", relay.for_caller)
        await until(lambda: callee.got)
        assert caller.got == [(b"to caller", relay.for_caller)]
        assert callee.got == [(b"to callee", relay.for_callee)]
        assert relay.learnt == (caller.socket.address, callee.socket.address)
        assert (relay.relayed, relay.dropped) == (2, 1)
        close(proxy, caller.socket, callee.socket)

    run(scene())


def test_a_stranger_cannot_take_over_but_a_side_that_moved_can():
    async def scene():
        proxy = MediaProxy()
        relay, caller, callee, moved = proxy.relay("dialog"), Hand(), Hand(), Hand("127.0.0.9")
        caller.send(b"", relay.for_caller)
        callee.send(b"", relay.for_callee)
        await until(lambda: None not in relay.learnt)
        moved.send(b"from elsewhere", relay.for_caller)
        await until(lambda: relay.dropped >= 2)
        assert relay.learnt[0] == caller.socket.address
        assert proxy.relay("dialog") is relay
        caller.send(b"late, from the old address", relay.for_caller)
        await until(lambda: callee.got)
        moved.send(b"from elsewhere", relay.for_caller)
        await until(lambda: relay.learnt[0] == moved.socket.address)
        dropped = relay.dropped
        caller.send(b"again from the old address", relay.for_caller)
        await until(lambda: relay.dropped == dropped + 1)
        callee.send(b"to the new address", relay.for_callee)
        await until(lambda: moved.got)
        close(proxy, caller.socket, callee.socket, moved.socket)

    run(scene())


def test_an_unused_relay_ends_and_a_used_one_stays():
    async def scene():
        proxy = MediaProxy(idle_seconds=0.2)
        used, caller = proxy.relay("used"), Hand()
        proxy.relay("unused")
        while "unused" in proxy.keys:
            caller.send(b"", used.for_caller)
            await asyncio.sleep(0.01)
        assert proxy.keys == ("used",)
        proxy.release("used")
        proxy.release("used")
        assert proxy.keys == ()
        close(proxy, caller.socket)

    run(scene())


def test_relays_are_limited():
    async def scene():
        proxy = MediaProxy(relays=2)
        proxy.relay("1")
        proxy.relay("2")
        proxy.relay("2")
        with pytest.raises(DatagramError, match="all 2 relays are in use"):
            proxy.relay("3")
        close(proxy)

    run(scene())


def test_rudp_through_the_relay_with_a_move():
    """E10: the relay's address stays, so the other side's session has nothing to change."""

    async def scene():
        proxy = MediaProxy()
        relay = proxy.relay("dialog")
        a, b = joined(hosts=("127.0.0.2", "127.0.0.1"))
        a.link.move(relay.for_caller)
        b.link.move(relay.for_callee)
        await asyncio.gather(a.link.ping(), b.link.ping())
        for number in range(100):
            b.link.post(b"%d" % number)
            await a.link.send(b"%d" % number)
            if number in (30, 60):
                a.endpoint.rebind(("127.0.0.3" if number == 30 else "127.0.0.2", 0))
                proxy.relay("dialog")
                b.link.resume()
                a.link.resume()
        await asyncio.gather(a.link.ping(), b.link.ping())
        assert a.got == b.got == [b"%d" % number for number in range(100)]
        assert relay.learnt == (a.endpoint.address, b.endpoint.address)
        close(a, b, proxy)

    run(scene())
