"""``recado subscription``: what a user is subscribed to."""

from __future__ import annotations

from urllib.parse import quote

from recado.cli.context_target import Where
from recado.cli.output import complain, plural, write_line
from recado.cli.session_views import show_rows
from recado.cli.verb import verb

app = verb("subscription")
_COLUMNS = ("id", "type", "filter", "scope", "device", "expires_at")


@app.command
def ls(*, of: str = "", json: bool = False, where: Where = Where()) -> int:  # noqa: B008  # frozen, made once
    """List subscriptions.

    Parameters
    ----------
    of
        Those of this user, with an administrator's token.
    json
        Write NDJSON even on a terminal.
    """
    with where.http() as http:
        rows = http.call("GET", "/v1/subscriptions", query={"user": of})["subscriptions"]
    show_rows(rows, _COLUMNS, json, "no subscriptions")
    return 0


@app.command
def renew(id: str, /, *, ttl: float | None = None, until: str = "", where: Where = Where()) -> int:  # noqa: B008  # the same
    """Let a subscription live longer; one that expired a short while ago, too.

    Parameters
    ----------
    id
        The subscription.
    ttl
        So many seconds from now; without it and --until, as long as the service gives.
    until
        An instant, such as 2026-11-15T10:00:00Z.
    """
    body = {name: value for name, value in (("ttl", ttl), ("expires_at", until or None)) if value is not None}
    with where.http() as http:
        held = http.call("PATCH", f"/v1/subscriptions/{quote(id, safe='')}", body=body)
    write_line(str(held["expires_at"]))
    return 0


@app.command
def cancel(*ids: str, where: Where = Where()) -> int:  # noqa: B008  # the same
    """End subscriptions.

    Parameters
    ----------
    ids
        The subscriptions.
    """
    with where.http() as http:
        for id in ids:
            http.call("DELETE", f"/v1/subscriptions/{quote(id, safe='')}")
    complain(f"cancelled {plural(len(ids), 'subscription')}")
    return 0
