"""The test vectors of the specification's section 14."""

import pytest

from protocols.sensors.world import World, box, line
from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.protocols.sensors import SensorNode, SensorSettings
from recado.protocols.sensors.messages import Data, Group, Item, Store
from recado.protocols.sensors.settings import PAMPA_PROFILES

PROFILES = list(PAMPA_PROFILES)
KEY = (0, 1)


def settings(**options):
    return SensorSettings(**options)


@pytest.mark.parametrize("pampa", PROFILES)
def test_1_copies_on_a_line(pampa):
    world = line(8, settings=settings(pampa=pampa))
    cost = world.cost(world.subscribe, 0)
    assert cost == {"pampa.sub": 8}
    assert world.holders(KEY) == [0, 3, 6]
    sent = {node: message.dfs for _, node, _, message in world.log if type(message) is Store}
    assert [sent[node] for node in range(8)] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert {node: world.machine(node).cache.zone[KEY].dist for node in (0, 3, 6)} == {0: 0, 3: 2, 6: 2}


@pytest.mark.parametrize("pampa", PROFILES)
@pytest.mark.parametrize(("origin", "queries", "replies"), [(5, 3, 3), (1, 3, 3), (7, 2, 1)])
def test_1_queries_on_a_line(pampa, origin, queries, replies):
    world = line(8, settings=settings(pampa=pampa))
    world.subscribe(0)
    world.run()
    cost = world.cost(world.publish, origin, "e")
    assert (cost["pampa.query"], cost["pcache.reply"]) == (queries, replies)
    assert world.collected("e") == [0]
    assert world.who_got("e") == [0]
    if origin == 5:
        ways = sorted((node, to) for _, node, to, message in world.log if type(message).__name__ == "Reply")
        assert ways == [(3, 4), (4, 5), (6, 5)]


@pytest.mark.parametrize(("aodv", "requests"), [("ns2", 7), ("rfc3561", 13)])
def test_2_first_and_second_delivery(aodv, requests):
    world = line(8, settings=settings(aodv=aodv))
    world.subscribe(0)
    world.run()
    first = world.cost(world.publish, 5, "first")
    assert (first["aodv.rreq"], first["aodv.rrep"], first["data.single"]) == (requests, 5, 5)
    second = world.cost(world.publish, 5, "second")
    assert (second["aodv.rreq"], second["aodv.rrep"], second["data.single"]) == (0, 0, 5)
    assert world.who_got("first") == world.who_got("second") == [0]
    assert first["data.group"] == first["aodv.rerr"] == first["aodv.hello"] == 0


@pytest.mark.parametrize(("aodv", "requests"), [("ns2", 2), ("rfc3561", 3)])
def test_3_three_nodes(aodv, requests):
    world = line(3, settings=settings(aodv=aodv))
    world.subscribe(2)
    world.run()
    first = world.cost(world.publish, 0, "e0")
    assert (first["aodv.rreq"], first["aodv.rrep"], first["data.single"]) == (requests, 2, 2)
    rest = world.cost(lambda: [world.publish(0, f"e{number}") for number in range(1, 6)])
    assert (rest["aodv.rreq"], rest["aodv.rrep"], rest["data.single"]) == (0, 0, 10)
    assert all(world.who_got(f"e{number}") == [2] for number in range(6))


def give_route(node, dst, next_hop, hops=2):
    route = node.aodv._route(dst)
    node.aodv._update(route, next_hop, hops, 2, 10.0)


def test_4_grouping():
    names = {"P": (0, 0), "n1": (100, 0), "n2": (0, 100), "x": (200, 0), "y": (300, 0), "A": (320, 0), "B": (340, 10)}
    places = {**names, "C": (0, 300), "D": (0, -200)}
    world = World(places)
    for name in "ABCD":
        world.subscribe(name, box(1, 1, 1, 1))
    world.run()
    publisher, relay = world.machine("P"), world.machine("n1")
    for dst, next_hop in (("A", "n1"), ("B", "n1"), ("C", "n2")):
        give_route(publisher, dst, next_hop)
    give_route(relay, "A", "x")
    give_route(relay, "B", "y")
    give_route(world.machine("x"), "A", "A", 1)
    give_route(world.machine("y"), "B", "B", 1)
    give_route(world.machine("n2"), "C", "C", 1)
    world.log.clear()
    start = world.simulation.now
    world.publish("P", "e", 1, 1, 1, 1)
    world.run()
    left = [(time, to, m) for time, node, to, m in world.log if node == "P" and type(m) in (Group, Data)]
    groups = [(to, sorted(message.dests)) for _, to, message in left if type(message) is Group]
    assert groups == [("n1", ["A", "B"])]
    assert sorted(message.dst for _, _, message in left if type(message) is Data) == ["C", "D"]
    handed = sorted(time for time, _, _ in left)
    assert len(handed) == 3
    assert handed[1] - handed[0] == pytest.approx(1.0)  # paced
    assert 2.0 <= handed[2] - handed[0] < 2.1  # after its route was found
    asked = [time for time, node, _, m in world.log if node == "P" and type(m).__name__ == "RouteRequest"]
    assert asked == [pytest.approx(start + 0.45 + 2.0)]
    parted = [(to, m.dst) for _, node, to, m in world.log if node == "n1" and type(m) is Data]
    assert sorted(parted) == [("x", "A"), ("y", "B")]
    assert not [m for _, node, _, m in world.log if node == "n1" and type(m) is Group]
    assert world.who_got("e") == ["A", "B", "C", "D"]


def test_5_matching():
    tree = parse(box(1, 1, 1, 1))
    inside, outside = ({f"a{n}": value for n, value in enumerate(values, 1)} for values in ((4, 4, 4, 4), (5, 4, 4, 4)))
    assert matches(tree, Event("e", attributes=inside))
    assert not matches(tree, Event("e", attributes=outside))


@pytest.mark.parametrize(
    ("pampa", "distances", "relays"),
    [
        ("sparse", (100, 240), [240]),
        ("prototype", (100, 240), [100, 240]),
        ("prototype", (100, 240, 230), [230, 240]),
    ],
)
def test_6_who_relays(pampa, distances, relays):
    places = {0: (0.0, 0.0)} | {distance: (float(distance), 0.0) for distance in distances}
    world = World(places, settings(pampa=pampa, system="publication-flooding"))
    world.publish(0, "e")
    world.run()
    assert sorted(node for _, node, _, _ in world.log if node) == relays


def test_7_a_full_store_of_own_items():
    small = settings(capacity=1)
    world = line(4, per_node={3: small})
    world.subscribe(3, id="own")
    world.run()
    node: SensorNode = world.machine(3)
    item = Item((0, 7), 1, "a1 > 1")
    node.context.now = world.simulation.now
    assert node.cache.try_store((item,), 2) is False
    assert list(node.cache.zone) == [(3, 1)]
    world.subscribe(0)
    world.run()
    assert world.holders(KEY) == [0]
    last = [message.dfs for _, sender, _, message in world.log if sender == 3 and type(message) is Store]
    assert last == [0, 3]  # rule 2: it relays with the distance that it knows
