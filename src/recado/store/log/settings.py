"""How a log is cut and limited, and the values that describe its parts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from recado.model.limits import LIMITS, Limits
from recado.store.log.errors import LogError

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
