"""Random overlays with random roles: a topology, delays, and a life of operations, all from one seed."""

from random import Random

from protocols.trees import oracle
from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.topology import complete, grid, line, random_graph, random_tree, ring, scale_free, star
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.node import HANDLERS
from recado.sim.draws import constant, exponential, uniform
from recado.sim.network import Links
from recado.sim.system import System

FILTERS = ("true", "v == 1", "v >= 2", "v < 3", "v in {0, 2}", 'w matches "x+"', "v == 1 or w exists")
TYPES = ("a", "b", "c.d")
PATTERNS = ("a", "a", "a", "b", "b", "c.d", "c.*", "")
CAP = 200_000


def satisfies(filter, event):
    return matches(parse(filter), event)


def any_topology(rng, size):
    room = (size - 1) * (size - 2) // 2
    makers = (
        lambda: random_graph(size, rng.randrange(min(size, room)), rng),
        lambda: random_graph(size, room // 2, rng),
        lambda: random_tree(size, rng),
        lambda: ring(size),
        lambda: line(size),
        lambda: star(size),
        lambda: complete(min(size, 6)),
        lambda: grid(3, max(1, size // 3)),
        lambda: scale_free(size, 2, rng),
    )
    return rng.choice(makers)()


def any_delay(rng):
    own = Random(rng.random())
    return rng.choice((constant(1.0), uniform(0.1, 3.0, own), exponential(1.0, own)))


class World:
    """``handlers`` make the machines different from ``TreeNode``."""

    def __init__(self, seed, settings=None, handlers=HANDLERS, *, topology=None, network=None):
        self.rng = Random(seed)
        self.settings = settings or TreeSettings()
        self.topology = topology or any_topology(self.rng, self.rng.randrange(4, 12))
        self.handlers = handlers
        network = network or Links(any_delay(self.rng))
        self.system = System(self.topology, self.machine, network, seed, cap=CAP)
        self.simulation = self.system.simulation
        self.roles = {}
        self.subscriptions = {}
        self.number = 0

    def machine(self, node):
        return TreeNode(node, self.settings, self.handlers)

    def operation(self):
        """A request that makes sense when it is carried out, whatever else is under way: node and request."""
        rng = self.rng
        kind = rng.randrange(10)
        if kind < 4 or not self.subscriptions:
            return self.subscribe(rng.choice(self.topology.nodes))
        if kind < 6:
            id = rng.choice(list(self.subscriptions))
            return self.subscriptions.pop(id), Unsubscribe(id)
        if kind < 9 or not self.roles:
            node, type = rng.choice(self.topology.nodes), rng.choice(TYPES)
            self.roles[node, type] = None
            return node, BecomePublisher(type)
        node, type = rng.choice(list(self.roles))
        del self.roles[node, type]
        return node, BecomeBroker(type)

    def subscribe(self, node, type=None):
        self.number += 1
        id = f"s{self.number}"
        self.subscriptions[id] = node
        filter = parse(self.rng.choice(FILTERS))
        return node, Subscribe(Subscription(id, filter, type or self.rng.choice(PATTERNS)))

    def run_until_quiet(self):
        self.system.run_until_quiet()
        oracle.require(self.simulation.pending == 0, "messages go round without end")

    def in_turn(self, operations):
        for _ in range(operations):
            self.simulation.ask(*self.operation())
            self.run_until_quiet()

    def at_once(self, operations, within):
        """In the order of their times, so that what belongs to one node comes in an order that makes sense."""
        now = self.simulation.now
        for time in sorted(self.rng.uniform(now, now + within) for _ in range(operations)):
            node, request = self.operation()
            self.simulation.ask(node, request, time)
        self.run_until_quiet()

    def views(self):
        return {id: node.machine.inspect() for id, node in self.simulation.nodes.items() if node.alive}

    def check(self, *, trees_only=True):
        oracle.check(self.views(), trees_only=trees_only)

    def event(self, type):
        self.number += 1
        attributes = {"v": self.rng.randrange(4)}
        if self.rng.random() < 0.5:
            attributes["w"] = self.rng.choice(("x", "xx", "y"))
        return Event(f"e{self.number}", type, attributes=attributes)

    def publish_everywhere(self, *, once_each=True):
        """Every publisher publishes; each event must reach those who want it, once, and nobody else."""
        views = self.views()
        for node, view in views.items():
            for type in view["publishes"]:
                event = self.event(type)
                expected = sorted(oracle.receivers(views, node, event, satisfies).items())
                self.system.deliveries.clear()
                self.simulation.ask(node, Publish(event))
                self.run_until_quiet()
                got = self.system.deliveries
                found = sorted((id, one.node) for one in got for id in one.subscriptions)
                oracle.require(found == expected, event, "of", node, "reached", found, "and not", expected)
                oracle.require(not once_each or len({one.node for one in got}) == len(got), "told twice of", event, got)
