"""The client library: connect, publish, subscribe; it reconnects, resumes and drops repeats.

::

    async with recado.connect("recado://ana@localhost:7230") as c:
        position = await c.publish("Tick", {"Stock": "PETR4", "Price": 24.9})
        async for n in c.subscribe("Price < 25", type="Tick", id="cheap"):
            print(n["Stock"], n["Price"])

The same with ``recado+sip://ana@example.org;registrar=127.0.0.1:5060``, over SIP and RUDP.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recado.client.client import Client
from recado.client.errors import (
    AddressError,
    ClientError,
    Dropped,
    NotAllowed,
    Refused,
    SessionEnded,
    TooManyInFlight,
    Unreachable,
)
from recado.client.options import make_options
from recado.client.subscription import Notification, Subscription

if TYPE_CHECKING:
    from recado.client.sync import SyncClient

__all__ = [
    "AddressError",
    "Client",
    "ClientError",
    "Dropped",
    "NotAllowed",
    "Notification",
    "Refused",
    "SessionEnded",
    "Subscription",
    "TooManyInFlight",
    "Unreachable",
    "connect",
    "connect_sync",
]


def connect(
    url: str | None = None,
    *,
    user: str | None = None,
    device: str | None = None,
    state: str | Path | None = None,
    **options: Any,
) -> Client:
    """A client for ``async with``; without a URL, RECADO_URL or the selected context say where the service is.

    ``state`` names a file in which the device keeps its name, what it has seen and its subscriptions; with it the
    program may be killed and go on. The other options are those of ``recado.client.options.Options``: ``existing``,
    ``on_cancelled``, ``outbox``, ``in_flight``, ``window``, ``timeout``, ``keepalive``, ``first_wait``,
    ``longest_wait``, ``on_state``, ``on_gap``, ``on_cancel``, ``tls``.
    """
    return Client(make_options(url, user=user, device=device, state=state, **options))


def connect_sync(url: str | None = None, **options: Any) -> SyncClient:
    """The same for programs without a loop: ``with recado.connect_sync(url) as c: c.publish(...)``."""
    from recado.client.sync import SyncClient  # noqa: PLC0415  # threads only where they are wanted

    return SyncClient(url, **options)
