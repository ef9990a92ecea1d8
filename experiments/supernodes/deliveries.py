"""Events: who should get them, who did, and when (R15, R30, R48).

Expected are the peers that are in the layer, or attached to a father who is alive, when an event is published, whose
filter accepts it and who are still there when it is counted, ``SETTLE_SECONDS`` later. Events whose publisher left
before that cannot be told from others here and count like them, unless nobody at all got one.

``delivered.with_joining`` is the share if peers count that were joining, too: R20 names that as one possible origin of
the published loss. It is the switch ``count_joining_nodes`` in both positions at once.
"""

from __future__ import annotations

from collections import defaultdict
from math import fsum

from experiments.supernodes.peers import PeerRecord, Peers
from experiments.supernodes.stints import Numbers
from recado.protocols.pubsub import Notified
from recado.sim.kernel import stream

SETTLE_SECONDS = 600.0


class Publication:
    __slots__ = ("began", "got", "joining", "missing", "publisher", "value")

    def __init__(
        self, began: float, value: float, publisher: int, expected: dict[int, bool], joining: dict[int, bool]
    ) -> None:
        self.began, self.value, self.publisher = began, value, publisher
        self.missing = expected
        """Who has not got it; True for members of the layer."""
        self.joining = joining
        """Who was joining when it was published, and whether they have got it since."""
        self.got: dict[int, bool] = {}


class Deliveries:
    """Publishes at equal distances and counts what arrives."""

    def __init__(self, peers: Peers, every_seconds: float) -> None:
        self.peers, self.every = peers, every_seconds
        self._rng = stream(peers.seed, "publishers")
        self._open: dict[str, Publication] = {}
        self.events = self.unsent = self.false_positives = self.duplicates = 0
        self.late: list[float] = []
        self.expected: dict[bool, int] = defaultdict(int)
        self.missed: dict[bool, int] = defaultdict(int)
        self.joining = self.joining_missed = 0
        self.by_event: list[float] = []
        self.by_node: dict[int, list[int]] = {}

    def publish_until(self, end: float) -> None:
        simulation = self.peers.simulation

        def speak() -> None:
            self._publish()
            if simulation.now + self.every < end:
                simulation.at(simulation.now + self.every, speak)

        simulation.at(simulation.now, speak)

    def _publish(self) -> None:
        peers, now = self.peers, self.peers.simulation.now
        attached = {record.node: record for record in peers.live.values() if self._attached(record)}
        if not attached:
            return
        publisher = list(attached)[self._rng.randrange(len(attached))]
        value = self._rng.random() * peers.population.filter_count
        expected = {
            node: record.role != "sub"
            for node, record in attached.items()
            if node != publisher and self._accepts(record, value)
        }
        joining = {
            record.node: False
            for record in peers.live.values()
            if record.node not in attached and self._is_joining(record) and self._accepts(record, value)
        }
        event = peers.publish(publisher, value)
        self._open[event.id] = Publication(now, value, publisher, expected, joining)
        peers.simulation.at(now + SETTLE_SECONDS, lambda: self._count(event.id))

    def _attached(self, record: PeerRecord) -> bool:
        state = self.peers.machine(record.node).state
        if state.child is not None:
            return state.child.father in self.peers.live
        return state.layer is not None and state.layer.active

    def _is_joining(self, record: PeerRecord) -> bool:
        """On the way to a father or into the layer; a child whose father has left is neither."""
        return self.peers.machine(record.node).state.child is None

    def _accepts(self, record: PeerRecord, value: float) -> bool:
        kind = self.peers.population.filters
        return kind == "accept_all" or (kind == "nested" and value < record.filter + 1)

    def delivered(self, now: float, node: int, notified: Notified) -> None:
        one = self._open.get(notified.event.id)
        if one is None or node == one.publisher:
            return
        if not self._accepts(self.peers.records[node], one.value):
            self.false_positives += 1
        if node in one.missing:
            one.got[node] = one.missing.pop(node)
            self.late.append(now - one.began)
        elif node in one.got:
            self.duplicates += 1
        elif node in one.joining:
            one.joining[node] = True

    def _count(self, event: str) -> None:
        one, live = self._open.pop(event), self.peers.live
        missing = {node: member for node, member in one.missing.items() if node in live}
        got = {node: member for node, member in one.got.items() if node in live}
        if not missing and not got:
            return
        if not got and one.publisher not in live:
            self.unsent += 1
            return
        self.events += 1
        self.by_event.append(len(got) / (len(got) + len(missing)))
        for nodes, reached in ((missing, 0), (got, 1)):
            for node, member in nodes.items():
                self.expected[member] += 1
                self.missed[member] += 1 - reached
                counts = self.by_node.setdefault(node, [0, 0])
                counts[0] += 1
                counts[1] += reached
        joining = [reached for node, reached in one.joining.items() if node in live]
        self.joining += len(joining)
        self.joining_missed += joining.count(False)

    def numbers(self) -> Numbers:
        found: Numbers = {
            "events": self.events,
            "unsent": self.unsent,
            "false_positives": self.false_positives,
            "duplicates": self.duplicates,
        }
        for name, members in (("all", (True, False)), ("super", (True,)), ("sub", (False,))):
            expected, missed = (sum(counts[one] for one in members) for counts in (self.expected, self.missed))
            if expected:
                found[f"delivered.{name}"] = 100 * (1 - missed / expected)
        if self.joining or self.expected:
            expected = self.joining + sum(self.expected.values())
            found["joining"] = self.joining / expected
            found["delivered.with_joining"] = 100 * (1 - (self.joining_missed + sum(self.missed.values())) / expected)
        if self.by_event:
            found["delivered.by_event"] = 100 * fsum(self.by_event) / len(self.by_event)
            shares = [got / expected for expected, got in self.by_node.values()]
            found["delivered.by_node"] = 100 * fsum(shares) / len(shares)
        if self.late:
            found["latency"] = fsum(self.late) / len(self.late)
        return found
