"""Between what the desk holds and the rows that the state store keeps, both ways."""

from __future__ import annotations

from array import array
from datetime import datetime, timedelta
from typing import Any

import msgspec

from recado.delivery.constraints import Constraints
from recado.delivery.desk import ORDINAL_BITS
from recado.delivery.mailbox import Note
from recado.delivery.notices import Notice
from recado.delivery.reading import read_constraints
from recado.delivery.sessions import Changes, Device, User
from recado.delivery.standing import ENDLESS, Standing
from recado.filters.records import KnownFilters
from recado.filters.remembered import Remembered
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, microseconds
from recado.service.engine_requests import read_record
from recado.store.state import DeviceRow, MailRow, NoticeRow, SubscriptionRow

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
        self._records: Remembered[bytes, tuple[dict[str, Any], Subscription, Constraints]] = Remembered()

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
