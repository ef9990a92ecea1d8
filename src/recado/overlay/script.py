"""Scripts of operations on an overlay, one after another, each when the one before has come to rest.

One JSON object a line: ``node``, and a request of the control socket (``recado.overlay.control``) that an application
could make. Subscriptions of a script are kept until it unsubscribes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from recado.overlay.errors import OverlayError
from recado.overlay.watch import Watch

Operation = Literal["subscribe", "unsubscribe", "publish", "become-publisher", "become-broker"]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    node: str
    do: Operation
    subscription: dict[str, Any] | None = None
    event: dict[str, Any] | None = None
    id: str | None = None
    type: str | None = None

    def fields(self) -> dict[str, Any]:
        """What belongs to the request, besides its name."""
        values = {name: getattr(self, name) for name in ("subscription", "event", "id", "type")}
        follow = {"follow": False} if self.do == "subscribe" else {}
        return {name: value for name, value in values.items() if value is not None} | follow


class Delivered(msgspec.Struct, frozen=True, order=True):
    node: str
    event: str
    subscriptions: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What a step led to: messages by kind, and deliveries in the order of the nodes."""

    step: Step
    messages: dict[str, int]
    deliveries: tuple[Delivered, ...]


def read_script(path: Path) -> list[Step]:
    """The steps of a script; an OverlayError names the line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise OverlayError(f"{path}: cannot be read: {error.strerror}") from None
    steps = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            steps.append(msgspec.json.decode(line, type=Step))
        except msgspec.DecodeError as error:
            raise OverlayError(f"{path}, line {number}: {error}") from None
    return steps


def perform(watch: Watch, steps: Iterable[Step]) -> Iterator[Outcome]:
    """Carry out the steps on running nodes."""
    watch.quiet(timers=True)
    sent, seen = watch.sent(), _delivered(watch)
    for step in steps:
        watch.ask(step.node, step.do, **step.fields())
        watch.quiet(timers=True)
        now, all = watch.sent(), _delivered(watch)
        messages = {kind: count - sent[kind] for kind, count in sorted(now.items()) if count > sent[kind]}
        new = tuple(one for node, them in all.items() for one in them[len(seen[node]) :])
        sent, seen = now, all
        yield Outcome(step, messages, tuple(sorted(new)))


def _delivered(watch: Watch) -> dict[str, list[Delivered]]:
    told = watch.all("deliveries")
    return {node: [Delivered(node, d["event"], tuple(d["subscriptions"])) for d in them] for node, them in told.items()}
