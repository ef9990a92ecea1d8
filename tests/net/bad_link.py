"""A UDP proxy on loopback that loses, repeats, delays and reorders; and what the tests of this room share."""

from __future__ import annotations

import asyncio
from random import Random

from recado.net import RudpEndpoint, new_key
from recado.net.udp import UdpSocket
from recado.protocols.rudp import RudpSettings

QUICK = RudpSettings(
    rto_init_seconds=0.1, rto_min_seconds=0.02, rto_max_seconds=0.2, max_retries=12, window=32, dedup=128, fast_resend=3
)
"""Short timers and much patience: for links that are bad, not dead."""
BRIEF = RudpSettings(rto_init_seconds=0.02, rto_min_seconds=0.02, rto_max_seconds=0.05, max_retries=4, dedup=64)
"""For peers that are dead."""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


class BadLink:
    """Two ports, one for each side; each side is where it was last heard from."""

    def __init__(self, seed=0, *, loss=0.0, twice=0.0, delay=(0.0, 0.0)):
        self.rng, self.loss, self.twice, self.delay = Random(seed), loss, twice, delay
        self.at = {"a": None, "b": None}
        self.for_a = UdpSocket(("127.0.0.1", 0), lambda datagram, source: self._pass("a", "b", datagram, source))
        self.for_b = UdpSocket(("127.0.0.1", 0), lambda datagram, source: self._pass("b", "a", datagram, source))
        self.lost = self.repeated = 0
        self.cut = False

    def _pass(self, sender, receiver, datagram, source):
        self.at[sender] = source
        if self.cut or self.rng.random() < self.loss:
            self.lost += 1
            return
        copies = 2 if self.rng.random() < self.twice else 1
        self.repeated += copies - 1
        for _ in range(copies):
            asyncio.get_running_loop().call_later(self.rng.uniform(*self.delay), self._arrive, receiver, datagram)

    def _arrive(self, receiver, datagram):
        if self.at[receiver] is not None:
            (self.for_a if receiver == "a" else self.for_b).send(datagram, self.at[receiver])

    def close(self):
        self.for_a.close()
        self.for_b.close()


class Side:
    """An endpoint with one connection, and what came out of it."""

    def __init__(self, host="127.0.0.1", settings=QUICK):
        self.endpoint, self.settings = RudpEndpoint((host, 0), settings), settings
        self.conn_id, self.key = self.endpoint.new_conn_id(), new_key()
        self.got, self.failures, self.link = [], [], None

    def open(self, address, other):
        self.link = self.endpoint.open(
            address,
            self.conn_id,
            other.conn_id,
            self.got.append,
            self.failures.append,
            local_key=self.key,
            remote_key=other.key,
        )


def joined(settings=QUICK, through=None, hosts=("127.0.0.1", "127.0.0.1")):
    """Two sides with a connection between them, directly or through a bad link."""
    a, b = Side(hosts[0], settings), Side(hosts[1], settings)
    a.open(through.for_a.address if through else b.endpoint.address, b)
    b.open(through.for_b.address if through else a.endpoint.address, a)
    return a, b


def close(*things):
    for thing in things:
        (thing.endpoint if isinstance(thing, Side) else thing).close()
