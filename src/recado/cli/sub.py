"""``recado sub``: subscribe, and show what comes."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.context_target import TIMED_OUT, Where, beginning
from recado.cli.output import complain
from recado.cli.verb import OK, verb

if TYPE_CHECKING:
    from recado.client.client import Client
    from recado.client.notification import Notification
    from recado.client.options import Options
    from recado.client.subscription import Subscription

_HELP = """\
  recado sub 'Price < 25' --type Tick
  recado sub 'Price < 25' --count 10 --timeout 60      ten of them, but not longer than a minute
  recado sub --type 'Tick' --format '%{Stock} %{Price}'
  recado sub 'Price < 25' --durable cheap              goes on where it was: what came meanwhile comes first
  recado sub 'Price < 25' --from 15m                   the last quarter of an hour, then what is new

In --format: %t type, %i id, %s source, %j the event as JSON, %{name} an attribute, %p position, %n number of the
notification, %S subscription, %g when it was made, %q 1 if it waited, %% a percent sign. json and table are formats,
too.

Exit codes: 0 after --count notifications, 3 when --timeout is over first, 130 after Ctrl-C.
"""

app = verb("sub", epilogue=_HELP)


@app.default
def sub(
    filter: str = "",
    /,
    *,
    type: str = "",
    count: Annotated[int, Parameter(name=("--count", "-C"), validator=Number(gte=0))] = 0,
    timeout: Annotated[float, Parameter(name=("--timeout", "-W"), validator=Number(gte=0))] = 0,
    format: Annotated[str, Parameter(name=("--format", "-F"))] = "",
    start: Annotated[str, Parameter(name="--from")] = "",
    durable: str = "",
    ttl: float | None = None,
    no_ack: bool = False,
    semantic: bool = False,
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
        A name under which the service keeps the subscription, and what comes while nobody listens.
    ttl
        Seconds after which the service forgets the subscription if nobody renews it; this command does.
    no_ack
        Acknowledge nothing: the service keeps it all for the next time.
    semantic
        Let other words of the same meaning match.
    json
        Write NDJSON even on a terminal.
    """
    import asyncio

    record: dict[str, Any] = {"filter": filter or None, "type": type or None, "semantic": semantic or None}
    record |= {"id": durable or None, "ttl": ttl if durable else ttl or 300.0}
    listener = _Listener(count, format, json, not no_ack, beginning(start))
    return asyncio.run(_listen(listener, record, timeout, where))


async def _listen(listener: _Listener, record: dict[str, Any], timeout: float, where: Where) -> int:
    import asyncio

    from recado.client.client import Client

    async with Client(_options(record["id"], where)) as client:
        subscription = await client.subscribe(**record, auto_ack=False).ready()
        try:
            async with asyncio.timeout(timeout or None):
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

    def __init__(self, count: int, format: str, json: bool, acks: bool, start: tuple[int | None, str | None]) -> None:
        from recado.cli.sub_format import writer

        self._left = count
        self._counts = count > 0
        self._acks = acks
        self._start = start
        self._write = writer(format, json)
        self._last = -1

    async def listen(self, client: Client, subscription: Subscription, record: dict[str, Any]) -> None:
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
        replay = client.replay(record["filter"], type=record["type"], position=position, since=since, limit=limit)
        async for place, event in replay:
            self._write({"position": place, "event": event})
            self._last = place
            self._left -= 1
        sys.stdout.flush()

    def _show(self, one: Notification) -> None:
        if one.position > self._last:  # else the replay had it
            row = {"position": one.position, "nid": one.nid, "sub_id": one.subscription}
            self._write({**row, "generated_at": one.generated_at, "queued": one.queued, "event": one.members})
            self._left -= 1
        if self._acks:
            one.ack()
