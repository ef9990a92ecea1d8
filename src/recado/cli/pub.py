"""``recado pub``: publish events, from arguments, a file or standard input."""

from __future__ import annotations

import re
import secrets
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.flags import ServiceFlags
from recado.cli.output import complain, for_people, plural, write_json
from recado.cli.verb import FAILED, OK, Positive, Source, verb
from recado.errors import RecadoError
from recado.model.values import format_time

if TYPE_CHECKING:
    from recado.client.client import Client

_HELP = """\
From arguments; values are numbers, true or false where they can be read so:

  recado pub Tick Stock=PETR4 Price=24.9
  recado pub '{"type": "Tick", "Stock": "PETR4", "Price": 24.9}'
  recado pub Tick Number={{count}} 'Price={{random 10 50}}' At={{now}} --count 1000 --rate 100

From a file or a pipe, one JSON object a line, flat or CloudEvents:

  recado pub --file events.ndjson
  generate | recado pub

An event is acknowledged when the service has it on stable storage. In a pipe, or with --json, the position of each is
written. Exit codes: 1 if some events could not be published (each is named), 2 if none was even read.
"""

app = verb("pub", epilogue=_HELP)
_IN_FLIGHT = 1_024


@app.default
def pub(
    type: Source = "",
    /,
    *attributes: str,
    file: str = "",
    count: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    rate: Positive = None,
    template: bool = False,
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # frozen, made once
) -> int:
    """Publish events and wait for their acknowledgement.

    Parameters
    ----------
    type
        The type of the event, or the whole event as JSON; nothing or - reads standard input.
    attributes
        The event's attributes, as NAME=VALUE.
    file
        Publish the events of this file.
    count
        Publish the event of the arguments so many times; see {{count}}.
    rate
        So many events a second; without it, as fast as they are acknowledged.
    template
        Fill {{...}} also in what a file or standard input holds.
    json
        Write NDJSON even on a terminal.
    """
    import asyncio

    given = type not in ("", "-")
    _check(type if given else "", attributes, file, count)
    source = _from_arguments(type, attributes, count) if given else _from_file(file or "-", template)
    return asyncio.run(_publish(source, where, rate, for_people(json)))


def _check(event: str, attributes: tuple[str, ...], file: str, count: int) -> None:
    """Nothing that was typed is passed over in silence."""
    if event and file:
        raise RecadoError(f"the event is given as {event!r} and in {file}; leave out one of them")
    if not event and count > 1:
        raise RecadoError("--count repeats an event of the arguments, such as: recado pub Tick n={{count}} --count 10")
    if attributes and (not event or _whole(event)):
        raise RecadoError(
            f"{attributes[0]!r} has no place: attributes follow a type, as in: recado pub Tick Price=24.9"
        )
    if "=" in event and not _whole(event):
        raise RecadoError(f"{event!r} stands where the type does; write it first, as in: recado pub Tick Price=24.9")


def _whole(event: str) -> bool:
    return event.lstrip().startswith("{")


def _from_arguments(type: str, attributes: tuple[str, ...], count: int) -> Iterator[tuple[str, bytes | dict[str, Any]]]:

    for number in range(1, count + 1):
        if _whole(type):
            yield "the event", expand(type, number).encode()
        else:
            yield "the event", members(type, attributes, number)


def _from_file(path: str, template: bool) -> Iterator[tuple[str, bytes | RecadoError]]:
    """Each record with its place, or what is wrong with it: the others are published all the same."""
    from recado.cli.inputs import display_name, event_records, open_input

    with open_input(path) as stream:
        for number, record in enumerate(event_records(stream, path), 1):
            event: bytes | RecadoError
            try:
                event = _fill(record.text(), number) if template else record.text()
            except RecadoError as error:
                event = error
            yield f"{display_name(path)}{record.place}", event


def _fill(raw: bytes, number: int) -> bytes:
    """Bytes that are no text stay as they are, for whoever reads the event to complain about."""
    return expand(raw.decode(errors="surrogateescape"), number).encode(errors="surrogateescape")


