"""Links that break, nodes that crash, join and come back: once that stops, all is right again, in bounded time.

The bound. Let d be the longest delay of a message, n the number of nodes, r the wait for repairs, p the patience of
publishers. After the last change the damage is known at the root within n*d; the rebuild begins r later and takes 2n*d;
a publisher that waits for it searches after p*r, which takes 2n*d, and grafting n*d; what met on the way is rebuilt
once more, r + 3n*d. Together: (p + 2) * r + 9 * n * d.
"""

from random import Random

import pytest

from protocols.trees import oracle
from protocols.trees.world import CAP, World, any_topology, satisfies
from recado.model.subscription import Subscription
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.topology import Topology, ring
from recado.protocols.trees import TreeSettings
from recado.protocols.trees.messages import Graft
from recado.protocols.trees.node import HANDLERS
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Outages
from recado.sim.network import Links, UnitDelay

DELAY = 2.0
SETTINGS = (
    TreeSettings(settle_seconds=100.0),
    TreeSettings(settle_seconds=100.0, forwarding="subscriptions", repair_seconds=0.1),
    TreeSettings(settle_seconds=100.0, share=True, repair_seconds=0.1),
    TreeSettings(settle_seconds=100.0, buffer=1_000, buffer_seconds=1e6),
)


class Troubled(World):
    """A world in which links and nodes fail and come back."""

    def __init__(self, seed, settings=None, handlers=HANDLERS, *, topology=None, network=None):
        rng = Random(seed)
        topology = topology or any_topology(rng, rng.randrange(4, 10))
        self.expected = {}
        cuts = network or Cuts(Links(uniform(0.1, DELAY, rng)))
        super().__init__(seed, settings, handlers, topology=topology, network=cuts)
        notice = self.rng.choice((0.0, 0.5, 3.0))
        self.outages = Outages(self.simulation, topology, self.machine, cuts, notice)
        self.joined = 0

    def act(self):
        """One operation that makes sense at this moment."""
        live = list(self.views().items())
        if not live:
            return
        node, view = self.rng.choice(live)
        kind = self.rng.randrange(10)
        if kind < 4:
            _, request = self.subscribe(node)
        elif kind < 6 and view["subscriptions"]:
            request = Unsubscribe(self.rng.choice(list(view["subscriptions"])))
        elif kind < 9 or not view["publishes"]:
            request = BecomePublisher(self.rng.choice(("a", "b")))
        else:
            request = BecomeBroker(self.rng.choice(view["publishes"]))
        self.ask(node, request)

    def ask(self, node, request):
        self.simulation.ask(node, request)
        self.note(node, request)

    def note(self, node, request):
        """What the application of a node has been promised, over crashes too."""
        subscriptions, types = self.expected.setdefault(node, ({}, {}))
        match request:
            case Subscribe(subscription):
                subscriptions[subscription.id] = None
            case Unsubscribe(id):
                del subscriptions[id]
            case BecomePublisher(type):
                types[type] = None
            case BecomeBroker(type):
                del types[type]

    def operation(self):
        node, request = super().operation()
        self.note(node, request)
        return node, request

    def check(self, *, trees_only=True):
        super().check(trees_only=trees_only)
        for node, view in self.views().items():
            subscriptions, types = self.expected.get(node, ((), ()))
            oracle.require(sorted(view["subscriptions"]) == sorted(subscriptions), node, "forgot what it wants", view)
            oracle.require(sorted(view["publishes"]) == sorted(types), node, "forgot what it publishes", view)

    def break_something(self):
        targets = self.outages.targets()
        if self.rng.random() < 0.1:
            self.joined += 1
            known = [target for target in targets if not isinstance(target, tuple)]
            self.outages.join(f"new{self.joined}", self.rng.sample(known, min(len(known), 2)))
        else:
            self.outages.toggle(self.rng.choice(targets))

    def trouble(self, changes, within):
        now = self.simulation.now
        for time in sorted(self.rng.uniform(now, now + within) for _ in range(changes)):
            call = self.break_something if self.rng.random() < 0.6 else self.act
            self.simulation.at(time, call)

    def bound(self):
        """See above; the network tells of failures ``notice_seconds`` late."""
        settings, nodes = self.settings, len(self.simulation.nodes)
        repair = (settings.patience + 2) * settings.repair_seconds
        return self.outages.notice_seconds + repair + 9 * nodes * DELAY


