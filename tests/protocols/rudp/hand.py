"""A connection driven by hand: the test says what happens and when, and looks at the effects and at the timer."""

from __future__ import annotations

from random import Random

from recado.protocols.machine import (
    Asked,
    CancelTimer,
    Received,
    Report,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)
from recado.protocols.rudp import Heard, MoveTo, Ping, Resume, RudpConnection, SendMessage
from recado.protocols.rudp.packet import direction_key

KEY = bytes(range(16))


def key_to(receiver, sender):
    """Of packets in one direction, between connections with these numbers."""
    return direction_key((receiver, KEY), (sender, KEY))


class Hand:
    """``due`` is the instant of its timer; ``take`` gives all other effects since the last call.

    What is sent is numbered from 1; the number is its ``ref``.
    """

    def __init__(self, settings, own=1, other=2, remote="there", now=0.0):
        self.connection = RudpConnection(settings, own, other, remote, now, local_key=KEY, remote_key=KEY)
        self.due, self.refs, self._effects, self._rng = None, 0, [], Random(0)
        self.source = None
        self.tell(Started(), now)

    def tell(self, stimulus, now):
        for effect in self.connection.handle(stimulus, now, self._rng):
            match effect:
                case SetTimer("rudp", seconds):
                    self.due = now + seconds
                case CancelTimer("rudp"):
                    self.due = None
                case Report(Heard(source)):
                    self.source = source
                case _:
                    self._effects.append(effect)

    def take(self):
        effects, self._effects = self._effects, []
        return effects

    def send(self, message, now):
        self.tell(Asked(SendMessage(message, self.refs + 1)), now)
        self.refs += 1
        return self.refs

    def ping(self, now):
        self.tell(Asked(Ping(self.refs + 1)), now)
        self.refs += 1
        return self.refs

    def move(self, address, now):
        self.tell(Asked(MoveTo(address)), now)

    def resume(self, now):
        self.tell(Asked(Resume()), now)

    def receive(self, datagram, source, now):
        self.tell(Received(source, datagram), now)

    def refuse(self, now):
        self.tell(SendFailed(self.connection.remote_address), now)

    def fire(self, now=None):
        """The timer fires, at its time or when the test says."""
        now, self.due = self.due if now is None else now, None
        self.tell(TimerFired("rudp"), now)
        return now

    def told(self):
        """What the application gets to know: Deliver, and the facts of reports."""
        return [getattr(one, "fact", one) for one in self.take() if not isinstance(one, Send)]
