"""One connection at a time: the document's vectors, and each rule by itself."""

from random import Random

import msgspec
import pytest

from protocols.rudp.hand import Hand, key_to
from recado.errors import LimitError
from recado.protocols.machine import Deliver, Report, Send
from recado.protocols.rudp import (
    Acknowledged,
    Disconnected,
    Failed,
    QueueFull,
    RudpSettings,
    Unreachable,
    profile,
)
from recado.protocols.rudp.packet import ACK, DATA, PING, Packet, decode, encode, encode_ack

HERE, THERE, ELSEWHERE = ("127.0.0.1", 1), ("127.0.0.2", 2), ("127.0.0.3", 3)
SMALL = RudpSettings(
    rto_init_seconds=0.3,
    rto_min_seconds=0.05,
    rto_max_seconds=2.0,
    window=4,
    dedup=8,
    mtu_payload_bytes=4,
    max_message_bytes=20,
)

TO_US, TO_PEER = key_to(1, 2), key_to(2, 1)


def connect(settings):
    return Hand(settings, remote=THERE)


def packets(connection):
    """What it transmits now, read; everything else it says is dropped."""
    return [decode(effect.message, TO_PEER) for effect in connection.take() if isinstance(effect, Send)]


def sent(connection):
    return [packet.seq for packet in packets(connection)]


def ack(connection, seq, now, ts=None):
    connection.receive(encode_ack(1, seq, int(now * 1000) if ts is None else ts, TO_US), THERE, now)


def data(seq, payload=b"", frag_no=0, frag_cnt=1, msg_id=0, *, ts=0, kind=DATA):
    return encode(Packet(kind, 1, seq, ts, frag_no, frag_cnt, msg_id, payload), TO_US)


def run_silently(connection):
    """All timers, until nothing is left: the instants of transmissions, and the instant of the failure."""
    instants, now = [], 0.0
    while True:
        for effect in connection.take():
            if isinstance(effect, Send):
                instants.append(now)
            if isinstance(effect, Report) and isinstance(effect.fact, Disconnected):
                return instants, now
        now = connection.fire()


# -- vectors


@pytest.mark.parametrize(
    ("settings", "instants", "end"),
    [
        (profile("classic"), [0, 3, 9, 21], 45),
        (RudpSettings(backoff=1.5), [0, 3, 7.5, 14.25], 24.375),
        (profile("lab"), [0, 0.3, 0.9, 2.1], 4.1),
    ],
)
def test_vector_2_of_retransmissions(settings, instants, end):
    connection = connect(settings)
    connection.send(b"hello", 0.0)
    seen, failed_at = run_silently(connection)
    assert seen == pytest.approx(instants)
    assert failed_at == pytest.approx(end)


def test_detection_takes_as_long_as_computed():
    """E3: linear in RTO_INIT, and growing as BACKOFF ** MAX_RETRIES, up to RTO_MAX."""
    rng = Random(3)
    for _ in range(200):
        first = rng.uniform(0.1, 5)
        settings = RudpSettings(
            rto_init_seconds=first,
            rto_min_seconds=0.1,
            rto_max_seconds=rng.uniform(first, 60),
            backoff=rng.uniform(1.1, 4),
            max_retries=rng.randrange(8),
            window=rng.choice((1, 8)),
        )
        connection = connect(settings)
        for _ in range(3):
            connection.send(b"x", 0.0)
        assert run_silently(connection)[1] == pytest.approx(settings.detection_seconds())


def test_detection_after_the_timer_fell_to_its_floor():
    connection = connect(profile("classic"))
    for seq in range(1, 60):
        connection.send(b"", 0.0)
        ack(connection, seq, 0.0)
    assert connection.connection.rto_seconds == 2.0
    connection.take()
    connection.send(b"", 0.0)
    assert run_silently(connection)[1] == pytest.approx(30)


def test_vector_11_a_repeat_is_acknowledged_twice_and_delivered_once():
    connection = connect(profile("classic"))
    connection.receive(data(1, b"x", ts=5), THERE, 0.0)
    connection.receive(data(1, b"x", ts=6), ELSEWHERE, 0.1)
    assert connection.take() == [
        Send(THERE, encode_ack(2, 1, 5, TO_PEER)),
        Deliver(b"x"),
        Send(ELSEWHERE, encode_ack(2, 1, 6, TO_PEER)),
    ]
    assert connection.connection.counters.duplicates == 1
    assert connection.connection.remote_address == THERE


# -- sending


def test_the_timer_learns_from_echoes_only():
    connection = connect(profile("classic"))
    connection.send(b"", 10.0)
    connection.fire(13.0)
    ack(connection, 1, 13.5, ts=13_000)
    assert connection.connection.rtt_seconds == pytest.approx(0.5 / 8)
    connection.send(b"", 20.0)
    ack(connection, 2, 21.0, ts=99)
    assert connection.connection.rtt_seconds == pytest.approx(0.5 / 8)
    assert connection.told() == [Acknowledged(1), Acknowledged(2)]


