"""The broker's side of the signalling: INVITE opens a session, or updates it, and 200 is repeated until ACK.

A session is in force when it is confirmed; only then its device has a leg at the desk. An update moves the RUDP
connection to the new address, and attaches the device again if RUDP had given it up.
"""

from __future__ import annotations

from collections import deque

import msgspec

from recado.broker.core import Desk
from recado.broker.mailbox import Bounds
from recado.protocols.machine import Asked, CancelTimer, Effect, Rng, SetTimer, Stimulus
from recado.protocols.rudp import MoveTo, RudpConnection, RudpSettings
from recado.sim.mobility.keeping import instant
from recado.sim.mobility.wire import BROKER, Accepted, Invite, Unknown, datagram

T1_SECONDS = 0.5


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``queues`` off is baseline B2: who is not connected gets nothing."""

    bounds: Bounds = Bounds()
    window: int = 32
    keep_seconds: float = 0.5
    sweep_seconds: float = 600.0
    ttl_seconds: float = 3_600.0
    grace_seconds: float = 3_600.0
    device_seconds: float = 86_400.0
    queues: bool = True


class Call:
    """A session of a device; ``key`` is its leg at the desk, 0 while it has none."""

    __slots__ = ("address", "applied", "conn", "connection", "id", "key", "seen", "version", "wait", "who")

    def __init__(self, id: str, who: tuple[str, str], conn: int) -> None:
        self.id, self.who, self.conn = id, who, conn
        self.version = self.applied = self.key = 0
        self.address = ""
        self.seen: int | None = None
        self.wait = T1_SECONDS
        self.connection: RudpConnection


class Switchboard:
    """The sessions by call, by RUDP connection and by leg."""

    desk: Desk
    _rng: Rng

    def __init__(self, settings: BrokerSettings, rudp: RudpSettings) -> None:
        self.settings, self._rudp = settings, rudp
        self._calls: dict[str, Call] = {}
        self._conns: dict[int, Call] = {}
        self._legs: dict[int, Call] = {}
        self._keys = 0
        self._todo: deque[tuple[Call, Effect]] = deque()  # what the connections want
        self._out: list[Effect] = []

    def leg(self, key: int) -> RudpConnection:
        """The connection of a leg of the desk."""
        return self._legs[key].connection

    def _tell_connection(self, call: Call, stimulus: Stimulus, now: float) -> None:
        self._todo.extend((call, effect) for effect in call.connection.handle(stimulus, now, self._rng))

    def _invited(self, invite: Invite, source: str, rng: Rng) -> None:
        call = self._calls.get(invite.call)
        if call is None and invite.version > 1:
            self._out.append(datagram(BROKER, source, Unknown(invite.call, invite.version)))
            return
        if call is None:
            call = Call(invite.call, (invite.user, invite.device), rng.randrange(2**32))
            call.connection = RudpConnection(self._rudp, call.conn, invite.conn, source, timer=("rudp", call.conn))
            self._calls[invite.call] = self._conns[call.conn] = call
        if invite.version >= call.version:
            if invite.version > call.version:
                call.version, call.address, call.wait = invite.version, source, T1_SECONDS
                call.seen = invite.seen
            self._accept(call)

    def _accept(self, call: Call) -> None:
        self._out.append(datagram(BROKER, call.address, Accepted(call.id, call.version, call.conn)))
        if call.applied < call.version:
            self._out.append(SetTimer(("accepted", call.id), call.wait))

    def _accept_again(self, id: str) -> None:
        call = self._calls.get(id)
        if call is None or call.applied == call.version:
            return
        call.wait *= 2
        if call.wait <= 32 * T1_SECONDS:
            self._accept(call)
        elif call.applied == 0:
            self._forget(call)

    def _confirmed(self, call: Call, now: float) -> None:
        if call.applied == call.version:
            return
        call.applied = call.version
        self._out.append(CancelTimer(("accepted", call.id)))
        if call.version > 1:
            self._tell_connection(call, Asked(MoveTo(call.address)), now)
        if call.key == 0:
            self._keys += 1
            call.key = self._keys
            self._legs[call.key] = call
            self.desk.attach(*call.who, call.key, window=self.settings.window, now=instant(now), seen=call.seen)

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.id, None)
        self._conns.pop(call.conn, None)
        self._out += [CancelTimer(("rudp", call.conn)), CancelTimer(("accepted", call.id))]
