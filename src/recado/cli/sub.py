"""``recado sub``: subscribe, and show what comes."""

from __future__ import annotations

import re
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from recado.cli.flags import SemanticFlags, ServiceFlags, parse_start
from recado.cli.output import complain
from recado.cli.service_output import notification_writer
from recado.cli.verb import OK, TIMED_OUT, AtMost, Positive, verb
from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.client.client import Client
    from recado.client.options import Options
    from recado.client.subscription import ClientSubscription, Notification


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
    meaning: SemanticFlags = SemanticFlags(),  # noqa: B008  # frozen, made once
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # frozen, made once
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
    listener = _Listener(count, format, json, not no_ack, parse_start(start))
    return asyncio.run(_listen(listener, record, timeout, where))


async def _listen(listener: _Listener, record: dict[str, Any], timeout: float | None, where: ServiceFlags) -> int:
    import asyncio

    from recado.client.client import Client

    async with Client(_options(record["id"], where)) as client:
        subscription = await client.subscribe(**record, auto_ack=False).ready()
        complain(f"subscribed as {record['id']}" if record["id"] else "subscribed")
        try:
            async with asyncio.timeout(timeout):
                await listener.listen(client, subscription, record)
        except TimeoutError:
            return TIMED_OUT
    return OK


def _options(durable: str | None, where: ServiceFlags) -> Options:
    """Without a durable name the command is a user of its own: a look at events takes nothing from a mailbox."""
    from recado.client.options import Options

    name = f"sub-{durable or secrets.token_hex(6)}"
    return Options(
        target=where.target("" if durable else name),
        device=name,
        random_device=not durable,
        existing="leave",
        timeout=0,
        on_state=_ConnectionTeller(),
        on_gap=lambda gap: complain(f"the service dropped {gap.count:,} notifications ({gap.reason})"),
    )


class _ConnectionTeller:
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
        self._write = notification_writer(format, json)
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
