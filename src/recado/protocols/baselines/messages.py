"""What the baselines say to each other. Filters travel as expression text, events whole.

Node identifiers appear only where an algorithm needs them (``Flooded``: who began it, to tell copies apart).
"""

from __future__ import annotations

import msgspec

from recado.protocols.machine import NodeId
from recado.protocols.wire import WireEvent

Named = tuple[str, str]
"""A row of a routing table: its name, and the filter as text."""


class Message(msgspec.Struct, frozen=True, gc=False, tag_field="kind", array_like=True):
    """Base of all messages."""


class Interests(Message, frozen=True, tag="WANT"):
    """One change of what the sender wants from this link. ``tree`` names the tree where there are several."""

    subscribe: tuple[Named, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    tree: str = ""


class Routed(Message, frozen=True, tag="EVENT"):
    """An event on its way over a tree; nothing is known of who will get it."""

    event: WireEvent


class Flooded(Message, frozen=True, tag="FLOOD"):
    """An event that goes everywhere; origin and number tell its copies apart."""

    event: WireEvent
    origin: NodeId
    number: int


class Announced(Message, frozen=True, tag="ANNOUNCE"):
    """A subscription that goes everywhere, or its end if there is no filter."""

    subscription: str
    filter: str
    origin: NodeId
    number: int


class Advertised(Message, frozen=True, tag="ADV"):
    """Somebody on the sender's side will publish events of the type."""

    type: str


class Unadvertised(Message, frozen=True, tag="UNADV"):
    """Nobody on the sender's side publishes the type any more."""

    type: str


class Raised(Message, frozen=True, tag="UP"):
    """An event on its way to the root."""

    event: WireEvent


class Grouped(Message, frozen=True, tag="DOWN"):
    """An event on its way down to the members of a virtual group."""

    event: WireEvent
    group: str


MESSAGES = Interests | Routed | Flooded | Announced | Advertised | Unadvertised | Raised | Grouped
"""The union that ``recado.protocols.wire.decoder`` takes."""
