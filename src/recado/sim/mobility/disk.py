"""A simulated disk: an event log and a state store (``recado.store.protocols``) whose writes are lost until synced.

What was written lies in memory, and so does not survive a crash of its node. ``sync`` returns ``Persist`` effects, and
what they hold is what the next life of the node begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from recado.broker.persistence import KINDS, Batch, Loaded, NotificationRow
from recado.broker.state import ORDINAL_BITS
from recado.protocols.machine import Persist

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_encode = msgspec.msgpack.Encoder().encode
_Row = tuple[int, int, int, str, bytes]  # a NotificationRow, and the text of its event


def instant(now: float) -> datetime:
    """The date of an instant of the simulation."""
    return EPOCH + timedelta(seconds=now)


class LogEntry(NamedTuple):
    at: float  # when it was accepted
    user: str
    text: bytes


class SimulatedLog:
    """Events by position. ``write`` may be lost; what ``sync`` has returned is not."""

    identity = "simulated"
    first = 0

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self._entries: list[LogEntry] = []
        self._written: list[LogEntry] = []
        while (entry := saved.get(f"log:{len(self._entries)}")) is not None:
            self._entries.append(LogEntry(*entry))

    @property
    def end(self) -> int:
        """Of what is synced."""
        return len(self._entries)

    def write(self, entries: Sequence[LogEntry]) -> None:
        self._written += entries

    def sync(self) -> tuple[range, list[Persist]]:
        """The positions of what was written, and the effects after which it is safe."""
        start = len(self._entries)
        effects = [
            Persist(f"log:{position}", (entry.at, entry.user, entry.text))
            for position, entry in enumerate(self._written, start)
        ]
        self._entries += self._written
        self._written = []
        return range(start, len(self._entries)), effects

    def read(self, start: int, end: int | None = None) -> Iterator[tuple[int, LogEntry]]:
        for position in range(start, self.end if end is None else end):
            yield position, self._entries[position]


class SimulatedStore:
    """The rows of a broker's state, by table and key."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self._saved = saved
        self.starts = saved.get("starts", 0) + 1
        self._written: list[Persist] = [Persist("starts", self.starts)]

    def load(self) -> Loaded:
        """Everything that was synced before this start."""
        found: dict[str, list[tuple[Any, bytes]]] = {}
        for key, value in self._saved.items():
            table, _, rest = key.partition(":")
            if rest and table != "log":
                found.setdefault(table, []).append((rest, value))
        rows = {
            kind.table: sorted(
                (msgspec.msgpack.decode(body, type=kind.row) for _, body in found.get(kind.table, ())),
                key=kind.key_of,
            )
            for kind in KINDS
        }
        notified = sorted(msgspec.msgpack.decode(body, type=_Row) for _, body in found.get("mail", ()))
        return Loaded(
            dispatched=self._saved.get("dispatched", 0),
            rows=rows,
            notifications=[NotificationRow(*row[:4]) for row in notified],
            events={row[0] >> ORDINAL_BITS: row[4] for row in notified},
            damage=[],
            unreadable=[],
        )

    def write(self, batch: Batch) -> None:
        """Lost unless a ``sync`` follows."""
        out = self._written
        for kind in KINDS:
            for row in batch.rows.get(kind.table, ()):
                out.append(Persist(f"{kind.table}:{kind.key_of(row)}", _encode(row)))
            for key in batch.forgotten.get(kind.table, ()):
                out.append(Persist(f"{kind.table}:{key}", None))
        for one in batch.notifications:
            text = batch.events[one.nid >> ORDINAL_BITS]
            out.append(Persist(f"mail:{one.nid}:{one.mailbox}", _encode((*one, text))))
        for nid, mailbox in batch.gone:
            out.append(Persist(f"mail:{nid}:{mailbox}", None))
        if batch.dispatched is not None:
            out.append(Persist("dispatched", batch.dispatched))

    def sync(self) -> list[Persist]:
        """The effects after which everything that was written is safe."""
        effects, self._written = self._written, []
        return effects
