"""Recovery: from the files of an earlier run to a desk that goes on where that run was.

While it happens, publishers are served already: accepting an event needs the log alone. All that takes long is done in
a thread, and the loop takes over what was read in slices. Mailboxes come first, since delivering from them needs no
subscription; then subscriptions, which can be listed from then on; then the matcher is filled. At last the events that
were stored but not known to be dispatched are dispatched, with the subscriptions that were active at their positions
and at the instants at which they were accepted, which gives the notifications they gave before, with the same nids.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, TypeAlias

import pyarrow as pa

from recado.broker.state import Device, Standing
from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.model.values import EPOCH
from recado.server.config import Config
from recado.server.dispatcher import Dispatcher
from recado.server.matching import make_matcher
from recado.server.prefetch import PLAIN_SUBSCRIPTIONS, wait_for_kernels
from recado.server.state_writer import Keeper, Known, instant, note_of, notice_of, standing_of
from recado.store.log import Damage, LogReader
from recado.store.log.segments import TRUSTED
from recado.store.state import POSITION_BITS, Loaded, StateStore

SLICE = 2_000
PATIENCE_SECONDS = 5.0
"""So long users' budgets of matching time do not count while events are dispatched again, since they come faster."""
Pairs: TypeAlias = list[tuple[Standing, Subscription]]
_SEMANTIC = b'"semantic"'
_log = logging.getLogger("recado.server")


