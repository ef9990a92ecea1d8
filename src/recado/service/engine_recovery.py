"""Recovery: from the files of an earlier run to a desk that goes on where that run was.

While it happens, publishers are served already: accepting an event needs the log alone. The state is read and the
matcher filled in a thread; the loop takes over what was read in slices; then the events that were stored but not known
to be dispatched are dispatched, with the subscriptions that were active at their positions and at the instants at which
they were accepted, which gives the notifications they gave before, with the same nids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC
from itertools import groupby, islice
from typing import Any

import pyarrow as pa

from recado.delivery.sessions import Device
from recado.delivery.standing import Standing
from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.model.subscription import Subscription
from recado.service.config import Config
from recado.service.dispatch import Dispatcher
from recado.service.engine_keeper import Keeper
from recado.service.engine_rows import instant, note_of, notice_of, standing_of
from recado.service.matching import make_matcher
from recado.store.log import Damage, LogReader
from recado.store.log.where import TRUSTED
from recado.store.state import Loaded, StateStore

SLICE = 2_000
_log = logging.getLogger("recado.service")


class Recovery:
    """One start of a service; ``damage`` names what could not be used."""

    def __init__(self, config: Config, store: StateStore, dispatcher: Dispatcher, keeper: Keeper) -> None:
        self._config, self._store, self._desk = config, store, dispatcher.desk
        self._dispatcher, self._keeper = dispatcher, keeper
        self.damage: list[str] = []

    async def run(self, reader: LogReader, first: int) -> None:
        """Load the state, then dispatch what the log has beyond it; ``first`` is the log's first position."""
        loaded, pairs = await asyncio.to_thread(self._read)
        for part in _sliced(pairs):
            self._enter(part)
            await asyncio.sleep(0)
        await self._fill(loaded)
        self.note(loaded.damage)
        end = self._dispatcher.end
        start = end if loaded.dispatched is None else loaded.dispatched
        if start > end:
            self.note([f"the state is ahead of the log, which ends at position {end:,}; the log is an older copy"])
        elif start < first:
            self.note([f"events {start:,} to {first - 1:,} left the log before they were dispatched"])
        self._dispatcher.position = min(max(start, first), end)
        await self._catch_up(reader)

    def note(self, damage: list[str]) -> None:
        for text in damage:
            _log.error("%s", text)
        self.damage += damage

    def _read(self) -> tuple[Loaded, list[tuple[Standing, Subscription]]]:
        """In a thread: all that takes long."""
        self._dispatcher.matcher = make_matcher(self._config)
        loaded = self._store.load()
        pairs: list[tuple[Standing, Subscription]] = []
        for row in loaded.subscriptions:
            try:
                pairs.append(standing_of(row, self._config.subscriptions.time_zone))
            except RecadoError as error:
                loaded.damage.append(f"subscription {row.id!r} of user {row.user!r} cannot be used: {error}")
        dispatched = loaded.dispatched or 0
        self._dispatcher.matcher.add_many(sub for standing, sub in pairs if standing.until > dispatched)
        return loaded, pairs

    def _enter(self, pairs: list[tuple[Standing, Subscription]]) -> None:
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
            user.devices.setdefault(row.device, Device(row.device, instant(row.seen_at)))
        boxes = {row.number: desk.box(desk.user(row.user), row.device) for row in loaded.boxes}
        for number, box in boxes.items():
            box.number = number
        self._keeper.know_boxes(max(boxes, default=0))
        for part in _sliced(loaded.mail):
            for mail in part:
                box = boxes[mail.box]
                box.append(note_of(mail, loaded.held[mail.nid >> 20], box))
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
        while dispatcher.position < dispatcher.end:
            end = dispatcher.end  # it may grow meanwhile
            batches = reader.read(dispatcher.position, end, batch_rows=512, on_damage=self._damaged)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                self._dispatch(batch)
                await asyncio.sleep(0)
            dispatcher.position = end  # also where the last ones could not be read
        dispatcher.caught_up()
        dispatcher.forget_ended()

    def _damaged(self, damage: Damage) -> None:
        self.note([f"the event log: {damage}"])

    def _dispatch(self, batch: pa.RecordBatch) -> None:
        columns = [batch.column(name).to_pylist() for name in ("position", "accepted_at", "event")]
        rows: Iterator[Any] = zip(*columns, strict=True)
        for (at, _), group in groupby(enumerate(rows), key=lambda pair: (pair[1][1], pair[1][0] - pair[0])):
            some = [row for _, row in group]
            try:
                texts = [text.encode() for _, _, text in some]
                events = [read_event(text, limits=TRUSTED) for text in texts]
                self._dispatcher.dispatch(some[0][0], at.astimezone(UTC), events, texts)
            except Exception as error:  # noqa: BLE001  # a service that never starts would help nobody
                _log.debug("what stopped the dispatch", exc_info=True)
                self.note([f"events {some[0][0]:,} to {some[-1][0]:,} could not be dispatched: {error}"])


def _sliced(items: list[Any]) -> Iterator[list[Any]]:
    waiting = iter(items)
    while part := list(islice(waiting, SLICE)):
        yield part
