"""What the tests of the event log share: small logs, plain readings of them, and folders as a crash leaves them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recado.model.codec import read_event
from recado.model.event import Event
from recado.store.log import LogReader, LogSettings, SqliteEventLog

START = datetime(2026, 11, 15, 10, tzinfo=UTC)
SMALL = LogSettings(segment_rows=40, group_rows=8)


class Ticking:
    """A clock that a test moves; each look at it moves it by ``step`` seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = START
        self.step = timedelta(seconds=step)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


def event(number: int, **attributes: object) -> Event:
    kind = ("reading", "alarm", "")[number % 3]
    time = None if number % 5 == 0 else START + timedelta(seconds=number)
    return Event(f"e-{number}", kind, f"/sensor/{number % 7}", time, {"level": number, **attributes})


def events(start: int, end: int) -> list[Event]:
    return [event(number) for number in range(start, end)]


def filled(path: Path, count: int, sealed: int = 0, settings: LogSettings = SMALL) -> Path:
    """A closed log with ``count`` events, of which the first ``sealed`` are in segments, all of ten to an append."""
    with SqliteEventLog.open(path, settings, Ticking(1)) as log:
        for start in range(0, count, 10):
            log.append(events(start, min(start + 10, count)))
            if log.end == sealed:
                log.seal(force=True)
    return path


def positions(path: Path, *bounds: int, **options: object) -> list[int]:
    reader = LogReader(path)
    return [p for batch in reader.read(*bounds, **options) for p in batch.column("position").to_pylist()]


def contents(path: Path, *bounds: int, **options: object) -> dict[int, Event]:
    """Position and event of every row; each position may come once."""
    found: dict[int, Event] = {}
    for batch in LogReader(path).read(*bounds, **options):
        for position, text in zip(batch.column("position").to_pylist(), batch.column("event").to_pylist(), strict=True):
            assert position not in found
            found[position] = read_event(text)
    return found


def image(path: Path, target: Path) -> Path:
    """The folder as a crash at this moment would leave it."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(path, target, ignore=shutil.ignore_patterns("*-shm")))
