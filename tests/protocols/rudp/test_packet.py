import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.protocols.rudp.packet import ACK, DATA, HEADER_BYTES, PING, Packet, decode, distance, encode, encode_ack

number = st.integers(0, 2**32 - 1)


def test_the_bytes_are_those_of_the_document():
    packet = Packet(DATA, 0x9A3C01D2, 7, 1234, 1, 3, 42, b"payload")
    assert encode(packet) == bytes.fromhex("4543 01 01 9a3c01d2 00000007 000004d2 0001 0003 0000002a") + b"payload"
    assert encode_ack(0x9A3C01D2, 7, 1234) == bytes.fromhex("4543 01 02 9a3c01d2 00000007 000004d2 0000 0001 00000000")
    assert HEADER_BYTES == 24


fragment = st.integers(0, 65_535)


@given(st.builds(Packet, st.just(DATA), number, number, number, fragment, fragment, number, st.binary(max_size=50)))
def test_data_comes_back(packet):
    assert decode(encode(packet)) == (packet if packet.frag_no < packet.frag_cnt else None)


@given(number, number, number)
def test_acks_come_back(conn_id, seq, ts):
    assert decode(encode_ack(conn_id, seq, ts)) == Packet(ACK, conn_id, seq, ts, 0, 1, 0, b"")


GOOD = encode(Packet(DATA, 1, 2, 3, 0, 1, 4, b"abc"))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        GOOD[:23],
        b"\x45\x44" + GOOD[2:],
        GOOD[:2] + b"\x02" + GOOD[3:],
        GOOD[:3] + b"\x00" + GOOD[4:],
        GOOD[:3] + b"\x04" + GOOD[4:],
        GOOD[:3] + b"\x02" + GOOD[4:],  # an ACK with a payload
        GOOD[:3] + b"\x03" + GOOD[4:],  # a PING with a payload
        encode(Packet(DATA, 1, 2, 3, 0, 0, 4, b"")),
        encode(Packet(DATA, 1, 2, 3, 5, 5, 4, b"")),
    ],
)
def test_what_is_no_packet(bad):
    assert decode(bad) is None


@given(st.binary(max_size=100), st.sampled_from([DATA, ACK, PING, 9]))
def test_any_bytes_are_read_without_an_error(tail, kind):
    decode(tail)
    decode(struct.pack("!HBB", 0x4543, 1, kind) + tail)


def test_distances_go_round():
    assert distance(5, 7) == 2
    assert distance(2**32 - 1, 1) == 2
    assert distance(1, 2**32 - 1) == 2**32 - 2
