"""``recado session``: who is connected, and ending it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from recado.cli.flags import ServiceFlags
from recado.cli.output import complain, plural
from recado.cli.service_output import show_listing, show_rows
from recado.cli.verb import verb

_HELP = """\
  recado session ls                            your devices, connected or away
  recado session ls --of '*'                   everybody's, with an administrator's token
  recado session end --device sub-cheap        it is told; its subscriptions and its mailbox stay
"""

app = verb("session", epilogue=_HELP)
_COLUMNS = ("user", "device", "connected", "kind", "address", "unacknowledged", "at")


@app.command
def ls(*, of: str = "", json: bool = False, where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # frozen, made once
    """List sessions: your own or, with an administrator's token, those of others.

    Parameters
    ----------
    of
        Those of this user; '*' for those of everybody.
    json
        Write NDJSON even on a terminal.
    """
    return show_listing(where, "sessions", of, _COLUMNS, json)


@app.command
def show(user: str = "", /, *, json: bool = False, where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # the same
    """Show the devices of a user, and what waits for them.

    Parameters
    ----------
    user
        The user; without one, yourself.
    json
        Write NDJSON even on a terminal.
    """
    with where.http() as http:
        rows: list[dict[str, Any]] = http.call("GET", f"/v1/sessions/{quote(user or 'me', safe='')}")["sessions"]
    show_rows(rows, _COLUMNS, json, "no sessions")
    return 0


@app.command
def end(user: str = "", /, *, device: str = "", where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # the same
    """End the session of a device, or all of a user's; subscriptions stay.

    Parameters
    ----------
    user
        The user; without one, yourself.
    device
        Only this device.
    """
    with where.http() as http:
        ended = http.call("DELETE", f"/v1/sessions/{quote(user or 'me', safe='')}", query={"device": device})["ended"]
    complain(f"ended {plural(ended, 'session')}")
    return 0
