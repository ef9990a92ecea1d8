"""The sending half: queue, window, timers, failure (the mobility document, section 5.4).

A message is cut into packets with consecutive numbers. Packets are sent while fewer than ``window`` numbers lie between
the oldest that is not acknowledged and the next. Each packet has its own timer and its own count of attempts, and the
first that was retransmitted ``max_retries`` times in vain fails the connection: every message that is not settled, in
order. A message counts as acknowledged when all its packets are, and all messages before it.

After a failure the numbering goes on. The first packet of a resumed connection is a PING that says that nothing before
it is wanted (``receiving``), and data waits for its ACK. So data never meets a receiver that waits for lost numbers.
The timer begins anew then: the way may be slower than it was, and ACKs that came after the failure taught nothing.

``_deadline`` is a lower bound: an ACK does not look for the next earliest timer, the timer that fires too early does.
"""

from __future__ import annotations

from collections import deque

from recado.errors import LimitError
from recado.protocols.rudp.counters import Counters
from recado.protocols.rudp.outputs import (
    Acknowledged,
    Address,
    Disconnected,
    Failed,
    Output,
    QueueFull,
    Transmit,
    Unreachable,
    show,
)
from recado.protocols.rudp.packet import DATA, HALF, HEADER, MAGIC, MASK, PING, VERSION, distance
from recado.protocols.rudp.settings import RudpSettings
from recado.protocols.rudp.timer import RttEstimator

UNREPORTED = 0
"""The handle of pings that the connection sends by itself."""
_REMEMBERED = 8
"""So many transmissions of one packet are remembered, to recognise the echo of their time."""


class _Message:
    __slots__ = ("cut", "data", "frag_cnt", "handle", "kind", "unacked")

    def __init__(self, kind: int, handle: int, data: bytes = b"", frag_cnt: int = 1) -> None:
        self.kind, self.handle, self.data, self.frag_cnt = kind, handle, data, frag_cnt
        self.cut = 0
        self.unacked = frag_cnt


class _Packet:
    __slots__ = ("attempts", "deadline", "frag_no", "message", "nudged", "passed", "payload", "sent", "seq")

    def __init__(self, message: _Message, seq: int, frag_no: int, payload: bytes) -> None:
        self.message, self.seq, self.frag_no, self.payload = message, seq, frag_no, payload
        self.sent: list[tuple[int, float]] = []
        self.deadline = 0.0
        self.begin_again()

    def begin_again(self) -> None:
        self.attempts, self.passed, self.nudged = 0, 0, False


