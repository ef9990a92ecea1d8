"""The durable event log: a hot tail in SQLite, sealed into Parquet segments under a manifest.

``SqliteEventLog`` writes, ``LogReader`` reads from any process, and ``repair`` helps when files were damaged.
docs/event-log.md has the format and what is promised.
"""

from recado.store.log.reader import LogReader
from recado.store.log.repair import Repaired, repair
from recado.store.log.rows import LOG_SCHEMA
from recado.store.log.settings import BusyError, Damage, Extent, LogError, LogSettings, Segment
from recado.store.log.writer import SqliteEventLog

__all__ = [
    "LOG_SCHEMA",
    "BusyError",
    "Damage",
    "Extent",
    "LogError",
    "LogReader",
    "LogSettings",
    "Repaired",
    "Segment",
    "SqliteEventLog",
    "repair",
]
