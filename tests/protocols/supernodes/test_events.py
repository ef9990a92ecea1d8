"""Events: the tree with its view check, the chain, publication by a sub node, repair; never a false positive."""

import pytest

from protocols.supernodes.world import World, family, quick
from recado.model.event import Event
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import NOTHING_SEEN


def threshold_world(count=24, thresholds=6, settings=None, seed=0):
    world = World(settings or quick(), seed)
    world.come(0, "v < 1")
    world.run(5)
    for node in range(1, count):
        world.come(node, f"v < {1 + node % thresholds}")
        world.run(4)
    world.run(60)
    return world


def test_an_event_reaches_exactly_those_that_accept_it_once():
    world = threshold_world()
    for number in range(20):
        publisher = world.rng.choice(world.live())
        event = world.publish(publisher, f"e{number}", v=world.rng.randrange(7))
        world.run(10)
        assert world.who_got(event.id) == world.who_wants(event)


def test_only_members_that_accept_are_contacted_in_the_tree():
    world = threshold_world()
    begun = world.simulation.now
    event = world.publish(0, "e", v=4)
    world.run(10)
    wanting = set(world.who_wants(event))
    assert {receiver for _, _, receiver, _ in world.sent(m.TurmoilCast, begun)} <= wanting
    chains = world.sent(m.TurmoilSubnode, begun)
    assert {receiver for _, _, receiver, _ in chains} <= wanting
    fathers = [one.me for one in world.states() if one.role == "super" and one.me in wanting and one.layer.children]
    for father in fathers:  # the father uploads one copy
        assert sum(1 for _, sender, _, _ in chains if sender == father) == 1


def test_a_member_with_a_stale_view_keeps_the_event_and_gives_the_interval_back():
    world = World(quick(families=False))
    for node in range(12):
        world.come(node, f"v < {100 + node}")
        world.run(4)
    world.run(30)
    stale = world.state(5)
    layer = stale.layer
    table = layer.membership
    layer.membership = world.home.found(table.members[:3] + [one for one in table.members[3:] if one.endpoint == 5])
    assert layer.membership.view == NOTHING_SEEN
    world.simulation.nodes[5].timers.pop("repair")
    for number in range(8):  # whether it is given others to serve is a draw
        world.publish(0, f"e{number}", v=1)
        world.run(2)
        assert world.who_got(f"e{number}") == list(range(12))
    assert {sender for _, sender, _, _ in world.sent(m.TurmoilReject)} == {5}


def test_a_dead_member_loses_the_rest_of_its_interval_unless_it_is_tried_again():
    got = {}
    for retry in (False, True):
        world = World(quick(families=False, retry_on_failed_send=retry, event_repair=False), seed=3)
        for node in range(20):
            world.come(node, f"v < {100 + node}")
            world.run(4)
        world.run(30)
        for node in (4, 8, 15, 16):
            world.go(node)
        world.publish(0, "e", v=1)
        world.run(5)
        got[retry] = len(world.who_got("e"))
    assert got[True] == 16
    assert got[False] < 16


def test_the_chain_goes_on_without_dead_children():
    world = World(quick(event_repair=False))
    world.come(0, "v < 1")
    world.run(5)
    for node in range(1, 8):
        world.come(node, "v < 2")
        world.run(12 if node == 1 else 2)
    world.go(3)
    world.go(6)
    world.publish(1, "e", v=0)
    world.run(5)
    assert world.who_got("e") == [0, 1, 2, 4, 5, 7]


def test_the_list_of_a_chain_gets_shorter_by_one():
    world = World(quick(event_repair=False))
    world.come(0, "v < 2")
    world.run(5)
    for node in range(1, 6):
        world.come(node, "v < 2")
        world.run(2)
    world.publish(0, "e", v=0)
    world.run(5)
    assert [len(one[3].rest) for one in world.sent(m.TurmoilSubnode)] == [4, 3, 2, 1, 0]
    assert world.who_got("e") == [0, 1, 2, 3, 4, 5]


def test_a_sub_node_publishes_through_its_father_and_gets_its_event_once():
    world = threshold_world()
    sub = next(one.me for one in world.states() if one.role == "sub")
    event = world.publish(sub, "e", v=0)
    world.run(10)
    assert world.who_got("e") == world.who_wants(event)
    assert [receiver for _, _, receiver, _ in world.sent(m.PublishUp)] == [world.state(sub).child.father]
    assert sub not in [receiver for _, _, receiver, _ in world.sent(m.TurmoilSubnode)]


def test_an_event_whose_father_is_gone_waits_for_the_next_one():
    world = threshold_world(12, 3)
    sub = next(one for one in world.states() if one.role == "sub")
    world.go(sub.child.father)
    world.run(1)
    event = world.publish(sub.me, "e", v=0)
    world.run(200)
    assert world.who_got("e") == world.who_wants(event)


