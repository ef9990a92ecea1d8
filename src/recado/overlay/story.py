"""What a node did lately and why: a ring of steps, each a stimulus with the effects it had.

The ring is bounded in steps and in bytes (of the messages that are held by it). A step tells of a text if the text
stands anywhere in it, so the story of an event or a subscription is the steps that name its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from recado.overlay.limits import OverlayLimits
from recado.protocols.machine import Asked, Deliver, Effect, Received, Report, Send, Stimulus


class Step(msgspec.Struct, frozen=True, gc=False):
    number: int
    time: float
    stimulus: Stimulus
    effects: tuple[Effect, ...]
    size_bytes: int


class Story:
    def __init__(self, limits: OverlayLimits) -> None:
        self._limits = limits
        self._steps: deque[Step] = deque()
        self._bytes = 0
        self.count = 0

    def add(self, time: float, stimulus: Stimulus, effects: Sequence[Effect], size_bytes: int) -> None:
        self.count += 1
        self._steps.append(Step(self.count, time, stimulus, tuple(effects), size_bytes))
        self._bytes += size_bytes
        while self._bytes > self._limits.story_bytes or len(self._steps) > self._limits.story_steps:
            self._bytes -= self._steps.popleft().size_bytes

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
