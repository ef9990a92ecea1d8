"""What happened in a run: its fingerprint, its steps, and the story of any message.

The fingerprint is a hash over the text of every step, so two runs are the same step by step exactly if theirs are
equal. It holds as long as messages have a ``repr`` that says what they hold and no more; a set of strings has none,
since its order changes with PYTHONHASHSEED.

A story walks back from a step to what began it all. The cause of a message or a timer is the last step that began
before its number was given, because the effects of a step get their numbers one after another; the cause of a failed
send is the last step that sent this very message. Requests, starts and news of links come from outside and end the
walk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from recado.protocols.machine import (
    Asked,
    Broadcast,
    Deliver,
    Effect,
    LinkDown,
    LinkUp,
    NodeId,
    Received,
    Report,
    Send,
    SendFailed,
    SetTimer,
    Started,
    Stimulus,
    TimerFired,
)
from recado.sim.kernel import SimulationError, Step


class Trace:
    """Give it to a simulation as ``watch``. It hashes all steps, and keeps them if ``keep`` (stories need that)."""

    def __init__(self, *, keep: bool = True) -> None:
        self.steps: list[Step] = []
        self.count = 0
        self._hash = blake2b(digest_size=16)
        self._keep = keep
        self._scheduled: list[int] = []

    def __call__(self, step: Step) -> None:
        self.count += 1
        self._hash.update(_text(step).encode())
        if self._keep:
            self.steps.append(step)
            self._scheduled.append(step.scheduled)

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def select(self, node: NodeId | None = None, about: str | None = None) -> Iterator[Step]:
        """The steps of one node, or those that speak of one thing, such as the id of an event or a subscription."""
        mark = None if about is None else repr(about)
        for step in self.steps:
            if (node is None or step.node == node) and (mark is None or mark in _text(step)):
                yield step

    def lines(self, node: NodeId | None = None, about: str | None = None) -> Iterator[str]:
        """The same for people, a line a step."""
        for step in self.select(node, about):
            effects = "; ".join(map(repr, step.effects)) or "nothing"
            yield f"t={step.time:g} {step.node}: {step.stimulus!r} -> {effects}"

    def sends(
        self, sender: NodeId | None = None, receiver: NodeId | None = None, kind: str | None = None
    ) -> list[tuple[Step, Send]]:
        """The messages between nodes, of a type; all that is left out does not matter."""
        return [
            (step, effect)
            for step in self.select(sender)
            for effect in step.effects
            if isinstance(effect, Send)
            and receiver in (None, effect.receiver)
            and kind in (None, type(effect.message).__name__)
        ]

    # -- stories

    def cause(self, step: Step) -> Step | None:
        """The step that sent the message, or set the timer; None for what came from outside."""
        match step.stimulus:
            case Received() | TimerFired():
                return self.steps[bisect_left(self._scheduled, step.number) - 1]
            case SendFailed():
                return self._sender(step)
        return None

    def _sender(self, failed: Step) -> Step | None:
        before = self.steps[: bisect_left(self._scheduled, failed.number)]
        sent = (s for s in reversed(before) if s.node == failed.node and any(_led_to(e, failed) for e in s.effects))
        return next(sent, None)

    def story(self, step: Step, effect: Effect | None = None) -> str:
        """Why a step was taken, or why it had an effect, cause by cause; a line each, back to the beginning."""
        if not self._keep:
            raise SimulationError("this trace did not keep its steps; make it with keep=True")
        lines = []
        while True:
            lines.append(_sentence(step, effect))
            cause = self.cause(step)
            if cause is None:
                return "\n".join(lines)
            step, effect = cause, next(effect for effect in cause.effects if _led_to(effect, step))


def _text(step: Step) -> str:
    return f"{step.time!r} {step.number} {step.node!r} {step.stimulus!r} {[*step.effects]!r}\n"


def _led_to(effect: Effect, step: Step) -> bool:
    match step.stimulus, effect:
        case (Received(_, heard), Send(receiver, message)):
            return message is heard and receiver == step.node
        case (Received(_, heard), Broadcast(message)):
            return message is heard
        case (SendFailed(to, lost), Send(receiver, message)):
            return message is lost and receiver == to
        case (TimerFired(fired), SetTimer(timer, _)):
            return timer == fired
    return False


def _sentence(step: Step, effect: Effect | None) -> str:
    begin = f"t={step.time:g} {step.node}"
    if effect is None:
        return f"{begin} {_happened(step.stimulus)}"
    return f"{begin} {_did(effect)}, because it {_happened(step.stimulus)}"


def _did(effect: Effect) -> str:
    match effect:
        case Send(receiver, message, why):
            return f"sent {_name(message)} to {receiver}{f' ({why})' if why else ''}"
        case Broadcast(message, why):
            return f"broadcast {_name(message)}{f' ({why})' if why else ''}"
        case SetTimer(timer, seconds):
            return f"set timer {timer!r} for {seconds:g} s"
        case Deliver(notification):
            return f"delivered {_name(notification)}"
        case Report(fact):
            return f"reported {_name(fact)}"
    return repr(effect)


def _happened(stimulus: Stimulus) -> str:
    match stimulus:
        case Started():
            return "started"
        case Received(sender, message):
            return f"received {_name(message)} from {sender}"
        case TimerFired(timer):
            return f"saw timer {timer!r} fire"
        case Asked(request):
            return f"was asked for {_name(request)}"
        case LinkUp(peer):
            return f"got a link to {peer}"
        case LinkDown(peer):
            return f"lost the link to {peer}"
        case SendFailed(receiver, message):
            return f"learnt that {_name(message)} did not reach {receiver}"


def _name(message: object) -> str:
    """The type of a message is what people know it by; plain values are their own name."""
    return type(message).__name__ if isinstance(message, msgspec.Struct) else repr(message)
