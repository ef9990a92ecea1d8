"""Where a verb reads from: NDJSON files, JSON arrays and standard input, in bounded memory.

A record comes with its place (``events.ndjson:17``) so that a message about it can name that place. A line longer
than the limit is never held whole. Events come in blocks, each of which is matched in one go.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from recado.cli.output import complain
from recado.errors import RecadoError
from recado.filters.records import KnownFilters, read_subscription
from recado.model.codec import read_event, split_batch
from recado.model.event import Event
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription

if TYPE_CHECKING:
    from recado.matching.json_texts import Texts

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLOCK_BYTES = 1 << 20
BLOCK_RECORDS = 4_096


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


class Block:
    """Records that follow each other: given as such, or as the bytes of whole lines from a number on."""

    def __init__(self, records: Sequence[Record] = (), lines: bytes = b"", first_line: int = 1) -> None:
        self._records, self._bytes, self._first_line = records, lines, first_line
        self.bytes = len(lines) or sum(len(record.raw) for record in records)

    def __len__(self) -> int:
        if self._records:
            return len(self._records)
        return self._bytes.count(b"\n") + (self._bytes[-1:] not in (b"", b"\n"))

    def texts(self) -> Texts:
        """All of them, for the kernel that reads them in one go."""
        from recado.matching.json_texts import from_lines, joined  # slow to import, and few need it

        return joined([record.raw for record in self._records]) if self._records else from_lines(self._bytes)

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._bytes.split(b"\n")

    def record(self, number: int) -> Record | None:
        """The record with a number, from 0 on; None for a blank line."""
        if self._records:
            return self._records[number]
        raw, place = self._lines[number], f":{self._first_line + number}"
        if len(raw) > LIMITS.event_bytes:
            return Record(place, b"", _too_long("line", LIMITS.event_bytes))
        return Record(place, raw) if raw.strip() else None

    def default_id(self, number: int) -> str:
        """An id for an event that has none."""
        return self._records[number].default_id if self._records else f"line-{self._first_line + number}"


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
def open_input(path: str) -> Iterator[io.BufferedReader[Any]]:
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


def event_blocks(stream: io.BufferedReader[Any], path: str) -> Iterator[Block]:
    """The same, many at a time."""
    start = stream.peek().removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"[") or path.endswith(".json"):
        yield from (Block(records) for records in _chunks(event_records(stream, path)))
    else:
        yield from _line_blocks(stream)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    waiting = iter(records)
    while some := list(islice(waiting, BLOCK_RECORDS)):
        yield some


def _line_blocks(stream: io.BufferedReader[Any]) -> Iterator[Block]:
    """Lines as they lie in the file; of one that is longer than the limit only the beginning is held."""
    number, rest = 1, stream.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    while read := stream.read(BLOCK_BYTES):
        data = rest + read
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        if end:
            block = Block(lines=data[:end], first_line=number)
            number += len(block)
            yield block
        if len(rest) > LIMITS.event_bytes:
            _skip_line(stream)
            rest = b""
            yield Block([Record(f":{number}", b"", _too_long("line", LIMITS.event_bytes))])
            number += 1
    if rest:
        yield Block(lines=rest, first_line=number)


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


# --- subscriptions and events ----------------------------------------------------------------------------------------


class Counts(msgspec.Struct):
    """What has gone through so far."""

    events: int = 0
    matches: int = 0
    bytes: int = 0


def read_subscriptions(
    path: str, problems: Problems, check: Callable[[Subscription], None] = lambda _: None, shown: str = ""
) -> Iterator[Subscription]:
    """The subscriptions of an NDJSON file that pass; a later one replaces an earlier one of the same id.

    ``shown`` is what messages call the file, if that is not its path.
    """
    known = KnownFilters()
    with open_input(path) as stream:
        for record in lines(stream, LIMITS.subscription_bytes):
            try:
                subscription = read_subscription(record.text(), known=known)
                check(subscription)
            except RecadoError as error:
                problems.report(shown or path, record.place, str(error))
            else:
                yield subscription


def read_events(path: str, problems: Problems, counts: Counts) -> Iterator[Event]:
    """The events of a file; one without an id is called after its line."""
    with open_input(path) as stream:
        for record in event_records(stream, path):
            counts.bytes += len(record.raw)
            try:
                yield read_event(record.text(), default_id=record.default_id)
            except RecadoError as error:
                problems.report(path, record.place, str(error))
