"""What a connection counts, for metrics and for tests."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct):
    sent: int = 0
    """DATA and PING packets, first transmissions."""
    resent: int = 0
    acked: int = 0
    """Packets of ours that were acknowledged."""
    stale_acks: int = 0
    """ACKs of what was acknowledged before, or given up."""
    received: int = 0
    """DATA and PING packets, repeats included."""
    delivered: int = 0
    duplicates: int = 0
    lost_or_reordered: int = 0
    """Packets that came before an earlier one."""
    messages_acked: int = 0
    messages_failed: int = 0
    failures: int = 0
    """How often the connection failed."""
    malformed: int = 0
    """Datagrams that are no packet, or none of this connection, or break a limit; nobody is told."""
    out_of_range: int = 0
    """Packets too far from the next one expected; they are not acknowledged."""
    skipped: int = 0
    """Sequence numbers that the peer gave up before they came."""

    def add(self, other: Counters) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
