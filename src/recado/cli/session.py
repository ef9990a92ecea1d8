"""``recado session``: who is connected, and ending it."""

from __future__ import annotations

from urllib.parse import quote

from recado.cli.flags import ListFlags, ServiceFlags
from recado.cli.output import complain, plural
from recado.cli.service_output import show_listing
from recado.cli.verb import verb

_HELP = """\
  recado session ls                            your devices, connected or away
  recado session ls --of '*'                   everybody's, with an administrator's token
  recado session end --device sub-cheap        it is told; its subscriptions and its mailbox stay
  recado session end --device old-phone --forget    it does not come back: what waits for it alone goes, too
"""

app = verb("session", epilogue=_HELP)
_COLUMNS = ("user", "device", "connected", "kind", "address", "unacknowledged", "at")


@app.command
def ls(*, which: ListFlags = ListFlags(), where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # frozen, made once
    """List sessions: your own or, with an administrator's token, those of others."""
    return show_listing(where, "sessions", which, _COLUMNS)


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
    path = f"/v1/sessions/{quote(user or 'me', safe='')}"
    return show_listing(where, "sessions", ListFlags(json=json), _COLUMNS, path)


@app.command
def end(
    user: str = "",
    /,
    *,
    device: str = "",
    forget: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # the same
) -> int:
    """End the session of a device, or all of a user's; subscriptions stay.

    Parameters
    ----------
    user
        The user; without one, yourself.
    device
        Only this device.
    forget
        Give the device up, with what waits for it alone.
    """
    query = {"device": device, "forget": "true" if forget else ""}
    with where.http() as http:
        ended = http.call("DELETE", f"/v1/sessions/{quote(user or 'me', safe='')}", query=query)["ended"]
    complain(f"ended {plural(ended, 'session')}")
    return 0
