"""``recado log``: look at a durable event log on this machine, check it, and repair it.

``info`` and ``check`` only read, so they may run beside the service that writes the log. ``repair`` needs the log for
itself, and is refused while a service has it. The work is done by ``recado.store.log``; here it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.output import complain, console, for_people, plural, span, write_json, write_line
from recado.cli.verb import FAILED, OK, verb
from recado.errors import RecadoError
from recado.model.values import format_time
from recado.store.log import LogReader
from recado.store.log.manifest import TAIL, TAIL_WAL, load
from recado.store.log.writer import writer_of

if TYPE_CHECKING:
    from recado.store.log import Damage, Repaired
    from recado.store.log.manifest import Manifest

_HELP = """\
  recado log info --data recado-data               positions, segments, sizes and ages
  recado log check --data recado-data              read every event, compare every checksum
  recado log repair --data recado-data --dry-run   what a repair would do, and what would be lost

--data names the data folder of a service (./recado-data without it), or the folder of a log itself. The commands read
files, so no service need run; info and check may be used while one does.
"""

app = verb("log", epilogue=_HELP)
DATA = Path("recado-data")


@app.command
def info(data: Path = DATA, *, json: bool = False) -> int:
    """Show what a log holds: positions, segments, the tail, sizes and ages.

    Parameters
    ----------
    data
        The data folder of a service, or the folder of a log.
    json
        Write JSON even on a terminal.
    """
    found = describe_log(_folder(data))
    if for_people(json):
        show(found)
    else:
        write_json(found)
    return OK


@app.command
def check(data: Path = DATA, *, json: bool = False) -> int:
    """Read every event of a log, compare every checksum, and name the positions that cannot be read.

    Positions that an earlier repair wrote off are named, too, but are no new damage. While no service runs, the
    write-ahead log that a crash may have left behind is looked at as well. Exit code 1: the log is damaged.

    Parameters
    ----------
    data
        The data folder of a service, or the folder of a log.
    json
        Write NDJSON even on a terminal: an object for each range of positions, then the sum.
    """
    folder, people = _folder(data), for_people(json)
    events, found, known = _read_all(folder)
    for damage, written_off in (*((one, False) for one in found), *((one, True) for one in known)):
        _tell(damage, written_off, people)
    if people:
        write_line(f"{plural(events, 'event')} read; {plural(len(found), 'damaged place') if found else 'no damage'}")
    else:
        write_json({"events": events, "damaged": len(found), "written_off": len(known)})
    if found:
        complain(f"recado log repair --data {data} --dry-run tells what can be done")
    return FAILED if found else OK


@app.command
def repair(
    data: Path = DATA,
    *,
    dry_run: bool = False,
    end: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    json: bool = False,
) -> int:
    """Make a damaged log writable again; nothing is destroyed, and what is lost is said.

    A manifest that cannot be read is made again from the segments. A tail that cannot be read whole is replaced: what
    is intact in it becomes a segment, the other positions are written off as lost, and its files are kept in the folder
    damaged. A damaged segment stays as it is; readers get its intact parts. No service may run on the log.

    Parameters
    ----------
    data
        The data folder of a service, or the folder of a log.
    dry_run
        Try it on a copy, and say what it would do.
    end
        The log is known to have had all positions before this one: go on after them, even if they cannot be found.
    json
        Write JSON even on a terminal.
    """
    from recado.store.log import repair as repair_log

    folder = _folder(data)
    done = _rehearse_repair(folder, end) if dry_run else repair_log(folder, end=end)
    if for_people(json):
        _tell_repair(done, dry_run)
    else:
        write_json(done)
    return OK


def _folder(path: Path) -> Path:
    """The folder of the log: the path itself, or what a service has in it."""
    from recado.store.log.manifest import MANIFEST, SEGMENTS, TAIL

    for folder in (path, path / "log"):
        if any((folder / name).exists() for name in (MANIFEST, SEGMENTS, TAIL)):
            return folder
    raise RecadoError(f"there is no event log in {path}, nor in {path / 'log'}")


def _read_all(folder: Path) -> tuple[int, list[Damage], list[Damage]]:
    """How many events can be read, what is damaged, and what of the rest is known to be lost."""
    from recado.store.log import Damage, LogError, LogReader
    from recado.store.log.manifest import TAIL_WAL, load
    from recado.store.log.writer import writer_of
    from recado.store.wal import wal_damage

    found: list[Damage] = []
    try:
        reader = LogReader(folder)
    except LogError as error:
        return 0, [Damage(0, 0, str(error), str(folder))], []
    events = sum(batch.num_rows for batch in reader.read(on_damage=found.append))
    # While it is written it changes as it is looked at.
    if writer_of(folder) is None and (damage := wal_damage(folder / TAIL_WAL)):
        end = reader.extent(on_damage=lambda _: None).end
        found.append(Damage(end, end, damage, TAIL_WAL))
    manifest = load(folder)
    known = [one for one in found if _write_off(one, manifest)]
    return events, [one for one in found if one not in known], known


def _write_off(damage: Damage, manifest: Manifest) -> bool:
    return damage.first < damage.end and any(
        gap.first <= damage.first and damage.end <= gap.end for gap in manifest.lost
    )


def _tell(damage: Damage, written_off: bool, people: bool) -> None:
    if people:
        write_line(f"{damage}{'; written off by an earlier repair' if written_off else ''}")
        return
    place = {"first": damage.first, "end": damage.end, "reason": damage.reason, "place": damage.place}
    write_json({**place, "written_off": written_off})


def _rehearse_repair(folder: Path, end: int | None) -> Repaired:
    """A repair of a copy. A repair only renames files and adds some, so links do for the segments."""
    import shutil
    from tempfile import TemporaryDirectory

    from recado.store.log import repair as repair_log
    from recado.store.log.manifest import MANIFEST, PREVIOUS, SEGMENTS, TAIL, TAIL_WAL
    from recado.store.log.writer import FolderLock

    lock = FolderLock(folder)
    try:
        with TemporaryDirectory(prefix="recado-log-") as name:
            copy = Path(name)
            (copy / SEGMENTS).mkdir()
            for segment in (folder / SEGMENTS).glob("*.parquet"):
                (copy / SEGMENTS / segment.name).symlink_to(segment.absolute())
            for part in (MANIFEST, PREVIOUS, TAIL, TAIL_WAL):
                if (folder / part).exists():
                    shutil.copyfile(folder / part, copy / part)
            return repair_log(copy, end=end)
    finally:
        lock.release()


def _tell_repair(done: Repaired, dry_run: bool) -> None:
    would = "would be" if dry_run else "is"
    if done.rebuilt_manifest:
        write_line(f"the manifest {would} made again from the segments")
    if done.replaced_tail:
        write_line(f"the tail {would} replaced; its files {'would go' if dry_run else 'are'} in the folder damaged")
    if not done.rebuilt_manifest and not done.replaced_tail:
        write_line("there is nothing to repair: manifest and tail are sound")
    for gap in done.lost:
        write_line(f"{span(gap.first, gap.end)}: {gap.reason}")
    write_line(f"the log goes on with position {done.end:,}")


# --- A log in figures, for ``recado log info`` -----------------------------------------------------------------------


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def describe_log(folder: Path) -> dict[str, Any]:
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
        "oldest": _acceptance_time(reader, extent.first, extent.end),
        "newest": _acceptance_time(reader, extent.end - 1, extent.end),
        "segment_bytes": sum(entry.bytes for entry in manifest.segments),
        "tail_bytes": sum(_size(folder / name) for name in (TAIL, TAIL_WAL)),
        "writer": writer_of(folder),
        "lost": [{"first": gap.first, "end": gap.end, "reason": gap.reason} for gap in manifest.lost],
        "problems": problems,
        "segments": segments,
    }


def _acceptance_time(reader: LogReader, position: int, end: int) -> datetime | None:
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
