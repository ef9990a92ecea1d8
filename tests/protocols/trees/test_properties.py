"""Random overlays, schedules and delays: delivery exactly once, and tables as the oracle wants them."""

from random import Random

import pytest

from protocols.trees.world import World
from recado.protocols.pubsub import BecomePublisher
from recado.protocols.topology import complete, grid, random_graph, ring
from recado.protocols.trees import TreeSettings
from recado.protocols.trees.node import HANDLERS
from recado.sim.network import Links

SETTINGS = (
    TreeSettings(),
    TreeSettings(forwarding="subscriptions"),
    TreeSettings(filtering="type"),
    TreeSettings(share=True),
)


SEEDS = range(500)


def life(seed, settings=None, handlers=HANDLERS):
    """Operations one after another and then at once; both times everything must be right at rest."""
    settings = settings or SETTINGS[seed % len(SETTINGS)]
    world = World(seed, settings, handlers)
    once = settings.forwarding == "seen"
    world.in_turn(world.rng.randrange(3, 10))
    world.check()
    world.publish_everywhere(once_each=once)
    world.at_once(world.rng.randrange(3, 12), within=world.rng.choice((1.0, 5.0, 20.0)))
    world.check()
    world.publish_everywhere(once_each=once)
    return world


def race(seed, settings=None, handlers=HANDLERS):
    """Subscribers and publishers of one type appear at the same time, on a graph with cycles: questions meet grafts."""
    own = Random(seed)
    jumpy = Links(lambda: own.uniform(5, 20) if own.random() < 0.2 else own.uniform(0.1, 1))
    world = World(seed, settings, handlers, topology=any_cycle(own), network=jumpy)
    rng, nodes = world.rng, world.topology.nodes
    for _ in range(rng.randrange(2)):
        world.simulation.ask(*world.subscribe(rng.choice(nodes), "a"))
        world.quiet()
    within = rng.choice((1, 5, 20))
    for _ in range(rng.randrange(2, 8)):
        node, time = rng.choice(nodes), world.simulation.now + rng.uniform(0, within)
        node, request = (node, BecomePublisher("a")) if rng.random() < 0.6 else world.subscribe(node, "a")
        world.simulation.ask(node, request, time)
    world.quiet()
    world.check()
    world.publish_everywhere()
    return world


def any_cycle(rng):
    return rng.choice((ring(rng.randrange(4, 12)), grid(3, 3), complete(5), random_graph(9, 4, rng)))


@pytest.mark.parametrize("block", range(10))
def test_random_lives(block):
    for seed in SEEDS[block::10]:
        life(seed)


@pytest.mark.parametrize("block", range(10))
def test_races(block):
    for seed in SEEDS[block::10]:
        race(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(40))
def test_many_random_lives(block):
    for seed in range(1_000 + 400 * block, 1_000 + 400 * (block + 1)):
        life(seed)
        race(seed)