def test_stop_and_wait_has_one_packet_in_flight():
    connection = connect(profile("classic"))
    assert [connection.send(b"", 0.0) for _ in range(3)] == [1, 2, 3]
    assert sent(connection) == [1]
    ack(connection, 1, 0.1)
    assert sent(connection) == [2]


def test_the_window_reaches_from_the_oldest():
    connection = connect(SMALL)
    for _ in range(9):
        connection.send(b"", 0.0)
    assert sent(connection) == [1, 2, 3, 4]
    ack(connection, 2, 0.1)
    ack(connection, 3, 0.1)
    assert connection.take() == []
    ack(connection, 1, 0.1)
    assert connection.told() == [Acknowledged(1), Acknowledged(2), Acknowledged(3)]
    assert connection.connection.counters.sent == 7


def test_a_large_message_is_cut_and_acknowledged_whole():
    connection = connect(SMALL)
    connection.send(b"abcdefghij", 0.0)
    cut = packets(connection)
    assert [(packet.seq, packet.frag_no, packet.frag_cnt, packet.msg_id) for packet in cut] == [
        (1, 0, 3, 1),
        (2, 1, 3, 1),
        (3, 2, 3, 1),
    ]
    assert [packet.payload for packet in cut] == [b"abcd", b"efgh", b"ij"]
    ack(connection, 1, 0.1)
    ack(connection, 3, 0.1)
    assert connection.told() == []
    ack(connection, 2, 0.1)
    assert connection.told() == [Acknowledged(1)]


def test_an_overtaken_packet_is_sent_again_once():
    connection = connect(msgspec.structs.replace(SMALL, window=8, fast_resend=2))
    for _ in range(6):
        connection.send(b"", 0.0)
    connection.take()
    ack(connection, 2, 0.01)
    assert sent(connection) == []
    ack(connection, 3, 0.01)
    assert sent(connection) == [1]
    ack(connection, 4, 0.01)
    ack(connection, 5, 0.01)
    assert sent(connection) == []


def test_a_failure_reports_everything_in_order():
    connection = connect(SMALL)
    for _ in range(6):
        connection.send(b"abcdefgh", 0.0)
    for seq in (1, 2, 4):
        ack(connection, seq, 0.0)
    assert connection.told() == [Acknowledged(1)]
    end = 0.0
    while not connection.connection.failed:
        end = connection.fire()
    outputs = connection.told()
    assert [output.ref for output in outputs[:-1]] == [2, 3, 4, 5, 6]
    assert all(isinstance(output, Failed) for output in outputs[:-1])
    assert isinstance(outputs[-1], Disconnected)
    assert str(outputs[-1].error).startswith("127.0.0.2:2 did not acknowledge packet ")
    assert connection.connection.pending == 0
    assert connection.due is None
    with pytest.raises(Unreachable, match="it sends again after a session update"):
        connection.send(b"", end)
    ack(connection, 3, end)
    connection.refuse(end)
    connection.fire(end + 100)
    assert connection.take() == []
    assert connection.connection.counters.stale_acks == 1


def failed_connection(settings=SMALL):
    connection = connect(settings)
    connection.send(b"lost", 0.0)
    _, end = run_silently(connection)
    return connection, end


def test_a_resumed_connection_begins_with_a_ping_and_data_waits_for_it():
    connection, end = failed_connection()
    connection.move(ELSEWHERE, end)
    connection.send(b"new", end)
    (output,) = connection.take()
    ping = decode(output.message, TO_PEER)
    assert (output.receiver, ping.kind, ping.seq, ping.msg_id) == (ELSEWHERE, PING, 2, 2)
    ack(connection, 2, end + 0.01)
    (packet,) = packets(connection)
    assert (packet.kind, packet.seq, packet.payload) == (DATA, 3, b"new")
    ack(connection, 3, end + 0.02)
    assert connection.told() == [Acknowledged(2)], "the connection's own ping is not reported"


def test_a_resume_that_fails_can_be_tried_again():
    connection, end = failed_connection()
    connection.resume(end)
    handle = connection.send(b"new", end)
    while not connection.connection.failed:
        connection.fire()
    assert [output.ref for output in connection.told()[:-1]] == [handle]
    connection.resume(100.0)
    (ping,) = packets(connection)
    assert (ping.seq, ping.msg_id) == (3, 3)


def test_a_move_sends_at_once_to_the_new_address_with_all_attempts():
    connection = connect(profile("classic"))
    connection.send(b"", 0.0)
    connection.fire(3.0)
    connection.fire(9.0)
    connection.take()
    connection.move(ELSEWHERE, 10.0)
    (output,) = connection.take()
    assert output.receiver == ELSEWHERE
    assert connection.due == 13.0
    instants = []
    while not connection.connection.failed:
        instants.append(connection.fire())
    assert instants == [13, 19, 31, 55]


