"""A log in figures, for ``recado log info``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recado.cli.output import console, plural, span, write_line
from recado.model.times import format_time
from recado.store.log import LogReader
from recado.store.log.lock import writer_of
from recado.store.log.manifest import TAIL, TAIL_WAL, load

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def described(folder: Path) -> dict[str, Any]:
    """Everything that can be told without reading all events."""
    reader, manifest = LogReader(folder), load(folder)
    problems: list[str] = []
    extent = reader.extent(on_damage=lambda damage: problems.append(str(damage)))
    segments = [
        {
            "file": entry.file,
            "first": entry.first,
            "end": entry.end,
            "bytes": entry.bytes,
            "earliest": entry.earliest,
            "latest": entry.latest,
        }
        for entry in manifest.segments
    ]
    return {
        "folder": str(folder),
        "log": manifest.log,
        "first": extent.first,
        "sealed": extent.sealed,
        "end": extent.end,
        "events": extent.end - extent.first,
        "oldest": _accepted(reader, extent.first, extent.end),
        "newest": _accepted(reader, extent.end - 1, extent.end),
        "segment_bytes": sum(entry.bytes for entry in manifest.segments),
        "tail_bytes": sum(_size(folder / name) for name in (TAIL, TAIL_WAL)),
        "writer": writer_of(folder),
        "lost": [{"first": gap.first, "end": gap.end, "reason": gap.reason} for gap in manifest.lost],
        "problems": problems,
        "segments": segments,
    }


def _accepted(reader: LogReader, position: int, end: int) -> datetime | None:
    """When the event at a position was accepted; None if there is none, or it cannot be read."""
    if not 0 <= position < end:
        return None
    for batch in reader.read(position, position + 1, on_damage=lambda _: None):
        found: datetime = batch.column("accepted_at")[0].as_py()
        return found
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def show(found: dict[str, Any]) -> None:
    """For people: what there is, then the segments."""
    now = datetime.now(UTC)
    for name, text in _lines(found, now):
        write_line(f"{name:<10} {text}")
    if found["segments"]:
        _segments(found["segments"], now)


def _lines(found: dict[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    first, sealed, end = found["first"], found["sealed"], found["end"]
    expired = " (older ones have expired)" if first else ""
    yield "log", found["folder"]
    yield "events", f"{end - first:,}: {span(first, end)}{expired}" if end > first else f"none; next comes {end:,}"
    for name in ("oldest", "newest"):
        if found[name] is not None:
            yield name, f"{format_time(found[name])}, {_age(now, found[name])} ago"
    yield "segments", f"{len(found['segments']):,}, {found['segment_bytes']:,} bytes"
    yield "tail", f"{plural(end - sealed, 'event')}, {found['tail_bytes']:,} bytes"
    yield "writer", f"process {found['writer']}" if found["writer"] else "none"
    for gap in found["lost"]:
        yield "lost", f"{span(gap['first'], gap['end'])}: {gap['reason']}"
    for problem in found["problems"]:
        yield "problem", problem


def _segments(segments: list[dict[str, Any]], now: datetime) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("segment")
    for column in ("events", "bytes", "age"):
        table.add_column(column, justify="right")
    for one in segments:
        span = f"{one['first']:,} to {one['end'] - 1:,}"
        table.add_row(span, f"{one['end'] - one['first']:,}", f"{one['bytes']:,}", _age(now, one["latest"]))
    console().print()
    console().print(table)


def _age(now: datetime, then: datetime) -> str:
    seconds = max(0, int((now - then).total_seconds()))
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size or unit == "s")
    return f"{seconds // size} {unit}"
