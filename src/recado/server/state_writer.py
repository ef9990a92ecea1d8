"""The keeper writes what the desk changed to the state store, in the background and in order.

``kept`` returns when everything changed before the call is on stable storage; calls that come while a transaction runs
share the next one. Without anybody waiting, mail is written ``SOON`` after it came, so what is acknowledged sooner
never touches the disk, and the mark of what is dispatched at least every ``LATER``.

A transaction that fails is tried again, before all newer ones, until it succeeds. Meanwhile nothing is lost: the log
has the events, and whoever waits for ``kept`` is refused.
"""

from __future__ import annotations

import logging
from array import array
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import msgspec

from recado.broker.constraints import Constraints, read_constraints
from recado.broker.core import ORDINAL_BITS, Desk
from recado.broker.mailbox import Box, Note, Notice
from recado.broker.state import ENDLESS, Changes, Device, Standing, User
from recado.errors import RecadoError
from recado.filters.records import KnownFilters
from recado.model.memory import Memo
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, microseconds
from recado.server.permissions import Busy
from recado.server.requests import read_record
from recado.store.state import Batch, BoxRow, DeviceRow, MailRow, NoticeRow, StateStore, SubscriptionRow

# --- Between what the desk holds and the rows that the state store keeps, both ways ----------------------------------


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def instant(count: int) -> datetime:
    return EPOCH + timedelta(microseconds=count)


def _count(at: datetime | None) -> int | None:
    return None if at is None else microseconds(at)


def subscription_row(standing: Standing) -> SubscriptionRow:
    return SubscriptionRow(
        serial=standing.serial,
        user=standing.user.name,
        id=standing.id,
        ordinal=standing.ordinal,
        device=standing.device,
        scope=standing.scope,
        record=_encode(standing.record),
        expires_at=microseconds(standing.expires_at),
        since=standing.since,
        until=None if standing.active else standing.until,
        last_notified=_count(standing.last_notified),
        ended_at=_count(standing.ended_at),
        reason=standing.reason,
        notified=standing.notified,
    )


class Known:
    """For many rows: records and filters that are written alike are read once. Times without a zone are of this one."""

    def __init__(self, time_zone: str) -> None:
        self._time_zone = time_zone
        self._users: dict[str, User] = {}
        self._filters = KnownFilters()
        self._records: Memo[bytes, tuple[dict[str, Any], Subscription, Constraints]] = Memo()

    def user(self, name: str) -> User:
        """One in whose place the desk's own comes, on the loop."""
        found = self._users.get(name)
        if found is None:
            found = self._users[name] = User(name)
        return found

    def read(self, raw: bytes, id: str) -> tuple[dict[str, Any], Subscription, Constraints]:
        """What a row's record says, which nobody may change, since others may share it."""
        found = self._records.get(raw)
        if found is not None:
            record, like, constraints = found
            return record, msgspec.structs.replace(like, id=id), constraints
        record = _decode(raw)
        subscription = read_record({"id": id, **record}, self._filters)
        constraints = read_constraints(subscription.constraints, self._time_zone)
        self._records.put(raw, (record, subscription, constraints))
        return record, subscription, constraints


def standing_of(row: SubscriptionRow, known: Known) -> tuple[Standing, Subscription]:
    """The subscription in a row, for the desk and for the matcher."""
    record, subscription, constraints = known.read(row.record, str(row.serial))
    standing = Standing(
        row.serial,
        row.id,
        known.user(row.user),
        row.ordinal,
        expires_at=instant(row.expires_at),
        since=row.since,
        device=row.device,
        scope=row.scope,
        constraints=constraints,
        record=record,
    )
    standing.until = ENDLESS if row.until is None else row.until
    standing.last_notified = None if row.last_notified is None else instant(row.last_notified)
    standing.ended_at = None if row.ended_at is None else instant(row.ended_at)
    standing.reason, standing.notified = row.reason, row.notified
    return standing, subscription


def mail_rows(changes: Changes) -> tuple[list[MailRow], dict[int, bytes], list[tuple[int, int]]]:
    """New mail, the events that it needs, and mail that is gone."""
    mail, held = [], {}
    at, count = None, 0
    for note in changes.notes:
        if note.at is not at:
            at, count = note.at, microseconds(note.at)
        mail.append(MailRow(note.nid, note.box.number, count, note.sub_id))
        held[note.nid >> ORDINAL_BITS] = note.event
    return mail, held, [(note.nid, note.box.number) for note in changes.gone]


def note_of(row: MailRow, event: bytes, at: datetime, box: Any) -> Note:
    """``at`` is the instant of the row; those that were generated together may share it."""
    note = Note(row.nid, row.sub_id, event, at, box)
    note.kept = True
    return note


def notice_row(user: User, notice: Notice) -> NoticeRow:
    return NoticeRow(
        notice.id,
        user.name,
        notice.device,
        notice.reason,
        notice.after,
        notice.sub_ids,
        notice.count,
        notice.nids.tobytes(),
        _count(notice.at),
    )


def notice_of(row: NoticeRow) -> Notice:
    notice = Notice(row.id, row.device, row.reason, row.after, row.sub_ids)
    notice.count, notice.nids = row.count, array("q", row.nids)
    notice.open = False
    notice.at = None if row.at is None else instant(row.at)
    return notice


def device_row(name: str, device: Device) -> DeviceRow:
    return DeviceRow(name, device.id, microseconds(device.seen_at), device.link is not None, device.beyond)


# --- The keeper writes what the desk changed to the state store, in the background and in order ----------------------

