"""Recovery: from the files of an earlier run to a broker that goes on where that run was.

While it happens, publishers are served already: accepting an event needs the log alone. All that takes long is done in
a thread, and the loop takes over what was read in slices. Mailboxes come first, since delivering from them needs no
subscription; then subscriptions, which can be listed from then on; then the matcher is filled. At last the events that
were stored but not known to be dispatched are dispatched, with the subscriptions that were active at their positions
and at the instants at which they were accepted, which gives the notifications they gave before, with the same nids.

What is put back, and where dispatching begins, is decided in ``recado.broker.persistence``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby

import pyarrow as pa

from recado.broker.core import Broker
from recado.broker.persistence import SUBSCRIPTIONS, Loaded, Pairs, read_subscriptions, start_position, wanted_from
from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.server.committer import CommittedGroup
from recado.server.config import Config
from recado.server.dispatcher import Dispatcher
from recado.server.effects import EffectRunner
from recado.server.matching import make_matcher
from recado.server.prefetch import PLAIN_SUBSCRIPTIONS, wait_for_kernels
from recado.store.log import Damage
from recado.store.log.segments import TRUSTED
from recado.store.protocols import EventLog, StateStore

ROWS = 512
PATIENCE_SECONDS = 5.0
"""So long users' budgets of matching time do not count while events are dispatched again, since they come faster."""
_SEMANTIC = b'"semantic"'
_log = logging.getLogger("recado.server")


class Recovery:
    """One start of a service: its methods in the order in which they are written. ``damage`` names what could not be
    used.
    """

    def __init__(
        self, config: Config, store: StateStore, broker: Broker, runner: EffectRunner, dispatcher: Dispatcher
    ) -> None:
        self._config, self._store = config, store
        self._broker, self._runner, self._dispatcher = broker, runner, dispatcher
        self.damage: list[str] = []

    async def load(self) -> Loaded:
        """Read the state; the broker has the mailboxes then."""
        loaded = await asyncio.to_thread(self._read)
        await _in_slices(self._broker.restore(loaded))
        return loaded

    def delivers_at_once(self, loaded: Loaded) -> bool:
        """Does every subscription want events as they came? Only one by meaning wants them rendered."""
        rows = loaded.of(SUBSCRIPTIONS)
        return not self._config.semantics.always and not any(_SEMANTIC in row.record for row in rows)

    async def enter(self, loaded: Loaded) -> Pairs:
        """The broker has the subscriptions."""
        pairs = await asyncio.to_thread(read_subscriptions, loaded, self._config.subscriptions.time_zone)
        await _in_slices(self._broker.restore_subscriptions(pairs))
        self._runner.ending += [subscription for subscription, _ in pairs if not subscription.active]
        return pairs

    async def fill_matcher(self, loaded: Loaded, pairs: Pairs) -> None:
        """The matcher has those that want events which are not dispatched."""
        wanted = wanted_from(pairs, loaded.dispatched or 0)
        await asyncio.to_thread(self._index, wanted, len(pairs) > PLAIN_SUBSCRIPTIONS)

    async def catch_up(self, loaded: Loaded, log: EventLog) -> None:
        """Dispatch what the log has beyond the state."""
        start, damage = start_position(loaded, log.first, self._dispatcher.end)
        self.report(loaded.damage)
        self.report(damage)
        self._dispatcher.position = start
        self._dispatcher.read_log = LogFollower(log, self._dispatcher, self.report).read
        await self._dispatcher.catch_up(asyncio.get_running_loop().time() + PATIENCE_SECONDS)

    def report(self, damage: list[str]) -> None:
        for text in damage:
            _log.error("%s", text)
        self.damage += damage

    def _read(self) -> Loaded:
        """In a thread."""
        self._dispatcher.matcher = self._runner.matcher = make_matcher(self._config)
        return self._store.load()

    def _index(self, subscriptions: list[Subscription], many: bool) -> None:
        """In a thread."""
        if many:
            wait_for_kernels(self._dispatcher.matcher)
        self._dispatcher.matcher.add_many(subscriptions)


class LogFollower:
    """Reads stored events for the dispatcher; ``report`` gets what cannot be read, in sentences."""

    def __init__(self, log: EventLog, dispatcher: Dispatcher, report: Callable[[list[str]], None]) -> None:
        self._events, self._dispatcher, self._report = log, dispatcher, report

    async def read(self, start: int, end: int) -> AsyncIterator[CommittedGroup]:
        """The events of ``[start, end)`` that can be read, in groups that were accepted at one instant."""
        batches = self._events.read(start, end, batch_rows=ROWS, on_damage=self._report_damage)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await asyncio.to_thread(self._prepare, batch)
            for group in self._groups(batch):
                yield group

    def _report_damage(self, damage: Damage) -> None:
        self._report([f"the event log: {damage}"])

    def _prepare(self, batch: pa.RecordBatch) -> None:
        """In a thread: ask measures what matching will need. Events that cannot be read are told of elsewhere."""
        with suppress(Exception):
            events = [read_event(text, limits=TRUSTED) for text in batch.column("event").to_pylist()]
            if not self._dispatcher.matcher.prepared(events):
                deque(self._dispatcher.matcher.preparing(events), 0)

    def _groups(self, batch: pa.RecordBatch) -> Iterator[CommittedGroup]:
        columns = [batch.column(name).to_pylist() for name in ("position", "accepted_at", "event")]
        rows = [read for row in zip(*columns, strict=True) if (read := self._read_row(*row)) is not None]
        for (at, _), group in groupby(enumerate(rows), key=lambda pair: (pair[1][1], pair[1][0] - pair[0])):
            positions, _, events, texts = zip(*(row for _, row in group), strict=True)
            yield CommittedGroup(positions[0], at, list(events), list(texts), [])

    def _read_row(self, position: int, at: datetime, event: str) -> tuple[int, datetime, Event, bytes] | None:
        text = event.encode()
        try:
            return position, at.astimezone(UTC), read_event(text, limits=TRUSTED), text
        except RecadoError as error:
            self._report([f"the event at position {position:,} cannot be read: {error}"])
            return None


async def _in_slices(steps: Iterator[None]) -> None:
    """Let others have the loop between two steps."""
    for _ in steps:
        await asyncio.sleep(0)
