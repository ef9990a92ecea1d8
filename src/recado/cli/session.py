"""``recado session``: who is connected, and ending it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from recado.cli.context_target import Where
from recado.cli.output import complain, plural
from recado.cli.session_views import show_rows
from recado.cli.verb import verb

app = verb("session")
_COLUMNS = ("user", "device", "connected", "kind", "address", "unacknowledged", "at")


@app.command
def ls(*, of: str = "", json: bool = False, where: Where = Where()) -> int:  # noqa: B008  # frozen, made once
    """List sessions: a user's own, or with an administrator's token everybody's.

    Parameters
    ----------
    of
        Only those of this user.
    json
        Write NDJSON even on a terminal.
    """
    with where.http() as http:
        rows = http.call("GET", "/v1/sessions", query={"user": of})["sessions"]
    show_rows(rows, _COLUMNS, json, "no sessions")
    return 0


@app.command
def show(user: str = "", /, *, json: bool = False, where: Where = Where()) -> int:  # noqa: B008  # the same
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
def end(user: str = "", /, *, device: str = "", where: Where = Where()) -> int:  # noqa: B008  # the same
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
