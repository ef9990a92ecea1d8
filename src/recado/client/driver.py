"""The agent of a session in an asyncio loop: a transport below it, an application above it.

No task and no queue per message: a frame that arrives is decoded and handled in the same turn of the loop, and all
messages that the agent wants to send in one turn leave together, in few frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec

from recado import files
from recado.client.errors import ClientError
from recado.net.clock import SteadyClock
from recado.net.driver import Driver
from recado.protocols import machine
from recado.protocols.session import commands
from recado.protocols.session import messages as m
from recado.protocols.session.agent import SERVICE, Agent

# --- A transport: what carries frames between an agent and the service, whatever it is made of -----------------------


class TransportListener(Protocol):
    """What a transport calls: ``on_up`` once or ``on_down`` once for an attempt, ``on_frame`` while it is up."""

    def on_up(self) -> None: ...

    def on_down(self, reason: str, code: int = 0, *, permanent: bool = False) -> None:
        """``code`` is an HTTP status, if the service answered and said no.

        ``permanent`` says that the address leads nowhere: who never was connected need not try again.
        """
        ...

    def on_frame(self, frame: bytes) -> None: ...

    def on_reachable(self) -> None:
        """The device has another address, or one again."""
        ...

    def last_seen(self) -> tuple[int | None, str]:
        """The last notification that the application has done with, and whose log it is of."""
        ...


class Transport(Protocol):
    """``greets``: must the agent say who it is? ``frame_bytes``: how long a frame should be at most."""

    greets: bool
    frame_bytes: int

    def connect(self, listener: TransportListener) -> None:
        """Begin an attempt and return; the listener is told how it ends."""
        ...

    def send(self, frame: bytes) -> None: ...

    def disconnect(self) -> None:
        """End the connection; the listener hears nothing more of it."""
        ...

    async def close(self) -> None:
        """Let what was sent go out, as far as that is quick, and end for good."""
        ...


# --- What a device keeps over a restart: its name, what it has seen, its subscriptions -------------------------------
#
# One JSON file, replaced as a whole, so that a reader finds the old one or the new one. Writing is gathered: what the
# agent persists is on disk within a quarter of a second, and at the end of the session. A crash in between may let
# the service repeat a notification that the application had finished in its last moments; it cannot lose one.


_GATHER_SECONDS = 0.25


class StateFile:
    """``values`` are the agent's, by the keys of its Persist; ``device`` is the device's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.device = ""
        self.values: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._read()

    def _read(self) -> None:
        try:
            content = msgspec.json.decode(self.path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise ClientError(f"the state file {self.path} cannot be read: {error}; remove it to begin anew") from None
        if not isinstance(content, dict) or not isinstance(content.get("values"), dict):
            raise ClientError(f"{self.path} is not a state file of the client; remove it or name another one")
        self.device, self.values = str(content.get("device", "")), content["values"]

    def put(self, key: str, value: Any) -> None:
        """Keep a value; None forgets the key."""
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self.write)

    def write(self) -> None:
        """Write the file now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        content = msgspec.json.encode({"device": self.device, "values": self.values})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self.path, content, mode=0o600)
        except OSError as error:
            raise ClientError(f"the state file {self.path} cannot be written: {error}") from None


# --- The agent, its driver, its transport and its application --------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_FRAME_MESSAGES = 4_096


class Application(Protocol):
    def notified(self, notify: m.Notify) -> None: ...

    def answered(self, ref: Any, answer: commands.Answer) -> None: ...

    def told(self, fact: Any) -> None:
        """Any other fact of the agent."""
        ...


class AgentDriver:
    """Drives the agent of a session; it listens to the transport.

    ``last_problem`` is why there was no connection, "" if nothing went wrong; ``permanent`` whether trying again is of
    any use.
    """

    def __init__(self, agent: Agent, transport: Transport, application: Application, state: StateFile | None) -> None:
        self.transport, self.last_problem, self.permanent = transport, "", False
        self._agent, self._application, self._state = agent, application, state
        self._loop = asyncio.get_running_loop()
        self._driver = Driver(
            agent,
            send=self._send,
            deliver=application.notified,
            report=self._report,
            persist=self._persist,
            clock=SteadyClock(),
            rng=Random(),  # noqa: S311  # jitter is no secret
        )
        self._out: list[m.FromAgent] = []
        self._flushing = False

    def start(self) -> None:
        self._driver.tell(machine.Started((), dict(self._state.values) if self._state else {}))

    def ask(self, request: Any) -> None:
        """Give the agent a request; raises AgentError if it cannot take it."""
        self._driver.ask(request)

    async def close(self) -> None:
        self.flush()
        self._driver.close()
        await self.transport.close()
        if self._state is not None:
            self._state.write()

    # -- from the transport

    def on_up(self) -> None:
        self._driver.tell(machine.LinkUp(SERVICE))

    def on_down(self, reason: str, code: int = 0, *, permanent: bool = False) -> None:
        self.last_problem, self.permanent = reason, permanent
        self._out.clear()
        if code:
            self.ask(commands.TurnedAway(code, reason))
        else:
            self._driver.tell(machine.LinkDown(SERVICE))

    def on_frame(self, frame: bytes) -> None:
        try:
            messages = m.from_service(frame)
        except m.MessageError as error:
            self.transport.disconnect()
            self.on_down(f"the service sent something that is no message: {error}")
            return
        self._driver.tell(machine.Received(SERVICE, messages))

    def on_reachable(self) -> None:
        self.ask(commands.Reachable())

    def last_seen(self) -> tuple[int | None, str]:
        inbox = self._agent.session.inbox
        return inbox.seen, inbox.log

    # -- effects

    def _report(self, fact: Any) -> None:
        if isinstance(fact, commands.Answered):
            self._application.answered(fact.ref, fact.answer)
        elif isinstance(fact, commands.Dial):
            self._out.clear()
            self.transport.connect(self)
        elif isinstance(fact, commands.HangUp):
            self.last_problem = fact.reason
            self.flush()
            self.transport.disconnect()
        else:
            self._application.told(fact)

    def _persist(self, key: str, value: Any) -> None:
        if self._state is not None:
            self._state.put(key, value)

    def _send(self, _receiver: Any, messages: tuple[m.FromAgent, ...]) -> bool:
        self._out.extend(messages)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)
        return True

    def flush(self) -> None:
        """Send what is there, now."""
        self._flushing = False
        if self._out:
            out, self._out = self._out, []
            pack(out, self.transport.frame_bytes, self.transport.send)


def pack(messages: list[m.FromAgent], frame_bytes: int, send: Callable[[bytes], None]) -> None:
    """Put messages into frames of bounded size; one that is larger than a frame goes alone."""
    if len(messages) == 1:
        send(_encode(messages[0]))
        return
    parts: list[bytes] = []
    size = 0
    for message in messages:
        part = _encode(message)
        if parts and (size + len(part) > frame_bytes or len(parts) >= _FRAME_MESSAGES):
            send(_frame(parts))
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    send(_frame(parts))


def _frame(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"
