"""The rows of the state: what each table keeps, and the checksum that every row carries.

A row is its key, a body in MessagePack and a 64-bit BLAKE2b checksum over the table's name, the key and the body, so
that no row is believed that was changed, or that belongs elsewhere. Mail has columns instead of a body, for there are
many. Instants are microseconds since 1970 in UTC; positions and nids are those of the log.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from recado.errors import RecadoError

POSITION_BITS = 20
"""A nid is ``position << 20 | ordinal``."""
DISPATCHED = ("dispatched", "dispatched, again")
"""The mark of what is dispatched, twice: without it nobody would know which events are still to be notified."""


class StateError(RecadoError):
    """The state cannot be opened, read or written. ``passing`` tells whether it may work later."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class _Row(msgspec.Struct, array_like=True, gc=False):
    pass


class SubscriptionRow(_Row):
    """``until`` is None while it is active; ``record`` is JSON."""

    serial: int
    user: str
    id: str
    ordinal: int
    device: str
    scope: str
    record: bytes
    expires_at: int
    since: int
    until: int | None = None
    last_notified: int | None = None
    ended_at: int | None = None
    reason: str = ""
    notified: int = 0


class NoticeRow(_Row):
    """``nids`` are 64-bit integers in the machine's order; ``at`` is when its age began."""

    id: int
    user: str
    device: str
    reason: str
    after: int
    sub_ids: tuple[str, ...]
    count: int
    nids: bytes
    at: int | None = None


class DeviceRow(_Row):
    user: str
    device: str
    seen_at: int
    connected: bool
    beyond: int = -1


class BoxRow(_Row):
    number: int
    user: str
    device: str


class MailRow(NamedTuple):
    nid: int
    box: int
    at: int
    sub_id: str


class Batch(msgspec.Struct):
    """One transaction. ``dispatched``: the events before this position have got their notifications."""

    dispatched: int | None = None
    subscriptions: list[SubscriptionRow] = []
    forget_subscriptions: list[int] = []
    boxes: list[BoxRow] = []
    mail: list[MailRow] = []
    held: dict[int, bytes] = {}
    gone: list[tuple[int, int]] = []  # nid and box
    forget_boxes: list[int] = []  # without mail
    notices: list[NoticeRow] = []
    forget_notices: list[int] = []
    devices: list[DeviceRow] = []
    forget_devices: list[tuple[str, str]] = []
    values: dict[tuple[str, str], bytes | None] = {}  # by space and key


class Loaded(msgspec.Struct):
    """Everything that is kept, but for values, which are asked for one by one. Without its mark, what was dispatched is
    not known, and ``dispatched`` is None.
    """

    dispatched: int | None
    subscriptions: list[SubscriptionRow]
    boxes: list[BoxRow]
    mail: list[MailRow]
    held: dict[int, bytes]
    notices: list[NoticeRow]
    devices: list[DeviceRow]
    damage: list[str]
    unreadable: list[tuple[int, int]]  # mail whose row or event is damaged: nid and box


_encode = msgspec.msgpack.Encoder().encode
_MAIL = struct.Struct("<qqq")
_KEY = struct.Struct("<q")


def packed(row: _Row) -> bytes:
    return _encode(row)


def checksum(table: str, key: bytes, body: bytes) -> bytes:
    return blake2b(b"%d:%b%b" % (len(key), key, body), digest_size=8, person=table.encode()).digest()


def number_key(number: int) -> bytes:
    return _KEY.pack(number)


def text_key(*texts: str) -> bytes:
    return _encode(texts)


def mail_checksum(nid: int, box: int, at: int, sub_id: bytes) -> bytes:
    return blake2b(_MAIL.pack(nid, box, at) + sub_id, digest_size=8, person=b"mail").digest()


def decoded(kind: Any, body: Any) -> Any:
    """The row in a body, or None if it is none."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, TypeError, UnicodeError):
        return None