SHORTLY, SOON, LATER, RETRY = 0.005, 0.1, 1.0, 1.0
_log = logging.getLogger("recado.server")


class Keeper:
    """``dispatched`` is the position up to which the desk accounts for the log, which it does only while ``whole``."""

    def __init__(
        self,
        store: StateStore,
        desk: Desk,
        loop: AbstractEventLoop,
        dispatched: Callable[[], int],
        whole: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._desk, self._loop, self._dispatched = store, desk, loop, dispatched
        self._whole = whole
        self._thread = ThreadPoolExecutor(1, "recado-state")
        self._timer: TimerHandle | None = None
        self._due = 0.0
        self._busy = False
        self._open = False  # before everything is loaded, nothing may be overwritten
        self._failing: tuple[Batch, Changes] | None = None
        self._waiting: list[Future[None]] = []
        self._values: dict[tuple[str, str], bytes | None] = {}
        self._marked = -1
        self._boxes = 0
        self.trouble = ""

    def close(self) -> None:
        """Call it after ``kept``."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()
        self._store.close()

    def know_boxes(self, last: int) -> None:
        """The greatest number of a box that is in the store."""
        self._boxes = last

    def begin(self) -> None:
        """Everything is loaded: write from now on."""
        self._open = True
        self._schedule(0)

    def changed(self) -> None:
        """Something is to be kept, or more is dispatched."""
        self._schedule(SOON if self._desk.changes or self._values else LATER)

    def keep(self, space: str, key: str, value: bytes | None) -> None:
        """A value that another part of the service wants kept; None forgets it."""
        self._values[space, key] = value
        self._schedule(SOON)

    async def values(self, space: str) -> dict[str, bytes]:
        """What was kept in a space, before this start or since."""
        await self.kept()
        return await self._loop.run_in_executor(self._thread, self._store.values, space)

    def check(self) -> None:
        """Raise Busy while nothing can be written; what has to be durable is best not begun then."""
        if self.trouble and self._failing is not None:
            raise Busy(f"{self.trouble}; nothing new is promised, try again later")

    async def kept(self) -> None:
        """Everything up to now is on stable storage."""
        self.check()
        future: Future[None] = self._loop.create_future()
        self._waiting.append(future)
        self._schedule(0)
        await future

    def _schedule(self, delay: float) -> None:
        if self._busy or not self._open:
            return  # what comes next is scheduled when it is done
        due = self._loop.time() + delay
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(delay, self._begin) if delay else self._loop.call_at(due, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._busy:
            return
        if not self._whole():
            self._schedule(SHORTLY)
            return
        waiting, self._waiting = self._waiting, []
        if self._failing is None:
            batch, changes = self._taken()
        else:
            batch, changes = self._failing
        if not waiting and not changes and not batch.values and batch.dispatched == self._marked:
            return
        self._busy = True
        self._thread.submit(self._write, batch, changes, waiting)

    def _taken(self) -> tuple[Batch, Changes]:
        """What is to be written, as of this moment."""
        desk, dispatched = self._desk, self._dispatched()
        desk.forget_closed(dispatched)
        changes = desk.take_changes()
        values, self._values = self._values, {}
        batch = Batch(dispatched=dispatched, boxes=self._new_boxes(changes), forget_boxes=changes.boxes, values=values)
        for serial, standing in changes.standings.items():
            if standing is None:
                batch.forget_subscriptions.append(serial)
            else:
                batch.subscriptions.append(subscription_row(standing))
        for id, (user, notice) in changes.notices.items():
            if notice is None:
                batch.forget_notices.append(id)
            else:
                batch.notices.append(notice_row(user, notice))
        for (name, id_of), device in changes.devices.items():
            if device is None:
                batch.forget_devices.append((name, id_of))
            else:
                batch.devices.append(device_row(name, device))
        return batch, changes

    def _new_boxes(self, changes: Changes) -> list[BoxRow]:
        new: dict[Box, None] = {note.box: None for note in changes.notes if not note.box.number}
        for box in new:
            self._boxes += 1
            box.number = self._boxes
        return [BoxRow(box.number, box.user.name, box.device) for box in new]

    def _write(self, batch: Batch, changes: Changes, waiting: list[Future[None]]) -> None:
        """In the store's thread."""
        try:
            if not batch.mail:
                batch.mail, batch.held, batch.gone = mail_rows(changes)
            self._store.write(batch)
        except Exception as error:  # noqa: BLE001  # whatever it is, it must be tried again and told
            self._loop.call_soon_threadsafe(self._failed, batch, changes, waiting, error)
        else:
            self._loop.call_soon_threadsafe(self._written, batch, waiting)

    def _written(self, batch: Batch, waiting: list[Future[None]]) -> None:
        self._busy = False
        was_failing, self._failing = self._failing is not None, None
        self.trouble = ""
        self._marked = batch.dispatched if batch.dispatched is not None else self._marked
        if was_failing:
            _log.warning("the state is written again")
            self._waiting[:0] = waiting  # their changes come with the next one
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        if self._waiting or was_failing:
            self._schedule(0)
        else:
            self.changed()

    def _failed(self, batch: Batch, changes: Changes, waiting: list[Future[None]], error: Exception) -> None:
        self._busy = False
        self._failing = batch, changes
        self.trouble = f"the state cannot be written: {error}"
        _log.error("%s; it is tried again", self.trouble)
        waiting, self._waiting = waiting + self._waiting, []
        for future in waiting:
            if not future.done():
                reason = error if isinstance(error, RecadoError) else type(error).__name__
                future.set_exception(Busy(f"the state cannot be written: {reason}; try again later"))
        self._schedule(RETRY)
