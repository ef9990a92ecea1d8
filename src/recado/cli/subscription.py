"""``recado subscription``: what a user is subscribed to."""

from __future__ import annotations

from urllib.parse import quote

from recado.cli.flags import ListFlags, ServiceFlags
from recado.cli.output import complain, plural, write_line
from recado.cli.service_output import show_listing
from recado.cli.verb import Positive, verb

_HELP = """\
  recado subscription ls
  recado subscription renew cheap --ttl 86400
  recado subscription cancel cheap

A subscription is made with: recado sub --durable NAME
"""

app = verb("subscription", epilogue=_HELP)
_COLUMNS = ("user", "id", "type", "filter", "scope", "device", "expires_at")


@app.command
def ls(*, which: ListFlags = ListFlags(), where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # frozen, made once
    """List subscriptions: your own or, with an administrator's token, those of others."""
    return show_listing(where, "subscriptions", which, _COLUMNS)


@app.command
def renew(id: str, /, *, ttl: Positive = None, until: str = "", where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # the same
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
def cancel(id: str, /, *more: str, of: str = "", where: ServiceFlags = ServiceFlags()) -> int:  # noqa: B008  # the same
    """End subscriptions: your own or, with an administrator's token, those of another user.

    The other user's clients are told, and do not subscribe again; one that is away now does when it is back, if the
    user still may.

    Parameters
    ----------
    id
        The subscription.
    more
        Further ones.
    of
        Whose they are.
    """
    ids = (id, *more)
    user = {"user": of} if of else None
    with where.http() as http:
        for one in ids:
            http.call("DELETE", f"/v1/subscriptions/{quote(one, safe='')}", query=user)
    complain(f"cancelled {plural(len(ids), 'subscription')}")
    return 0
