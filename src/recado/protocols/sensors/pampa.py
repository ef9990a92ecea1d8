"""PAMPA: broadcast with few relays (section 4 of the specification).

Who hears a message for the first time holds it for a time that grows with its signal strength, and counts the copies
that it hears meanwhile. So those far away from the transmitter relay first, since they reach most that is new; those
near it hear them and stay silent. Nothing is acknowledged.

This layer keeps what was heard and how long to hold it. What a message means, and whether a node relays it although it
has heard enough copies, is decided by the layer above, which is called for the first copy and when the hold is over.
"""

from __future__ import annotations

from typing import Any

from recado.protocols.sensors.context import BOOT, Context, trim
from recado.protocols.sensors.messages import Id, Name


class Hold:
    """A message that waits to be relayed. ``least_dfs`` is the smallest distance from storage of all copies (5.4)."""

    __slots__ = ("copies", "least_dfs", "message", "sender")

    def __init__(self, message: Any, sender: Name) -> None:
        self.message, self.sender = message, sender
        self.copies = 1
        self.least_dfs: int = getattr(message, "dfs", 0)


class Pampa:
    """``heard`` has every broadcast that is known: its ``Hold``, or None when this node is done with it."""

    __slots__ = ("_context", "_number", "heard", "parameters", "relays_all")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._number = 0
        self.parameters = context.settings.pampa_parameters()
        self.relays_all = context.settings.system == "blind-flooding"
        self.heard: dict[Id, Hold | None] = {}

    def new_id(self) -> Id:
        self._number += 1
        return self._context.me, self._context.boots * BOOT + self._number

    def broadcast(self, message: Any, why: str) -> None:
        """Begin a broadcast of this node's own; what comes back of it is not heard."""
        self.finish(message.id)
        self._context.broadcast(message, why)

    def hold(self, message: Any, sender: Name, signal_dbm: float | None) -> None:
        """Wait before relaying; the timer ``("hold", id)`` ends it, and ``release`` tells what was heard."""
        self._remember(message.id, Hold(message, sender))
        self._context.set_timer(("hold", message.id), self.hold_seconds(signal_dbm))

    def finish(self, message_id: Id) -> None:
        """Nothing more is to be done for this broadcast, however often it is heard."""
        self._remember(message_id, None)

    def release(self, message_id: Id) -> Hold | None:
        """The end of a hold; None if the message was forgotten meanwhile."""
        found = self.heard.get(message_id)
        if found is not None:
            self.heard[message_id] = None
        return found

    def is_relay(self, hold: Hold) -> bool:
        return self.relays_all or hold.copies < self.parameters.n_copies

    def hold_seconds(self, signal_dbm: float | None) -> float:
        """4.4; without a signal strength, as at the edge of the range."""
        parameters, rng = self.parameters, self._context.rng
        dbm = parameters.edge_dbm if signal_dbm is None else signal_dbm
        if parameters.hold_mode == "linear":
            seconds = parameters.hold_factor * 10.0 ** (dbm / 10.0 - 3.0)
            if seconds <= parameters.hold_seconds:
                return float(seconds)
            return parameters.hold_seconds + rng.uniform(0.0, parameters.jitter_seconds)
        share = min(max((dbm - parameters.edge_dbm) / parameters.span_db, 0.0), 1.0)
        return parameters.hold_seconds * share + rng.uniform(0.0, parameters.jitter_seconds)

    def _remember(self, message_id: Id, hold: Hold | None) -> None:
        heard = self.heard
        heard[message_id] = hold
        if len(heard) > self._context.settings.remembered:
            trim(heard, self._context.settings.remembered)
