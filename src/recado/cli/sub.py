"""``recado sub``: subscribe, and show what comes."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from recado.cli.context import Where, beginning
from recado.cli.output import complain, for_people, write_json
from recado.cli.verb import OK, TIMED_OUT, AtMost, Positive, verb
from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.client.client import Client
    from recado.client.options import Options
    from recado.client.subscription import ClientSubscription, Notification


# --- How a notification is written: for people, as JSON, or as a format says -----------------------------------------
#
# =========  ============================================================================================
# ``%t``     the event's type                 ``%i``  its id              ``%s``  its source
# ``%j``     the event as JSON                ``%{name}``  one of its attributes
# ``%p``     its position in the log          ``%n``  the notification's number (nid)
# ``%S``     the subscription                 ``%g``  when the notification was made
# ``%q``     1 if it waited in the mailbox    ``%%``  a percent sign
# =========  ============================================================================================
#
# ``\n``, ``\t`` and ``\\`` mean what they do in C. What an event does not have is empty.


_PIECE = re.compile(r"%\{([^}]*)\}|%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_ENVELOPE = ("id", "type", "source", "time")
_encode = msgspec.json.Encoder().encode

Row = dict[str, Any]


def writer(format: str, json: bool) -> Callable[[Row], None]:
    """A function that writes one notification (``event`` and the members of NOTIFY, as far as they are there)."""
    if format and format not in ("json", "table"):
        pieces = compiled(format)
        return lambda row: _line("".join(piece(row) for piece in pieces))
    if format == "table" or (not format and for_people(json)):
        return lambda row: _line(for_a_person(row))
    return write_json


def _line(text: str) -> None:
    sys.stdout.write(text + "\n")


def for_a_person(row: Row) -> str:
    """Position, type and attributes on a line; whatever could move the cursor is replaced."""
    event = row["event"]
    attributes = "  ".join(f"{name}={_text(value)}" for name, value in event.items() if name not in _ENVELOPE)
    queued = "  (waited)" if row.get("queued") else ""
    place = row.get("position", row.get("nid", 0) >> 20)
    line = f"{place:>8}  {event.get('type', '-')}  {attributes}  [{event['id']}]{queued}"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def compiled(format: str) -> list[Callable[[Row], str]]:
    """The pieces of a format; a RecadoError names a placeholder that does not exist."""
    return [_piece(*found.groups()) for found in _PIECE.finditer(format)]


def _piece(
    attribute: str | None, letter: str | None, escape: str | None, plain: str | None, alone: str | None
) -> Callable[[Row], str]:
    if attribute is not None:
        return lambda row: _text(row["event"].get(attribute))
    if letter is not None:
        if letter == "%":
            return lambda row: "%"
        if letter not in _LETTERS:
            raise RecadoError(
                f"--format has no %{letter}; there are {', '.join('%' + one for one in _LETTERS)}, %{{name}}, %%"
            )
        return _LETTERS[letter]
    if escape is not None:
        text = _ESCAPES.get(escape, "\\" + escape)
        return lambda row: text
    rest = plain if plain is not None else alone or ""
    return lambda row: rest


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value).decode()


_LETTERS: dict[str, Callable[[Row], str]] = {
    "t": lambda row: _text(row["event"].get("type")),
    "i": lambda row: _text(row["event"].get("id")),
    "s": lambda row: _text(row["event"].get("source")),
    "j": lambda row: _encode(row["event"]).decode(),
    "p": lambda row: str(row.get("position", row.get("nid", 0) >> 20)),
    "n": lambda row: _text(row.get("nid")),
    "S": lambda row: _text(row.get("sub_id")),
    "g": lambda row: _text(row.get("generated_at")),
    "q": lambda row: "1" if row.get("queued") else "0",
}


# --- The flags of commands that ask the service for events by meaning: they become the member ``semantic`` -----------


@Parameter(name="*")
@dataclass(frozen=True)
class ByMeaning:
    """Names by meaning; what is left out is the service's default."""

    semantic: bool = False
    """Let other words of the same meaning match. The flags below imply it."""
    measure: str = ""
    """How alike names are: a measure that `recado semantics measures` lists."""
    threshold: float | None = None
    """Names must be more alike than this, from 0 to 1."""
    unmatched: str = ""
    """What a name without a similar one does to a match: fail or ignore."""
    language: str = ""
    """Of the names; several with commas, such as en,pt."""
    rename: bool = False
    """Show attributes under the names of the filter, too."""
    explain: bool = False
    """Show which attribute stood for which name, and how alike they are."""

    def record(self) -> dict[str, Any] | None:
        """None if names mean themselves."""
        languages = [code.strip() for code in self.language.split(",") if code.strip()]
        members = {
            "measure": self.measure or None,
            "threshold": self.threshold,
            "unmatched": self.unmatched or None,
            "language": languages or None,
            "rename": self.rename or None,
            "explain": self.explain or None,
        }
        given = {name: value for name, value in members.items() if value is not None}
        return given if given or self.semantic else None


# --- ``recado sub``: subscribe, and show what comes ------------------------------------------------------------------

_HELP = """\
  recado sub 'Price < 25' --type Tick
  recado sub 'Price < 25' --count 10 --timeout 60      ten of them, but not longer than a minute
  recado sub --type 'Tick' --format '%{Stock} %{Price}'
  recado sub 'Price < 25' --durable cheap              goes on where it was: what came meanwhile comes first
  recado sub 'Price < 25' --from 15m                   the last quarter of an hour, then what is new

In --format: %t type, %i id, %s source, %j the event as JSON, %{name} an attribute, %p position, %n number of the
notification, %S subscription, %g when it was made, %q 1 if it waited, %% a percent sign. json and table are formats,
too.

Exit codes: 0 after --count notifications, 3 when --timeout is over first, 130 after Ctrl-C, 141 when whoever reads the
output goes away, as head does.
"""

