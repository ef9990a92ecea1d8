"""Properties over random placements: what always holds on the ideal channel, and what holds when frames are lost."""

from random import Random

import pytest
from msgspec import structs

from protocols.sensors.world import World, box, line, random_world
from recado.protocols.sensors import SensorSettings
from recado.sim.faults import Cuts, Duplication, Loss
from recado.sim.kernel import stream
from recado.sim.trace import Trace

SEEDS = range(12)


def busy(world, rng, subscribers=10, publications=25, spacing=40.0):
    """Subscriptions, then publications apart from each other; all that happens."""
    nodes = list(world.places)
    for node in rng.sample(nodes, min(subscribers, len(nodes))):
        world.subscribe(node, box(*(rng.randint(1, 6) for _ in range(2))), at=world.simulation.now + rng.uniform(0, 30))
    start = world.simulation.now + 60.0
    for number in range(publications):
        values = [rng.randint(1, 9) for _ in range(4)]
        world.publish(rng.choice(nodes), f"e{number}", *values, at=start + number * spacing * rng.uniform(0.9, 1.0))
    world.run()


def assert_bounded(world):
    for node in world.places:
        machine = world.machine(node)
        counters = machine.inspect()["counters"]
        assert counters["buffered"] <= 64
        assert counters["waiting"] == 0
        assert not machine.inspect()["pending"]
        assert not machine.aodv._relays


