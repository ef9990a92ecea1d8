"""What is particular to a node's machine on the driver of ``recado.net``: its state on disk, its counters, its story.

What is persisted must be safe before any later effect. One sync to disk for every step would be slow, so effects that
follow a ``Persist`` are held while the loop works off what has already arrived; then one commit makes all of it safe
and the held effects go out. Before a link changes they go out in any case: what was meant for the old link must not
be sent on a new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from recado.errors import RecadoError
from recado.net.driver import Driver
from recado.overlay.limits import LinkError, OverlayError, OverlayLimits
from recado.overlay.state import State
from recado.protocols.machine import (
    Asked,
    Deliver,
    Effect,
    LinkDown,
    LinkUp,
    Machine,
    Received,
    Report,
    Send,
    SendFailed,
    Started,
    Stimulus,
)

# --- What a node did lately and why: a ring of steps, each a stimulus with the effects it had ------------------------
#
# The ring is bounded in steps and in bytes (of the messages that are held by it). A step tells of a text if the text
# stands anywhere in it, so the story of an event or a subscription is the steps that name its id.


class Step(msgspec.Struct, frozen=True, gc=False):
    number: int
    time: float
    stimulus: Stimulus
    effects: tuple[Effect, ...]


class Story:
    def __init__(self, limits: OverlayLimits) -> None:
        self._limits = limits
        self._steps: deque[Step] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self.count = 0

    def add(self, time: float, stimulus: Stimulus, effects: Sequence[Effect], size_bytes: int) -> None:
        self.count += 1
        self._steps.append(Step(self.count, time, stimulus, tuple(effects)))
        self._sizes.append(0)
        self.grow(size_bytes)

    def grow(self, size_bytes: int) -> None:
        """The last step holds so many bytes more: of a message that was sent."""
        if not self._steps:
            return
        self._sizes[-1] += size_bytes
        self._bytes += size_bytes
        while self._bytes > self._limits.story_bytes or len(self._steps) > self._limits.story_steps:
            self._steps.popleft()
            self._bytes -= self._sizes.popleft()

    def tell(self, about: str = "", last: int = 100) -> list[dict[str, Any]]:
        """The last steps that name ``about``, oldest first, as plain data."""
        told: list[dict[str, Any]] = []
        for step in reversed(self._steps):
            plain = _plain(step)
            if not about or about in msgspec.json.encode(plain).decode():
                told.append(plain)
                if len(told) == last:
                    break
        return told[::-1]


def _plain(step: Step) -> dict[str, Any]:
    return {
        "step": step.number,
        "time": step.time,
        "what": type(step.stimulus).__name__,
        **_stimulus(step.stimulus),
        "then": [_effect(effect) for effect in step.effects],
    }


def _stimulus(stimulus: Stimulus) -> dict[str, Any]:
    match stimulus:
        case Received(sender, message):
            return {"from": sender, "kind": type(message).__name__, "message": shown(message)}
        case Asked(request):
            return {"kind": type(request).__name__, "message": shown(request)}
    return {name: shown(getattr(stimulus, name)) for name in stimulus.__struct_fields__}


def _effect(effect: Effect) -> dict[str, Any]:
    match effect:
        case Send(receiver, message, why):
            kind = type(message).__name__
            return {"do": "Send", "to": receiver, "kind": kind, "message": shown(message), "why": why}
        case Deliver(value) | Report(value):
            return {"do": type(effect).__name__, "kind": type(value).__name__, "message": shown(value)}
    return {"do": type(effect).__name__, **{n: shown(getattr(effect, n)) for n in effect.__struct_fields__}}


def shown(value: Any) -> Any:
    """A value as plain data; what has no plain form, as its text."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=repr)


# --- The machine of a node, its driver, its state and its environment ------------------------------------------------

log = logging.getLogger("recado.overlay")


class Environment(Protocol):
    """Where the effects of a node's machine lead."""

    def send(self, receiver: Any, message: Any) -> int:
        """Queue a message; its size in bytes, or -1 if there is no link."""
        ...

    def deliver(self, notification: Any) -> None: ...
    def report(self, fact: Any) -> None: ...
    def open_link(self, peer: Any, address: str) -> None: ...
    def close_link(self, peer: Any) -> None: ...


class Counters:
    """What a node did, and with how many bytes on its links; messages by their kind."""

    def __init__(self) -> None:
        self.steps = self.delivered = self.sent_bytes = self.received_bytes = 0
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def plain(self) -> dict[str, Any]:
        return {name: dict(sorted(v.items())) if isinstance(v, Counter) else v for name, v in vars(self).items()}


