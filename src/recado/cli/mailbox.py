"""``recado mailbox``: what waits for a user."""

from __future__ import annotations

import secrets
from typing import Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.flags import ListFlags, ServiceFlags
from recado.cli.output import complain, for_people, plural, write_json
from recado.cli.service_output import notification_writer, show_listing
from recado.cli.verb import verb

_HELP = """\
  recado mailbox ls
  recado mailbox peek --limit 5 --format '%t %{Price}'
  recado mailbox drain > received.ndjson

A mailbox keeps what was meant for a user who is away. Peeking leaves everything where it is; draining takes it, as a
device of the user would; purging throws it away, and the user is told what was lost.
"""

app = verb("mailbox", epilogue=_HELP)
_COLUMNS = ("user", "device", "length", "bytes", "oldest", "dropped")
_PAGE = 1_000


def _path(user: str, rest: str = "") -> str:
    return f"/v1/mailboxes/{quote(user or 'me', safe='')}{rest}"


@app.command
def ls(*, which: ListFlags = ListFlags(), where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # frozen, made once
    """List mailboxes: your own or, with an administrator's token, those of others."""
    return show_listing(where, "mailboxes", which, _COLUMNS)


@app.command
def peek(
    user: str = "",
    /,
    *,
    limit: Annotated[int, Parameter(name=("--limit", "--count", "-C"), validator=Number(gte=1))] = 20,
    device: str = "",
    format: Annotated[str, Parameter(name=("--format", "-F"))] = "",
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # the same
) -> int:
    """Show what waits, oldest first, and leave it there.

    Parameters
    ----------
    user
        The user; without one, yourself.
    limit
        At most so many.
    device
        The mailbox of one device.
    format
        How to write each; see recado sub.
    json
        Write NDJSON even on a terminal.
    """
    shown, after = 0, None
    with where.http() as http:
        while shown < limit:
            query = {"limit": min(_PAGE, limit - shown), "after": after, "device": device}
            page = http.call("GET", _path(user, "/notifications"), query=query)
            _write(page["notifications"], format, json)
            shown += len(page["notifications"])
            after = page.get("next")
            if after is None:
                break
    if not shown and for_people(json):
        complain("nothing waits")
    return 0


@app.command
def drain(
    *,
    format: Annotated[str, Parameter(name=("--format", "-F"))] = "",
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # the same
) -> int:
    """Take everything that waits for yourself, show it, and acknowledge it.

    Parameters
    ----------
    format
        How to write each; see recado sub.
    json
        Write NDJSON even on a terminal.
    """
    import sys

    device, taken = f"drain-{secrets.token_hex(4)}", 0
    asked: dict[str, Any] = {"device": device, "limit": _PAGE}
    with where.http() as http:
        while True:
            answer = http.call("POST", _path("", "/take"), body=asked)
            found, notices = answer["notifications"], answer["notices"]
            if not found and not notices:
                break
            _write(found, format, json)
            for notice in notices:
                write_json(notice)
            sys.stdout.flush()  # what is acknowledged has been written
            taken += len(found)
            upto = {"upto": found[-1]["nid"]} if found else {}
            asked = {"device": device, "limit": _PAGE, "notices": [one["notice"] for one in notices], **upto}
        http.call("DELETE", "/v1/sessions/me", query={"device": device})  # or it would count as connected for a while
    complain(f"took {plural(taken, 'notification')}")
    return 0


@app.command
def purge(user: str = "", /, *, device: str = "", where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # the same
    """Throw away what waits; the user is told how many and which.

    Parameters
    ----------
    user
        The user; without one, yourself.
    device
        The mailbox of one device.
    """
    with where.http() as http:
        purged = http.call("DELETE", _path(user, "/notifications"), query={"device": device})["purged"]
    complain(f"purged {plural(purged, 'notification')}")
    return 0


def _write(found: list[dict[str, Any]], format: str, json: bool) -> None:
    write = notification_writer(format, json)
    for one in found:
        write(one)
