"""The session machines with loss, delay, duplication, reordering, moves, lost coverage and crashes, over many seeds."""

import pytest

from recado.broker.state import Bounds
from sim.session_world import BROKER, World, life

SEEDS = range(200)


@pytest.mark.parametrize("block", range(4))
def test_troubled_sessions(block):
    for seed in SEEDS[block::4]:
        life(seed)


def test_the_trouble_is_real():
    """The lives are worth something: things were lost, repeated, given up and restarted in them."""
    worlds = [life(seed) for seed in range(12)]
    nodes = [(name, node) for world in worlds for name, node in world.simulation.nodes.items()]
    assert sum(node.starts > 1 for name, node in nodes if name == BROKER) > 3
    assert sum(node.starts > 1 for name, node in nodes if name != BROKER) > 6
    assert sum(node.machine.agent.inspect()["repeated"] for name, node in nodes if name != BROKER) > 3
    assert sum(world.moves for world in worlds) > 60
    assert sum(len(world.deliveries) for world in worlds) > 400
    assert any("expires_at" in record for world in worlds for record in world.records.values())


def test_small_mailboxes_tell_what_they_drop():
    found = 0
    for seed in range(1_000, 1_025):
        found += len(life(seed, bounds=Bounds(length=3)).gaps)
    assert found > 20


def test_the_same_seed_gives_the_same_life():
    one, two = life(7), life(7)
    assert one.deliveries == two.deliveries
    assert one.simulation.steps == two.simulation.steps


def test_without_faults_everything_comes_at_once():
    world = World(3, crashes=False, expiry=False)
    for fault in world.faults:
        fault.probability = 0.0
    for name in world.users:
        world.subscribe(name)
    world.simulation.run(until=5.0)
    for name in world.users:
        world.publish(name)
    world.simulation.run(until=7.0)
    assert len(world.acked) == len(world.users)
    world.check()
    assert world.deliveries


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_many_troubled_sessions(block):
    for seed in range(10_000 + 500 * block, 10_000 + 500 * (block + 1)):
        life(seed)
