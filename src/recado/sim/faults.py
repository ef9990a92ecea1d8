"""Faults of the network: messages that are lost, come twice, come late, or cannot get through.

Each is a model around another (``recado.sim.network``), with a random stream of its own, so that a fault more does not
change what the others do. Where the network tells of failures, the sender learns of every message that is lost.

``Cuts`` is the part that an experiment changes while it runs: links, in one direction or both, and partitions. It only
swallows messages; ``recado.sim.faults`` also tells the ends of a link, as a broken connection would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from recado.protocols.machine import Machine, NodeId
from recado.protocols.topology import Topology
from recado.sim.kernel import Audience, Medium, Network, Simulation, SimulationError
from recado.sim.network import NetworkWrapper

Obstacle = Callable[[NodeId, NodeId], bool]
"""Does a frame of the first node get through to the second?"""


class RandomFault(NetworkWrapper):
    """A fault that meets each message with the same probability."""

    def __init__(self, inner: Network, probability: float, rng: Random) -> None:
        super().__init__(inner)
        if not 0 <= probability <= 1:
            raise SimulationError(f"a probability is between 0 and 1, not {probability}")
        self.probability, self._rng = probability, rng

    def happens(self) -> bool:
        return self._rng.random() < self.probability


def _inside(inner: Network, passes: Obstacle) -> Medium | None:
    """The medium of the network that a fault is around; from now on it asks the fault for every frame and hearer."""
    radio = getattr(inner, "medium", None)
    if radio is not None:
        radio.obstacles.append(passes)
    return radio


class Loss(RandomFault):
    """Messages are lost; of a broadcast, each hearer loses it by itself. On a radio, a frame that is lost is repeated
    as the channel repeats frames.
    """

    def __init__(self, inner: Network, probability: float, rng: Random) -> None:
        super().__init__(inner, probability, rng)
        self.medium = _inside(inner, self.passes)

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        return not self.happens()

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        return () if self.happens() else times

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        return [heard for heard in self.inner.audience(sender, size_bytes, now) if not self.happens()]


class Duplication(RandomFault):
    """Messages come twice, the second time up to ``within_seconds`` later."""

    def __init__(self, inner: Network, probability: float, rng: Random, within_seconds: float) -> None:
        super().__init__(inner, probability, rng)
        self._within = within_seconds

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        if times and self.happens():
            return (*times, times[-1] + self._rng.uniform(0, self._within))
        return times


class Reordering(RandomFault):
    """Messages come up to ``by_seconds`` late, so that later ones overtake them."""

    def __init__(self, inner: Network, probability: float, rng: Random, by_seconds: float) -> None:
        super().__init__(inner, probability, rng)
        self._by = by_seconds

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        if self.happens():
            late = self._rng.uniform(0, self._by)
            return [time + late for time in times]
        return times


class Cuts(NetworkWrapper):
    """What cannot get through now. A message that was sent before a cut still arrives."""

    def __init__(self, inner: Network) -> None:
        super().__init__(inner)
        self.medium = _inside(inner, self.passes)
        self._blocked: dict[tuple[NodeId, NodeId], None] = {}
        self._group: dict[NodeId, int] = {}
        self._one_way: list[tuple[frozenset[NodeId], frozenset[NodeId]]] = []

    def block(self, sender: NodeId, receiver: NodeId) -> None:
        """Nothing more from one node to another; the way back stays open."""
        self._blocked[sender, receiver] = None

    def unblock(self, sender: NodeId, receiver: NodeId) -> None:
        self._blocked.pop((sender, receiver), None)

    def split(self, *groups: Iterable[NodeId]) -> None:
        """A partition: messages stay inside a group; nodes in no group are together. It replaces an earlier split."""
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def split_one_way(self, senders: Iterable[NodeId], receivers: Iterable[NodeId]) -> None:
        """Nothing more from the senders to the receivers, while answers still come."""
        self._one_way.append((frozenset(senders), frozenset(receivers)))

    def join(self) -> None:
        """The end of all partitions, not of blocked links."""
        self._group.clear()
        self._one_way.clear()

    def passes(self, sender: NodeId, receiver: NodeId) -> bool:
        return (
            (sender, receiver) not in self._blocked
            and self._group.get(sender) == self._group.get(receiver)
            and not any(sender in senders and receiver in receivers for senders, receivers in self._one_way)
        )

    def arrivals(self, sender: NodeId, receiver: NodeId, size_bytes: int, now: float) -> Sequence[float]:
        times = self.inner.arrivals(sender, receiver, size_bytes, now)
        return times if self.passes(sender, receiver) else ()

    def audience(self, sender: NodeId, size_bytes: int, now: float) -> Audience:
        return [heard for heard in self.inner.audience(sender, size_bytes, now) if self.passes(sender, heard[0])]


# --- Links and nodes that fail and come back, in a network of connections: what both ends get to know, and when
#
# A link works while it is not cut and both of its nodes live. When it fails, messages on it are lost, and after
# ``notice_seconds`` the live ends are told (``LinkDown``); when it works again they are told as late (``LinkUp``). As
# on a TCP connection, every failure is told, also one that was over before it was noticed; between the two words
# nothing passes, and what was sent before never arrives after them.
#
# A crash takes all that a node did not persist. After a restart the node begins without links, and they come up; but
# links that a machine asked for are gone with the node that asked, and with the node's wish.


Target = tuple[NodeId, NodeId] | NodeId


class _Link:
    __slots__ = ("broken", "cut", "ends", "opener", "told_up", "unwanted")

    def __init__(self, first: NodeId, second: NodeId, told_up: bool, opener: NodeId | None = None) -> None:
        self.ends = (first, second)
        self.told_up = told_up
        self.opener = opener
        """The node whose machine asked for the link; None if it belongs to the topology."""
        self.cut = self.broken = self.unwanted = False


class Outages:
    """``make(node)`` gives the machine of a node that restarts; ``cuts`` must be part of the simulation's network."""

    def __init__(
        self,
        simulation: Simulation,
        topology: Topology,
        make: Callable[[NodeId], Machine],
        cuts: Cuts,
        notice_seconds: float = 0.0,
    ) -> None:
        self.simulation, self.notice_seconds = simulation, notice_seconds
        self._make, self._cuts = make, cuts
        self._links: dict[NodeId, dict[NodeId, _Link]] = {node: {} for node in topology.nodes}
        for first, second in topology.edges:
            self._add(_Link(first, second, told_up=True))
        simulation.link_maker = self

    # -- what happens now; for later, give the call to ``simulation.at``

    def cut(self, first: NodeId, second: NodeId) -> None:
        link = self._link(first, second)
        if not link.cut:
            link.cut = True
            self._break(link)
            self.simulation.lose(first, second)
            self.simulation.lose(second, first)

    def heal(self, first: NodeId, second: NodeId) -> None:
        link = self._link(first, second)
        if link.cut:
            link.cut = False
            self._notice_later(link)

    def crash(self, node: NodeId) -> None:
        """What the node had sent may still arrive until its neighbours notice."""
        self._known(node)
        self.simulation.crash(node)
        for link in self._links[node].values():
            link.unwanted = link.unwanted or link.opener == node
            self._break(link)

    def restart(self, node: NodeId) -> None:
        self._known(node)
        for link in list(self._links[node].values()):
            self._notice(link)
        self.simulation.add(node, self._make(node))
        for link in self._links[node].values():
            self._notice_later(link)

    def join(self, node: NodeId, neighbours: Sequence[NodeId]) -> None:
        """A new node, and its links come up."""
        if node in self._links:
            raise SimulationError(f"node {node!r} is already there; a crashed node comes back with restart")
        for other in neighbours:
            if other not in self._links:
                raise SimulationError(f"node {node!r} cannot have a link to {other!r}, which is no node")
        self._links[node] = {}
        for other in neighbours:
            link = _Link(node, other, told_up=False)
            self._block(link)
            self._add(link)
        self.restart(node)

    def connect(self, opener: NodeId, peer: NodeId) -> None:
        """The machine of a node asks for a link; it can fail like any other."""
        if opener not in self._links or peer not in self._links or opener == peer:
            return
        link = self._links[opener].get(peer)
        if link is None:
            link = _Link(opener, peer, told_up=False, opener=opener)
            self._block(link)
            self._add(link)
        elif link.unwanted:
            link.opener, link.unwanted = opener, False
        self._notice_later(link)

    def disconnect(self, opener: NodeId, peer: NodeId) -> None:
        link = self._links.get(opener, {}).get(peer)
        if link is not None and link.opener == opener and not link.unwanted:
            link.unwanted = True
            self._break(link)
            self.simulation.lose(opener, peer)
            self.simulation.lose(peer, opener)

    def restore_all(self) -> None:
        """Everything works again: all links heal, all crashed nodes restart."""
        for node, links in self._links.items():
            for other in links:
                self.heal(node, other)
            if not self.is_live(node):
                self.restart(node)

    def targets(self) -> list[Target]:
        """All that can fail: the links, then the nodes."""
        links = dict.fromkeys(link.ends for links in self._links.values() for link in links.values())
        return [*links, *self._links]

    def toggle(self, target: Target) -> None:
        """What works fails; what failed comes back."""
        if isinstance(target, tuple):
            (self.heal if self._link(*target).cut else self.cut)(*target)
        else:
            (self.crash if self.is_live(target) else self.restart)(target)

    def is_live(self, node: NodeId) -> bool:
        found = self.simulation.nodes.get(node)
        return found is not None and found.alive

    def works(self, first: NodeId, second: NodeId) -> bool:
        link = self._link(first, second)
        return not link.cut and not link.unwanted and all(map(self.is_live, link.ends))

    # -- how

    def _add(self, link: _Link) -> None:
        first, second = link.ends
        self._links[first][second] = self._links[second][first] = link

    def _known(self, node: NodeId) -> None:
        if node not in self._links:
            raise SimulationError(f"there is no node {node!r}; a new one comes with join")

    def _link(self, first: NodeId, second: NodeId) -> _Link:
        link = self._links.get(first, {}).get(second)
        if link is None:
            raise SimulationError(f"there is no link {first!r} - {second!r}")
        return link

    def _break(self, link: _Link) -> None:
        link.broken = True
        self._block(link)
        self._notice_later(link)

    def _block(self, link: _Link) -> None:
        first, second = link.ends
        self._cuts.block(first, second)
        self._cuts.block(second, first)

    def _notice_later(self, link: _Link) -> None:
        self.simulation.at(self.simulation.now + self.notice_seconds, lambda: self._notice(link))

    def _notice(self, link: _Link) -> None:
        """Tell the live ends what they do not know yet: first that the link failed, then that it works again."""
        first, second = link.ends
        if self._links[first].get(second) is not link:
            return
        if link.broken and link.told_up:
            self.simulation.link_down(first, second)
            link.told_up = False
        link.broken = False
        if link.unwanted:
            del self._links[first][second], self._links[second][first]
        elif not link.told_up and self.works(first, second):
            self._cuts.unblock(first, second)
            self._cuts.unblock(second, first)
            self.simulation.link_up(first, second)
            link.told_up = True


