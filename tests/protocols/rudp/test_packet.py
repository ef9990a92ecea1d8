import struct
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.protocols.rudp import RudpError
from recado.protocols.rudp.packet import (
    ACK,
    DATA,
    HEADER_BYTES,
    PING,
    Packet,
    decode,
    direction_key,
    distance,
    encode,
    encode_ack,
    seal,
)

KEY = bytes(range(32))

number = st.integers(0, 2**32 - 1)


def test_the_bytes_are_those_of_the_document():
    packet = Packet(DATA, 0x9A3C01D2, 7, 1234, 1, 3, 42, b"payload")
    data = bytes.fromhex("4543 02 01 9a3c01d2 00000007 000004d2 0001 0003 0000002a") + b"payload"
    assert encode(packet, KEY) == data + blake2b(data, key=KEY, digest_size=16).digest()
    ack = bytes.fromhex("4543 02 02 9a3c01d2 00000007 000004d2 0000 0001 00000000")
    assert encode_ack(0x9A3C01D2, 7, 1234, KEY) == ack + blake2b(ack, key=KEY, digest_size=16).digest()
    assert HEADER_BYTES == 24


def test_each_direction_and_each_pair_of_announcements_has_its_own_key():
    one, two, other = (1, b"1" * 16), (2, b"2" * 16), (2, b"3" * 16)
    keys = {direction_key(*pair) for pair in ((one, two), (two, one), (one, other), (other, one), (one, (3, two[1])))}
    assert len(keys) == 5
    assert all(len(key) == 32 for key in keys)
    with pytest.raises(RudpError, match="a key of 15 bytes"):
        direction_key(one, (2, b"2" * 15))


fragment = st.integers(0, 65_535)


@given(st.builds(Packet, st.just(DATA), number, number, number, fragment, fragment, number, st.binary(max_size=50)))
def test_data_comes_back(packet):
    assert decode(encode(packet, KEY), KEY) == (packet if packet.frag_no < packet.frag_cnt else None)


@given(number, number, number)
def test_acks_come_back(conn_id, seq, ts):
    assert decode(encode_ack(conn_id, seq, ts, KEY), KEY) == Packet(ACK, conn_id, seq, ts, 0, 1, 0, b"")


GOOD = encode(Packet(DATA, 1, 2, 3, 0, 1, 4, b"abc"), KEY)[:-16]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        GOOD[:23],
        b"\x45\x44" + GOOD[2:],
        GOOD[:2] + b"\x01" + GOOD[3:],
        GOOD[:3] + b"\x00" + GOOD[4:],
        GOOD[:3] + b"\x04" + GOOD[4:],
        GOOD[:3] + b"\x02" + GOOD[4:],  # an ACK with a payload
        GOOD[:3] + b"\x03" + GOOD[4:],  # a PING with a payload
        encode(Packet(DATA, 1, 2, 3, 0, 0, 4, b""), KEY)[:-16],
        encode(Packet(DATA, 1, 2, 3, 5, 5, 4, b""), KEY)[:-16],
    ],
)
def test_what_is_no_packet(bad):
    assert decode(seal(bad, KEY), KEY) is None


@given(st.binary(max_size=100), st.sampled_from([DATA, ACK, PING, 9]))
def test_any_bytes_are_read_without_an_error(tail, kind):
    decode(tail, KEY)
    decode(struct.pack("!HBB", 0x4543, 2, kind) + tail, KEY)


def test_distances_go_round():
    assert distance(5, 7) == 2
    assert distance(2**32 - 1, 1) == 2
    assert distance(1, 2**32 - 1) == 2**32 - 2
