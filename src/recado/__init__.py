"""Recado: content-based publish/subscribe.

::

    import recado

    async with recado.connect("recado://ana@localhost:7230") as c:
        await c.publish("Tick", {"Stock": "PETR4", "Price": 24.9})
        async for n in c.subscribe("Price < 25", type="Tick", id="cheap"):
            print(n["Stock"], n["Price"])

What is listed in ``__all__`` is what programs may rely on; docs/api describes it. Each name is imported when it is
first asked for, so a client loads no matching engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recado.version import __version__

__all__ = [
    "LIMITS",
    "AddressError",
    "Client",
    "ClientError",
    "ClientSubscription",
    "Dropped",
    "Event",
    "EventError",
    "Filter",
    "FilterError",
    "Gap",
    "Index",
    "LimitError",
    "Limits",
    "MissingExtraError",
    "NotAllowed",
    "Notification",
    "RecadoError",
    "Refused",
    "SessionEnded",
    "Subscription",
    "SubscriptionError",
    "SyncClient",
    "SyncSubscription",
    "TooManyInFlight",
    "Unreachable",
    "Value",
    "__version__",
    "connect",
    "connect_sync",
    "covers",
    "format_filter",
    "matches",
    "overlaps",
    "parse",
    "read_event",
    "read_subscription",
    "write_cloudevent",
    "write_flat",
]

if TYPE_CHECKING:
    from recado.client import (
        AddressError,
        Client,
        ClientError,
        ClientSubscription,
        Dropped,
        Gap,
        NotAllowed,
        Notification,
        Refused,
        SessionEnded,
        SyncClient,
        SyncSubscription,
        TooManyInFlight,
        Unreachable,
        connect,
        connect_sync,
    )
    from recado.errors import (
        EventError,
        FilterError,
        LimitError,
        MissingExtraError,
        RecadoError,
        SubscriptionError,
    )
    from recado.filters.covering import covers, overlaps
    from recado.filters.evaluate import matches
    from recado.filters.records import read_subscription
    from recado.filters.syntax import format_filter
    from recado.filters.syntax import parse_filter as parse
    from recado.matching.index import Index
    from recado.model.codec import read_event, write_cloudevent, write_flat
    from recado.model.event import Event
    from recado.model.filter import Filter
    from recado.model.limits import LIMITS, Limits
    from recado.model.subscription import Subscription
    from recado.model.values import Value
else:
    # Hidden from type checkers: they would take a module with __getattr__ to have every name.
    from importlib import import_module

    from recado.errors import explain_missing

    _PLACES = {
        "recado.client": (
            "AddressError Client ClientError ClientSubscription Dropped Gap NotAllowed Notification Refused "
            "SessionEnded SyncClient SyncSubscription TooManyInFlight Unreachable connect connect_sync"
        ),
        "recado.errors": "EventError FilterError LimitError MissingExtraError RecadoError SubscriptionError",
        "recado.filters.covering": "covers overlaps",
        "recado.filters.evaluate": "matches",
        "recado.filters.records": "read_subscription",
        "recado.filters.syntax": "format_filter parse",
        "recado.matching.index": "Index",
        "recado.model.codec": "read_event write_cloudevent write_flat",
        "recado.model.event": "Event",
        "recado.model.filter": "Filter",
        "recado.model.limits": "LIMITS Limits",
        "recado.model.subscription": "Subscription",
        "recado.model.values": "Value",
    }
    _MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}
    _OTHER_NAMES = {"parse": "parse_filter"}

    def __getattr__(name: str) -> object:
        if name == "pipeline":  # events.transform(recado.pipeline.matching("sets/alerts"))
            return import_module("recado.pipeline")
        if name not in _MODULES:
            raise AttributeError(f"module 'recado' has no attribute {name!r}")
        try:
            module = import_module(_MODULES[name])
        except ModuleNotFoundError as error:
            raise explain_missing(error, f"recado.{name}", "matching") from error
        value = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
