"""Logs to read, and a session that knows the source."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from recado.model.event import Event
from recado.pipeline.source import register
from recado.store.log import LOG_SCHEMA, LogReader, LogSettings, SqliteEventLog

T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="session")
def spark(spark):
    register(spark)
    return spark


class Clock:
    """A second passes whenever somebody looks."""

    def __init__(self):
        self.now = T0

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


class Logs:
    """Makes logs and harms them."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = Clock()

    def sales(self, count, start=0):
        return [
            Event(f"e-{n}", ("sale", "rent")[n % 2], "shop", T0 + timedelta(minutes=n), {"price": n * 0.5, "n": n})
            for n in range(start, start + count)
        ]

    def make(self, events=(), sealed=0, segment_rows=10, name="log"):
        """A log with the events, four of them accepted each second; the first ``sealed`` are in segments."""
        path = self.folder / name
        with self.writer(path, segment_rows) as log:
            self._append(log, events[:sealed])
            log.seal(force=True)
            self._append(log, events[sealed:])
        return path

    def _append(self, log, events):
        for start in range(0, len(events), 4):
            log.append(events[start : start + 4])

    def writer(self, path, segment_rows=10):
        return SqliteEventLog.open(path, LogSettings(segment_rows=segment_rows), clock=self.clock)

    def expire(self, path, keep):
        """Let the oldest segments go until so many are left."""
        with self.writer(path) as log:
            sizes = [segment.bytes for segment in LogReader(path).segments()]
            log.retain(max_bytes=sum(sizes[len(sizes) - keep :]))

    def damage(self, path, segment):
        """Change bytes in the middle of a segment; no row of its one row group can be read after that."""
        file = LogReader(path).segments()[segment].path
        content = bytearray(file.read_bytes())
        content[100:140] = bytes(byte ^ 0xFF for byte in content[100:140])
        file.write_bytes(content)

    def rows(self, path, **how):
        return pa.Table.from_batches(LogReader(path).read(**how), LOG_SCHEMA).to_pylist()


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)
