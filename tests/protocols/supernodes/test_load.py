"""Children that send for their fathers (``fair``), and a layer that shrinks (``max_upload_bytes_per_second``)."""

from protocols.supernodes.world import World, check_settled, family, quick
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.load import is_over

FAIR = quick(fair=True, event_repair=False)


def families(settings, fathers=8, size=5):
    """``fathers`` families that accept the same events under different filters."""
    world = World(settings)
    world.come(0, "v < 100")
    world.run(5)
    for member in range(size):
        for father in range(fathers):
            world.come(10 * (father + 1) + member, f"v < {101 + father}")
            world.run(12 if member == 0 else 2)
    world.run(30)
    return world


def test_children_send_for_their_father_and_events_reach_all():
    world = families(FAIR)
    begun = world.simulation.now
    for number in range(20):
        world.publish(world.rng.choice(world.live()), f"e{number}", v=1)
        world.run(8)
        assert world.who_got(f"e{number}") == sorted(world.live())
    relays = world.sent(m.Relay, begun)
    assert relays
    assert {world.role(one[2]) for one in relays} == {"sub"}
    senders = {one[1] for one in world.sent(m.TurmoilCast, begun)}
    assert {world.role(node) for node in senders} == {"super", "sub"}
    check_settled(world)


def test_membership_changes_reach_all_though_children_send_them():
    world = families(FAIR)
    begun = world.simulation.now
    for node in range(200, 206):
        world.come(node, f"v == {node}")
        world.run(6)
    world.run(30)
    assert any(type(one[3].casts[0][1]) is m.MembershipCast for one in world.sent(m.Relay, begun))
    check_settled(world)


def test_what_a_child_cannot_deliver_comes_back_to_its_father():
    world = families(quick(fair=True, event_repair=False, retry_on_failed_send=True))
    world.run(30)
    for node in (30, 50, 70):
        world.go(node)
    begun = world.simulation.now
    for number in range(6):
        world.publish(0, f"e{number}", v=1)
        world.run(3)
    assert world.sent(m.Returned, begun)
    dead = {30, 50, 70}
    for node in world.live():
        if node // 10 * 10 not in dead:
            assert len([1 for _, one, _ in world.deliveries if one == node]) == 6


def test_a_stranger_cannot_use_a_child_as_a_relay():
    world = World(FAIR)
    family(world, 3)
    cast = world.sent(m.MembershipCast)[0][3]
    begun = world.simulation.now
    world.give(2, 0, m.Relay(((1, cast),)))
    world.run(0.05)
    assert not [one for one in world.sends if one[1] == 2 and one[0] >= begun]


def most_in_a_minute(settings, most_events=40):
    """The largest upload of a super node in a minute in which everybody publishes, in bytes a second."""
    world = families(settings)
    world.run(60)
    nodes = {one.me: world.simulation.nodes[one.me] for one in world.states() if one.role == "super" and one.me}
    before = {name: one.up_bytes for name, one in nodes.items()}
    for number in range(most_events):
        world.publish(world.rng.choice(world.live()), f"e{number}", v=1)
        world.run(1.5)
    world.run(10)
    for number in range(most_events):
        assert world.who_got(f"e{number}") == sorted(world.live())
    check_settled(world)
    return max(one.up_bytes - before[name] for name, one in nodes.items()) / 70


def test_who_has_sent_as_much_as_it_may_lets_its_children_send_the_rest():
    free = most_in_a_minute(quick(event_repair=False))
    bound = most_in_a_minute(quick(event_repair=False, max_upload_bytes_per_second=20.0, upload_seconds=30.0))
    assert bound < 0.8 * free  # one relay and one chain an event remain


def test_who_has_sent_as_much_as_it_may_serves_no_downloads():
    world = families(quick(max_upload_bytes_per_second=20.0, upload_seconds=1_000.0), fathers=3, size=2)
    father = world.state(10).layer
    father.up += 30_000
    assert is_over(world.state(10), father)
    begun = world.simulation.now
    world.give(10, 0, m.EndpointsRequest())
    world.give(10, 0, m.EndpointsRequest(4))  # refused often enough
    world.run(1)
    answers = [type(one[3]) for one in world.sends if one[0] >= begun and one[1] == 10 and one[2] == 0]
    assert [one for one in answers if one in (m.TryAnother, m.Endpoints)] == [m.TryAnother, m.Endpoints]


def concurrent(settings):
    """Two super nodes of one filter, each with children; and another filter."""
    world = World(settings)
    world.come(0, "f == 0")
    world.run(5)
    world.come(1, "f == 1")
    world.come(2, "f == 1")
    world.run(20)
    for node in range(3, 11):
        world.come(node, "f == 1")
        world.run(2)
    assert [world.roles_of(node)[0] for node in (1, 2)] == ["super", "super"]
    return world


def test_super_nodes_that_are_not_needed_become_children_when_somebody_sends_too_much():
    world = concurrent(quick(max_upload_bytes_per_second=1.0, upload_seconds=10.0))
    world.run(120)
    check_settled(world)
    roles = [world.role(node) for node in range(1, 11)]
    assert roles.count("super") == 1
    assert roles.count("sub") == 9
    world.publish(0, "e", f=1)
    world.run(10)
    assert world.who_got("e") == list(range(1, 11))


def test_below_the_maximum_nothing_changes():
    world = concurrent(quick(max_upload_bytes_per_second=1e6, upload_seconds=10.0))
    world.run(120)
    assert [world.role(node) for node in (1, 2)] == ["super", "super"]
    assert not world.sent(m.Demote)


def test_nobody_that_is_needed_is_demoted():
    world = World(quick(max_upload_bytes_per_second=0.001, upload_seconds=5.0))
    family(world, 3)
    keys = {one.me: one.layer.key for one in world.states() if one.layer is not None}
    world.give(1, 0, m.Demote(keys[1], keys[0]))
    world.run(60)
    assert [world.role(node) for node in range(4)] == ["super", "super", "sub", "sub"]


def test_with_covering_a_covered_member_is_not_needed():
    world = World(quick(covering=True, max_upload_bytes_per_second=0.001, upload_seconds=5.0))
    world.come(0, "w == 1")
    world.run(5)
    world.come(1, "v < 3")
    world.run(15)
    world.come(2, "v < 9")
    world.run(60)
    assert world.role(2) == "super"
    assert world.state(1).child.father == 2
    check_settled(world)
