"""All baselines by name, and what each makes of a topology.

A baseline is a function from a topology and options to a function that makes the machine of a node. What needs the
whole topology (a spanning tree, rendezvous nodes, groups) is worked out once, when the baseline is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from recado.errors import RecadoError
from recado.protocols.baselines.clients import AccessBroker, Client
from recado.protocols.baselines.machines import (
    ContentNode,
    FloodingNode,
    HermesNode,
    Naming,
    VirtualGroupNode,
    by_meaning,
    by_subscription,
    by_type,
)
from recado.protocols.baselines.node import MESSAGES, BaselineError
from recado.protocols.baselines.plan import Groups, Rendezvous, Tree, lowest
from recado.protocols.baselines.routing import Covering, Exact, Merging, Strategy
from recado.protocols.machine import Machine, NodeId
from recado.protocols.pubsub import MakeMachine, OverlayProtocol, ProtocolError
from recado.protocols.topology import Topology

Inside = Literal["flooding", "simple", "identity", "covering"]


def make_baseline(name: str, topology: Topology, **options: Any) -> MakeMachine:
    """The machines of a baseline: ``make_baseline("covering", topology)("A")`` is that of node A.

    The options are those of the function that ``BASELINES`` has under the name.
    """
    if name not in BASELINES:
        raise BaselineError(f"there is no baseline {name!r}; there are {', '.join(BASELINES)}")
    baseline = BASELINES[name]
    takes = [option for option in signature(baseline).parameters if option != "topology"]
    for option in options:
        if option not in takes:
            raise BaselineError(f"baseline {name!r} has no option {option!r}; it has {', '.join(takes)}")
    return baseline(topology, **options)


def flooding(
    topology: Topology, spanning: bool = False, flood_all: bool = False, root: NodeId | None = None
) -> MakeMachine:
    """Over all links with suppression of copies, or over a spanning tree; ``flood_all`` floods subscriptions too."""
    overlay = _tree(topology, root) if spanning else topology
    return lambda node: FloodingNode(node, overlay.neighbours(node), flood_all)


def routing(strategy: Strategy, naming: Naming, topology: Topology, root: NodeId | None = None) -> MakeMachine:
    """Sections 3.2 to 3.5: all neighbours on the spanning tree are told, by one strategy."""
    tree = _tree(topology, root)

    def make(node: NodeId) -> Machine:
        neighbours = tree.neighbours(node)
        return ContentNode(node, neighbours, dict.fromkeys(neighbours, strategy), naming)

    return make


def imperfect_merging(
    topology: Topology, limit: Annotated[int, Meta(ge=1)] = 4, root: NodeId | None = None
) -> MakeMachine:
    """A neighbour is told at most ``limit`` filters."""
    if limit < 1:
        raise BaselineError(f"a neighbour has to be told at least 1 filter, not {limit}")
    return routing(Merging(limit), by_meaning, topology, root)


def hierarchical(topology: Topology, inside: Inside = "covering", root: NodeId | None = None) -> MakeMachine:
    """Section 3.6: only the parent is told, and the parent gets every event; ``inside`` is what it is told by."""
    tree = _tree(topology, root)
    if inside == "flooding":
        return lambda node: ContentNode(node, tree.neighbours(node), {}, by_subscription, tree.neighbours(node))
    if inside not in INSIDE:
        raise BaselineError(f"a hierarchy has flooding, {', '.join(INSIDE)} inside, not {inside!r}")
    strategy, naming = INSIDE[inside]
    return partial(_below, tree, strategy, naming)


def multicast(topology: Topology, root: NodeId | None = None) -> MakeMachine:
    """A group for each type. The querier, which hears of every membership, is the node with the lowest identifier."""
    return partial(_below, _tree(topology, lowest(topology) if root is None else root), Exact(), by_type)


def hermes(topology: Topology, attributes: bool = True, rendezvous: Mapping[str, NodeId] | None = None) -> MakeMachine:
    """``rendezvous`` names the rendezvous nodes of types; others are found by hashing."""
    plan = Rendezvous(topology, rendezvous or {})
    return lambda node: HermesNode(node, plan, attributes)


def groups(
    topology: Topology,
    summaries: Annotated[int, Meta(ge=1)] | None = None,
    group_size: Annotated[int, Meta(ge=1)] = 16,
    interests: Mapping[NodeId, str] | None = None,
    root: NodeId | None = None,
) -> MakeMachine:
    """Yoo: inside a group all know all subscriptions. Between groups every event passes, or there are summaries.

    A summary tells a neighbouring group in at most so many filters what is wanted on this side.
    """
    tree = _tree(topology, root)
    groups = Groups(tree, group_size, interests or {})
    inside, between = Exact(), Merging(summaries)

    def make(node: NodeId) -> Machine:
        neighbours = tree.neighbours(node)
        told: dict[NodeId, Strategy] = {other: inside for other in neighbours if groups.together(node, other)}
        if summaries is None:
            always = tuple(other for other in neighbours if groups.leads_out(node, other))
            return ContentNode(node, neighbours, told, by_subscription, always)
        told |= {other: between for other in neighbours if other not in told}
        return ContentNode(node, neighbours, told, by_subscription)

    return make


def virtual_groups(topology: Topology, root: NodeId | None = None) -> MakeMachine:
    tree = _tree(topology, root)
    return lambda node: VirtualGroupNode(node, tree.parent(node))


def _tree(topology: Topology, root: NodeId | None) -> Tree:
    return Tree(topology, topology.nodes[0] if root is None else root)


def _below(tree: Tree, strategy: Strategy, naming: Naming, node: NodeId) -> Machine:
    up = tree.parent(node)
    return ContentNode(node, tree.neighbours(node), dict.fromkeys(up, strategy), naming, always=up)


INSIDE: Mapping[str, tuple[Strategy, Naming]] = {
    "simple": (Exact(), by_subscription),
    "identity": (Exact(), by_meaning),
    "covering": (Covering(), by_meaning),
}

BASELINES: Mapping[str, Callable[..., MakeMachine]] = {
    "flooding": flooding,
    "flooding-tree": partial(flooding, spanning=True),
    "simple": partial(routing, Exact(), by_subscription),
    "identity": partial(routing, Exact(), by_meaning),
    "covering": partial(routing, Covering(), by_meaning),
    "merging": partial(routing, Merging(), by_meaning),
    "merging-imperfect": imperfect_merging,
    "hierarchical": hierarchical,
    "hierarchical-flooding": partial(hierarchical, inside="flooding"),
    "hierarchical-simple": partial(hierarchical, inside="simple"),
    "hierarchical-identity": partial(hierarchical, inside="identity"),
    "hierarchical-covering": partial(hierarchical, inside="covering"),
    "jedi": partial(hierarchical, inside="simple"),
    "jedi-centralised": partial(hierarchical, inside="flooding"),
    "hermes": hermes,
    "hermes-type": partial(hermes, attributes=False),
    "groups": groups,
    "groups-summaries": partial(groups, summaries=4),
    "virtual-groups": virtual_groups,
    "multicast": multicast,
}
"""The function behind every name; the names of one function differ in its options."""


# --- The descriptions for ``recado.protocols.registry`` --------------------------------------------------------------
#
# The settings of a baseline are the options of its function. All assume a static overlay that is known from the start,
# so none can run live.


def _describe(name: str, baseline: Callable[..., MakeMachine]) -> OverlayProtocol:
    def make(settings: Any, topology: Topology | None) -> MakeMachine:
        assert topology is not None, "a baseline does not run live"
        try:
            if topology.clients:
                return _beside_clients(topology, baseline(topology.brokers(), **msgspec.structs.asdict(settings)))
            return baseline(topology, **msgspec.structs.asdict(settings))
        except RecadoError as error:
            raise ProtocolError(f"the settings of protocol {name!r}: {error}") from None

    return OverlayProtocol(
        name=name, make=make, settings=_settings(name, baseline), messages=MESSAGES, live=False, reliable=False
    )


def _beside_clients(topology: Topology, make: MakeMachine) -> MakeMachine:
    """The baseline runs between brokers; the others are clients of theirs."""
    clients = dict.fromkeys(topology.clients)

    def machine(node: NodeId) -> Machine:
        if node in clients:
            return Client(node, topology.neighbours(node)[0])
        return AccessBroker(make(node), tuple(other for other in topology.neighbours(node) if other in clients))

    return machine


def _settings(name: str, baseline: Callable[..., MakeMachine]) -> type[msgspec.Struct]:
    hints = get_type_hints(baseline.func if isinstance(baseline, partial) else baseline, include_extras=True)
    options = [option for option in signature(baseline).parameters.values() if option.name != "topology"]
    fields = [(option.name, hints[option.name], option.default) for option in options]
    return msgspec.defstruct(f"{name} settings", fields, frozen=True)


PROTOCOLS = tuple(_describe(name, baseline) for name, baseline in BASELINES.items())
