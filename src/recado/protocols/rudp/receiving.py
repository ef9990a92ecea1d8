"""The receiving half: duplicates dropped, order restored, fragments joined (the mobility document, section 5.4).

``expected`` is the next sequence number. Whatever lies before it was seen; what lies after it is held until the gap is
filled, at most ``dedup`` numbers ahead, so the memory of a connection has a bound that the peer cannot move. Fragments
of a message have consecutive numbers, so joining them is appending.

**What the sender gave up.** A sender that fails forgets its packets, and the receiver must not wait for them for ever.
So a sender that resumes begins with a PING whose ``msg_id`` equals its ``seq``: nothing before it is wanted any more.
The receiver jumps there. It also throws away what it holds behind the gap: those messages were reported as failed
(the sender counts a message as acknowledged only when all before it are), they will come again, and delivering them
now would put them before those that were lost.
"""

from __future__ import annotations

from recado.protocols.rudp.counters import Counters
from recado.protocols.rudp.packet import DATA, HALF, MASK, PING, Packet, distance
from recado.protocols.rudp.settings import RudpSettings


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
