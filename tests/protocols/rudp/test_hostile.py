"""Anything may arrive: it raises nothing, and it costs a bounded amount of memory."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from protocols.rudp.hand import KEY, Hand, key_to
from recado.protocols.rudp import RudpSettings
from recado.protocols.rudp.packet import DATA, HEADER, PING, Packet, encode, encode_ack, seal

SETTINGS = RudpSettings(window=4, dedup=32, mtu_payload_bytes=100, max_message_bytes=1_000)

TO_US = key_to(1, 2)


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
        2 if rng.random() < 0.98 else 1,
        rng.choice((1, 1, 1, 2, 3, 4)),
        1 if rng.random() < 0.95 else 7,
        rng.choice((small, small, small, rng.randrange(2**32))),
        rng.randrange(2**32),
        rng.choice((0, 0, 1, 2, rng.randrange(65_536))),
        rng.choice((1, 2, 3, 10, 11, 65_535, 0)),
        rng.choice((small, 0, rng.randrange(2**32))),
    )
    content = (header + bytes(rng.choice((0, 10, 100, 101, 2000))))[: rng.choice((10_000, 10_000, 24, 30, 10))]
    return seal(content, TO_US if rng.random() < 0.98 else KEY)


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
        connection.receive(encode(packet, TO_US), "there", 0.0)
    assert connection.take() == []
    assert connection.connection.counters.malformed == 4
    assert connection.connection.counters.received == 0


def test_the_longest_message_fits():
    connection = Hand(SETTINGS)
    for number in range(10):
        connection.receive(encode(Packet(DATA, 1, number + 1, 0, number, 10, 1, bytes(100)), TO_US), "there", 0.0)
    assert connection.connection.counters.delivered == 1


def test_forged_acks_of_nothing_change_nothing():
    connection = Hand(SETTINGS)
    connection.send(b"x", 0.0)
    connection.take()
    for seq in (0, 2, 3, 2**31, 2**32 - 1):
        connection.receive(encode_ack(1, seq, 0, TO_US), "there", 0.0)
    assert connection.take() == []
    assert connection.connection.pending == 1
    assert connection.connection.counters.stale_acks == 5


def test_nothing_is_heard_without_the_tag_of_this_direction():
    """Not with no tag, a tag of other bytes, of the other direction, of the announced key itself, or a changed bit."""
    connection = Hand(SETTINGS)
    ping = Packet(PING, 1, 500, 9, 0, 1, 500, b"")
    good = encode(ping, TO_US)
    forged = [good[:-16], good[:-16] + bytes(16), encode(ping, key_to(2, 1)), encode(ping, KEY)]
    forged += [bytes([*good[:at], good[at] ^ 1, *good[at + 1 :]]) for at in range(len(good))]
    for datagram in forged:
        connection.receive(datagram, "eve", 0.0)
    assert (connection.take(), connection.source, connection.due) == ([], None, None)
    assert connection.connection.counters.malformed == len(forged)
    connection.receive(good, "there", 0.0)
    assert connection.connection.counters.skipped == 499, "the same packet, from its peer"


def test_what_is_sent_again_by_others_is_not_acknowledged_to_them():
    connection = Hand(SETTINGS)
    packets = [encode(Packet(DATA, 1, seq, seq, 0, 1, seq, b"x"), TO_US) for seq in (1, 2, 3)]
    for packet in packets:
        connection.receive(packet, "there", 0.0)
    connection.take()
    for packet in packets:
        connection.receive(packet, "eve", 0.0)
    assert (connection.take(), connection.source) == ([], "there")
    assert connection.connection.counters.unproven == 3
    connection.receive(encode(Packet(DATA, 1, 3, 99, 0, 1, 3, b"x"), TO_US), "moved", 0.0)
    assert [effect.receiver for effect in connection.take()] == ["moved"], "a retransmission is younger than all before"
    assert connection.source == "moved"
    connection.receive(packets[1], "moved", 0.0)
    assert [effect.receiver for effect in connection.take()] == ["moved"], "there the peer was heard"
