"""A device: the agent, one RUDP connection with the broker, and the signalling that opens and updates the session.

A change of address updates the session (re-INVITE) at once; when the update completes, RUDP goes on with what it had in
flight. A session that RUDP gave up is updated when the agent dials again. A broker that does not know the session any
more (481) gets a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from recado.protocols import machine
from recado.protocols.machine import CancelTimer, Deliver, Effect, Persist, Report, Rng, Send, SetTimer
from recado.protocols.rudp import Disconnected, Resume, RudpConnection, RudpSettings, SendMessage
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.commands import AgentSettings, Dial, Reachable, Took
from recado.sim.mobility.wire import BROKER, Accepted, Confirmed, Datagram, Invite, Unknown, datagram, simulated_key

T1_SECONDS = 0.5
GIVE_UP_SECONDS = 64 * T1_SECONDS


class MoveTo(msgspec.Struct, frozen=True):
    """The device has this address from now on; None: no coverage."""

    address: str | None


class Refresh(msgspec.Struct, frozen=True):
    """Update the session although the address is the one it was."""


class Device:
    """``updates`` off is baseline B3: a change of address is not told; the broker learns it when the agent dials.

    ``tells_seen`` is whether INVITE says what the device has seen, as HELLO does.
    """

    def __init__(
        self,
        me: str,
        user: str,
        address: str | None,
        settings: AgentSettings,
        rudp: RudpSettings,
        *,
        updates: bool = True,
        tells_seen: bool = True,
    ) -> None:
        self.me, self.user, self.address = me, user, address
        self._updates, self._tells_seen = updates, tells_seen
        self.agent = Agent(settings)
        self._rudp = rudp
        self._call = ""  # the session, if there is one
        self._conn = self._version = 0
        self._key = b""
        self._inviting_since: float | None = None
        self._wait = T1_SECONDS
        self.connection: RudpConnection | None = None
        self._todo: deque[Effect] = deque()  # what the connection wants
        self._out: list[Effect] = []

    def handle(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        match stimulus:
            case machine.Received(_, Datagram(source, target, content)):
                if target == self.address:
                    self._receive(source, content, now, rng)
            case machine.TimerFired(("agent", timer)):
                self._tell(machine.TimerFired(timer), now, rng)
            case machine.TimerFired("rudp"):
                self._tell_connection(stimulus, now, rng)
            case machine.TimerFired("invite"):
                self._invite_again(now, rng)
            case machine.Asked(Refresh()):
                self._invite(now, rng)
            case machine.Asked(MoveTo(address)):
                self._move(address, now, rng)
            case _:
                self._tell(stimulus, now, rng)
        self._work(now, rng)
        out, self._out = self._out, []
        return out

    def inspect(self) -> dict[str, Any]:
        rudp = None if self.connection is None else self.connection.inspect()
        return {"address": self.address, "call": self._call, "agent": self.agent.inspect(), "rudp": rudp}

    # -- signalling

    def _invite(self, now: float, rng: Rng) -> None:
        if self.connection is None:
            self._call, self._conn, self._version = f"{self.me}-{rng.randrange(2**48)}", rng.randrange(2**32), 0
            self._key = simulated_key(self._conn)
        self._version += 1
        self._inviting_since, self._wait = now, T1_SECONDS
        self._send_invite()

    def _send_invite(self) -> None:
        seen = self.agent.session.inbox.seen if self._tells_seen else None
        device = self.agent.session.settings.device
        invite = Invite(self._call, self._version, self.user, device, self._conn, self._key, seen)
        self._send(BROKER, invite)
        self._out.append(SetTimer("invite", self._wait))

    def _invite_again(self, now: float, rng: Rng) -> None:
        if self._inviting_since is None:
            return
        if now - self._inviting_since >= GIVE_UP_SECONDS:
            self._inviting_since = None
            self._tell(machine.LinkDown(BROKER), now, rng)
            return
        self._wait *= 2
        self._send_invite()

    def _receive(self, source: str, content: Any, now: float, rng: Rng) -> None:
        match content:
            case bytes():
                self._tell_connection(machine.Received(source, content), now, rng)
            case Accepted(call, version, conn, key) if call == self._call and version == self._version:
                self._send(source, Confirmed(call, version))
                if self._inviting_since is not None:
                    self._on_update(conn, key, source, now, rng)
            case Unknown(call, version) if call == self._call and version == self._version:
                self._call, self.connection, self._inviting_since = "", None, None
                if self.agent.session.state == "dialling":
                    self._invite(now, rng)
                else:
                    self._tell(machine.LinkDown(BROKER), now, rng)

    def _on_update(self, conn: int, key: bytes, source: str, now: float, rng: Rng) -> None:
        self._inviting_since = None
        self._out.append(CancelTimer("invite"))
        if self.connection is None:
            self.connection = RudpConnection(
                self._rudp, self._conn, conn, source, now, local_key=self._key, remote_key=key
            )
        else:
            self._tell_connection(machine.Asked(Resume()), now, rng)
        if self.agent.session.state == "dialling":
            self._tell(machine.LinkUp(BROKER), now, rng)

    def _move(self, address: str | None, now: float, rng: Rng) -> None:
        self.address = address
        if address is None or not self._updates:
            return
        if self.agent.session.state in ("connected", "dialling"):
            self._invite(now, rng)
        else:
            self._tell(machine.Asked(Reachable()), now, rng)

    # -- the agent and its connection

    def _tell(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> None:
        """The agent takes a step; the application is done with a notification as soon as it has it."""
        for effect in self.agent.handle(stimulus, now, rng):
            match effect:
                case Send(_, messages):
                    if self.connection is not None and not self.connection.failed:
                        self._tell_connection(machine.Asked(SendMessage(m.encode(messages))), now, rng)
                case SetTimer(timer, seconds):
                    self._out.append(SetTimer(("agent", timer), seconds))
                case CancelTimer(timer):
                    self._out.append(CancelTimer(("agent", timer)))
                case Report(Dial()):
                    self._invite(now, rng)
                case Deliver(m.Notify(nid)):
                    self._out.append(effect)
                    self._tell(machine.Asked(Took([nid])), now, rng)
                case Deliver() | Report() | Persist():
                    self._out.append(effect)

    def _tell_connection(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> None:
        if self.connection is not None:
            self._todo.extend(self.connection.handle(stimulus, now, rng))

    def _work(self, now: float, rng: Rng) -> None:
        """Carry out what the connection wants, until it wants nothing more."""
        while self._todo:
            match effect := self._todo.popleft():
                case Send(str(address), packet):
                    self._out.append(datagram(self.address or self.me, address, packet))
                case Deliver(message):
                    self._tell(machine.Received(BROKER, m.from_service(message)), now, rng)
                case Report(Disconnected()):
                    self._tell(machine.LinkDown(BROKER), now, rng)
                case SetTimer() | CancelTimer():
                    self._out.append(effect)

    def _send(self, target: str, content: Any) -> None:
        self._out.append(datagram(self.address or self.me, target, content))