class Sender:
    def __init__(
        self,
        settings: RudpSettings,
        conn_id: int,
        address: Address,
        now: float,
        *,
        outputs: list[Output],
        counters: Counters,
    ) -> None:
        self._settings, self._conn_id = settings, conn_id
        self._outputs, self._counters = outputs, counters
        self.address = address
        self.estimator = RttEstimator(settings)
        self.failed = False
        self._probing = False
        self._next = self._base = 1
        self._messages = 0
        self._unsettled: deque[_Message] = deque()
        self._waiting: deque[_Message] = deque()
        self._flight: dict[int, _Packet] = {}
        self._deadline: float | None = None
        self._last_sent = now
        self.pending_bytes = 0

    # -- what the layer above wants

    def send(self, data: bytes, now: float) -> int:
        self._check_room(data)
        frag_cnt = -(-len(data) // self._settings.mtu_payload_bytes) or 1
        self.pending_bytes += len(data)
        return self._enqueue(_Message(DATA, self._number(), data, frag_cnt), now)

    def ping(self, now: float) -> int:
        self._check_room(b"")
        return self._enqueue(_Message(PING, self._number()), now)

    def move(self, address: Address, now: float) -> None:
        """The peer is there now, or here again: start anew with what is in flight, or with a ping after a failure."""
        self.address = address
        if self.failed:
            self.failed, self._probing = False, True
            self.estimator = RttEstimator(self._settings)
            self._enqueue(_Message(PING, UNREPORTED), now)
            return
        for packet in self._flight.values():
            packet.begin_again()
            self._transmit(packet, now)

    @property
    def pending(self) -> int:
        return len(self._unsettled)

    # -- what the network and the clock say

    def acknowledged(self, seq: int, ts: int, now: float) -> None:
        packet = self._flight.pop(seq, None)
        if packet is None:
            self._counters.stale_acks += 1
            return
        self._counters.acked += 1
        for sent_ts, sent_at in reversed(packet.sent):
            if sent_ts == ts:
                self.estimator.sample(now - sent_at)
                break
        packet.message.unacked -= 1
        if seq == self._base:
            self._advance()
        elif self._settings.fast_resend:
            self._overtaken(seq, now)
        self._settle()
        self._pump(now)

    def icmp_error(self, now: float) -> None:
        """Send the oldest packet again, once in a timer's run; its attempts and its deadline stay (section 5.4).

        If every error were answered, a port that refuses would be asked as fast as it answers.
        """
        oldest = self._flight.get(self._base)
        if oldest is None or oldest.nudged:
            return
        oldest.nudged = True
        deadline = oldest.deadline
        self._transmit(oldest, now)
        oldest.deadline = deadline

    def next_timeout(self) -> float | None:
        if self._flight:
            return self._deadline
        if self._settings.keepalive_seconds and not self.failed:
            return self._last_sent + self._settings.keepalive_seconds
        return None

    def timeout(self, now: float) -> None:
        due = self.next_timeout()
        if due is None or now < due:
            return
        if not self._flight:
            self._enqueue(_Message(PING, UNREPORTED), now)
            return
        expired = [packet for packet in self._flight.values() if packet.deadline <= now]
        for packet in expired:
            if packet.attempts == self._settings.max_retries:
                self._fail(packet, now)
                return
        self._deadline = min(
            (packet.deadline for packet in self._flight.values() if packet.deadline > now), default=None
        )
        for packet in expired:
            packet.attempts, packet.passed, packet.nudged = packet.attempts + 1, 0, False
            self._transmit(packet, now)

    # -- inside

    def _check_room(self, data: bytes) -> None:
        settings = self._settings
        if self.failed:
            raise Unreachable(
                f"the connection to {show(self.address)} has failed; it sends again after a session update"
            )
        if len(data) > settings.max_message_bytes:
            raise LimitError(f"a message of {len(data):,} bytes; at most {settings.max_message_bytes:,} can be sent")
        if self._unsettled and (
            len(self._unsettled) >= settings.max_queue_messages
            or self.pending_bytes + len(data) > settings.max_queue_bytes
        ):
            raise QueueFull(
                f"{len(self._unsettled):,} messages with {self.pending_bytes:,} bytes wait for {show(self.address)}; "
                f"at most {settings.max_queue_messages:,} messages and {settings.max_queue_bytes:,} bytes may"
            )

    def _number(self) -> int:
        self._messages += 1
        return self._messages

    def _enqueue(self, message: _Message, now: float) -> int:
        self._unsettled.append(message)
        self._waiting.append(message)
        self._pump(now)
        return message.handle

    def _pump(self, now: float) -> None:
        limit = 1 if self._probing else self._settings.window
        size = self._settings.mtu_payload_bytes
        while self._waiting and distance(self._base, self._next) < limit:
            message = self._waiting[0]
            start = message.cut * size
            packet = _Packet(message, self._next, message.cut, message.data[start : start + size])
            message.cut += 1
            if message.cut == message.frag_cnt:
                self._waiting.popleft()
            self._flight[packet.seq] = packet
            self._next = (self._next + 1) & MASK
            self._transmit(packet, now)

    def _transmit(self, packet: _Packet, now: float) -> None:
        message, ts = packet.message, int(now * 1000) & MASK
        if packet.sent:
            self._counters.resent += 1
            del packet.sent[: 1 - _REMEMBERED]
        else:
            self._counters.sent += 1
        packet.sent.append((ts, now))
        packet.deadline = now + self.estimator.wait_seconds(packet.attempts)
        if self._deadline is None or packet.deadline < self._deadline:
            self._deadline = packet.deadline
        self._last_sent = now
        msg_id = message.handle & MASK if message.kind == DATA else self._base
        header = HEADER.pack(
            MAGIC, VERSION, message.kind, self._conn_id, packet.seq, ts, packet.frag_no, message.frag_cnt, msg_id
        )
        self._outputs.append(Transmit(header + packet.payload, self.address))

    def _advance(self) -> None:
        while self._base != self._next and self._base not in self._flight:
            self._base = (self._base + 1) & MASK
        if not self._flight:
            self._deadline = None
            self._probing = False

    def _overtaken(self, seq: int, now: float) -> None:
        """A packet that was passed by several later ones is probably lost: send it again, once in a timer's run."""
        for packet in self._flight.values():
            if distance(packet.seq, seq) >= HALF:
                return
            packet.passed += 1
            if packet.passed == self._settings.fast_resend:
                self._transmit(packet, now)

    def _settle(self) -> None:
        while self._unsettled and not self._unsettled[0].unacked:
            message = self._unsettled.popleft()
            self.pending_bytes -= len(message.data)
            if message.handle != UNREPORTED:
                self._counters.messages_acked += 1
                self._outputs.append(Acknowledged(message.handle))

    def _fail(self, packet: _Packet, now: float) -> None:
        tries, since = self._settings.max_retries + 1, now - packet.sent[0][1]
        where = show(self.address)
        error = Unreachable(f"{where} did not acknowledge packet {packet.seq}: {tries} tries in {since:.1f} s")
        reported = [message.handle for message in self._unsettled if message.handle != UNREPORTED]
        self._outputs.extend(Failed(handle, error) for handle in reported)
        self._outputs.append(Disconnected(error))
        self._counters.messages_failed += len(reported)
        self._counters.failures += 1
        self._unsettled.clear()
        self._waiting.clear()
        self._flight.clear()
        self._base, self._deadline, self.pending_bytes, self.failed = self._next, None, 0, True
