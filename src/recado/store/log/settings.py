"""How a log is cut and limited, and the values that describe its parts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.model.limits import LIMITS, Limits

# --- What can be wrong with a log, as one error and one value --------------------------------------------------------


class Damage(msgspec.Struct, frozen=True):
    """Positions ``[first, end)`` cannot be read. An empty range: bytes are damaged, but no known position is lost.

    ``expired`` tells positions that retention removed on purpose from those that something destroyed.
    """

    first: int
    end: int
    reason: str
    place: str
    expired: bool = False

    def __str__(self) -> str:
        return f"{self._what()}: {self.reason} ({self.place})"

    def _what(self) -> str:
        if self.end <= self.first:
            return f"damage at position {self.first:,}"
        if self.end == self.first + 1:
            return f"position {self.first:,} cannot be read"
        return f"positions {self.first:,} to {self.end - 1:,} cannot be read"


OnDamage = Callable[[Damage], None]


class LogError(RecadoError):
    """The log cannot be opened, read or written as asked; ``damage`` says which positions are concerned, if any."""

    def __init__(self, message: str, damage: Damage | None = None) -> None:
        super().__init__(message)
        self.damage = damage


class BusyError(LogError):
    """Something passing: there is another writer, a lock is held for too long, a queue is full. Try again later."""


def refuse(damage: Damage) -> None:
    """The strict way to meet damage: an error that names the positions."""
    hint = "" if damage.expired else "; pass on_damage to read the rest"
    raise LogError(f"{damage}{hint}", damage)


# --- How a log is cut and limited, and the values that describe its parts --------------------------------------------

MIB = 1024 * 1024


class LogSettings(msgspec.Struct, frozen=True):
    """A segment is sealed as soon as one of rows, bytes or age is reached. Bytes are counted before compression."""

    segment_rows: int = 100_000
    segment_bytes: int = 64 * MIB
    segment_age_seconds: float = 3600.0
    group_rows: int = 8_192  # of a Parquet row group, which is also what one damaged byte can spoil
    group_bytes: int = 4 * MIB
    zstd_level: int = 3
    busy_seconds: float = 10.0  # how long to wait for a lock that another process holds on the tail
    limits: Limits = LIMITS

    def check(self) -> None:
        """Refuse what cannot work, by name."""
        for name in ("segment_rows", "segment_bytes", "segment_age_seconds", "group_rows", "group_bytes"):
            if not getattr(self, name) > 0:
                raise LogError(f"the setting {name} is {getattr(self, name)}; it must be greater than 0")
        if not 1 <= self.zstd_level <= 22:
            raise LogError(f"the setting zstd_level is {self.zstd_level}; it must be from 1 to 22")
        if self.busy_seconds < 0:
            raise LogError(f"the setting busy_seconds is {self.busy_seconds}; it must not be negative")


DEFAULTS = LogSettings()


class Segment(msgspec.Struct, frozen=True):
    """A sealed file with the positions ``[first, end)``; ``earliest`` and ``latest`` bound when they were accepted.

    ``time_min`` and ``type_min`` are None if no event has a time or a type; ``untimed`` and ``untyped`` tell whether
    some event has none. ``type_max`` is also None if the greatest type is too long to keep here.
    """

    first: int
    end: int
    path: Path
    bytes: int
    digest: str
    earliest: datetime
    latest: datetime
    time_min: datetime | None = None
    time_max: datetime | None = None
    untimed: bool = True
    type_min: str | None = None
    type_max: str | None = None
    untyped: bool = True


class Extent(msgspec.Struct, frozen=True):
    """Positions ``[first, sealed)`` are in segments and ``[sealed, end)`` in the tail."""

    first: int
    sealed: int
    end: int