async def _publish(source: Iterator[Any], where: ServiceFlags, rate: float | None, people: bool) -> int:
    import secrets

    from recado.client.client import Client
    from recado.client.options import Options

    options = Options(
        target=where.target(),
        device=f"pub-{secrets.token_hex(8)}",
        random_device=True,
        existing="leave",
        window=1,
        timeout=0,
    )
    async with Client(options) as client:
        return await _Run(client, people).all(_at_rate(source, rate))


async def _at_rate(source: Iterator[Any], rate: float | None) -> AsyncIterator[Any]:
    """The events at their rate; reading one must not hold up the loop, since standard input may be a person."""
    import asyncio

    loop = asyncio.get_running_loop()
    begun, number, end = time.monotonic(), 0, object()
    while (one := await loop.run_in_executor(None, next, source, end)) is not end:
        if rate:
            await asyncio.sleep(begun + number / rate - time.monotonic())
        number += 1
        yield one


class _Run:
    """Publishes, writes positions in order, and remembers what went wrong."""

    def __init__(self, client: Client, people: bool) -> None:
        self._client, self._people = client, people
        self.published = self.failed = 0

    async def all(self, source: AsyncIterator[Any]) -> int:
        import asyncio
        from collections import deque

        waiting: deque[tuple[str, str, asyncio.Future[int]]] = deque()
        async for place, event in source:
            while waiting and (waiting[0][2].done() or len(waiting) >= _IN_FLIGHT):
                await self._answer(*waiting.popleft())
            self._begin(place, event, waiting)
        while waiting:
            await self._answer(*waiting.popleft())
        if self._people:
            complain(f"published {plural(self.published, 'event')}")
        return FAILED if self.failed else OK

    def _begin(self, place: str, event: Any, waiting: Any) -> None:
        import secrets

        from recado.model.codec import read_event

        try:
            if isinstance(event, RecadoError):
                raise event
            read = read_event(event, default_id=f"e-{secrets.token_hex(8)}")
            waiting.append((place, read.id, self._client.publish_soon(read)))
        except RecadoError as error:
            self._problem(place, error)

    async def _answer(self, place: str, id: str, answer: Any) -> None:
        try:
            position = await answer
        except RecadoError as error:
            self._problem(place, error)
            return
        self.published += 1
        if not self._people:
            write_json({"id": id, "position": position})
            sys.stdout.flush()

    def _problem(self, place: str, error: Exception) -> None:
        self.failed += 1
        complain(f"{place}: " + str(error).replace("\n", "\n    "))


# --- Templates in what is published: ``{{count}}``, ``{{random 1 100}}``, ``{{now}}``, ``{{uuid}}`` ------------------


_HOLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_RIGHT = "{{count}}, {{random 1 100}}, {{now}} and {{uuid}}"


def expand(text: str, count: int) -> str:
    """The text with its holes filled; ``count`` is the number of this event, from 1."""
    return _HOLE.sub(lambda hole: _value(hole[1].lower().split(), hole[0], count), text) if "{{" in text else text


def _value(words: list[str], hole: str, count: int) -> str:
    match words:
        case ["count"]:
            return str(count)
        case ["now"]:
            return format_time(datetime.now(UTC))
        case ["uuid"]:
            return str(uuid.uuid4())
        case ["random", low, high] if _read_integer(low) and _read_integer(high) and int(low) <= int(high):
            return str(int(low) + secrets.randbelow(int(high) - int(low) + 1))
    raise RecadoError(f"there is no template {hole}; there are {_RIGHT}")


def _read_integer(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text) is not None


def members(type: str, pairs: tuple[str, ...], count: int) -> dict[str, Any]:
    """The members of event number ``count``, from ``Tick Price=24.9 Stock=PETR4``."""
    found: dict[str, Any] = {"type": expand(type, count)} if type else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise RecadoError(f"{pair!r} is not name=value, such as Price=24.9")
        found[name] = scalar(expand(value, count))
    return found


def scalar(text: str) -> Any:
    """A number, true, false, or a JSON text, array or object if it can be read so; else the text itself."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return text if value is None else value