def test_an_event_that_a_brother_repaired_is_still_published_when_that_brother_becomes_the_father():
    world = World(quick(event_repair_seconds=4.0))
    for node, filter in enumerate(("v < 9", "v < 2", "v < 2", "v < 2")):
        world.come(node, filter)
        world.run(15)
    world.publish(0, "first", v=0)  # nodes repair events once they know of any
    world.run(10)
    world.go(1)
    world.publish(3, "e", v=0)
    world.run(15)
    assert world.role(2) == "sub"
    assert world.who_got("e") == [2, 3]  # by repair
    world.run(100)
    assert world.role(2) == "super"
    assert world.who_got("e") == [0, 2, 3]


def test_a_joining_node_publishes_once_it_has_joined():
    world = World()
    world.come(0, "v < 9")
    world.run(5)
    world.come(1, "v < 8")
    world.publish(1, "e", v=1)
    world.run(30)
    assert world.who_got("e") == [0, 1]


@pytest.mark.parametrize("via_tree", [False, True])
def test_k_nodes_get_an_event_once(via_tree):
    world = threshold_world(settings=quick(k=2, k_via_tree=via_tree))
    assert any(one.role == "k" for one in world.states())
    event = world.publish(0, "e", v=0)
    world.run(10)
    assert world.who_got("e") == world.who_wants(event)


def test_k_nodes_may_leave_relaying_to_their_fathers():
    world = threshold_world(settings=quick(k=2, k_nodes_relay=False))
    event = world.publish(0, "e", v=0)
    world.run(10)
    assert world.who_got("e") == world.who_wants(event)
    relays = {sender for _, sender, receiver, _ in world.sent(m.TurmoilCast)}
    for one in world.states():
        if one.role == "k" and one.me in relays:
            assert {receiver for _, sender, receiver, _ in world.sent(m.TurmoilCast) if sender == one.me} <= {
                one.child.father
            }


# -- repair


def lose_events(world, *kinds):
    """Drop what machines send of these kinds from now on; gives a function that stops it."""
    simulation, machines = world.simulation, []
    for node in simulation.nodes.values():
        machine = node.machine
        node.machine = _Muted(machine, kinds)
        machines.append((node, machine))

    def stop():
        for node, machine in machines:
            if node.alive:
                node.machine = machine

    return stop


class _Muted:
    def __init__(self, machine, kinds):
        self.machine, self.kinds = machine, kinds
        self.state = machine.state

    def handle(self, stimulus, now, rng):
        effects = self.machine.handle(stimulus, now, rng)
        return [one for one in effects if type(getattr(one, "message", None)) not in self.kinds]

    def inspect(self):
        return self.machine.inspect()


def test_super_nodes_repair_each_other_and_pass_it_down():
    world = threshold_world()
    for number in range(6):  # so that there are neighbours
        world.publish(world.rng.choice(world.actives()), f"w{number}", v=0)
        world.run(5)
    stop = lose_events(world, m.TurmoilCast)
    event = world.publish(0, "lost", v=0)
    world.run(2)
    stop()
    assert world.who_got("lost") != world.who_wants(event)
    world.run(400)
    assert world.who_got("lost") == world.who_wants(event)


def test_what_a_father_recovers_goes_down_at_once():
    world = World(quick(event_repair_seconds=1000.0))
    family(world, 5)
    world.publish(1, "first", v=0, f=1)
    world.run(5)
    lost = Event("lost", "tick", attributes={"f": 1})
    world.give(1, 0, m.TurmoilRepairReply(None, ((("0", 7), lost),), 0))
    world.run(2)
    assert world.who_got("lost") == [1, 2, 3, 4, 5]


def test_brothers_repair_each_other():
    world = World()
    world.come(0, "v < 2")
    world.run(5)
    for node in range(1, 6):
        world.come(node, "v < 2")
        world.run(2)
    world.publish(0, "first", v=0)
    world.run(60)
    stop = lose_events(world, m.TurmoilSubnode)
    world.publish(0, "lost", v=0)
    world.run(2)
    stop()
    assert world.who_got("lost") == [0]
    world.run(300)
    assert world.who_got("lost") == [0, 1, 2, 3, 4, 5]


def test_equal_histories_need_no_answer():
    world = World()
    world.come(0, "v < 2")
    world.run(5)
    for node in range(1, 5):
        world.come(node, "v < 2")
        world.run(2)
    world.publish(0, "e", v=0)
    world.run(5)
    begun = world.simulation.now
    world.run(120)
    assert world.sent(m.RepairTurmoil, begun)
    assert not world.sent(m.TurmoilRepairReply, begun)


def test_histories_are_bounded():
    world = World(quick(history=3, keep_seconds=20.0, max_events=50))
    world.come(0, "v < 2")
    world.run(5)
    world.come(1, "v < 2")
    world.run(5)
    for number in range(100):
        world.publish(0, f"e{number}", v=0)
        world.run(0.5)
    world.run(5)
    for node in (0, 1):
        events = world.state(node).events
        assert len(events.bodies) <= 50
        assert len(events.history) <= 50
        assert len(world.state(node).events.seen) <= 200
    world.run(90)
    assert {len(one[3].ids) for one in world.sent(m.RepairTurmoil, world.simulation.now - 90)} == {3}
    assert len(world.deliveries) == 200