class Recovery:
    """One start of a service: its methods in the order in which they are written. ``damage`` names what could not be
    used.
    """

    def __init__(self, config: Config, store: StateStore, dispatcher: Dispatcher, keeper: Keeper) -> None:
        self._config, self._store, self._desk = config, store, dispatcher.desk
        self._dispatcher, self._keeper = dispatcher, keeper
        self.damage: list[str] = []

    async def load(self) -> Loaded:
        """Read the state; the desk has the mailboxes."""
        loaded = await asyncio.to_thread(self._read)
        await self._fill(loaded)
        return loaded

    def tells_events_as_they_came(self, loaded: Loaded) -> bool:
        """Does no subscription want its events told otherwise? Only one by meaning can."""
        return not self._config.semantics.always and not any(_SEMANTIC in row.record for row in loaded.subscriptions)

    async def enter(self, loaded: Loaded) -> Pairs:
        """The desk has the subscriptions."""
        pairs = await asyncio.to_thread(self._read_subscriptions, loaded)
        for part in _sliced(pairs):
            self._enter(part)
            await asyncio.sleep(0)
        return pairs

    async def fill_matcher(self, loaded: Loaded, pairs: Pairs) -> None:
        dispatched = loaded.dispatched or 0
        wanted = [subscription for standing, subscription in pairs if standing.until > dispatched]
        await asyncio.to_thread(self._index, wanted, len(pairs) > PLAIN_SUBSCRIPTIONS)

    async def catch_up(self, loaded: Loaded, reader: LogReader, first: int) -> None:
        """Dispatch what the log has beyond the state; ``first`` is the log's first position."""
        self.note(loaded.damage)
        self._dispatcher.position = self._start(loaded, first)
        await self._catch_up(reader)

    def _start(self, loaded: Loaded, first: int) -> int:
        """The position from which on events are dispatched again."""
        end, start = self._dispatcher.end, loaded.dispatched
        if start is None:
            return self._safe_start(loaded, first)
        if start > end:
            self.note([f"the state is ahead of the log, which ends at position {end:,}; the log is an older copy"])
        elif start < first:
            self.note([f"events {start:,} to {first - 1:,} left the log before they were dispatched"])
        return min(max(start, first), end)

    def _safe_start(self, loaded: Loaded, first: int) -> int:
        """Nobody knows what was dispatched. Mail is kept together with that, so everything up to the newest mail was;
        and no subscription wants what was stored before it. In between, some comes again, with the nids that it had.
        """
        end = self._dispatcher.end
        if not loaded.subscriptions:
            return end
        newest = loaded.mail[-1].nid >> POSITION_BITS if loaded.mail else -1
        start = min(max(min(row.since for row in loaded.subscriptions), newest + 1, first), end)
        text = f"it is not known which events were dispatched; those from position {start:,} on are dispatched again"
        self.note([f"{text}, and notifications that came before have the same nids"])
        return start

    def note(self, damage: list[str]) -> None:
        for text in damage:
            _log.error("%s", text)
        self.damage += damage

    def _read(self) -> Loaded:
        """In a thread."""
        self._dispatcher.matcher = make_matcher(self._config)
        return self._store.load()

    def _read_subscriptions(self, loaded: Loaded) -> Pairs:
        """In a thread."""
        pairs: Pairs = []
        known = Known(self._config.subscriptions.time_zone)
        for row in loaded.subscriptions:
            try:
                pairs.append(standing_of(row, known))
            except RecadoError as error:
                loaded.damage.append(f"subscription {row.id!r} of user {row.user!r} cannot be used: {error}")
        return pairs

    def _index(self, subscriptions: list[Subscription], many: bool) -> None:
        """In a thread."""
        if many:
            wait_for_kernels(self._dispatcher.matcher)
        self._dispatcher.matcher.add_many(subscriptions)

    def _enter(self, pairs: Pairs) -> None:
        for standing, _ in pairs:
            standing.user = self._desk.user(standing.user.name)
            self._desk.enter(standing)
            if not standing.active:
                self._desk.leaving.append(standing)

    async def _fill(self, loaded: Loaded) -> None:
        """Devices, mail and notices."""
        desk = self._desk
        for row in loaded.devices:
            user = desk.user(row.user)
            user.was_connected |= row.connected
            device = user.devices.setdefault(row.device, Device(row.device, instant(row.seen_at)))
            device.beyond = max(device.beyond, row.beyond)
        boxes = {row.number: desk.box(desk.user(row.user), row.device) for row in loaded.boxes}
        for number, box in boxes.items():
            box.number = number
        self._keeper.know_boxes(max(boxes, default=0))
        count, at = 0, EPOCH
        for part in _sliced(loaded.mail):
            for mail in part:
                if mail.at != count:
                    count, at = mail.at, instant(mail.at)
                box = boxes[mail.box]
                box.append(note_of(mail, loaded.held[mail.nid >> POSITION_BITS], at, box))
            await asyncio.sleep(0)
        for notice in loaded.notices:
            user = desk.user(notice.user)
            user.notices[notice.id] = notice_of(notice)
            user.remembered += len(user.notices[notice.id].nids)
        for nid, number in loaded.unreadable:
            if number in boxes:
                desk.gap(boxes[number].user, boxes[number].device, [nid], "damaged")

    async def _catch_up(self, reader: LogReader) -> None:
        dispatcher = self._dispatcher
        patient_until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while dispatcher.position < dispatcher.end:
            end = dispatcher.end  # it may grow meanwhile
            batches = reader.read(dispatcher.position, end, batch_rows=512, on_damage=self._damaged)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                await asyncio.to_thread(self._prepare, batch)
                await self._dispatch(batch, patient_until)
                await asyncio.sleep(0)
            dispatcher.position = end  # also where the last ones could not be read
        dispatcher.caught_up()
        dispatcher.forget_ended()

    def _damaged(self, damage: Damage) -> None:
        self.note([f"the event log: {damage}"])

    def _prepare(self, batch: pa.RecordBatch) -> None:
        """In a thread: ask measures what matching will need. Events that cannot be read are told of elsewhere."""
        with suppress(Exception):
            events = [read_event(text, limits=TRUSTED) for text in batch.column("event").to_pylist()]
            if not self._dispatcher.matcher.prepared(events):
                deque(self._dispatcher.matcher.preparing(events), 0)

    async def _dispatch(self, batch: pa.RecordBatch, patient_until: float) -> None:
        columns = [batch.column(name).to_pylist() for name in ("position", "accepted_at", "event")]
        rows = [read for row in zip(*columns, strict=True) if (read := self._read_row(*row)) is not None]
        for (at, _), group in groupby(enumerate(rows), key=lambda pair: (pair[1][1], pair[1][0] - pair[0])):
            positions, _, events, texts = zip(*(row for _, row in group), strict=True)
            try:
                await self._dispatcher.dispatch(positions[0], at, events, texts, heard=patient_until, more=True)
            except Exception as error:  # noqa: BLE001  # a service that never starts would help nobody
                _log.debug("what stopped the dispatch", exc_info=True)
                self.note([f"events {positions[0]:,} to {positions[-1]:,} could not be dispatched: {error}"])

    def _read_row(self, position: int, at: datetime, event: str) -> tuple[int, datetime, Event, bytes] | None:
        text = event.encode()
        try:
            return position, at.astimezone(UTC), read_event(text, limits=TRUSTED), text
        except RecadoError as error:
            self.note([f"the event at position {position:,} cannot be read: {error}"])
            return None


def _sliced(items: list[Any]) -> Iterator[list[Any]]:
    waiting = iter(items)
    while part := list(islice(waiting, SLICE)):
        yield part
