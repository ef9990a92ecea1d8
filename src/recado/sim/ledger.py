"""Who sent and received how much of what: messages and bytes for every node and cause.

The kernel counts by node and by type of message; both at once would cost every run. A ledger is a watch, so a run
without one pays nothing, and its sums are the kernel's counters.

The cause of a message is its type, or what a function of the message gives, where messages of one type are sent for
several reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from recado.protocols.machine import Broadcast, NodeId, Received, Send
from recado.sim.kernel import Step


class Flow:
    """Messages and bytes in one direction."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0


Flows = dict[NodeId, dict[Hashable, Flow]]


class Ledger:
    """Give it to a simulation as ``watch``, with the same ``size_of``; ``up`` and ``down`` are by node, then by cause.

    ``clear`` begins a new account, such as after a warm-up.
    """

    def __init__(self, size_of: Callable[[Any], int], cause: Callable[[Any], Hashable] = type) -> None:
        self.up: Flows = {}
        self.down: Flows = {}
        self._size_of, self._cause = size_of, cause

    def __call__(self, step: Step) -> None:
        if isinstance(step.stimulus, Received):
            self._count(self.down, step.node, step.stimulus.message)
        for effect in step.effects:
            if isinstance(effect, Send | Broadcast):
                self._count(self.up, step.node, effect.message)

    def clear(self) -> None:
        self.up.clear()
        self.down.clear()

    def _count(self, flows: Flows, node: NodeId, message: Any) -> None:
        flow = flows.setdefault(node, {}).setdefault(self._cause(message), Flow())
        flow.messages += 1
        flow.bytes += self._size_of(message)
