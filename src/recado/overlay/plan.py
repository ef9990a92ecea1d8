"""Topology files: which nodes an overlay has, who is linked with whom, and who publishes what.

::

    overlay = "laptop"
    links = ["ana-bruno", "bruno-carla"]

    [nodes.bruno]
    publishes = ["Tick"]

Instead of ``links`` there may be a ``network``: one of the tree document (``NET-13``, ``NET-16``, ``NET-5.1``), or a
generated one (``line``, ``ring``, ``star``, ``complete``, ``grid``, ``random-tree``, ``random-graph``, ``scale-free``)
with its ``size`` and, where chance plays a part, a ``seed``; its nodes are called n0, n1, …. ``protocol`` is a name of
``recado.protocols.registry`` or ``module:Class``, and ``settings`` are its settings; ``key-file`` is relative to the
topology file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.overlay.limits import OverlayError
from recado.overlay.names import check_name
from recado.protocols.registry import DEFAULT, find_protocol
from recado.protocols.topology import GENERATORS, NET_5_1, NET_13, NET_16, Topology

NETWORKS = {"NET-13": NET_13, "NET-16": NET_16, "NET-5.1": NET_5_1}


class PlannedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publishes: tuple[str, ...] = ()
    listen: str = "127.0.0.1:0"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    overlay: str
    links: tuple[str, ...] = ()
    network: str = ""
    size: int = 0
    seed: int = 0
    key_file: str = ""
    protocol: str = DEFAULT
    settings: dict[str, Any] = {}
    nodes: dict[str, PlannedNode] = {}

    def topology(self) -> Topology:
        """The graph that the file describes, with every name checked."""
        topology = self._network() if self.network else _linked(self.links, self.nodes)
        for name in map(str, topology.nodes):
            check_name(name)
        for name in self.nodes:
            if name not in topology.nodes:
                raise OverlayError(f"nodes.{name}: the network has no such node")
        if not topology.nodes:
            raise OverlayError('there are no nodes; give links, such as ["ana-bruno"], or a network')
        return topology

    def _network(self) -> Topology:
        if self.links:
            raise OverlayError("links and network exclude each other; give one")
        if self.network in NETWORKS:
            return NETWORKS[self.network]
        if self.network not in GENERATORS:
            known = ", ".join((*NETWORKS, *GENERATORS))
            raise OverlayError(f"network: there is no network {self.network!r}; there are {known}")
        if not 1 <= self.size <= 1_000:
            raise OverlayError(f"size: a {self.network} here has 1 to 1,000 nodes, not {self.size}")
        found = GENERATORS[self.network](self.size, Random(self.seed))  # noqa: S311  # a graph, not a secret
        return Topology((f"n{i}" for i in found.nodes), ((f"n{a}", f"n{b}") for a, b in found.edges))


def _linked(links: tuple[str, ...], nodes: dict[str, PlannedNode]) -> Topology:
    edges: list[tuple[str, str]] = []
    for place, link in enumerate(links):
        first, hyphen, second = link.partition("-")
        if not hyphen or not first or not second or first == second:
            raise OverlayError(f'links[{place}]: {link!r} is no link; write two names such as "ana-bruno"')
        edges.append((first, second))
    return Topology((*nodes, *(name for edge in edges for name in edge)), edges)


def check_protocol(plan: Plan) -> None:
    """Raise a ProtocolError unless the plan's protocol exists, has these settings and can do what nodes are to do."""
    protocol = find_protocol(plan.protocol)
    protocol.configure(plan.settings).require_live()
    if any(node.publishes for node in plan.nodes.values()):
        protocol.require("become_publisher")


def read_plan(path: Path, protocol: str = "") -> Plan:
    """The plan in a topology file, or the same for another protocol; an OverlayError names the file and the place."""
    try:
        plan = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Plan)
        check_name(plan.overlay)
        plan.topology()
        plan = msgspec.structs.replace(plan, protocol=protocol or plan.protocol)
        check_protocol(plan)
    except OSError as error:
        raise OverlayError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OverlayError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise OverlayError(f"{path}: {error}") from None
    except RecadoError as error:
        raise OverlayError(f"{path}: {error}") from None
    return plan
