"""Where a verb reads from: NDJSON files, JSON arrays and standard input, in bounded memory.

A record comes with its place (``events.ndjson:17``) so that a message about it can name that place. A line longer
than the limit is never held whole.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from recado.cli.output import complain
from recado.errors import RecadoError
from recado.model.codec import split_batch
from recado.model.limits import LIMITS

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """One piece of JSON; where it stands in its file; what is wrong with it, if it cannot even be handed on."""

    place: str
    raw: bytes
    problem: str = ""

    def text(self) -> bytes:
        """The JSON; a RecadoError if there is a problem with it already."""
        if self.problem:
            raise RecadoError(self.problem)
        return self.raw

    @property
    def default_id(self) -> str:
        """An id for an event that has none: ``line-17``, or ``item-3`` of an array."""
        kind = "line" if self.place.startswith(":") else "item"
        return f"{kind}-{self.place.strip(':[]')}"


class Problems:
    """Bad records: told to the person one by one, counted, and fatal if the run is strict."""

    def __init__(self, strict: bool) -> None:
        self.count = 0
        self._strict = strict

    def report(self, path: str, place: str, reason: str) -> None:
        self.count += 1
        message = f"{display_name(path)}{place}: " + reason.replace("\n", "\n    ")
        if self._strict:
            raise RecadoError(message)
        complain(message)


@contextmanager
def opened(path: str) -> Iterator[io.BufferedReader[Any]]:
    """The file, or standard input for ``-``; a RecadoError if it cannot be read."""
    if path == "-":
        reader = io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
        yield reader
        reader.detach()  # or it would close standard input with itself
        return
    try:
        with Path(path).open("rb") as stream:
            yield stream
    except OSError as error:
        raise RecadoError(f"{path}: {error.strerror or error}") from None


def display_name(path: str) -> str:
    return "<stdin>" if path == "-" else path


def lines(stream: io.BufferedReader[Any], longest: int) -> Iterator[Record]:
    """The lines that are not blank, numbered from 1."""
    number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if len(raw) > longest and not raw.endswith(b"\n"):
            _skip_line(stream)
            yield Record(f":{number}", b"", _too_long("line", longest))
        elif raw.strip():
            yield Record(f":{number}", raw)


def event_records(stream: io.BufferedReader[Any], path: str) -> Iterator[Record]:
    """Events from NDJSON, from a JSON array (its bracket tells), or one pretty-printed event from a ``.json`` file."""
    start = stream.peek().removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"["):
        yield from _elements(stream.read(LIMITS.batch_bytes + 1))
    elif path.endswith(".json") and not start.partition(b"\n")[0].rstrip().endswith(b"}"):
        raw = stream.read(LIMITS.event_bytes + 1)
        yield Record(":1", raw, _too_long("event", LIMITS.event_bytes) if len(raw) > LIMITS.event_bytes else "")
    else:
        yield from lines(stream, LIMITS.event_bytes)


def _elements(array: bytes) -> Iterator[Record]:
    if len(array) > LIMITS.batch_bytes:
        yield Record("", b"", _too_long("array", LIMITS.batch_bytes))
        return
    try:
        yield from (Record(f"[{position}]", raw) for position, raw in enumerate(split_batch(array)))
    except RecadoError as error:
        yield Record("", b"", str(error))


def _too_long(what: str, limit: int) -> str:
    return f"the {what} is longer than {limit:,} bytes, which is the limit"


def _skip_line(stream: io.BufferedReader[Any]) -> None:
    while (rest := stream.readline(65_536)) and not rest.endswith(b"\n"):
        pass
