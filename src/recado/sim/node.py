"""What the kernel keeps for a node, and what it counts for a kind of message.

Counters of a node go on over crashes and restarts, so that the sum over all nodes is what was sent in the whole run.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from recado.protocols.machine import Machine, NodeId, Rng


class Node:
    """A node of the simulation: its machine and its counters. A restart makes a new one."""

    __slots__ = (
        "alive", "down_bytes", "down_messages", "id", "machine", "rng", "saved", "starts", "timers", "up_bytes",
        "up_messages",
    )  # fmt: skip

    def __init__(self, id: NodeId, machine: Machine, rng: Rng, earlier: Node | None) -> None:
        self.id, self.machine, self.rng = id, machine, rng
        self.alive = True
        self.timers: dict[Hashable, int] = {}
        self.saved: dict[str, Any] = earlier.saved if earlier else {}
        self.starts: int = earlier.starts + 1 if earlier else 1
        self.up_messages: int = earlier.up_messages if earlier else 0
        self.up_bytes: int = earlier.up_bytes if earlier else 0
        self.down_messages: int = earlier.down_messages if earlier else 0
        self.down_bytes: int = earlier.down_bytes if earlier else 0


class Sent:
    """What was sent of one kind of message (a broadcast is sent once), and how much of it arrived at live nodes."""

    __slots__ = ("arrived", "arrived_bytes", "bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = self.arrived = self.arrived_bytes = 0
