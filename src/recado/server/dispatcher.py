"""Dispatch: stored events, in the order of the log, to the desk; and what the desk wants done, to the legs.

Events are matched some hundred at a time, in turns of the loop of at most ``TURN_SECONDS``, about: connections are
served in between. What would take longer than a turn is cut (``Matcher.sifting``) or leaves the loop
(``recado.server.verification``). Events are given to the desk one by one in the order of the log, each as a whole and
when all is decided about it, so whatever is kept in between accounts for whole events: everything before ``position``
is dispatched. After a start the log has events that are not (``catching_up``); they are read back and dispatched first,
and what is stored meanwhile follows them.

A fault inside, at one event or one subscription, stays there: it is logged and counted in ``faults``, and the owner of
a subscription that was not given an event is told of a gap.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import TypeVar

from recado.broker.core import ORDINAL_BITS, Desk, Faults
from recado.broker.mailbox import Dropped, Note, Notice
from recado.broker.state import Close, Effect, Push, Standing, Tell
from recado.matching.undecided import Sifted, Undecided, is_narrow
from recado.model.event import Event
from recado.model.values import format_time
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server.canary import ServiceCanary
from recado.server.committer import Stored
from recado.server.consumer import Notified
from recado.server.matching import Matcher, Told
from recado.server.metrics import Metrics
from recado.server.verification import PATIENCE_SECONDS, Budgets, Case, Verifier

T = TypeVar("T")
SLICE = 256
"""Events that are matched at a time; fewer, when a slice of them has taken longer than a turn."""
TURN_SECONDS = 0.01
GIVEN = 1_000
"""Subscriptions that are given an event, or told of a gap, at a time."""
BACKLOG = 8_192
"""With so many events waiting to be dispatched, publishers wait."""
_log = logging.getLogger("recado.server")


class Dispatcher:
    """``changed`` is called when something is to be kept, ``left`` with each subscription that ended, ``drained`` when
    events were taken from the backlog, ``rebuild`` when a new index is needed; ``resume`` is called when it is there.
    ``timer`` measures turns.
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
        budgets: Budgets,
        timer: Callable[[], float] = perf_counter,
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
        self._slice = SLICE
        self._running: asyncio.Task[None] | None = None
        self._behind: float | None = None  # since when events wait behind the one in hand, besides those in the queue
        self._publisher: str | None = None  # who pays for this turn
        self._sole = False  # has one user all the subscriptions?
        self._timer, self._turn = timer, 0.0
        self.whole = True  # is no event in the middle of being given to subscriptions?
        self.hurried = False  # over budgets nobody is waited for any more
        self.verifier = Verifier(budgets, metrics, owner=self._owner, waiting=self._waiting)
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
            stored.heard = self._loop.time()
            self._queue.append(stored)
            self._begin()

    def caught_up(self) -> None:
        """All that is stored is dispatched; from now on commits come here at once."""
        self.catching_up = False

    def resume(self) -> None:
        """Go on, after a new index was built."""
        self._held_up = False
        self._begin()

    def _begin(self) -> None:
        if self._queue and self._running is None and not self._held_up:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        """Dispatch what is in the queue, until it is empty."""
        while self._queue:
            stored, offset = self._queue[0], self._offset
            stop, publisher = self._next(stored, offset)
            part = slice(offset, stop)
            more = stop < len(stored.events)
            rows = stored.first + offset, stored.at, stored.events[part], stored.texts[part]
            try:
                await self.dispatch(*rows, heard=stored.heard, more=more, publisher=publisher)
            except Exception:  # noqa: BLE001  # later events must not wait for ever
                self.faults += 1
                first, last = stored.first + offset, stored.first + stop - 1
                _log.exception("events %d to %d could not be dispatched", first, last)
                self.position = stored.first + stop
            if self._held_up:
                self._rebuild()
                break
            self._offset = stop
            if stop == len(stored.events):
                self._queue.popleft()
                self._offset = 0
            self._drained()
            if self._queue:
                await self._pause()
        self._running = None

    def _next(self, stored: Stored, start: int) -> tuple[int, str | None]:
        """Up to where events are matched together. One with many views or long strings is matched alone, at the expense
        of its publisher, who is named.
        """
        stop = min(start + self._slice, len(stored.events))
        wide = next((at for at in range(start, stop) if not is_narrow(stored.events[at])), stop)
        return (wide, None) if wide > start else (start + 1, stored.users[start])

    async def dispatch(
        self,
        first: int,
        at: datetime,
        events: Sequence[Event],
        texts: Sequence[bytes],
        *,
        heard: float,
        more: bool,
        publisher: str | None = None,
    ) -> None:
        """Match events with consecutive positions, accepted at one instant, and send what becomes of them.

        ``heard`` is since when they have waited, by the loop's clock; ``more`` tells of others like them. A
        ``publisher`` is charged with the time that the loop takes. If the index turns out to be wrong, nothing
        becomes of the events, and ``resume`` dispatches them again.
        """
        self._turn, faults = self._timer(), self.faults
        self._publisher = publisher
        sifted = await self._sifted(first, events, texts, publisher)
        undecided = {number: list(some) for number, some in groupby(sifted.undecided, attrgetter("event"))}
        known = not self.catching_up and self.faults == faults  # what could not be matched was told of
        if known and self._canary.compare(self.matcher, first, events, sifted.found, partial(_ids_in, undecided)):
            self._held_up = True
            return
        self.verifier.begin()
        for number, ids in enumerate(sifted.found):
            if number in undecided:
                self._behind = heard if more or number + 1 < len(events) else None
                ids = await self._decided(first + number, at, ids, undecided[number])
            if ids:
                row = first + number, at, texts[number]
                many = len(ids) > GIVEN
                count = await self._give_many(*row, ids) if many else self._give(*row, self._standings(ids))
                self._metrics.matched += count
            self.position = first + number + 1
            self._metrics.dispatched += 1
            if self._is_over():
                self._send(at)
                await self._pause()
        self._send(at)
        self._end_turn()
        self._publisher = None

    def _send(self, at: datetime) -> None:
        """Send what the desk was given."""
        self.desk.flush(at)
        if self.desk.leaving:
            self.forget_ended()
        self.perform()
        self._changed()

    def _is_over(self) -> bool:
        """Has this turn been long enough?"""
        return self._timer() - self._turn >= TURN_SECONDS

    async def _pause(self) -> None:
        """Let others have the loop; a new turn begins."""
        self._end_turn()
        await asyncio.sleep(0)
        self._turn = self._timer()

    def _end_turn(self) -> None:
        took = self._timer() - self._turn
        self._metrics.turn_seconds.observe(took)
        if self._publisher is not None:
            self.verifier.charge(self._publisher, took)

    async def _sifted(
        self, first: int, events: Sequence[Event], texts: Sequence[bytes], publisher: str | None
    ) -> Sifted:
        """What the kernels find, in as many turns as it takes."""
        try:
            return await self._sift(events, texts, publisher)
        except Exception:  # noqa: BLE001  # one event's fault must not become everybody's
            _log.exception("matching failed; the events are matched one by one")
        found: list[list[str]] = []
        undecided: list[Undecided] = []
        for number, event in enumerate(events):
            try:
                sifted = await self._sift([event], None)
                found += sifted.found
                undecided += [one._replace(event=number) for one in sifted.undecided]
            except Exception:  # noqa: BLE001  # see above
                self.faults += 1
                _log.exception("the event at position %d cannot be matched", first + number)
                found.append([])
        return Sifted(found, undecided)

    async def _sift(
        self, events: Sequence[Event], texts: Sequence[bytes] | None, publisher: str | None = None
    ) -> Sifted:
        sifting = self.matcher.sifting(events, texts)
        took = longest = 0.0
        while True:
            begun = self._timer()
            try:
                next(sifting)
            except StopIteration as end:
                sifted: Sifted = end.value
                break
            finally:
                step = self._timer() - begun
                took, longest = took + step, max(longest, step)
            if self._is_over():
                await self._pause()
        self._metrics.match_seconds.observe(took)
        self._canary.matched(took)
        if self._is_over():
            await self._pause()
        if publisher is not None:
            pass  # what one event takes says nothing about others
        elif longest > TURN_SECONDS:
            self._slice = max(len(events) // 2, 1)
        elif longest < TURN_SECONDS / 4 and len(events) == self._slice < SLICE:
            self._slice *= 2
        return sifted

    async def _decided(self, position: int, at: datetime, ids: list[str], undecided: list[Undecided]) -> list[str]:
        """All ids that an event matches; the owners of those that nobody knows of are told."""
        case = Case(undecided)
        owner = self._owner(undecided[0].ids[0][0])
        self._sole = owner is not None and len(self.desk.users[owner].standings) >= self.desk.active
        if not self.verifier.decide_quickly(case):
            self._send(at)
            self._end_turn()
            await self.verifier.decide(case)
            self._turn = self._timer()
        elif self._is_over():
            await self._pause()
        verdict = case.verdict
        matched = dict.fromkeys(ids + verdict.matched)
        self.faults += bool(verdict.failed)
        await self._pass_over(position, at, _without(verdict.failed, matched), "damaged")
        await self._pass_over(position, at, _without(verdict.refused, matched), "budget")
        return list(matched)

    async def _pass_over(self, position: int, at: datetime, ids: Sequence[str], reason: Dropped) -> None:
        """Tell of a gap. If the process dies in the middle of it, some are told again, which does no harm."""
        async for some in self._in_turns(ids):
            self.desk.pass_over(position, at, self._standings(some), reason)

    def slows(self, user: str) -> bool:
        """Should events of this user that take long wait, since others do and the user is over the budget?"""
        late = bool(self._queue) and self._loop.time() - self._queue[0].heard >= PATIENCE_SECONDS
        return late and self.verifier.is_over(user)

    def _owner(self, id: str) -> str | None:
        standing = self.desk.standings.get(int(id))
        return None if standing is None else standing.user.name

    def _waiting(self) -> float:
        """For how many seconds events have waited behind the one in hand; less than 0 if nobody is to be refused.

        That is so if nobody else could want the events, and while there are no kernels yet: every filter is evaluated
        then, and whoever has it is not to pay for that. Any thread may ask.
        """
        if not self.matcher.is_compiled:
            return -1.0
        if self.hurried:
            return PATIENCE_SECONDS
        if self._sole:
            return -1.0
        since = self._behind
        if since is None:
            if len(self._queue) < 2:
                return 0.0
            since = self._queue[1].heard
        return self._loop.time() - since

    async def _give_many(self, position: int, at: datetime, text: bytes, ids: Sequence[str]) -> int:
        """Give an event to so many subscriptions that it takes several turns; nothing is kept in between."""
        matched: list[Standing] = []
        async for part in self._in_turns(ids):
            matched += self._standings(part)
        matched.sort(key=attrgetter("ordinal"))  # nids of one user grow
        count = 0
        self.whole = False
        async for some in self._in_turns(matched):
            count += self._give(position, at, text, list(some))
        self.whole = True  # not in the end of a task that is cancelled
        return count

    def _standings(self, ids: Sequence[str]) -> list[Standing]:
        """Those that are still there."""
        standings = self.desk.standings
        return [standings[serial] for id in ids if (serial := int(id)) in standings]

    def _give(self, position: int, at: datetime, text: bytes, matched: list[Standing]) -> int:
        """Give an event to the subscriptions that it matched; how many notifications that are."""
        faults: Faults = []
        try:
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

    async def _in_turns(self, items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """Some at a time, with pauses where a turn is over."""
        for start in range(0, len(items), GIVEN):
            if start and self._is_over():
                await self._pause()
            yield items[start : start + GIVEN]

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


def _ids_in(undecided: Mapping[int, Sequence[Undecided]], number: int) -> set[str]:
    """The subscriptions about which nothing is known for one of the events."""
    return {id for group in undecided.get(number, ()) for ids in group.ids for id in ids}


def _without(ids: Sequence[str], others: Container[str]) -> list[str]:
    """Each once, and none of the others."""
    return [id for id in dict.fromkeys(ids) if id not in others]


def _message(notice: Notice) -> Gap | SubCancelled:
    if notice.is_gap:
        return Gap(notice.id, notice.count, tuple(notice.nids), notice.reason)  # type: ignore[arg-type]  # one of them
    return SubCancelled(notice.id, notice.sub_ids, notice.reason)
