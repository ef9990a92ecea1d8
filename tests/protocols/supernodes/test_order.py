"""Events of one publisher in order, and what is missing of them (setting ``ordered``)."""

import pytest

from protocols.supernodes.test_events import threshold_world
from protocols.supernodes.world import World, family, quick
from recado.model.event import Event
from recado.protocols.pubsub import Missed
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes import order
from recado.protocols.supernodes.state import Flow
from recado.sim.network import Mesh

ORDERED = quick(ordered=True, event_repair=False)


class Lossy(Mesh):
    """Loses what ``lost`` says, and tells nobody."""

    tells_failure = False

    def __init__(self, lost, delay=lambda: 0.1):
        super().__init__(delay)
        self.lost = lost

    def arrivals(self, sender, receiver, size_bytes, now):
        return () if self.lost(sender, receiver, now) else super().arrivals(sender, receiver, size_bytes, now)


def got(world, node):
    return [event for _, one, event in world.deliveries if one == node]


def test_previous_numbers_are_those_of_the_filter():
    log = {number: Event(f"e{number}", attributes={"v": number % 3}) for number in range(1, 8)}
    assert order.previous(log, 8, "v == 0") == 6
    assert order.previous(log, 6, "v == 0") == 3
    assert order.previous(log, 3, "v == 0") == 0
    assert order.previous({7: log[7]}, 8, "v == 0") == order.UNKNOWN


def test_what_waits_is_released_in_order():
    flow = Flow(3)
    flow.held = {9: ("nine", 6), 6: ("six", 5), 5: ("five", 3)}
    assert order.release(flow) == ["five", "six", "nine"]
    assert (flow.last, flow.numbers) == (9, [5, 6, 9])


def test_an_event_whose_place_is_not_known_waits():
    flow = Flow(3)
    flow.held = {5: ("five", order.NOT_STAMPED)}
    assert order.release(flow) == []
    flow.held[4] = ("four", 3)
    assert order.release(flow) == ["four", "five"]


@pytest.mark.parametrize("publisher", [0, 5, 17])
def test_what_arrives_out_of_order_is_delivered_in_order(publisher):
    """Delays are drawn anew for every message, and differ much more than events are apart."""
    swapped = {}
    for settings in (quick(event_repair=False), ORDERED):
        world = threshold_world(settings=settings)
        draw = world.rng
        world.simulation.network = Mesh(lambda draw=draw: draw.random())
        events = []
        for number in range(30):
            events.append(world.publish(publisher, f"e{number:02}", v=draw.randrange(6)))
            world.run(0.1)
        world.run(60)
        swapped[settings.ordered] = sum(got(world, node) != sorted(got(world, node)) for node in world.live())
        for event in events:
            assert world.who_got(event.id) == world.who_wants(event)
        assert not [fact for _, _, fact in world.facts if type(fact) is Missed]
    assert swapped[False] > 5
    assert swapped[True] == 0


def test_a_lost_event_is_asked_for_and_found():
    world = World(ORDERED)
    family(world, 4)
    world.run(30)
    dead = []
    world.simulation.network = Lossy(lambda sender, receiver, now: receiver in dead)
    for number in range(6):
        dead[:] = [1] if number in (2, 3) else [4] if number == 4 else []
        world.publish(0, f"e{number}", f=1)
        world.run(0.5)
    world.run(30)
    assert [got(world, node) for node in (1, 2, 3, 4)] == [[f"e{number}" for number in range(6)]] * 4
    assert world.sent(m.Fetch)
    assert not [fact for _, _, fact in world.facts if type(fact) is Missed]


def test_what_nobody_has_is_reported_as_a_gap():
    world = World(ORDERED)
    family(world, 4)
    world.run(30)
    source = world.state(0).source
    world.publish(0, "e1", f=1)
    world.run(2)
    lost = [True]
    world.simulation.network = Lossy(lambda sender, receiver, now: lost[0])
    world.publish(0, "e2", f=1)
    world.publish(0, "elsewhere", f=0)
    world.run(1)
    lost[0] = False
    world.publish(0, "e4", f=1)
    world.run(0.05)
    events = world.state(0).events
    del events.logs[source], events.bodies[source, 2]
    world.run(60)
    assert [got(world, node) for node in (1, 2, 3, 4)] == [["e1", "e4"]] * 4
    gaps = [(node, fact) for _, node, fact in world.facts if type(fact) is Missed]
    assert sorted(gaps, key=lambda one: one[0]) == [(node, Missed(source, 1, 2)) for node in (1, 2, 3, 4)]


def test_nothing_is_said_to_a_member_that_is_not_known_yet():
    """What its own filter accepts says nothing about the one who asks: that would hide what is missing."""
    world = World(ORDERED)
    world.come(0, "f == 0")
    world.run(5)
    for number in range(6):
        world.publish(0, f"e{number}", f=number % 2)
    world.run(5)
    source, key = world.state(0).source, world.state(0).layer.key
    for asker in (key, key - 1):
        world.give(0, 0, m.Fetch(source, 0, 6, asker))
    world.run(0.01)
    known, unknown = (one[3] for one in world.sent(m.Fetched))
    assert known.numbers == (1, 3, 5)
    assert [number for number, _ in known.events] == [1, 3, 5]
    assert (unknown.numbers, unknown.events) == (None, ())


def test_a_stamper_that_is_gone_is_not_asked_again():
    """Two super nodes have an event of a publisher whose first father has died; one of them lacks an earlier one."""
    world = World(ORDERED)
    for node, filter in enumerate(("v < 9", "v < 3", "v < 3", "v < 5", "v < 6")):
        world.come(node, filter)
        world.run(15)
    for number in range(4):
        lost = {3} if number == 2 else ()
        world.simulation.network = Lossy(lambda sender, receiver, now, lost=lost: receiver in lost)
        world.publish(2, f"e{number}", v=1)
        world.run(0.5)
    world.simulation.network = Mesh(lambda: 0.1)
    world.go(1)
    begun = world.simulation.now
    world.run(200)
    asked = [one[2] for one in world.sent(m.Fetch, begun) if one[1] == 3]
    assert asked.count(1) <= 1
    assert got(world, 3) == got(world, 4) == ["e0", "e1", "e2", "e3"]


def test_nothing_is_asked_for_what_the_filter_does_not_accept():
    world = World(ORDERED)
    family(world, 4)
    world.run(30)
    for number in range(10):
        world.publish(0, f"e{number}", f=number % 3)
        world.run(0.5)
    world.run(20)
    assert got(world, 3) == ["e1", "e4", "e7"]
    assert not world.sent(m.Fetch)


def test_a_new_father_learns_what_a_publisher_said_before():
    world = World(ORDERED)
    family(world, 4)
    for node in (11, 12):
        world.come(node, "f == 2")
        world.run(15)
    for number in range(4):
        world.publish(3, f"e{number}", f=2)
        world.run(1)
    world.go(1)
    world.run(120)
    for number in range(4, 8):
        world.publish(3, f"e{number}", f=2)
        world.run(1)
    world.run(20)
    assert got(world, 12) == [f"e{number}" for number in range(8)]
    assert not world.sent(m.Fetch)
