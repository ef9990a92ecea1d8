"""Runs the agent's machine in an asyncio loop: a line below it, an application above it.

No task and no queue per message: a frame that arrives is decoded and handled in the same turn of the loop, and all
messages that the agent wants to send in one turn leave together, in few frames.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec

from recado.client.errors import ClientError
from recado.protocols import machine
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import SERVICE, Agent

# --- A line: what carries frames between an agent and the service, whatever it is made of ----------------------------
#
# ``dial`` begins an attempt and returns; the ears hear ``up`` once or ``down`` once, then ``heard`` for every frame,
# and ``down`` at the end. After ``hang_up`` the ears hear nothing more of that connection.


class Ears(Protocol):
    def up(self) -> None: ...

    def down(self, reason: str, code: int = 0, *, hopeless: bool = False) -> None:
        """``code`` is an HTTP status, if the service answered and said no.

        ``hopeless`` says that the address leads nowhere: who never was connected need not try again.
        """
        ...

    def heard(self, frame: bytes) -> None: ...

    def seen(self) -> tuple[int | None, str]:
        """The last notification that the application has done with, and whose log it is of."""
        ...

    def reachable(self) -> None:
        """The device has another address, or one again."""
        ...


class Line(Protocol):
    """``greets``: must the agent say who it is? ``frame_bytes``: how long a frame should be at most."""

    greets: bool
    frame_bytes: int

    def dial(self, ears: Ears) -> None: ...

    def send(self, frame: bytes) -> None: ...

    def hang_up(self) -> None: ...

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
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())  # else a power cut could leave an empty file under the name
            Path(name).replace(self.path)
        except OSError as error:
            raise ClientError(f"the state file {self.path} cannot be written: {error}") from None


# --- Runs the agent's machine in an asyncio loop: a line below it, an application above it ---------------------------

_encode = msgspec.json.Encoder().encode
_FRAME_MESSAGES = 4_096


class Application(Protocol):
    def notified(self, notify: m.Notify) -> None: ...

    def answered(self, ref: Any, answer: words.Answer) -> None: ...

    def told(self, fact: Any) -> None:
        """Any other fact of the agent."""
        ...


class Driver:
    """The ears of a line and the hands of an agent."""

    def __init__(self, agent: Agent, line: Line, application: Application, state: StateFile | None) -> None:
        self.agent, self.line, self.application, self.state = agent, line, application, state
        self.last_problem, self.hopeless = "", False
        self._loop = asyncio.get_running_loop()
        self._rng = Random()  # noqa: S311  # jitter is no secret
        self._timers: dict[machine.TimerKey, asyncio.TimerHandle] = {}
        self._out: list[m.FromAgent] = []
        self._flushing = False

    def start(self) -> None:
        self.stimulate(machine.Started((), dict(self.state.values) if self.state else {}))

    def ask(self, request: Any) -> None:
        """Give the agent a request; an AgentError if it cannot take it."""
        self.stimulate(machine.Asked(request))

    def stimulate(self, stimulus: machine.Stimulus) -> None:
        application = self.application
        for effect in self.agent.handle(stimulus, time.time(), self._rng):
            if isinstance(effect, machine.Deliver):
                application.notified(effect.notification)
            elif isinstance(effect, machine.Report):
                fact = effect.fact
                if isinstance(fact, words.Answered):
                    application.answered(fact.ref, fact.answer)
                else:
                    self._fact(fact)
            elif isinstance(effect, machine.Send):
                self._send(effect.message)
            else:
                self._rare(effect)

    def _fact(self, fact: Any) -> None:
        if isinstance(fact, words.Dial):
            self._out.clear()
            self.line.dial(self)
            return
        if isinstance(fact, words.HangUp):
            self.last_problem = fact.reason
            self.flush()
            self.line.hang_up()
            return
        self.application.told(fact)

    def _rare(self, effect: machine.Effect) -> None:
        match effect:
            case machine.SetTimer(timer, after_seconds):
                self._cancel(timer)
                self._timers[timer] = self._loop.call_later(after_seconds, self._fire, timer)
            case machine.CancelTimer(timer):
                self._cancel(timer)
            case machine.Persist(key, value):
                if self.state is not None:
                    self.state.put(key, value)

    def _cancel(self, timer: machine.TimerKey) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: machine.TimerKey) -> None:
        del self._timers[timer]
        self.stimulate(machine.TimerFired(timer))

    # -- the line's ears

    def up(self) -> None:
        self.stimulate(machine.LinkUp(SERVICE))

    def down(self, reason: str, code: int = 0, *, hopeless: bool = False) -> None:
        self.last_problem, self.hopeless = reason, hopeless
        self._out.clear()
        if code:
            self.ask(words.TurnedAway(code, reason))
        else:
            self.stimulate(machine.LinkDown(SERVICE))

    def heard(self, frame: bytes) -> None:
        try:
            messages = m.from_service(frame)
        except m.MessageError as error:
            self.line.hang_up()
            self.down(f"the service sent something that is no message: {error}")
            return
        self.stimulate(machine.Received(SERVICE, messages))

    def seen(self) -> tuple[int | None, str]:
        return self.agent.session.inbox.seen, self.agent.session.inbox.log

    def reachable(self) -> None:
        self.ask(words.Reachable())

    # -- sending

    def _send(self, messages: tuple[m.FromAgent, ...]) -> None:
        self._out.extend(messages)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is there, now."""
        self._flushing = False
        if self._out:
            out, self._out = self._out, []
            pack(out, self.line.frame_bytes, self.line.send)

    async def close(self) -> None:
        self.flush()
        for timer in list(self._timers):
            self._cancel(timer)
        await self.line.close()
        if self.state is not None:
            self.state.write()


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
