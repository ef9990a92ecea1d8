"""What a service asks of its storage: an event log, and a store for the state of the users that it serves.

Both exist once, on SQLite: ``recado.store.log`` and ``recado.store.state``. The simulator has its own, which forget at
a crash what was not synced. A broker knows nothing that is not derived from these two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from recado.broker.persistence import Batch, Loaded
from recado.errors import RecadoError
from recado.model.filter import Filter


class FencedError(RecadoError):
    """Somebody else has taken over: nothing was written, and nothing will be."""


class EventLog(Protocol):
    """Events with dense positions, from ``first`` up to, and without, ``end``.

    Any thread may call: one at a time, except for ``read`` and ``position_at``, which as many may call as like.
    ``on_damage`` is told of positions that cannot be read (``recado.store.log.Damage``); without it they are an error.
    """

    @property
    def identity(self) -> str:
        """It tells this log from every other; positions of another one say nothing here."""
        ...

    @property
    def epoch(self) -> int:
        """It grows whenever another writer takes the log over; a writer of an older epoch is refused as fenced."""
        ...

    @property
    def first(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def latest(self) -> datetime:
        """The instant at which the events of the last commit were accepted."""
        ...

    def commit(self, appends: Sequence[Sequence[Any]]) -> list[range]:
        """Store groups of entries, all or none; their positions, when they are on stable storage.

        With no group at all nothing is stored, but it is tried as if there were.
        """
        ...

    def read(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        where: Filter | None = None,
        batch_rows: int = 8192,
        on_damage: Callable[[Any], None] | None = None,
    ) -> Iterator[Any]:
        """The events of ``[start, end)`` that match ``where``, in Arrow batches; without bounds, all there are now."""
        ...

    def wait(self, position: int, timeout: float | None = None) -> bool:
        """Wait until there is an event at a position; whether there is."""
        ...

    def position_at(self, instant: datetime, on_damage: Callable[[Any], None] | None = None) -> int:
        """The first position whose event was accepted at an instant or later."""
        ...

    def retain(self, max_age: timedelta | None = None, max_bytes: int | None = None) -> Any:
        """Let go of the oldest events that are beyond both bounds; None is no bound."""
        ...

    def maintain(self) -> None:
        """Do what can be done beside commits to keep them fast; it is called now and then, and may take long."""
        ...

    def copy(self, target: Path) -> None:
        """Put a copy of all that is stored now into a new folder."""
        ...

    def close(self) -> None: ...


class StateStore(Protocol):
    """What brokers keep over restarts (``recado.broker.persistence``). Any thread may call, one at a time."""

    @property
    def starts(self) -> int:
        """How often the store was opened for writing: no two who have written have the same number."""
        ...

    def load(self) -> Loaded:
        """Everything that was written; what cannot be read is named in it."""
        ...

    def write(self, batch: Batch) -> None:
        """All of the batch, on stable storage, or an error and nothing of it; a FencedError is final."""
        ...

    def values(self, space: str) -> dict[str, bytes]: ...

    def close(self) -> None: ...
