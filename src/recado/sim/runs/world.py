"""From a setting and a seed to a system that can be run: topology, network model and machines.

Each draws from a stream of its own, so that two settings which differ in the protocol alone have the same topology,
the same delays in the same order, and the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.protocols.baselines import BASELINES, make_baseline
from recado.protocols.machine import Machine, NodeId
from recado.protocols.topology import (
    GENERATORS,
    NET_5_1,
    NET_13,
    NET_16,
    Topology,
    TopologyError,
    parse_edges,
    random_graph,
    scale_free,
)
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.reliable import ReliableLinks
from recado.protocols.wire import wire_size
from recado.sim.draws import Draw, constant, exponential, lognormal, uniform
from recado.sim.faults import Cuts, Duplication, Loss, Reordering
from recado.sim.kernel import Network, Watch
from recado.sim.network import Bandwidth, Links, UnitDelay
from recado.sim.outages import Outages, storm
from recado.sim.runs.setting import NetworkPart, ProtocolPart, ScenarioError, Setting, TopologyPart
from recado.sim.streams import stream
from recado.sim.system import System

LATE = 3.0
"""A message that is late comes up to so many mean delays late."""
NETWORKS = {"NET-13": NET_13, "NET-16": NET_16, "NET-5.1": NET_5_1}


def build(setting: Setting, seed: int, watch: Watch | None = None) -> System:
    """The system of one run, started and quiet; if it is to meet failures, they are on their way."""
    topology = make_topology(setting.topology, seed)
    make = make_machines(setting.protocol, topology)
    network = make_network(setting.network, seed)
    cuts = Cuts(network)
    system = System(
        topology,
        make,
        cuts if setting.faults.rate else network,
        seed,
        watch=watch,
        size_of=wire_size if setting.run.bytes else None,
        cap=setting.run.max_steps,
    )
    if setting.faults.rate:
        _brew(setting, system, make, cuts, seed)
    return system


def _brew(setting: Setting, system: System, make: Callable[[NodeId], Machine], cuts: Cuts, seed: int) -> None:
    faults = setting.faults
    if not setting.workload.rate:
        raise ScenarioError("failures need operations that go on meanwhile: set workload.rate - at `$.faults.rate`")
    outages = Outages(system.simulation, system.topology, make, cuts, faults.notice)
    rng = stream(seed, "faults")
    system.simulation.at(faults.start, lambda: storm(outages, rng, faults.rate, faults.duration))


def make_topology(part: TopologyPart, seed: int) -> Topology:
    rng = stream(seed, "topology")
    try:
        topology = _topology(part, rng)
    except (TopologyError, ValueError) as error:
        raise ScenarioError(f"{error} - at `$.topology`") from None
    if not topology.connected:
        raise ScenarioError("the network is not in one piece - at `$.topology.edges`")
    return topology


def _topology(part: TopologyPart, rng: Random) -> Topology:
    n = part.nodes
    if part.kind in NETWORKS:
        return NETWORKS[part.kind]
    if part.kind == "edges":
        return parse_edges(part.edges)
    if part.kind == "random-graph":
        extra = min(round(n * part.degree / 2) - (n - 1), (n - 1) * (n - 2) // 2)
        return random_graph(n, max(0, extra), rng)
    if part.kind == "scale-free":
        return scale_free(n, max(1, round(part.degree / 2)), rng)
    return GENERATORS[part.kind](n, rng)


def make_network(part: NetworkPart, seed: int) -> Network:
    """Latency first, then what is around it; each with a stream of its own."""
    network: Network = UnitDelay() if part.delay == "unit" else Links(_delay(part, stream(seed, "delays")))
    if part.bandwidth:
        network = Bandwidth(network, part.bandwidth)
    if part.reordering:
        network = Reordering(network, part.reordering, stream(seed, "reordering"), LATE * part.mean)
    if part.duplication:
        network = Duplication(network, part.duplication, stream(seed, "duplication"), part.mean)
    if part.loss:
        network = Loss(network, part.loss, stream(seed, "loss"))
    return network


def _delay(part: NetworkPart, rng: Random) -> Draw:
    match part.delay:
        case "uniform":
            return uniform(part.mean * (1 - part.spread), part.mean * (1 + part.spread), rng)
        case "exponential":
            return exponential(part.mean, rng)
        case "lognormal":
            return lognormal(part.mean / math.exp(part.spread**2 / 2), part.spread, rng)
    return constant(part.mean)


def make_machines(part: ProtocolPart, topology: Topology) -> Callable[[NodeId], Machine]:
    """The machine of every node: trees, or a baseline by its name."""
    if part.name == "trees":
        settings = tree_settings(part.options)
        if part.reliable:
            return lambda node: ReliableLinks(TreeNode(node, settings))
        return lambda node: TreeNode(node, settings)
    if part.reliable:
        raise ScenarioError("only trees can have reliable links - at `$.protocol.reliable`")
    if part.name not in BASELINES:
        raise ScenarioError(
            f"there is no protocol {part.name!r}, only trees, {', '.join(BASELINES)} - at `$.protocol.name`"
        )
    try:
        return make_baseline(part.name, topology, **part.options)
    except (RecadoError, TypeError) as error:
        raise ScenarioError(f"{error} - at `$.protocol.options`") from None


def tree_settings(options: dict[str, Any]) -> TreeSettings:
    for name in options:
        if name not in TreeSettings.__struct_fields__:
            known = ", ".join(TreeSettings.__struct_fields__)
            raise ScenarioError(f"trees have no option {name!r}, only {known} - at `$.protocol.options.{name}`")
    try:
        return msgspec.convert(options, TreeSettings)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        raise ScenarioError(f"{reason} - at `$.protocol.options{place.rstrip('`')}`") from None
    except RecadoError as error:
        raise ScenarioError(f"{error} - at `$.protocol.options`") from None
