"""The requests of an agent that are not answered yet, in the order in which they were made.

All of them are sent again on a new connection, with the same ``req`` (the mobility document, 8.5): the service does
each once. A replay is the exception in form: it goes on after the last event that came.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import msgspec

from recado.protocols.session.messages import (
    DiscardSubs,
    Ping,
    Publish,
    QuerySubs,
    Renew,
    Replay,
    Replayed,
    Subs,
    Subscribe,
    Unsubscribe,
)

Request: TypeAlias = Subscribe | Unsubscribe | Renew | QuerySubs | DiscardSubs | Publish | Replay | Ping


class Waiting(NamedTuple):
    """``tries`` counts how often the service was too busy for it."""

    message: Request
    ref: Any
    tries: int = 0


class Outbox:
    """``limit`` is applied by ``overflow`` only: what was sent on a connection is bounded by whoever sends it."""

    def __init__(self, first_request: int, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self.waiting: dict[int, Waiting] = {}
        self.busy: list[int] = []
        self.parts: dict[int, list[tuple[dict[str, Any], ...]]] = {}
        self._next = first_request

    def number(self) -> int:
        req = self._next
        self._next += 1
        return req

    def add(self, message: Request, ref: Any) -> None:
        self.waiting[message.req] = Waiting(message, ref)

    def take(self, req: int | None) -> Waiting | None:
        """The request that an answer belongs to; None if it was answered before."""
        return self.waiting.pop(req, None) if req is not None else None

    def joined(self, answer: Subs) -> Subs | None:
        """The whole list when its last part is here; part 0 begins one, also if it is sent a second time."""
        if answer.part == 0:
            self.parts[answer.req] = []
        parts = self.parts.get(answer.req)
        if parts is None or answer.part != len(parts):
            return None
        parts.append(answer.subs)
        if answer.more:
            return None
        del self.parts[answer.req]
        return Subs(answer.req, tuple(chain.from_iterable(parts)))

    def put_off(self, req: int, waiting: Waiting) -> None:
        """The service was too busy: keep the request, to be sent again by ``again``."""
        self.waiting[req] = waiting._replace(tries=waiting.tries + 1)
        self.busy.append(req)

    def again(self) -> list[Request]:
        """What was put off and still waits."""
        busy, self.busy = self.busy, []
        return [self.waiting[req].message for req in busy if req in self.waiting]

    def overflow(self) -> Waiting | None:
        """Make room for one more: the oldest, if there are too many."""
        if len(self.waiting) < self.limit:
            return None
        self.dropped += 1
        return self.waiting.pop(next(iter(self.waiting)))

    def clear(self) -> list[Waiting]:
        """Give up all of them."""
        given_up = list(self.waiting.values())
        self.waiting.clear()
        self.dropped += len(given_up)
        return given_up

    def all(self) -> list[Request]:
        return [waiting.message for waiting in self.waiting.values()]

    def oldest(self) -> int | None:
        """The request that waits longest; a replay may last."""
        return next((req for req, one in self.waiting.items() if not isinstance(one.message, Replay)), None)

    def streamed(self, event: Replayed) -> Waiting | None:
        """Note how far a replay has come, so that sending it again asks for the rest."""
        waiting = self.waiting.get(event.req)
        if waiting is None or not isinstance(waiting.message, Replay):
            return None
        asked = waiting.message
        if asked.position is not None and event.position < asked.position:
            return None  # sent before the connection broke, and heard already
        limit = None if asked.limit is None else asked.limit - 1
        rest = msgspec.structs.replace(asked, position=event.position + 1, since=None, limit=limit)
        self.waiting[event.req] = waiting._replace(message=rest)
        return waiting
