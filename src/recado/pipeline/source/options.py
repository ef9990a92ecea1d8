"""The options of ``format("recado")``: text in, one checked value out.

Spark hands options over as text, with names in any case, and mixes its own among them (``checkpointLocation``). Each is
read once, here, and an option that is not known is refused with the nearest name, since a misspelt one would be
ignored in silence. ``docs/spark-source.md`` has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, cast

import msgspec

from recado.errors import FilterError
from recado.filters.syntax import parse_filter
from recado.model.filter import Filter
from recado.model.values import parse_time
from recado.pipeline.errors import PipelineError

Damaged = Literal["fail", "skip", "rows"]
Start = Literal["earliest", "latest"] | int

NAMES = (
    "path",
    "startingPosition",
    "startingTime",
    "endingPosition",
    "rowsPerPartition",
    "maxRowsPerBatch",
    "damage",
    "failOnDataLoss",
    "where",
    "pushDown",
    "lockSeconds",
)
_SPARKS = {"checkpointlocation", "queryname"}


class Options(msgspec.Struct, frozen=True):
    path: str
    start: Start | None = None
    start_time: datetime | None = None
    end: int | None = None
    rows_per_partition: int = 100_000
    max_rows_per_batch: int | None = None
    damage: Damaged = "fail"
    fail_on_data_loss: bool = True
    where: Filter | None = None
    push_down: bool = False
    lock_seconds: float = 30.0


def read_options(given: Mapping[str, str]) -> Options:
    """All options, checked; a PipelineError names the one that is wrong."""
    _refuse_unknown(given)
    text = {name.lower(): value for name, value in given.items()}
    if not text.get("path"):
        raise PipelineError('option path: give the folder of the log, as in .load("/data/log")')
    start, start_time = text.get("startingposition"), text.get("startingtime")
    if start is not None and start_time is not None:
        raise PipelineError("options startingPosition and startingTime: give one of them, not both")
    most = text.get("maxrowsperbatch")
    end = text.get("endingposition")
    where = text.get("where")
    return Options(
        path=_local(text["path"]),
        start=None if start is None else _start(start),
        start_time=None if start_time is None else _instant(start_time),
        end=None if end is None or end.lower() == "latest" else _integer("endingPosition", end, 0),
        rows_per_partition=_integer("rowsPerPartition", text.get("rowsperpartition", "100000"), 1),
        max_rows_per_batch=None if most is None else _integer("maxRowsPerBatch", most, 1),
        damage=_damage(text.get("damage", "fail")),
        fail_on_data_loss=_boolean("failOnDataLoss", text.get("failondataloss", "true")),
        where=None if where is None else _filter(where),
        push_down=_boolean("pushDown", text.get("pushdown", "false")),
        lock_seconds=_seconds("lockSeconds", text.get("lockseconds", "30")),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in NAMES}
    for name in given:
        if name.lower() in known or name.lower() in _SPARKS:
            continue
        if name.lower() == "paths":
            raise PipelineError("a log is one folder: load(path) takes one path, not a list")
        near = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(NAMES)}"
        raise PipelineError(f"option {name}: the source recado has no such option; {hint}")


def _local(path: str) -> str:
    """An absolute path, since executors start in other folders; Spark users write ``file:`` in front of local ones."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        raise PipelineError(f"option path: {path!r} is no folder of a file system; mount it, and give the folder")
    return str(Path(path).absolute())


def _start(text: str) -> Start:
    if text.lower() in ("earliest", "latest"):
        return cast(Start, text.lower())
    return _integer("startingPosition", text, 0, "earliest, latest or ")


def _integer(name: str, text: str, least: int, others: str = "") -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise PipelineError(f"option {name}: {text!r} is not {others}an integer from {least} on")
    return number


def _seconds(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise PipelineError(f"option {name}: {text!r} is not a number of seconds from 0 on")
    return number


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PipelineError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _damage(text: str) -> Damaged:
    if text.lower() not in ("fail", "skip", "rows"):
        raise PipelineError(f"option damage: {text!r} is none of fail, skip and rows")
    return cast(Damaged, text.lower())


def _instant(text: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError as error:
        raise PipelineError(f"option startingTime: {error}") from None


def _filter(text: str) -> Filter:
    try:
        return parse_filter(text)
    except FilterError as error:
        raise PipelineError(f"option where: {error}") from None