TROUBLED_SEEDS = range(200)
BRIDGED_SEEDS = range(100)


def troubled_life(seed, settings=None, handlers=HANDLERS):
    settings = settings or SETTINGS[seed % len(SETTINGS)]
    world = Troubled(seed, settings, handlers)
    rng = world.rng
    world.in_turn(rng.randrange(2, 8))
    world.trouble(rng.randrange(1, 16), within=rng.choice((5.0, 30.0, 120.0)))
    world.simulation.run(steps=CAP)
    world.check()
    world.publish_everywhere(once_each=settings.forwarding == "seen" and not settings.buffer)
    world.trouble(rng.randrange(1, 6), within=5.0)
    world.simulation.at(world.simulation.now + 5.0, world.outages.restore_all)
    world.simulation.run(until=world.simulation.now + 5.0 + world.bound(), steps=CAP)
    publish_within_the_bound(world)
    world.run_until_quiet()
    world.check()
    world.publish_everywhere(once_each=settings.forwarding == "seen" and not settings.buffer)
    return world


def bridge(seed, settings=None, handlers=HANDLERS):
    """A link between two halves breaks; life goes on in both; then a new node comes that has links to each of them."""
    rng = Random(seed)
    left, right = (any_topology(rng, rng.randrange(4, 7)) for _ in range(2))
    edges = [(f"l{one}", f"l{two}") for one, two in left.edges] + [(f"r{one}", f"r{two}") for one, two in right.edges]
    sides = [f"l{node}" for node in left.nodes], [f"r{node}" for node in right.nodes]
    gap = tuple(rng.choice(side) for side in sides)
    world = Troubled(seed, settings, handlers, topology=Topology([*sides[0], *sides[1]], [*edges, gap]))
    world.in_turn(rng.randrange(5))
    world.outages.cut(*gap)
    world.simulation.run(until=world.simulation.now + rng.uniform(0, 20))
    for _ in range(rng.randrange(2, 6)):
        world.act()
        world.simulation.run(until=world.simulation.now + rng.uniform(0, 20))
    world.outages.join("new", [rng.choice(side) for side in sides])
    world.run_until_quiet()
    world.check()
    world.publish_everywhere()
    return world


def publish_within_the_bound(world, slack=0.0):
    """Delivery works again, whether or not timers are still pending."""
    views = world.views()
    world.system.deliveries.clear()
    expected = {}
    for node, view in views.items():
        for type in view["publishes"]:
            event = world.event(type)
            expected |= {(event.id, id): at for id, at in oracle.receivers(views, node, event, satisfies).items()}
            world.simulation.ask(node, Publish(event))
    world.simulation.run(until=world.simulation.now + 2 * DELAY * len(views) + slack, steps=CAP)
    found = [((one.event, id), one.node) for one in world.system.deliveries for id in one.subscriptions]
    oracle.require(sorted(found, key=str) == sorted(expected.items(), key=str), "within the bound", found, expected)


def lost_graft(seed=0, settings=None, handlers=HANDLERS):
    """A graft is lost with its link; the root never heard of it, and only the publisher can look again."""
    world = World(seed, settings, handlers, topology=ring(6), network=Cuts(UnitDelay()))
    outages = Outages(world.simulation, world.topology, world.machine, world.simulation.network)
    world.system.subscribe(3, Subscription("s", type="a"))
    world.simulation.ask(0, BecomePublisher("a"))
    kinds = world.simulation.sent
    while Graft not in kinds or kinds[Graft].count < 2:
        world.simulation.run(steps=1)
    outages.cut(*((1, 2) if "a" in world.views()[1]["tables"] else (4, 5)))
    world.run_until_quiet()
    world.check()
    world.publish_everywhere()
    return world


def test_a_graft_that_is_lost_with_its_link():
    world = lost_graft()
    assert world.views()[3]["tables"]["a"]["s"]["next"] == [3]


@pytest.mark.parametrize("block", range(10))
def test_troubled_lives(block):
    for seed in TROUBLED_SEEDS[block::10]:
        troubled_life(seed)


@pytest.mark.parametrize("block", range(10))
def test_bridges(block):
    for seed in BRIDGED_SEEDS[block::10]:
        bridge(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_troubled_lives(block):
    for seed in range(10_000 + 250 * block, 10_000 + 250 * (block + 1)):
        troubled_life(seed)
        bridge(seed)