class NodeDriver:
    """``stop`` is called if the node cannot go on, with the reason."""

    def __init__(
        self,
        machine: Machine,
        environment: Environment,
        *,
        state: State,
        limits: OverlayLimits,
        rng: Random,
        stop: Callable[[str], None],
    ) -> None:
        self.machine = machine
        self.story = Story(limits)
        self.counters = Counters()
        self._environment, self._state, self._stop = environment, state, stop
        self._loop = asyncio.get_running_loop()
        self._epoch = time.time() - self._loop.time()
        self._driver = Driver(
            machine,
            send=self._send,
            deliver=self._deliver,
            report=environment.report,
            persist=self._persist,
            broadcast=self._broadcast,
            connect=environment.open_link,
            disconnect=environment.close_link,
            clock=lambda: self.now,
            rng=rng,
            observe=self._observe,
            name="the node",
        )
        self._size_bytes = 0
        self._safe: asyncio.Future[None] | None = None

    @property
    def now(self) -> float:
        """The time of the wall at the start, and from then on of a clock that never goes back."""
        return self._epoch + self._loop.time()

    @property
    def timers(self) -> int:
        """How many are set."""
        return len(self._driver.timers)

    # -- stimuli

    def start(self, neighbours: tuple[str, ...] = (), address: str = "") -> None:
        """``address`` is where others can dial the node."""
        self.tell(Started(neighbours, self._state.load(), address))

    def received(self, sender: str, message: Any, size_bytes: int) -> None:
        self.counters.received[type(message).__name__] += 1
        self.counters.received_bytes += size_bytes
        self.tell(Received(sender, message), size_bytes)

    def send_failed(self, receiver: str, message: Any) -> None:
        """A message that was sent did not arrive."""
        self.counters.failed[type(message).__name__] += 1
        self.tell(SendFailed(receiver, message))

    def tell(self, stimulus: Stimulus, size_bytes: int = 0) -> None:
        """Something happened. An ``Asked`` or ``Received`` that makes no sense raises what the machine raises."""
        if isinstance(stimulus, LinkUp | LinkDown):
            self._commit()
        self._size_bytes = size_bytes
        try:
            self._driver.tell(stimulus)
        except Exception as error:  # noqa: BLE001  # one bad message must not end the node
            self._refuse(stimulus, error)
        finally:
            self._size_bytes = 0

    async def ask(self, request: Any, size_bytes: int = 0) -> None:
        """The application wants something; returns when what was persisted for it is safe."""
        self.tell(Asked(request), size_bytes)
        if self._safe is not None:
            await asyncio.shield(self._safe)

    def close(self) -> None:
        """No timer fires any more, and what was persisted is safe."""
        self._commit()
        self._driver.close()
        self._state.close(commit=self._safe is None)

    def _refuse(self, stimulus: Stimulus, error: Exception) -> None:
        """The machine found no sense in it: the asker, or the sender, is told."""
        if not isinstance(error, RecadoError):
            log.error("the machine failed at %r", stimulus, exc_info=error)
        match stimulus:
            case Asked() if isinstance(error, RecadoError):
                raise error
            case Asked():
                raise OverlayError(f"the node failed at this request ({error!r}); its log has the details") from error
            case Started():
                raise OverlayError(f"what the node saved cannot be used: {error!r}") from error
            case Received(sender, message):
                raise LinkError(f"{sender} sent a {type(message).__name__} that cannot be taken: {error}") from error

    # -- effects

    def _observe(self, stimulus: Stimulus, effects: Sequence[Effect], now: float) -> None:
        self.counters.steps += 1
        self.story.add(now, stimulus, effects, self._size_bytes)

    def _persist(self, key: str, value: Any) -> None:
        self._state.put(key, value)
        if self._safe is None:
            self._safe = self._loop.create_future()
            self._driver.hold()
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        if self._safe is None or self._safe.done():
            return  # nothing waits; or saving failed before, and nothing more may go out
        safe = self._safe
        try:
            self._state.commit()
        except Exception as error:  # noqa: BLE001  # whatever the disk says, the node must not go on without its state
            reason = f"the state cannot be saved: {error}"
            safe.set_exception(OverlayError(reason))
            safe.exception()  # there need not be anybody who waits for it
            self._stop(reason)
            return
        self._safe = None
        safe.set_result(None)
        self._driver.release()

    def _send(self, receiver: Any, message: Any) -> bool:
        size = self._environment.send(receiver, message)
        kind = type(message).__name__
        if size < 0:
            self.counters.failed[kind] += 1
            return False
        self.counters.sent[kind] += 1
        self.counters.sent_bytes += size
        self.story.grow(size)
        return True

    def _deliver(self, notification: Any) -> None:
        self.counters.delivered += 1
        self._environment.deliver(notification)

    def _broadcast(self, message: Any) -> None:
        self._stop(f"the machine wants to broadcast {message!r}, which a TCP overlay cannot do")
