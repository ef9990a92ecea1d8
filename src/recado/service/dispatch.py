"""Dispatch: stored events, in the order of the log, to the desk; and what the desk wants done, to the legs.

Events are matched some hundred at a time, each slice in a turn of the loop of its own, so that connections are served
in between. Everything before ``position`` is dispatched. After a start the log has events that are not
(``catching_up``); they are read back and dispatched first, and what is stored meanwhile follows them.

A fault inside, at one event or one subscription, stays there: it is logged and counted in ``faults``, and the owner of
a subscription that was not given an event is told of a gap.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from time import perf_counter

from recado.delivery.desk import ORDINAL_BITS, Desk, Faults
from recado.delivery.mailbox import Note
from recado.delivery.notices import Notice
from recado.delivery.sessions import Close, Effect, Push, Tell
from recado.delivery.standing import Standing
from recado.model.event import Event
from recado.model.times import format_time
from recado.protocols.session.messages import Gap, SubCancelled
from recado.service.canary import ServiceCanary
from recado.service.intake import Stored
from recado.service.legs import Notified
from recado.service.matching import Matcher, Told
from recado.service.metrics import Metrics

SLICE = 256
BACKLOG = 8_192
"""With so many events waiting to be dispatched, publishers wait."""
_log = logging.getLogger("recado.service")


class Dispatcher:
    """``changed`` is called when something is to be kept, ``left`` with each subscription that ended, ``drained`` when
    events were taken from the backlog, ``rebuild`` when a new index is needed; ``resume`` is called when it is there.
    """

    def __init__(
        self,
        desk: Desk,
        loop: AbstractEventLoop,
        metrics: Metrics,
        *,
        clock: Callable[[], datetime],
        changed: Callable[[], None],
        left: Callable[[Standing], None],
        drained: Callable[[], None],
        canary: ServiceCanary,
        rebuild: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.matcher: Matcher  # it comes with recovery
        self._loop, self._metrics = loop, metrics
        self._clock, self._changed, self._left, self._drained = clock, changed, left, drained
        self.position = 0
        self.end = 0  # of what is stored, as far as the loop has heard
        self.catching_up = True
        self.faults = 0
        self._canary, self._rebuild = canary, rebuild
        self._held_up = False  # until there is a new index
        self._queue: deque[Stored] = deque()
        self._offset = 0  # of the first in the queue, how many are dispatched
        self._scheduled = False
        self._performing = False
        self._text: tuple[datetime, str] | None = None

    @property
    def backlog(self) -> int:
        return 0 if self.catching_up else self.end - self.position

    def throttled(self) -> bool:
        return self.backlog > BACKLOG

    def stored(self, stored: Stored) -> None:
        """These were committed."""
        self.end = stored.first + len(stored.events)
        if not self.catching_up:
            self._queue.append(stored)
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._step)

    def caught_up(self) -> None:
        """All that is stored is dispatched; from now on commits come here at once."""
        self.catching_up = False

    def resume(self) -> None:
        """Go on, after a new index was built."""
        self._held_up = False
        if self._queue:
            self._scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        stored, offset = self._queue[0], self._offset
        stop = min(offset + SLICE, len(stored.events))
        part = slice(offset, stop)
        try:
            self.dispatch(stored.first + offset, stored.at, stored.events[part], stored.texts[part])
        except Exception:  # noqa: BLE001  # later events must not wait for ever
            self.faults += 1
            _log.exception("events %d to %d could not be dispatched", stored.first + offset, stored.first + stop - 1)
            self.position = stored.first + stop
        if self._held_up:
            self._rebuild()
            return
        self._offset = stop
        if stop == len(stored.events):
            self._queue.popleft()
            self._offset = 0
        self._scheduled = bool(self._queue)
        if self._scheduled:
            self._loop.call_soon(self._step)
        self._drained()

    def dispatch(self, first: int, at: datetime, events: Sequence[Event], texts: Sequence[bytes]) -> None:
        """Match events with consecutive positions, accepted at one instant, and send what becomes of them.

        If the index turns out to be wrong, nothing becomes of them, and ``resume`` dispatches them again.
        """
        begun, faults = perf_counter(), self.faults
        found = self._matched(first, events)
        took = perf_counter() - begun
        self._metrics.match_seconds.observe(took)
        self._canary.matched(took)
        known = not self.catching_up and self.faults == faults  # what could not be matched was told of
        if known and self._canary.compare(self.matcher, first, events, found):
            self._held_up = True
            return
        desk = self.desk
        count = sum(self._give(first + number, at, texts[number], ids) for number, ids in enumerate(found) if ids)
        self.position = first + len(events)
        self._metrics.dispatched += len(events)
        self._metrics.matched += count
        if count or desk.leaving:
            desk.flush(at)
            self.forget_ended()
        self.perform()
        self._changed()

    def _give(self, position: int, at: datetime, text: bytes, ids: list[str]) -> int:
        """Give an event to the subscriptions that it matched; how many notifications that are."""
        standings = self.desk.standings
        faults: Faults = []
        try:
            matched = [standings[serial] for id in ids if (serial := int(id)) in standings]
            count = self.desk.publish(position, text, at, matched, faults)
        except Exception:  # noqa: BLE001  # one event's fault must not become everybody's
            self.faults += 1
            _log.exception("the event at position %d could not be dispatched", position)
            return 0
        for standing, error in faults:
            self.faults += 1
            whose = (position, standing.id, standing.user.name)
            _log.error("the event at %d could not be given to subscription %r of user %r", *whose, exc_info=error)
        return count

    def _matched(self, first: int, events: Sequence[Event]) -> list[list[str]]:
        try:
            return self.matcher.match_many(events)
        except Exception:  # noqa: BLE001  # one event's fault must not become everybody's
            _log.exception("matching failed; the events are matched one by one")
        found: list[list[str]] = []
        for number, event in enumerate(events):
            try:
                found.append(self.matcher.match(event))
            except Exception:  # noqa: BLE001  # see above
                self.faults += 1
                _log.exception("the event at position %d cannot be matched", first + number)
                found.append([])
        return found

    def forget_ended(self) -> None:
        """Take out of the matcher what has ended, unless events from before its end are still to be dispatched."""
        if self.catching_up or not self.desk.leaving:
            return
        ended, self.desk.leaving = self.desk.leaving, []
        for standing in ended:
            if standing.until > self.position:
                self.desk.leaving.append(standing)
                continue
            self.matcher.remove(str(standing.serial))
            self._left(standing)

    # -- effects -------------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Do what the desk wants done. Legs may call back while it happens; that joins the end of the work."""
        if self._performing:
            return
        self._performing = True
        try:
            while self.desk.effects:
                for effect in self.desk.take_effects():
                    self._do(effect)
        finally:
            self._performing = False
        if self.desk.dropped:
            self._metrics.by["dropped"].update(self.desk.dropped)
            self.desk.dropped = {}

    def _do(self, effect: Effect) -> None:
        try:
            if type(effect) is Push:
                self._push(effect)
            elif type(effect) is Tell:
                effect.leg.notice([_message(notice) for notice in effect.notices])
            elif type(effect) is Close:
                self._metrics.by["sessions_closed"][effect.reason] += 1
                effect.leg.close(effect.reason)
        except Exception:  # noqa: BLE001  # one connection's fault must not become everybody's
            _log.exception("a connection failed in a way that nobody foresaw; it is given up")
            self.desk.lost(effect.leg, self._clock())
            with suppress(Exception):  # else its device would wait on it for ever
                effect.leg.close("failed")

    def _push(self, effect: Push) -> None:
        leg, notes, fresh = effect
        self._metrics.notified += len(notes)
        leg.push([self.notified(note, note.nid < fresh) for note in notes])

    def notified(self, note: Note, queued: bool) -> Notified:
        text = self._text
        if text is None or text[0] is not note.at:
            text = self._text = note.at, format_time(note.at)
        event, why = self._told(note) if self.matcher.telling else (note.event, b"")
        return Notified(note.nid, note.sub_id, event, text[1], queued, why=why)

    def _told(self, note: Note) -> Told:
        """The event as the subscription wants it, if that is still there."""
        standing = note.box.user.ordinals.get(note.nid & (1 << ORDINAL_BITS) - 1)
        if standing is None or not standing.since <= note.nid >> ORDINAL_BITS < standing.until:
            return Told(note.event)  # its ordinal may have passed to another one
        return self.matcher.told(note.event, str(standing.serial))


def _message(notice: Notice) -> Gap | SubCancelled:
    if notice.is_gap:
        return Gap(notice.id, notice.count, tuple(notice.nids), notice.reason)  # type: ignore[arg-type]  # one of them
    return SubCancelled(notice.id, notice.sub_ids, notice.reason)
