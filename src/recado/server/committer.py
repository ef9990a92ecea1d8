"""The log committer: events in, positions out, one fsync for all that came while the last one ran.

``put`` queues a publication. While a commit is under way in the log's thread, others gather; when it is done they are
committed together, and so on: under load an fsync carries more, and one publisher alone waits for nobody. The caller's
``done`` is called on the loop after the fsync, with the positions, or with the error if nothing was stored.

What a user sends again is recognised (``recado.broker.dedup``) and not stored twice.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from time import perf_counter
from typing import Any

import msgspec

from recado.broker.dedup import SeenEvent, SeenEvents
from recado.errors import LimitError, RecadoError
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.limits import Limits
from recado.model.tracing import TRACEPARENT, TRACESTATE, without_trace
from recado.model.values import microseconds
from recado.server.metrics import Metrics
from recado.server.permissions import Busy
from recado.store.log.rows import Entry
from recado.store.protocols import EventLog

_log = logging.getLogger("recado.server")
_encode = msgspec.json.Encoder().encode
_UNANSWERED = "unexpected error while answering a publisher"
Done = Callable[[Sequence[int] | RecadoError], None]


class Publication:
    __slots__ = ("done", "entries", "events", "fresh", "seen", "since", "size", "user")

    def __init__(
        self, user: str, events: Sequence[Event], entries: list[Entry], seen: list[SeenEvent], done: Done
    ) -> None:
        self.user = user
        self.events = events  # those to be stored
        self.entries = entries
        self.seen = seen  # of all, in the order in which they were given
        self.fresh = len(events) == len(seen)
        self.done = done
        self.size = sum(len(entry[4]) for entry in entries)
        self.since = perf_counter()

    def place(self, positions: range) -> Sequence[int]:
        """The positions of all its events, now that those to be stored have these; a range, if they can be one."""
        if self.fresh:
            for seen, position in zip(self.seen, positions, strict=True):
                seen.position = position
            return positions
        new = iter(positions)
        for seen in self.seen:
            if seen.position < 0:
                seen.position = next(new)
        found = [seen.position for seen in self.seen]
        whole = range(found[0], found[0] + len(found))
        return whole if list(whole) == found else found


class CommittedGroup:
    """What one commit has stored, in the order of positions; ``heard`` is when the loop learnt of it."""

    __slots__ = ("at", "events", "first", "heard", "texts", "users")

    def __init__(self, first: int, at: datetime, events: list[Event], texts: list[bytes], users: list[str]) -> None:
        self.first = first
        self.at = at
        self.events = events
        self.texts = texts
        self.users = users  # who published each
        self.heard = 0.0

    @property
    def end(self) -> int:
        return self.first + len(self.events)


class LogCommitter:
    """``committed`` is called on the loop after each commit; while ``throttled()`` no commit begins. ``check`` raises
    what stands against a commit; it is called in the log's thread.
    """

    def __init__(
        self,
        log: EventLog,
        loop: AbstractEventLoop,
        metrics: Metrics,
        *,
        limits: Limits,
        commit_events: int,
        waiting_bytes: int,
        committed: Callable[[CommittedGroup], None],
        throttled: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._log, self._loop, self._metrics = log, loop, metrics
        self._limits = limits
        self._commit_events, self._waiting_bytes = commit_events, waiting_bytes
        self._tell_committed, self._throttled, self._check = committed, throttled, check
        self._waiting: deque[Publication] = deque()
        self._bytes = 0
        self._busy = self._scheduled = False
        self._thread = ThreadPoolExecutor(1, "recado-log")
        self._seen = SeenEvents()
        self.trouble = ""

    @property
    def idle(self) -> bool:
        return not self._busy and not self._waiting

    def close(self) -> None:
        """Call it when idle."""
        self._thread.shutdown()

    def remember(self, event_id: str, text: bytes, position: int) -> None:
        """An event of the log, from before this start."""
        if b'"%b"' % TRACEPARENT.encode() in text or b'"%b"' % TRACESTATE.encode() in text:
            text = _content(read_event(text), text)
        self._seen.remember(event_id, text, position)

    def put(self, user: str, events: Sequence[Event], done: Done) -> None:
        """Store the events of a user, all or none; an error that ``done`` gets says why not.

        They are as the codec leaves them, and so within the limits; only their size as they are stored is looked at.
        """
        if self._bytes > self._waiting_bytes:
            raise Busy("more events wait to be stored than the service may hold; try again in a moment")
        entries = [_entry(event, self._limits) for event in events]
        publication = self._deduplicate(user, events, entries, done)
        self._bytes += publication.size
        self._waiting.append(publication)
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.resume)  # with all that came in this turn of the loop

    def _deduplicate(self, user: str, events: Sequence[Event], entries: list[Entry], done: Done) -> Publication:
        """Leave out what is stored already, or about to be."""
        contents = [_content(event, entry[4]) for event, entry in zip(events, entries, strict=True)]
        seen, again = self._seen.look_up(user, [event.id for event in events], contents)
        if again:
            events = [event for number, event in enumerate(events) if number not in again]
            entries = [entry for number, entry in enumerate(entries) if number not in again]
        return Publication(user, events, entries, seen, done)

    # -- commits -------------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Begin a commit if there is something to commit and none runs."""
        self._scheduled = False
        if self._busy or not self._waiting or self._throttled():
            return
        group, count = [], 0
        while self._waiting and count < self._commit_events:
            group.append(self._waiting.popleft())
            count += len(group[-1].entries)
        self._busy = True
        self._thread.submit(self._commit, group)

    def _commit(self, group: list[Publication]) -> None:
        """In the log's thread."""
        begun = perf_counter()
        try:
            self._check()
            ranges = self._log.commit([publication.entries for publication in group])
            at = self._log.latest
        except Exception as error:  # noqa: BLE001  # whatever it is, the publishers must hear of it
            self._loop.call_soon_threadsafe(self._fail, group, error)
        else:
            self._loop.call_soon_threadsafe(self._finish, group, ranges, at, perf_counter() - begun)

    def probe(self) -> None:
        """After a failure: look whether the log can be written again, so that the trouble is told no longer than it
        lasts, also if nobody publishes.
        """
        if self.trouble and self.idle:
            self._busy = True
            self._thread.submit(self._commit, [])

    def _finish(self, group: list[Publication], ranges: list[range], at: datetime, took: float) -> None:
        self.trouble = ""
        self._busy = False
        if not group:  # a probe
            self.resume()
            return
        self._bytes -= sum(publication.size for publication in group)
        self.resume()  # the disk works while the loop answers
        events: list[Event] = []
        texts: list[bytes] = []
        users: list[str] = []
        for publication, positions in zip(group, ranges, strict=True):
            events += publication.events
            users += [publication.user] * len(publication.events)
            texts += [entry[4] for entry in publication.entries]
            found = publication.place(positions)
            try:
                publication.done(found)
            except Exception:  # noqa: BLE001  # one publisher's fault must not become everybody's
                _log.exception(_UNANSWERED)
        self._count(group, texts, took)
        if events:
            self._tell_committed(CommittedGroup(ranges[0].start, at, events, texts, users))

    def _fail(self, group: list[Publication], error: Exception) -> None:
        """Nothing of the group is stored, and it is not remembered as sent."""
        self._busy = False
        self.trouble = f"events cannot be stored: {error}"
        self._metrics.by["refused"]["storage"] += sum(len(publication.events) for publication in group)
        self._seen.forget_unstored()
        group += self._waiting  # some may rely on events of this group
        self._waiting.clear()
        self._bytes = 0
        for publication in group:
            try:
                publication.done(Busy(f"{self.trouble}; nothing was stored, try again later"))
            except Exception:  # noqa: BLE001  # see _finish
                _log.exception(_UNANSWERED)

    def _count(self, group: list[Publication], texts: list[bytes], took: float) -> None:
        metrics, now = self._metrics, perf_counter()
        metrics.commits += 1
        metrics.commit_seconds.observe(took)
        metrics.published += len(texts)
        metrics.published_bytes += sum(map(len, texts))
        for publication in group:
            metrics.publish_seconds.observe(now - publication.since, len(publication.seen))


def _content(event: Event, text: bytes) -> bytes:
    """What tells an event from another one of the same id: its text, without the trace within which it was sent."""
    plain = without_trace(event)
    return text if plain is event else write_flat(plain)


def _entry(event: Event, limits: Limits) -> Entry:
    """The event as the log takes it."""
    text = _encode(members) if (members := _simple(event)) is not None else write_flat(event)
    if len(text) > limits.event_bytes:
        raise LimitError(f"event {event.id[:80]!r} has {len(text):,} bytes; the limit is {limits.event_bytes:,}")
    time = None if event.time is None else microseconds(event.time)
    return time, event.id.encode(), event.type.encode(), event.source.encode(), text


def _simple(event: Event) -> dict[str, Any] | None:
    """What ``to_flat`` gives, at once, for an event of which every value is written as it is; None for another."""
    if event.time is not None or event.extensions or not event.type or not event.source:
        return None
    attributes = event.attributes
    for value in attributes.values():
        kind = type(value)
        if kind is not str and kind is not int and kind is not bool:
            return None
    if "specversion" in attributes or "$extensions" in attributes:
        return None
    return {"id": event.id, "type": event.type, "source": event.source, **attributes}
