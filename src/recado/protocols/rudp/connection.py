"""One side of one RUDP connection, as a machine: a sender, a receiver, and one timer for both.

The stimuli and effects are described at the top of the package. Packets that carry the right tag are taken from any
address, since a peer that moved sends before its session is updated; everything except an ACK goes to
``remote_address``, which only ``MoveTo`` changes.

An ACK goes back to where its packet came from, if that is where the peer is: the address of the session, or the one
(``source``) from which the last fresh packet came. Fresh is what was not seen before, and what is younger (``ts``) than
everything seen before. So whoever records a packet and sends it again from elsewhere gets nothing and moves nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from recado.errors import LimitError
from recado.protocols.machine import (
    Asked,
    CancelTimer,
    Deliver,
    Effect,
    Received,
    Report,
    Rng,
    Send,
    SendFailed,
    SetTimer,
    Stimulus,
    TimerFired,
    TimerKey,
)
from recado.protocols.rudp.packet import (
    ACK,
    DATA,
    HALF,
    HEADER,
    MAGIC,
    MASK,
    PING,
    VERSION,
    Acknowledged,
    Address,
    Counters,
    Disconnected,
    Failed,
    Heard,
    MoveTo,
    Packet,
    Ping,
    QueueFull,
    Resume,
    RudpError,
    RudpSettings,
    SendMessage,
    Unreachable,
    decode,
    direction_key,
    distance,
    encode_ack,
    seal,
    show,
)

# --- The receiving half: duplicates dropped, order restored, fragments joined (the mobility document, section 5.4)
#
# ``expected`` is the next sequence number. Whatever lies before it was seen; what lies after it is held until the gap
# is filled, at most ``dedup`` numbers ahead, so the memory of a connection has a bound that the peer cannot move.
# Fragments of a message have consecutive numbers, so joining them is appending.
#
# **What the sender gave up.** A sender that fails forgets its packets, and the receiver must not wait for them for
# ever. So a sender that resumes begins with a PING whose ``msg_id`` equals its ``seq``: nothing before it is wanted
# any more. The receiver jumps there. It also throws away what it holds behind the gap: those messages were reported as
# failed (the sender counts a message as acknowledged only when all before it are), they will come again, and
# delivering them now would put them before those that were lost.


class Receiver:
    def __init__(self, settings: RudpSettings, counters: Counters) -> None:
        self._settings = settings
        self._counters = counters
        self.expected = 1
        self._held: dict[int, Packet] = {}
        self._parts: list[Packet] = []

    @property
    def held(self) -> int:
        """How many packets wait: for an earlier one, or for the rest of their message."""
        return len(self._held) + len(self._parts)

    def is_new(self, packet: Packet) -> bool:
        """Has no packet with this number come yet?"""
        return distance(self.expected, packet.seq) < HALF and packet.seq not in self._held

    def take(self, packet: Packet) -> list[bytes] | None:
        """The messages that are now complete; None when the packet is not to be acknowledged."""
        settings, counters = self._settings, self._counters
        if len(packet.payload) > settings.mtu_payload_bytes or packet.frag_cnt > settings.max_fragments:
            counters.malformed += 1
            return None
        counters.received += 1
        if packet.kind == PING:
            self._skip(packet)
        ahead = distance(self.expected, packet.seq)
        if ahead >= HALF:
            return self._seen_before(MASK + 1 - ahead)
        if ahead >= settings.dedup:
            counters.out_of_range += 1
            return None
        if packet.seq in self._held:
            counters.duplicates += 1
            return []
        if ahead:
            counters.lost_or_reordered += 1
            self._held[packet.seq] = packet
            return []
        return self._in_order(packet)

    def _seen_before(self, behind: int) -> list[bytes] | None:
        if behind > self._settings.dedup:
            self._counters.out_of_range += 1
            return None
        self._counters.duplicates += 1
        return []

    def _in_order(self, packet: Packet) -> list[bytes]:
        messages: list[bytes] = []
        following: Packet | None = packet
        while following is not None:
            self.expected = (self.expected + 1) & MASK
            if following.kind == DATA:
                self._join(following, messages)
            following = self._held.pop(self.expected, None) if self._held else None
        return messages

    def _join(self, packet: Packet, messages: list[bytes]) -> None:
        if self._parts and not _continues(self._parts[-1], packet):
            self._counters.malformed += 1
            self._parts.clear()
        if packet.frag_no != len(self._parts):
            self._counters.malformed += 1
            return
        if packet.frag_cnt == 1:
            messages.append(packet.payload)
            self._counters.delivered += 1
            return
        self._parts.append(packet)
        if len(self._parts) == packet.frag_cnt:
            messages.append(b"".join(part.payload for part in self._parts))
            self._parts.clear()
            self._counters.delivered += 1

    def _skip(self, ping: Packet) -> None:
        """Jump to a ping that says of itself that nothing before it is wanted any more."""
        jump = distance(self.expected, ping.seq)
        if ping.msg_id != ping.seq or not 0 < jump < HALF:
            return
        self._counters.skipped += jump
        self._parts.clear()
        self._held = {seq: held for seq, held in self._held.items() if distance(ping.seq, seq) < HALF}
        self.expected = ping.seq


def _continues(last: Packet, packet: Packet) -> bool:
    return packet.msg_id == last.msg_id and packet.frag_cnt == last.frag_cnt and packet.frag_no == last.frag_no + 1


# --- The retransmission timer (the mobility document, section 5.3, after Stevens): smoothed round trip and its -------
# deviation
#
# Every transmission has its own ``ts``, which the ACK echoes, so a sample is never ambiguous. The back-off is a
# packet's own (``sending``): its waiting time is ``rto * BACKOFF**attempts``, which for one packet in flight is the
# document's growing ``rto``.


class RttEstimator:
    def __init__(self, settings: RudpSettings) -> None:
        self._settings = settings
        self.srtt = 0.0
        self.rttvar = settings.rto_init_seconds / 4
        self.rto = settings.rto_init_seconds

    def sample(self, rtt_seconds: float) -> None:
        d = rtt_seconds - self.srtt
        self.srtt += d / 8
        self.rttvar += (abs(d) - self.rttvar) / 4
        self.rto = min(max(self.unclamped, self._settings.rto_min_seconds), self._settings.rto_max_seconds)

    @property
    def unclamped(self) -> float:
        return self.srtt + 4 * self.rttvar

    def wait_seconds(self, attempts: int) -> float:
        """How long to wait for the ACK of a packet that was retransmitted ``attempts`` times."""
        if not attempts:
            return self.rto
        return min(self.rto * self._settings.backoff**attempts, self._settings.rto_max_seconds)


# --- The sending half: queue, window, timers, failure (the mobility document, section 5.4) ---------------------------
#
# A message is cut into packets with consecutive numbers. Packets are sent while fewer than ``window`` numbers lie
# between the oldest that is not acknowledged and the next. Each packet has its own timer and its own count of
# attempts, and the first that was retransmitted ``max_retries`` times in vain fails the connection: every message that
# is not settled, in order. A message counts as acknowledged when all its packets are, and all messages before it.
#
# After a failure the numbering goes on. The first packet of a resumed connection is a PING that says that nothing
# before it is wanted (``receiving``), and data waits for its ACK. So data never meets a receiver that waits for lost
# numbers. The timer begins anew then: the way may be slower than it was, and ACKs that came after the failure taught
# nothing.
#
# ``_deadline`` is a lower bound: an ACK does not look for the next earliest timer, the timer that fires too early does.


_OWN = 0
"""The number of pings that the connection sends by itself; nobody is told what becomes of them."""
_REMEMBERED = 8
"""So many transmissions of one packet are remembered, to recognise the echo of their time."""


class _Message:
    __slots__ = ("cut", "data", "frag_cnt", "kind", "number", "ref", "unacked")

    def __init__(self, kind: int, number: int, ref: Any = None, data: bytes = b"", frag_cnt: int = 1) -> None:
        self.kind, self.number, self.ref, self.data, self.frag_cnt = kind, number, ref, data, frag_cnt
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
        key: bytes,
        effects: list[Effect],
        counters: Counters,
    ) -> None:
        self._settings, self._conn_id, self._key = settings, conn_id, key
        self.effects, self._counters = effects, counters
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

    def send(self, data: bytes, ref: Any, now: float) -> None:
        self._check_room(data)
        frag_cnt = -(-len(data) // self._settings.mtu_payload_bytes) or 1
        self.pending_bytes += len(data)
        self._enqueue(_Message(DATA, self._next_number(), ref, data, frag_cnt), now)

    def ping(self, ref: Any, now: float) -> None:
        self._check_room(b"")
        self._enqueue(_Message(PING, self._next_number(), ref), now)

    def move(self, address: Address, now: float) -> None:
        """The peer is there now, or here again: start anew with what is in flight, or with a ping after a failure."""
        self.address = address
        if self.failed:
            self.failed, self._probing = False, True
            self.estimator = RttEstimator(self._settings)
            self._enqueue(_Message(PING, _OWN), now)
            return
        for packet in self._flight.values():
            packet.begin_again()
            self._transmit(packet, now)

    @property
    def pending(self) -> int:
        return len(self._unsettled)

    # -- what the network and the clock say

    def awaits(self, seq: int) -> bool:
        """Is this packet sent and not acknowledged?"""
        return seq in self._flight

    def acknowledge(self, seq: int, ts: int, now: float) -> None:
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
            self._resend_overtaken(seq, now)
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
            self._enqueue(_Message(PING, _OWN), now)
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

    def _next_number(self) -> int:
        self._messages += 1
        return self._messages

    def _enqueue(self, message: _Message, now: float) -> None:
        self._unsettled.append(message)
        self._waiting.append(message)
        self._pump(now)

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
        msg_id = message.number & MASK if message.kind == DATA else self._base
        header = HEADER.pack(
            MAGIC, VERSION, message.kind, self._conn_id, packet.seq, ts, packet.frag_no, message.frag_cnt, msg_id
        )
        self.effects.append(Send(self.address, seal(header + packet.payload, self._key)))

    def _advance(self) -> None:
        while self._base != self._next and self._base not in self._flight:
            self._base = (self._base + 1) & MASK
        if not self._flight:
            self._deadline = None
            self._probing = False

    def _resend_overtaken(self, seq: int, now: float) -> None:
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
            if message.number != _OWN:
                self._counters.messages_acked += 1
                self.effects.append(Report(Acknowledged(message.ref)))

    def _fail(self, packet: _Packet, now: float) -> None:
        tries, since = self._settings.max_retries + 1, now - packet.sent[0][1]
        where = show(self.address)
        error = Unreachable(f"{where} did not acknowledge packet {packet.seq}: {tries} tries in {since:.1f} s")
        reported = [message.ref for message in self._unsettled if message.number != _OWN]
        self.effects.extend(Report(Failed(ref, error)) for ref in reported)
        self.effects.append(Report(Disconnected(error)))
        self._counters.messages_failed += len(reported)
        self._counters.failures += 1
        self._unsettled.clear()
        self._waiting.clear()
        self._flight.clear()
        self._base, self._deadline, self.pending_bytes, self.failed = self._next, None, 0, True


# --- One side of one RUDP connection: a sender, a receiver, and the list of what they want done ----------------------


class RudpConnection:
    """``local_key`` and ``remote_key`` are those of the two SDPs; each has 16 bytes that nobody can guess.

    ``timer`` is the key of its one timer: a machine that has several connections gives each its own.
    """

    def __init__(
        self,
        settings: RudpSettings,
        local_conn_id: int,
        remote_conn_id: int,
        remote_address: Address,
        now: float = 0.0,
        *,
        local_key: bytes,
        remote_key: bytes,
        timer: TimerKey = "rudp",
    ) -> None:
        self.settings = settings
        self.local_conn_id, self.remote_conn_id = local_conn_id, remote_conn_id
        local, remote = (local_conn_id, local_key), (remote_conn_id, remote_key)
        self._key_in, self._key_out = direction_key(local, remote), direction_key(remote, local)
        self.source: Address | None = None
        """Where the last fresh packet came from; the peer may be elsewhere than it says."""
        self._latest_ts: int | None = None
        self.counters = Counters()
        self._effects: list[Effect] = []
        self._sender = Sender(
            settings,
            remote_conn_id,
            remote_address,
            now,
            key=self._key_out,
            effects=self._effects,
            counters=self.counters,
        )
        self._receiver = Receiver(settings, self.counters)
        self._timer = timer
        self._timer_at: float | None = None

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """One step. Received never raises; an Asked raises LimitError, QueueFull or Unreachable and changes nothing."""
        if isinstance(stimulus, Received):
            self._receive(stimulus.message, stimulus.sender, now)
        elif isinstance(stimulus, Asked):
            self._ask(stimulus.request, now)
        elif isinstance(stimulus, TimerFired):
            # Not before its time, but perhaps an ulp before it: ``due - now + now`` is not ``due``.
            due, self._timer_at = self._timer_at, None
            self._sender.timeout(now if due is None else max(now, due))
        elif isinstance(stimulus, SendFailed):
            self._sender.icmp_error(now)
        due = self._sender.next_timeout()
        if due != self._timer_at:
            self._set_timer(due, now)
        effects = self._effects
        self._effects = self._sender.effects = []
        return effects

    def _ask(self, request: Any, now: float) -> None:
        match request:
            case SendMessage():
                self._sender.send(request.message, request.ref, now)
            case Ping():
                self._sender.ping(request.ref, now)
            case MoveTo():
                self._sender.move(request.address, now)
            case Resume():
                self._sender.move(self._sender.address, now)
            case _:
                raise RudpError(f"a connection knows no request {type(request).__name__}")

    def _receive(self, datagram: bytes, source: Address, now: float) -> None:
        packet = decode(datagram, self._key_in)
        if packet is None or packet.conn_id != self.local_conn_id:
            self.counters.malformed += 1
            return
        if packet.kind == ACK:
            if self._sender.awaits(packet.seq):
                self._hear(source)
            self._sender.acknowledge(packet.seq, packet.ts, now)
            return
        fresh = self._is_fresh(packet)
        messages = self._receiver.take(packet)
        if messages is None:
            return
        if fresh:
            self._hear(source)
        elif source not in (self.source, self._sender.address):
            self.counters.unproven += 1
            return
        self._effects.append(Send(source, encode_ack(self.remote_conn_id, packet.seq, packet.ts, self._key_out)))
        self._effects.extend(map(Deliver, messages))

    def _is_fresh(self, packet: Packet) -> bool:
        """Could this not have been recorded and sent again? Retransmissions are younger than all before them."""
        younger = self._latest_ts is None or 0 < distance(self._latest_ts, packet.ts) < HALF
        if younger:
            self._latest_ts = packet.ts
        return younger or self._receiver.is_new(packet)

    def _hear(self, source: Address) -> None:
        if source != self.source:
            self.source = source
            self._effects.append(Report(Heard(source)))

    def _set_timer(self, due: float | None, now: float) -> None:
        """A timer that is set too early is left: it fires and finds nothing due, which is cheaper than setting it anew.

        So a stream of packets, each of which is acknowledged before its time, sets hardly any timers.
        """
        if due is None:
            self._timer_at = None
            self._effects.append(CancelTimer(self._timer))
        elif self._timer_at is None or due < self._timer_at:
            self._timer_at = due
            self._effects.append(SetTimer(self._timer, max(0.0, due - now)))

    # -- what can be asked

    @property
    def failed(self) -> bool:
        return self._sender.failed

    @property
    def remote_address(self) -> Address:
        return self._sender.address

    @property
    def pending(self) -> int:
        """Messages (and pings) that are neither acknowledged nor failed."""
        return self._sender.pending

    @property
    def rtt_seconds(self) -> float:
        """The smoothed round trip; 0 before the first acknowledgement."""
        return self._sender.estimator.srtt

    @property
    def rto_seconds(self) -> float:
        return self._sender.estimator.rto

    def inspect(self) -> dict[str, Any]:
        return {
            "local_conn_id": self.local_conn_id,
            "remote_conn_id": self.remote_conn_id,
            "remote_address": self.remote_address,
            "failed": self.failed,
            "pending": self.pending,
            "pending_bytes": self._sender.pending_bytes,
            "held": self._receiver.held,
            "rtt_seconds": self.rtt_seconds,
            "rto_seconds": self.rto_seconds,
            "counters": msgspec.structs.asdict(self.counters),
        }
