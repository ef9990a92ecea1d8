"""The dispatcher follows the log: it matches stored events, in their order, and gives them to the broker.

Events that this process commits are in memory (``LogTail``), decoded; what is not there any more, or was stored before
this start, is read from the log. Whatever the source, ``position`` is all that the dispatcher needs to go on.

Events are matched some hundred at a time, in turns of the loop of at most ``TURN_SECONDS``, about: connections are
served in between. What would take longer than a turn is cut (``Matcher.sifting``) or leaves the loop
(``recado.server.verification``). Events are given to the broker in the order of the log, each as a whole and when
all is decided about it, so whatever is kept in between accounts for whole events: everything before ``position``
is dispatched. After a start the log has events that are not (``catching_up``); they are read back first.

A fault inside, at one event or one subscription, stays there: it is logged and counted in ``faults``, and the owner of
a subscription that was not given an event is told of a gap.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import TypeVar

from recado.broker.core import Broker
from recado.broker.state import DropReason, SubscriptionState
from recado.broker.stimuli import Dispatch, Matches, PassOver
from recado.matching.undecided import Sifted, Undecided, is_narrow
from recado.model.event import Event
from recado.server.canary import ServiceCanary
from recado.server.committer import CommittedGroup
from recado.server.effects import EffectRunner
from recado.server.matching import Matcher
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
TAIL_EVENTS = 4 * BACKLOG
"""So many committed events are in memory at most, unless they came with one commit."""
TOGETHER = 200
"""Events are given to the broker together up to so many matches."""
_log = logging.getLogger("recado.server")
ReadLog = Callable[[int, int], AsyncIterator[CommittedGroup]]
"""The events of ``[start, end)``, as far as they can be read, in groups that were accepted at one instant."""


class LogTail:
    """The newest groups of the log, as they were committed. The oldest go when there are too many."""

    __slots__ = ("_count", "_groups")

    def __init__(self) -> None:
        self._groups: deque[CommittedGroup] = deque()
        self._count = 0

    def append(self, group: CommittedGroup) -> None:
        groups = self._groups
        groups.append(group)
        self._count += len(group.events)
        while self._count > TAIL_EVENTS and len(groups) > 1:
            self._count -= len(groups.popleft().events)

    def find(self, position: int) -> CommittedGroup | None:
        """The group that has the event at a position, if it is here; older groups are let go."""
        groups = self._groups
        while groups and groups[0].end <= position:
            self._count -= len(groups.popleft().events)
        return groups[0] if groups and groups[0].first <= position else None

    @property
    def first(self) -> int | None:
        """The first position that is here."""
        return self._groups[0].first if self._groups else None

    def heard(self, number: int) -> float | None:
        """Since when the events of the group with this number have been here; None if there is no such group."""
        return self._groups[number].heard if number < len(self._groups) else None


class Dispatcher:
    """``mark_changed`` is called when something is to be stored, ``on_ended`` with each subscription that ended,
    ``drained`` when events were taken from the backlog, ``rebuild`` when a new index is needed; ``resume`` is called
    when it is there. ``read_log`` reads what is not in memory. ``timer`` measures turns.
    """

    def __init__(
        self,
        broker: Broker,
        runner: EffectRunner,
        loop: AbstractEventLoop,
        metrics: Metrics,
        *,
        mark_changed: Callable[[], None],
        on_ended: Callable[[SubscriptionState], None],
        drained: Callable[[], None],
        canary: ServiceCanary,
        rebuild: Callable[[], None],
        budgets: Budgets,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self.broker, self._runner = broker, runner
        self.matcher: Matcher  # it comes with recovery
        self.read_log: ReadLog  # so does this
        self._loop, self._metrics = loop, metrics
        self._mark_changed, self._on_ended, self._drained = mark_changed, on_ended, drained
        self.position = 0
        self.end = 0  # of what is stored, as far as the loop has heard
        self.catching_up = True
        self._faults = 0
        self._canary, self._rebuild = canary, rebuild
        self._stopped = False  # until there is a new index
        self.tail = LogTail()
        self._slice = SLICE
        self._running: asyncio.Task[None] | None = None
        self._behind: float | None = None  # since when events wait behind the one in hand, besides those in the queue
        self._publisher: str | None = None  # who pays for this turn
        self._sole = False  # has one user all the subscriptions?
        self._timer, self._turn = timer, 0.0
        self.whole = True  # is no event in the middle of being given to subscriptions?
        self.hurried = False  # over budgets nobody is waited for any more
        self.verifier = Verifier(budgets, metrics, owner=self._owner, waiting=self._waiting)

    @property
    def backlog(self) -> int:
        return 0 if self.catching_up else self.end - self.position

    def throttled(self) -> bool:
        return self.backlog > BACKLOG

    @property
    def faults(self) -> int:
        """How often something went wrong inside."""
        return self._faults + self._runner.faults

    def note_fault(self) -> None:
        """Something went wrong beside matching and delivery, and was logged."""
        self._faults += 1

    def follow(self, group: CommittedGroup) -> None:
        """The log has grown by these, which this process has committed."""
        self.end = group.end
        group.heard = self._loop.time()
        self.tail.append(group)
        if self._running is None and not (self._stopped or self.catching_up):
            self._running = self._loop.create_task(self._run())

    async def catch_up(self, heard: float) -> None:
        """Dispatch what the log has beyond ``position``, and what it gets meanwhile; then follow it.

        ``heard`` is since when stored events count as waiting, by the loop's clock.
        """
        await self._run(heard)
        self.catching_up = False
        self.forget_ended()

    def _first_in_memory(self) -> int:
        first = self.tail.first
        return self.end if first is None else min(first, self.end)

    async def _dispatch_from_log(self, stop: int, heard: float) -> None:
        async for group in self.read_log(self.position, stop):
            try:
                rows = group.first, group.at, group.events, group.texts
                await self.dispatch(*rows, heard=heard, more=True)
            except Exception:  # noqa: BLE001  # later events must not wait for ever
                self._faults += 1
                _log.exception("events %d to %d could not be dispatched", group.first, group.end - 1)
            if self._stopped:
                return
            await asyncio.sleep(0)
        self.position = stop  # also where the last ones could not be read

    def resume(self) -> None:
        """Go on, after a new index was built."""
        self._stopped = False
        if self._running is None:
            self._running = self._loop.create_task(self._run())

    async def _run(self, heard: float | None = None) -> None:
        """Dispatch up to the end of the log; what has to be read from it counts as waiting since ``heard``, or now."""
        self._turn = self._timer()
        while self.position < self.end:
            group = self.tail.find(self.position)
            if group is None:
                await self._dispatch_from_log(self._first_in_memory(), self._loop.time() if heard is None else heard)
            else:
                start = self.position - group.first
                stop, publisher = self._next_part(group, start)
                part = slice(start, stop)
                rows = self.position, group.at, group.events[part], group.texts[part]
                more = stop < len(group.events)
                try:
                    await self.dispatch(*rows, heard=group.heard, more=more, publisher=publisher)
                except Exception:  # noqa: BLE001  # later events must not wait for ever
                    self._faults += 1
                    _log.exception(
                        "events %d to %d could not be dispatched", group.first + start, group.first + stop - 1
                    )
                    self.position = group.first + stop
            if self._stopped:
                self._rebuild()
                break
            self._drained()
            if self.position < self.end:
                await self._pause()
        self._running = None

    def _next_part(self, group: CommittedGroup, start: int) -> tuple[int, str | None]:
        """Up to where events are matched together. One with many views or long strings is matched alone, at the expense
        of its publisher, who is named.
        """
        stop = min(start + self._slice, len(group.events))
        wide = next((at for at in range(start, stop) if not is_narrow(group.events[at])), stop)
        return (wide, None) if wide > start else (start + 1, group.users[start])

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
        sifted = await self._match(first, events, texts, publisher)
        undecided = {number: list(some) for number, some in groupby(sifted.undecided, attrgetter("event"))}
        known = not self.catching_up and self.faults == faults  # what could not be matched was told of
        if known and self._canary.compare(self.matcher, first, events, sifted.found, partial(_ids_in, undecided)):
            self._stopped = True
            return
        self.verifier.begin()
        given: list[Matches] = []
        count = 0
        for number, ids in enumerate(sifted.found):
            if number in undecided:
                self._give(given, at, first + number)
                given, count = [], 0
                self._behind = heard if more or number + 1 < len(events) else None
                ids = await self._decide(first + number, at, ids, undecided[number])
            if len(ids) > GIVEN:
                self._give(given, at, first + number)
                given, count = [], 0
                await self._give_many(first + number, at, texts[number], ids)
            elif ids:
                given.append((first + number, texts[number], self._subscriptions(ids)))
                count += len(ids)
            if count >= TOGETHER or self._is_over():
                self._give(given, at, first + number + 1)
                given, count = [], 0
                if self._is_over():
                    await self._pause()
        self._give(given, at, first + len(events))
        self._end_turn()
        self._publisher = None

    def _give(self, given: list[Matches], at: datetime, position: int) -> None:
        """Give events to the broker and send what becomes of them; all before ``position`` are dispatched then."""
        try:
            if given:
                self._runner.run(self.broker.handle(Dispatch(given), at))
                for _, text, subscriptions in given:
                    self.matcher.tell(text, ((str(one.serial), one.id) for one in subscriptions))
        except Exception:  # noqa: BLE001  # later events must not wait for ever
            self._faults += 1
            _log.exception("unexpected error while giving events %d to %d to the broker", given[0][0], position - 1)
        self._metrics.dispatched += position - self.position
        self.position = position
        if self._runner.ending:
            self.forget_ended()
        self._mark_changed()

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

    async def _match(
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
                self._faults += 1
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

    async def _decide(self, position: int, at: datetime, ids: list[str], undecided: list[Undecided]) -> list[str]:
        """All ids that an event matches; the owners of those that nobody knows of are told."""
        case = Case(undecided)
        owner = self._owner(undecided[0].ids[0][0])
        self._sole = owner is not None and len(self.broker.state.users[owner].subscriptions) >= self.broker.state.active
        if not self.verifier.decide_quickly(case):
            self._end_turn()
            await self.verifier.decide(case)
            self._turn = self._timer()
        elif self._is_over():
            await self._pause()
        verdict = case.verdict
        matched = dict.fromkeys(ids + verdict.matched)
        self._faults += bool(verdict.failed)
        await self._pass_over(position, at, _without(verdict.failed, matched), "damaged")
        await self._pass_over(position, at, _without(verdict.refused, matched), "budget")
        return list(matched)

    async def _pass_over(self, position: int, at: datetime, ids: Sequence[str], reason: DropReason) -> None:
        """Tell of a gap. If the process dies in the middle of it, some are told again, which does no harm."""
        async for some in self._in_turns(ids):
            self._runner.run(self.broker.handle(PassOver(position, self._subscriptions(some), reason), at))

    def slows(self, user: str) -> bool:
        """Should events of this user that take long wait, since others do and the user is over the budget?"""
        heard = self.tail.heard(0) if self.backlog else None
        late = heard is not None and self._loop.time() - heard >= PATIENCE_SECONDS
        return late and self.verifier.is_over(user)

    def _owner(self, serial: str) -> str | None:
        subscription = self.broker.state.subscriptions.get(int(serial))
        return None if subscription is None else subscription.user.name

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
            since = self.tail.heard(1)
            if since is None:
                return 0.0
        return self._loop.time() - since

    async def _give_many(self, position: int, at: datetime, text: bytes, ids: Sequence[str]) -> None:
        """Give an event to so many subscriptions that it takes several turns; nothing is stored in between."""
        matched: list[SubscriptionState] = []
        async for part in self._in_turns(ids):
            matched += self._subscriptions(part)
        matched.sort(key=attrgetter("ordinal"))  # nids of one user grow
        self.whole = False
        async for some in self._in_turns(matched):
            self._give([(position, text, list(some))], at, self.position)
        self.whole = True  # not in the end of a task that is cancelled

    def _subscriptions(self, serials: Sequence[str]) -> list[SubscriptionState]:
        """Those that are still there."""
        known = self.broker.state.subscriptions
        return [known[serial] for text in serials if (serial := int(text)) in known]

    async def _in_turns(self, items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """Some at a time, with pauses where a turn is over."""
        for start in range(0, len(items), GIVEN):
            if start and self._is_over():
                await self._pause()
            yield items[start : start + GIVEN]

    def forget_ended(self) -> None:
        """Take out of the matcher what has ended, unless events from before its end are still to be dispatched."""
        if self.catching_up or not self._runner.ending:
            return
        ended, self._runner.ending = self._runner.ending, []
        for subscription in ended:
            if subscription.until > self.position:
                self._runner.ending.append(subscription)
                continue
            self.matcher.remove(str(subscription.serial))
            self._on_ended(subscription)


def _ids_in(undecided: Mapping[int, Sequence[Undecided]], number: int) -> set[str]:
    """The subscriptions about which nothing is known for one of the events."""
    return {id for group in undecided.get(number, ()) for ids in group.ids for id in ids}


def _without(ids: Sequence[str], others: Container[str]) -> list[str]:
    """Each once, and none of the others."""
    return [id for id in dict.fromkeys(ids) if id not in others]
