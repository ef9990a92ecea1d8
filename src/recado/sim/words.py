"""Steps in words: a sentence for the story of a message, a line with everything for the trace of a node.

A story calls messages by their types, which is what people know them by. A line shows their fields, without those that
are empty, and what a node passes on as it came is not told twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
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
from recado.sim.kernel import Step

Name = Callable[[Any], str]

EMPTY: tuple[object, ...] = (None, "", (), [], {})


def sentence(step: Step, effect: Effect | None) -> str:
    """What a node did, and why; or what happened to it."""
    begin, happened = f"t={step.time:g} {step.node}", _happened(step.stimulus, _short)
    return f"{begin} {happened}" if effect is None else f"{begin} {_did(effect, _short)}, because it {happened}"


def whole_line(step: Step) -> str:
    heard = step.stimulus.message if isinstance(step.stimulus, Received) else None

    def name(message: Any) -> str:
        return "the same" if heard is not None and message == heard else _whole(message)

    did = "; ".join(_did(effect, name) for effect in step.effects) or "nothing"
    return f"t={step.time:g} {step.node}: {_happened(step.stimulus, _whole)} -> {did}"


def _did(effect: Effect, name: Name) -> str:
    match effect:
        case Send(receiver, message, why):
            return f"sent {name(message)} to {receiver}{_reason(why)}"
        case Broadcast(message, why):
            return f"broadcast {name(message)}{_reason(why)}"
        case SetTimer(timer, seconds):
            return f"set timer {timer!r} for {seconds:g} s"
        case CancelTimer(timer):
            return f"cancelled timer {timer!r}"
        case Deliver(notification):
            return f"delivered {name(notification)}"
        case Report(fact):
            return f"reported {name(fact)}"
        case Persist(key, value):
            return f"forgot {key!r}" if value is None else f"saved {key!r}: {value!r}"


def _reason(why: str) -> str:
    return f" ({why})" if why else ""


def _happened(stimulus: Stimulus, name: Name) -> str:
    match stimulus:
        case Started(neighbours, saved):
            return "started" + _listed(" with links to ", neighbours) + _listed(" and saved ", tuple(saved))
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


def _listed(begin: str, things: tuple[NodeId, ...]) -> str:
    return begin + ", ".join(map(str, things)) if things else ""


def _short(message: object) -> str:
    return type(message).__name__ if isinstance(message, msgspec.Struct) else repr(message)


def _whole(message: object) -> str:
    if not isinstance(message, msgspec.Struct):
        return repr(message)
    fields = [(name, getattr(message, name)) for name in message.__struct_fields__]
    return f"{type(message).__name__}({', '.join(f'{name}={_whole(v)}' for name, v in fields if v not in EMPTY)})"
