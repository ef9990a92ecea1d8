"""The client library: connect, publish, subscribe; it reconnects, resumes and drops repeats.

::

    async with recado.connect("recado://ana@localhost:7230") as c:
        position = await c.publish("Tick", {"Stock": "PETR4", "Price": 24.9})
        async for n in c.subscribe("Price < 25", type="Tick", id="cheap"):
            print(n["Stock"], n["Price"])

The same with ``recado+sip://ana@example.org;registrar=127.0.0.1:5060``, over SIP and RUDP.
"""

from __future__ import annotations

from recado.client.client import Client, connect
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
from recado.client.subscription import ClientSubscription, Notification
from recado.client.sync import SyncClient, SyncSubscription, connect_sync
from recado.protocols.session.messages import Gap

__all__ = [
    "AddressError",
    "Client",
    "ClientError",
    "ClientSubscription",
    "Dropped",
    "Gap",
    "NotAllowed",
    "Notification",
    "Refused",
    "SessionEnded",
    "SyncClient",
    "SyncSubscription",
    "TooManyInFlight",
    "Unreachable",
    "connect",
    "connect_sync",
]