def schedule_failures(outages: Outages, rng: Random, rate: float, seconds: float) -> None:
    """Links and nodes fail and come back by chance, ``rate`` a second on average, for a time; then everything works."""
    simulation, targets = outages.simulation, outages.targets()
    end = simulation.now + seconds

    def strike() -> None:
        outages.toggle(rng.choice(targets))
        wait()

    def wait() -> None:
        time = simulation.now + rng.expovariate(rate)
        if time < end:
            simulation.at(time, strike)
        else:
            simulation.at(end, outages.restore_all)

    wait()


def schedule_node_failures(
    simulation: Simulation,
    nodes: Sequence[NodeId],
    make: Callable[[NodeId], Machine],
    rng: Random,
    *,
    rate: float,
    seconds: float,
    is_beyond_repair: Callable[[NodeId], bool] = lambda node: False,
) -> None:
    """Nodes crash and restart by chance, ``rate`` a second on average, for a time; then all are back.

    For networks without links that could be told of. ``is_beyond_repair`` says which nodes never come back.
    """
    end = simulation.now + seconds

    def toggle(node: NodeId) -> None:
        if simulation.nodes[node].alive:
            simulation.crash(node)
        elif not is_beyond_repair(node):
            simulation.add(node, make(node))

    def strike() -> None:
        toggle(rng.choice(nodes))
        wait()

    def restore() -> None:
        for node in nodes:
            if not simulation.nodes[node].alive:
                toggle(node)

    def wait() -> None:
        time = simulation.now + rng.expovariate(rate)
        if time < end:
            simulation.at(time, strike)
        else:
            simulation.at(end, restore)

    wait()
