"""What a broker's crash leaves: the log, and the desk as it was when it was last kept.

An event is persisted before it is acknowledged. The desk's changes are gathered and kept together with ``dispatched``:
at once when a subscription is made or ended, else now and then. After a crash the events from ``dispatched`` on are
dispatched again, at the instants at which they were accepted; so their notifications have the nids they had.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from recado.broker.core import Desk
from recado.broker.mailbox import Bounds, Note, Notice
from recado.broker.state import Device, Standing, User

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY: dict[str, Any] = {
    "dispatched": 0, "next_notice": 1, "next_serial": 1, "notes": {}, "notices": {}, "standings": {}, "devices": {},
}  # fmt: skip
_STANDING = ("expires_at", "since", "until", "device", "scope", "last_notified", "notified", "ended_at", "reason")


def instant(now: float) -> datetime:
    return EPOCH + timedelta(seconds=now)


def kept(before: Mapping[str, Any], desk: Desk, dispatched: int) -> dict[str, Any]:
    """What the store holds after the desk's changes: new tables, the old ones stay as they are."""
    desk.forget_closed(dispatched)
    changes = desk.take_changes()
    after = {**before, "dispatched": dispatched, "next_notice": desk.next_notice, "next_serial": desk.next_serial}
    for table in ("notes", "notices", "standings", "devices"):
        after[table] = dict(before[table])
    for note in changes.notes:
        after["notes"][_place(note)] = (note.sub_id, note.event, note.at)
    for note in changes.gone:
        after["notes"].pop(_place(note), None)
    for id, (user, notice) in changes.notices.items():
        _set(after["notices"], id, notice and _notice(user, notice))
    for serial, standing in changes.standings.items():
        _set(after["standings"], serial, standing and _row(standing))
    for name, device in changes.devices.items():
        _set(after["devices"], name, device and device.seen_at)
    return after


def _set(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _place(note: Note) -> tuple[str, str, int]:
    return note.box.user.name, note.box.device, note.nid


def _notice(user: User, notice: Notice) -> tuple[Any, ...]:
    return user.name, notice.device, notice.reason, notice.after, notice.sub_ids, tuple(notice.nids), notice.count


def _row(standing: Standing) -> dict[str, Any]:
    row = {name: getattr(standing, name) for name in _STANDING}
    row |= {"id": standing.id, "user": standing.user.name, "ordinal": standing.ordinal, "record": standing.record}
    return row | {"constraints": standing.constraints}


def restored(saved: Mapping[str, Any], bounds: Bounds, grace: timedelta) -> Desk:
    """The desk as it was kept."""
    desk = Desk(bounds, next_notice=saved["next_notice"], next_serial=saved["next_serial"], grace=grace)
    for serial, row in sorted(saved["standings"].items()):
        desk.enter(_standing(desk, serial, row))
    for (user, device), seen_at in saved["devices"].items():
        desk.user(user).devices[device] = Device(device, seen_at)
    for (user, device, nid), (sub_id, event, at) in sorted(saved["notes"].items()):
        box = desk.box(desk.user(user), device)
        note = Note(nid, sub_id, event, at, box)
        note.kept = True
        box.append(note)
    for id, row in sorted(saved["notices"].items()):
        user, device, reason, after, sub_ids, nids, count = row
        notice = Notice(id, device, reason, after, sub_ids)
        notice.nids.extend(nids)
        notice.count = count
        desk.user(user).notices[id] = notice
    return desk


def _standing(desk: Desk, serial: int, row: Mapping[str, Any]) -> Standing:
    standing = Standing(
        serial, row["id"], desk.user(row["user"]), row["ordinal"],
        expires_at=row["expires_at"], since=row["since"], constraints=row["constraints"], record=row["record"],
    )  # fmt: skip
    for name in _STANDING:
        setattr(standing, name, row[name])
    return standing
