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
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LinkDown,
    LinkUp,
    NodeId,
    Persist,
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

# --- Steps in words: a sentence for the story of a message, a line with everything for the trace of a node -----------
#
# A story calls messages by their types, which is what people know them by. A line shows their fields, without those
# that are empty, and what a node passes on as it came is not told twice.


Name = Callable[[Any], str]

EMPTY: tuple[object, ...] = (None, "", (), [], {})


def sentence(step: Step, effect: Effect | None) -> str:
    """What a node did, and why; or what happened to it."""
    begin, happened = f"t={step.time:g} {step.node}", _describe_stimulus(step.stimulus, _short)
    return (
        f"{begin} {happened}"
        if effect is None
        else f"{begin} {_describe_effect(effect, _short)}, because it {happened}"
    )


def whole_line(step: Step) -> str:
    heard = step.stimulus.message if isinstance(step.stimulus, Received) else None

    def name(message: Any) -> str:
        return "the same" if heard is not None and message == heard else _whole(message)

    did = "; ".join(_describe_effect(effect, name) for effect in step.effects) or "nothing"
    return f"t={step.time:g} {step.node}: {_describe_stimulus(step.stimulus, _whole)} -> {did}"


def _describe_effect(effect: Effect, name: Name) -> str:
    match effect:
        case Send(receiver, message, why):
            return f"sent {name(message)} to {receiver}{_reason(why)}"
        case Broadcast(message, why):
            return f"broadcast {name(message)}{_reason(why)}"
        case SetTimer(timer, seconds):
            return f"set timer {timer!r} for {seconds:g} s"
        case CancelTimer(timer):
            return f"cancelled timer {timer!r}"
        case Connect(peer):
            return f"asked for a link to {peer}"
        case Disconnect(peer):
            return f"gave up the link to {peer}"
        case Deliver(notification):
            return f"delivered {name(notification)}"
        case Report(fact):
            return f"reported {name(fact)}"
        case Persist(key, value):
            return f"forgot {key!r}" if value is None else f"saved {key!r}: {value!r}"


def _reason(why: str) -> str:
    return f" ({why})" if why else ""


def _describe_stimulus(stimulus: Stimulus, name: Name) -> str:
    match stimulus:
        case Started(neighbours, saved):
            return "started" + _join(" with links to ", neighbours) + _join(" and saved ", tuple(saved))
        case Received(sender, message, signal):
            return f"received {name(message)} from {sender}" + ("" if signal is None else f" at {signal:.0f} dBm")
        case TimerFired(timer):
            return f"saw timer {timer!r} fire"
        case Asked(request):
            return f"was asked for {name(request)}"
        case LinkUp(peer):
            return f"got a link to {peer}"
        case LinkDown(peer):
            return f"lost the link to {peer}"
        case SendFailed(receiver, message):
            return f"learnt that {name(message)} did not reach {receiver}"


def _join(begin: str, things: tuple[NodeId, ...]) -> str:
    return begin + ", ".join(map(str, things)) if things else ""


def _short(message: object) -> str:
    return type(message).__name__ if isinstance(message, msgspec.Struct) else repr(message)


def _whole(message: object) -> str:
    if not isinstance(message, msgspec.Struct):
        return repr(message)
    fields = [(name, getattr(message, name)) for name in message.__struct_fields__]
    return f"{type(message).__name__}({', '.join(f'{name}={_whole(v)}' for name, v in fields if v not in EMPTY)})"


# --- What happened in a run: its fingerprint, its steps, and the story of any message --------------------------------


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
            yield whole_line(step)

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
        """The step that sent the message, or set the timer; None for what came from outside or is not in the trace."""
        end = bisect_left(self._scheduled, step.number)
        match step.stimulus:
            case Received() | TimerFired():
                before = self.steps[max(end - 1, 0) : end]
            case SendFailed():
                before = [earlier for earlier in self.steps[:end] if earlier.node == step.node]
            case _:
                return None
        return next((s for s in reversed(before) if any(_causes(effect, step) for effect in s.effects)), None)

    def story(self, step: Step, effect: Effect | None = None) -> str:
        """Why a step was taken, or why it had an effect, cause by cause; a line each, back to the beginning."""
        if not self._keep:
            raise SimulationError("this trace did not keep its steps; make it with keep=True")
        lines = []
        while True:
            lines.append(sentence(step, effect))
            cause = self.cause(step)
            if cause is None:
                return "\n".join(lines)
            step, effect = cause, next(effect for effect in cause.effects if _causes(effect, step))


def _text(step: Step) -> str:
    return f"{step.time!r} {step.number} {step.node!r} {step.stimulus!r} {[*step.effects]!r}\n"


def _causes(effect: Effect, step: Step) -> bool:
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
