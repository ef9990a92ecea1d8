"""A connection inside a machine (``recado.protocols.machine``): its datagrams are Sends, its timer is one of the node.

The machine that owns it calls the connection, then ``step``, and does the rest with what it is told::

    case Received(sender, datagram):
        self.link.connection.received(datagram, sender, now)
    case TimerFired(timer) if timer == self.link.timer:
        self.link.fired(now)
    ...
    effects, told = self.link.step(now)     # told: Delivered, Acknowledged, Failed, Disconnected, in order
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from recado.protocols.machine import CancelTimer, Effect, Send, SetTimer, TimerKey
from recado.protocols.rudp.connection import RudpConnection
from recado.protocols.rudp.outputs import Acknowledged, Delivered, Disconnected, Failed, Transmit

Told: TypeAlias = Delivered | Acknowledged | Failed | Disconnected


def send_to_address(transmit: Transmit) -> Effect:
    """The address is the id of a node, and the datagram the message."""
    return Send(transmit.address, transmit.datagram, why="RUDP")


class Carrier:
    def __init__(
        self,
        connection: RudpConnection,
        timer: TimerKey,
        send: Callable[[Transmit], Effect] = send_to_address,
    ) -> None:
        self.connection, self.timer, self._send = connection, timer, send
        self._due: float | None = None

    def fired(self, now: float) -> None:
        """The timer fired. Not before its time, but perhaps an ulp before it: ``due - now + now`` is not ``due``."""
        due, self._due = self._due, None
        self.connection.timeout(now if due is None else max(now, due))

    def step(self, now: float) -> tuple[list[Effect], list[Told]]:
        """Call it after every call of the connection: what the node has to do, and what the connection tells."""
        effects: list[Effect] = []
        told: list[Told] = []
        for output in self.connection.take():
            if isinstance(output, Transmit):
                effects.append(self._send(output))
            else:
                told.append(output)
        due = self.connection.next_timeout()
        if due != self._due:
            effects.append(CancelTimer(self.timer) if due is None else SetTimer(self.timer, max(0.0, due - now)))
            self._due = due
        return effects, told