def assert_nothing_spurious(world):
    """``World`` itself refuses what does not match; here: nothing twice, and to nobody who cannot be reached."""
    got = [(node, id) for _, node, id in world.deliveries]
    assert len(got) == len(set(got))
    for id, (publisher, event) in world.events.items():
        reachable = world.hops(publisher)
        assert set(world.who_got(id)) <= set(world.who_wants(event)) & set(reachable)
        assert set(world.collected(id)) <= set(world.who_wants(event))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connected_network(seed):
    rng = Random(seed)
    profile = rng.choice(["prototype", "sparse"])
    aodv = rng.choice(["ns2", "rfc3561"])
    mode = rng.choice(["all", "rreq", "adaptive"])
    settings = SensorSettings(pampa=profile, aodv=aodv, pace_mode=mode, grouping=rng.random() < 0.8)
    world = random_world(seed, settings=settings, nodes=rng.randint(8, 30), side=rng.choice([300, 600, 800]))
    busy(world, rng)
    assert_nothing_spurious(world)
    assert_bounded(world)
    for id in world.events:  # every match that was collected is notified
        assert world.who_got(id) == world.collected(id)
    assert sum(len(world.who_got(id)) for id in world.events) >= 0.9 * sum(
        len(world.who_wants(event)) for _, event in world.events.values()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_are_near_everybody_that_was_reached(seed):
    """The invariant of 5.4: whoever heard of an item and does not hold it has a copy within ``dbc`` hops."""
    rng = Random(seed)
    settings = SensorSettings(pampa=rng.choice(["prototype", "sparse"]), dbc=rng.choice([1, 2, 3]))
    world = random_world(seed, settings=settings, nodes=40, side=rng.choice([500, 900]))
    for node in rng.sample(list(world.places), 5):
        world.subscribe(node)
        world.run()
        holders = world.holders((node, 1))
        near = world.hops(*holders)
        last = [id for id in world.machine(node).pampa.heard if id[0] == node][-1]
        for other in world.places:
            if last in world.machine(other).pampa.heard:
                assert near[other] <= settings.dbc
        assert node in holders
        assert len(holders) < len(world.places)


@pytest.mark.parametrize("seed", range(6))
def test_a_query_finds_what_is_in_its_reach(seed):
    """A node that was reached by the announcement finds the subscription, whoever asks."""
    world = random_world(seed, nodes=30, side=600)
    world.subscribe(3)
    world.run()
    stored = [id for id in world.machine(3).pampa.heard if id[0] == 3][-1]
    reached = [node for node in world.places if stored in world.machine(node).pampa.heard]
    for node in reached[::3]:
        world.publish(node, f"from{node}")
        world.run()
    missed = [node for node in reached[::3] if world.who_got(f"from{node}") != [3]]
    assert len(missed) <= 1  # best effort: a query's relays may be silenced


def test_nobody_is_notified_from_a_query():
    world = line(4)
    world.subscribe(2)
    world.run()
    world.publish(0, "e")
    world.run(0.44)
    assert world.sent["pampa.query"] == 2
    assert world.deliveries == []
    world.run()
    assert world.who_got("e") == [2]


@pytest.mark.parametrize("seed", range(6))
def test_a_partitioned_network_serves_what_can_be_reached(seed):
    world = random_world(seed, nodes=25, side=1600, connected=False)
    busy(world, Random(seed))
    assert_nothing_spurious(world)
    assert_bounded(world)


@pytest.mark.parametrize("seed", range(6))
def test_with_loss_and_repeats_nothing_hangs(seed):
    rng = Random(seed)
    settings = SensorSettings(
        rreq_retry=rng.choice(["on", "off"]),
        repair=rng.choice(["none", "source", "local"]),
        aodv=rng.choice(["ns2", "rfc3561"]),
    )

    def wrap(radio):
        return Duplication(Loss(radio, 0.15, stream(seed, "loss")), 0.1, stream(seed, "twice"), 0.05)

    world = random_world(seed, settings=settings, nodes=20, side=500, wrap=wrap)
    busy(world, rng)
    assert_nothing_spurious(world)
    assert_bounded(world)
    assert world.deliveries


def test_a_partition_is_missed_without_a_hang_and_served_again():
    cuts = []

    def wrap(radio):
        cuts.append(Cuts(radio))
        return cuts[0]

    world = line(6, wrap=wrap, settings=SensorSettings(rreq_retry="on", repair="source"))
    world.subscribe(5)
    world.run()
    world.publish(0, "before")
    world.run()
    cuts[0].split((0, 1, 2), (3, 4, 5))
    world.publish(0, "during")
    world.run()
    cuts[0].join()
    world.run(60)
    world.publish(0, "after")
    world.run()
    assert [world.who_got(id) for id in ("before", "during", "after")] == [[5], [], [5]]
    assert_bounded(world)


@pytest.mark.parametrize("seed", range(6))
def test_a_full_node_keeps_its_own_and_the_network_goes_on(seed):
    rng = Random(seed)
    settings = SensorSettings(capacity=2, evict=["random", "oldest", "none"][seed % 3])
    world = random_world(seed, settings=settings, nodes=20, side=600)
    busy(world, rng, subscribers=12)
    assert_nothing_spurious(world)
    for node in world.places:
        zone = world.machine(node).cache.zone
        assert len(zone) <= 2
        for own in world.machine(node).delivery.subscriptions.values():
            assert zone[own.key].own


@pytest.mark.parametrize("system", ["publication-flooding", "subscription-flooding", "blind-flooding"])
def test_baselines_deliver_the_same(system):
    world = random_world(7, settings=SensorSettings(system=system), nodes=20, side=500)
    busy(world, Random(7))
    assert_nothing_spurious(world)
    assert_bounded(world)
    for id, (_, event) in world.events.items():
        assert world.who_got(id) == world.who_wants(event)
    if system == "subscription-flooding":
        assert all(len(world.machine(node).cache.zone) == 10 for node in world.places)
        assert world.sent["pampa.query"] == world.sent["pampa.pub"] == 0
    else:
        assert set(world.sent) == {"pampa.pub"}
        assert not any(world.machine(node).cache.zone for node in world.places)
    if system == "blind-flooding":
        assert world.sent["pampa.pub"] == 20 * 25


def test_the_same_seed_gives_the_same_bytes():
    prints = []
    for seed in (1, 1, 2):
        trace = Trace(keep=False)
        world = World(random_world(1, nodes=15, side=500).places, SensorSettings(), seed=seed, watch=trace)
        busy(world, Random(5))
        prints.append(trace.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_the_story_of_a_notification_leads_back_to_the_publication():
    trace = Trace()
    world = line(5, watch=trace)
    world.subscribe(0)
    world.run()
    world.publish(4, "e")
    world.run()
    step = next(step for step in trace.steps for effect in step.effects if type(effect).__name__ == "Deliver")
    story = trace.story(step)
    for part in ("on its way", "a route was found", "it is me who is looked for", "a route is needed"):
        assert part in story
    assert story.splitlines()[-1].endswith("because it was asked for Publish")


def moving(seed, settings):
    """Nodes that jump now and then, while one of them publishes; how many notifications there were."""
    rng = Random(seed)
    world = World(random_world(seed, nodes=30, side=600).places, settings, seed=seed)
    for node in range(6):
        world.subscribe(node)
    world.run(20)
    for number in range(30):
        for node in rng.sample(range(30), 3):
            world.radio.move(node, (rng.uniform(0, 600), rng.uniform(0, 600)))
        world.publish(rng.randrange(6, 30), f"e{number}")
        world.run(30)
    got = [(node, id) for _, node, id in world.deliveries]
    assert len(got) == len(set(got))
    return len(got)


def test_repair_and_refresh_serve_nodes_that_move():
    """Most of what repair loses goes over old routes that broke behind the first hop; routes that expire are none."""
    mended = SensorSettings(repair="local", rreq_retry="on", refresh_seconds=50.0, lease_seconds=120.0)
    expiring = structs.replace(mended, route_expiry=True)
    flooding = SensorSettings(system="publication-flooding")
    plain, better, best, most = (
        sum(moving(seed, settings) for seed in range(2)) for settings in (SensorSettings(), mended, expiring, flooding)
    )
    assert better > 1.2 * plain
    assert best > 1.1 * better
    assert best >= 0.98 * most