app = verb("sub", epilogue=_HELP)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TTL = 300.0  # without a durable name; a command that is killed leaves its subscription behind for no longer


@app.default
def sub(
    filter: str = "",
    /,
    *,
    type: str = "",
    count: Annotated[AtMost, Parameter(name=("--count", "-C"))] = None,
    timeout: Annotated[Positive, Parameter(name=("--timeout", "-W"))] = None,
    format: Annotated[str, Parameter(name=("--format", "-F"))] = "",
    start: Annotated[str, Parameter(name="--from")] = "",
    durable: str = "",
    ttl: Positive = None,
    no_ack: bool = False,
    meaning: ByMeaning = ByMeaning(),  # noqa: B008  # frozen, made once
    json: bool = False,
    where: Where = Where(),  # noqa: B008  # frozen, made once
) -> int:
    """Subscribe and show what comes, until you press Ctrl-C.

    Parameters
    ----------
    filter
        What the events must be like, such as 'Price < 25'; without it, every event.
    type
        Only events of this type, or pattern of types.
    count
        End after so many notifications.
    timeout
        End so many seconds after the subscription is in place, with exit code 3.
    format
        How to write each notification; see below.
    start
        Begin with events of the log: from a position (17), an instant (2026-11-15T10:00:00Z), a span back (15m).
    durable
        A name (letters, digits, dot, dash, underscore) under which the service keeps the subscription, and what comes
        while nobody listens.
    ttl
        Seconds after which the service forgets the subscription if nobody renews it; this command does.
    no_ack
        Acknowledge nothing: the service keeps it all for the next time.
    json
        Write NDJSON even on a terminal.
    """
    import asyncio

    if durable and not _NAME.fullmatch(durable):
        raise RecadoError(f"--durable {durable!r} cannot be a name; use up to 100 of the characters A-Z a-z 0-9 . _ -")
    record: dict[str, Any] = {"filter": filter or None, "type": type or None, "semantic": meaning.record()}
    record |= {"id": durable or None, "ttl": ttl if durable else ttl or _TTL}
    listener = _Listener(count, format, json, not no_ack, beginning(start))
    return asyncio.run(_listen(listener, record, timeout, where))


async def _listen(listener: _Listener, record: dict[str, Any], timeout: float | None, where: Where) -> int:
    import asyncio

    from recado.client.client import Client

    async with Client(_options(record["id"], where)) as client:
        subscription = await client.subscribe(**record, auto_ack=False).ready()
        try:
            async with asyncio.timeout(timeout):
                await listener.listen(client, subscription, record)
        except TimeoutError:
            return TIMED_OUT
    return OK


def _options(durable: str | None, where: Where) -> Options:
    """Without a durable name the command is a user of its own: a look at events takes nothing from a mailbox."""
    from recado.client.options import Options

    name = f"sub-{durable or secrets.token_hex(6)}"
    return Options(
        target=where.target("" if durable else name),
        device=name,
        existing="leave",
        timeout=0,
        on_state=_Teller(),
        on_gap=lambda gap: complain(f"the service dropped {gap.count:,} notifications ({gap.reason})"),
    )


class _Teller:
    """Says once that the connection is gone, and once that it is back."""

    def __init__(self) -> None:
        self._was = ""

    def __call__(self, state: str, reason: str) -> None:
        before, self._was = self._was, state
        if before == "CONNECTED" and state == "DISCONNECTED":
            complain(f"not connected: {reason}; trying again")
        elif before == "DISCONNECTED" and state == "CONNECTED":
            complain("connected again")
        else:
            self._was = state if state == "CONNECTED" else before


class _Listener:
    """Writes what comes: first the log, if asked for, then what is new."""

    def __init__(
        self, count: int | None, format: str, json: bool, acks: bool, start: tuple[int | None, str | None]
    ) -> None:

        self._left = count or 0
        self._counts = count is not None
        self._acks = acks
        self._start = start
        self._write = writer(format, json)
        self._last = -1

    async def listen(self, client: Client, subscription: ClientSubscription, record: dict[str, Any]) -> None:
        if self._start != (None, None):
            await self._replay(client, record)
        while not (self._counts and self._left <= 0):
            await subscription.wait()
            for notification in subscription.take(self._left if self._counts else 1_024):
                self._show(notification)
            sys.stdout.flush()

    async def _replay(self, client: Client, record: dict[str, Any]) -> None:
        position, since = self._start
        limit = self._left if self._counts else None
        wanted = {"type": record["type"], "semantic": record["semantic"]}
        replay = client.replay(record["filter"], **wanted, position=position, since=since, limit=limit)
        async for place, event in replay:
            self._write({"position": place, "event": event})
            self._last = place
            self._left -= 1
        sys.stdout.flush()

    def _show(self, one: Notification) -> None:
        if one.position > self._last:  # else the replay had it
            row = {"position": one.position, "nid": one.nid, "sub_id": one.subscription}
            row |= {"generated_at": one.generated_at, "queued": one.queued, "event": one.members}
            self._write(row if one.why is None else {**row, "why": one.why})
            self._left -= 1
        if self._acks:
            one.ack()