def test_an_icmp_error_repeats_the_oldest_packet_once_and_changes_no_deadline():
    connection = connect(SMALL)
    connection.send(b"a", 0.0)
    connection.send(b"b", 0.0)
    connection.take()
    for _ in range(5):
        connection.refuse(0.1)
    assert sent(connection) == [1]
    assert connection.due == pytest.approx(0.3)
    connection.fire(0.3)
    assert sent(connection) == [1, 2]
    connection.refuse(0.31)
    assert sent(connection) == [1]
    assert run_silently(connection)[1] == pytest.approx(4.1)


def test_the_queue_and_the_size_of_a_message_have_limits():
    connection = connect(msgspec.structs.replace(SMALL, max_queue_messages=3, max_queue_bytes=10))
    with pytest.raises(LimitError, match="a message of 21 bytes; at most 20 can be sent"):
        connection.send(bytes(21), 0.0)
    connection.send(bytes(20), 0.0)  # when nothing waits, one message of any allowed size has room
    with pytest.raises(QueueFull, match="1 messages with 20 bytes wait"):
        connection.send(b"", 0.0)
    for seq in range(1, 6):
        ack(connection, seq, 0.1)
    for _ in range(3):
        connection.send(b"", 0.0)
    with pytest.raises(QueueFull, match="3 messages with 0 bytes wait"):
        connection.ping(0.0)


def test_keepalive_pings_when_nothing_else_is_sent():
    connection = connect(msgspec.structs.replace(SMALL, keepalive_seconds=30.0))
    assert connection.due == 30.0
    connection.send(b"", 20.0)
    ack(connection, 1, 20.0)
    connection.take()
    while connection.due < 49.0:
        connection.fire()
    assert connection.due == 50.0
    assert sent(connection) == []
    connection.fire()
    (ping,) = packets(connection)
    assert (ping.kind, ping.seq) == (PING, 2)


# -- receiving


def test_order_is_restored():
    connection = connect(SMALL)
    for seq in (3, 2, 4, 1):
        connection.receive(data(seq, b"%d" % seq), THERE, 0.0)
    assert connection.told() == [Deliver(b"1"), Deliver(b"2"), Deliver(b"3"), Deliver(b"4")]
    assert connection.connection.counters.lost_or_reordered == 3


def test_fragments_are_joined():
    connection = connect(SMALL)
    for seq, payload in ((2, b"efgh"), (3, b"i"), (1, b"abcd")):
        connection.receive(data(seq, payload, seq - 1, 3, 9), THERE, 0.0)
    assert connection.told() == [Deliver(b"abcdefghi")]


def test_too_far_from_the_next_number_is_not_acknowledged():
    connection = connect(SMALL)
    for seq in (9, 10, 2**31, 2**32 - 8, 2**32 - 9):
        connection.receive(data(seq, b""), THERE, 0.0)
    assert connection.take() == []
    assert connection.connection.counters.out_of_range == 5
    connection.receive(data(8), THERE, 0.0)
    connection.receive(data(2**32 - 7), THERE, 0.0)
    assert [(packet.kind, packet.seq) for packet in packets(connection)] == [(ACK, 8), (ACK, 2**32 - 7)]


def test_numbers_go_round():
    connection = connect(SMALL)
    connection.connection._receiver.expected = 2**32 - 1
    for seq in (1, 2**32 - 1, 0, 0, 2**32 - 1):
        connection.receive(data(seq, b"%d" % (seq & 3)), THERE, 0.0)
    assert connection.told() == [Deliver(b"3"), Deliver(b"0"), Deliver(b"1")]
    assert connection.connection.counters.duplicates == 2


def test_a_ping_makes_the_receiver_forget_what_was_given_up():
    connection = connect(SMALL)
    connection.receive(data(1, b"part", 0, 2, 1), THERE, 0.0)
    connection.receive(data(3, b"gone"), THERE, 0.0)  # 2 was lost
    connection.receive(data(5, msg_id=5, kind=PING), THERE, 0.0)
    connection.receive(data(6, b"new"), THERE, 0.0)
    connection.receive(data(2, b"late", 1, 2, 1), THERE, 0.0)
    assert connection.told() == [Deliver(b"new")]
    assert connection.connection.counters.skipped == 3
    assert connection.connection.inspect()["held"] == 0


def test_an_ordinary_ping_skips_nothing():
    connection = connect(SMALL)
    connection.receive(data(3, msg_id=1, kind=PING), THERE, 0.0)
    connection.receive(data(1, b"a"), THERE, 0.0)
    connection.receive(data(2, b"b"), THERE, 0.0)
    assert connection.told() == [Deliver(b"a"), Deliver(b"b")]


def test_fragments_that_do_not_fit_together_are_dropped():
    connection = connect(SMALL)
    for number, arguments in enumerate(
        [
            (b"a", 0, 2, 1),
            (b"b", 1, 2, 7),
            (b"c", 1, 3, 2),
            (b"d", 0, 2, 3),
            (b"e", 0, 1, 4),
            (b"f", 0, 2, 5),
            (b"g", 1, 2, 5),
        ],
        1,
    ):
        connection.receive(data(number, *arguments), THERE, 0.0)
    assert connection.told() == [Deliver(b"e"), Deliver(b"fg")]
    assert connection.connection.counters.malformed == 4
