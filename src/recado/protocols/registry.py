"""The protocols that an overlay can run, by name. This is the place to add one.

A protocol is a package under ``recado.protocols`` with an ``OverlayProtocol`` that describes it, and one entry in
``PROTOCOLS`` below. Overlay, simulator, scenario files and command line ask here and know no protocol by name. An
entry says:

- how the machine of a node is made from settings and, in simulation, the topology (``make``);
- which settings there are, with their defaults and limits (``settings``), and which of them all nodes of an overlay
  must have in common (``common``);
- what machines say to each other and how it is checked where it enters a node (``messages``, ``check``);
- what an application can ask (``requests``), and what a node is, in words (``roles``);
- where it can run: over TCP (``live``), over links that repeat what was lost (``reliable``);
- whom machines talk to (``contact``), and when a simulation may take them for settled (``settle_seconds``).

A protocol that is not part of Recado is named by where it is: ``module:NAME``. That is an ``OverlayProtocol``, or the
class of a machine (``recado.protocols.machine``), which says the same with attributes::

    class Gossip:
        settings = GossipSettings       # a msgspec struct with defaults; then Gossip(node, settings) makes a machine
        messages = Rumour | Denial      # tagged msgspec structs; without them the protocol can only be simulated
        requests = (Subscribe, Publish) # without it, the usual ones of recado.protocols.pubsub

        def __init__(self, node, settings): ...
        def handle(self, stimulus, now, rng): ...
        def inspect(self): ...

All three attributes may be left out; without ``settings`` a machine is made by ``Gossip(node)``. The module is
imported, so its code runs: use files of people that you trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from recado.protocols import baselines, sensors, supernodes, trees
from recado.protocols.pubsub import (
    REQUESTS,
    USUAL_REQUESTS,
    MakeMachine,
    NoSettings,
    OverlayProtocol,
    ProtocolError,
    accept,
)
from recado.protocols.topology import Topology

DEFAULT = "trees"
"""What an overlay or a scenario runs if it does not say."""

PROTOCOLS: Mapping[str, OverlayProtocol] = {
    protocol.name: protocol
    for protocol in (
        trees.PROTOCOL,
        *baselines.PROTOCOLS,
        supernodes.PROTOCOL,
        sensors.PROTOCOL,
        # A new protocol: its description, here.
    )
}


def find_protocol(name: str) -> OverlayProtocol:
    """The protocol of this name, or at ``module:NAME``; a ProtocolError tells what there is instead."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    module, colon, attribute = name.partition(":")
    if colon:
        return _load(name, module, attribute)
    raise ProtocolError(
        f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}, and your own as module:Class"
    )


def _load(name: str, module: str, attribute: str) -> OverlayProtocol:
    try:
        found = import_module(module)
    except (ImportError, ValueError) as error:
        raise ProtocolError(f"protocol {name!r}: the module {module!r} cannot be imported: {error}") from None
    value: Any = found
    for part in attribute.split("."):
        value = getattr(value, part, None)
    if isinstance(value, OverlayProtocol):
        return value
    if not isinstance(value, type) or not hasattr(value, "handle") or not hasattr(value, "inspect"):
        raise ProtocolError(
            f"protocol {name!r}: {module!r} has no machine class {attribute!r} with the methods handle and inspect"
        )
    return _describe(name, value)


def _describe(name: str, machine: type[Any]) -> OverlayProtocol:
    """The description of a machine class from its attributes."""
    settings = getattr(machine, "settings", NoSettings)
    if not isinstance(settings, type) or not issubclass(settings, msgspec.Struct):
        raise ProtocolError(f"protocol {name!r}: its settings are {settings!r}, not a msgspec.Struct with defaults")
    requests = tuple(getattr(machine, "requests", USUAL_REQUESTS))
    if unknown := [request for request in requests if request not in REQUESTS.values()]:
        raise ProtocolError(f"protocol {name!r}: {unknown[0]!r} is no request of recado.protocols.pubsub")

    def make(chosen: Any, topology: Topology | None) -> MakeMachine:
        return machine if settings is NoSettings else lambda node: machine(node, chosen)

    return OverlayProtocol(
        name=name,
        make=make,
        settings=settings,
        messages=getattr(machine, "messages", None),
        check=getattr(machine, "check", accept),
        requests=requests,
    )
