"""Anything may arrive: it raises nothing, and it costs a bounded amount of memory."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from protocols.rudp.hand import Hand
from recado.protocols.rudp import RudpSettings
from recado.protocols.rudp.packet import DATA, HEADER, Packet, encode

SETTINGS = RudpSettings(window=4, dedup=32, mtu_payload_bytes=100, max_message_bytes=1_000)


def held_bytes(connection):
    receiver = connection.connection._receiver
    return sum(len(packet.payload) for packet in (*receiver._held.values(), *receiver._parts))


@given(st.lists(st.binary(max_size=80)))
def test_random_bytes_do_nothing(datagrams):
    connection = Hand(SETTINGS)
    for datagram in datagrams:
        connection.receive(datagram, "anywhere", 0.0)
    assert connection.take() == []
    assert connection.connection.counters.malformed == len(datagrams)


def almost_valid(rng):
    small = rng.randrange(0, 60)
    header = HEADER.pack(
        0x4543 if rng.random() < 0.98 else 0,
        1 if rng.random() < 0.98 else 2,
        rng.choice((1, 1, 1, 2, 3, 4)),
        1 if rng.random() < 0.95 else 7,
        rng.choice((small, small, small, rng.randrange(2**32))),
        rng.randrange(2**32),
        rng.choice((0, 0, 1, 2, rng.randrange(65_536))),
        rng.choice((1, 2, 3, 10, 11, 65_535, 0)),
        rng.choice((small, 0, rng.randrange(2**32))),
    )
    return (header + bytes(rng.choice((0, 10, 100, 101, 2000))))[: rng.choice((10_000, 10_000, 24, 30, 10))]


def test_memory_stays_bounded_whatever_comes():
    for seed in range(300):
        rng = Random(seed)
        connection = Hand(SETTINGS)
        for _ in range(5):
            connection.send(bytes(rng.randrange(300)), 0.0)
        for step in range(200):
            connection.receive(almost_valid(rng), "anywhere", step * 0.01)
            connection.fire(step * 0.01)
            connection.take()
            assert connection.connection._receiver.held <= SETTINGS.dedup + SETTINGS.max_fragments
            assert held_bytes(connection) <= (SETTINGS.dedup + SETTINGS.max_fragments) * SETTINGS.mtu_payload_bytes


def test_absurd_fragments_are_dropped_and_counted():
    connection = Hand(SETTINGS)
    for packet in (
        Packet(DATA, 1, 1, 0, 0, 65_535, 1, b""),
        Packet(DATA, 1, 1, 0, 0, 11, 1, b""),
        Packet(DATA, 1, 1, 0, 0, 1, 1, bytes(101)),
        Packet(DATA, 9, 1, 0, 0, 1, 1, b""),
    ):
        connection.receive(encode(packet), "there", 0.0)
    assert connection.take() == []
    assert connection.connection.counters.malformed == 4
    assert connection.connection.counters.received == 0


def test_the_longest_message_fits():
    connection = Hand(SETTINGS)
    for number in range(10):
        connection.receive(encode(Packet(DATA, 1, number + 1, 0, number, 10, 1, bytes(100))), "there", 0.0)
    assert connection.connection.counters.delivered == 1


def test_forged_acks_of_nothing_change_nothing():
    connection = Hand(SETTINGS)
    connection.send(b"x", 0.0)
    connection.take()
    for seq in (0, 2, 3, 2**31, 2**32 - 1):
        connection.receive(HEADER.pack(0x4543, 1, 2, 1, seq, 0, 0, 1, 0), "there", 0.0)
    assert connection.take() == []
    assert connection.connection.pending == 1
    assert connection.connection.counters.stale_acks == 5
