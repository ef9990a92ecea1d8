"""Attraction: who offers what to whom, and what comes of it."""

from random import Random

import pytest

from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Connect, Disconnect, LinkDown, LinkUp, Received, Send, Started, TimerFired
from recado.protocols.pubsub import BecomePublisher, Publish, Subscribe
from recado.protocols.registry import find_protocol
from recado.protocols.topology import Topology, line, random_graph, star
from recado.protocols.trees import TreeNode, TreeSettings
from recado.protocols.trees.messages import MAX_PATH, Attach, Interest, Offer, Q, QYes, Seek, check_message
from recado.protocols.trees.state import SettingsError
from recado.sim.draws import uniform
from recado.sim.network import Links
from recado.sim.system import System


def overlay(topology, attract=2, **settings):
    """Offers have to come back over the longest way, a time unit a link."""
    return System(topology, lambda node: TreeNode(node, TreeSettings(attract=attract, attract_seconds=100, **settings)))


def attraction(system, node):
    return system.inspect([node])[node]["attraction"]


def test_a_subscriber_moves_next_to_its_publisher():
    system = overlay(line(6))
    system.become_publisher(0, "t")
    system.subscribe(5, Subscription("s", type="t"))
    assert attraction(system, 5)["opened"] == {"0": {"type": "t", "gain": 4}}
    assert attraction(system, 0)["attached"] == {"5": "t"}
    assert system.inspect([0])[0]["tables"] == {"t": {"s": {"next": [5], "origin": [0]}}}
    assert system.publish(0, Event("e", "t")).messages == 1
    assert [delivery.node for delivery in system.deliveries] == [5]


def test_it_is_off_by_default_and_leaves_no_trace():
    system = overlay(line(6), attract=0)
    system.become_publisher(0, "t")
    assert system.subscribe(5, Subscription("s", type="t")).messages == 10
    assert "attraction" not in system.inspect([5])[5]
    assert {kind.__name__ for kind in system.simulation.sent} == {"MP", "MPNo", "Q", "QYes"}


def test_those_who_find_no_room_gather_around_those_who_did():
    spokes = [(0, 1), *((arm, arm + 1) for arm in range(1, 40))]
    system = overlay(Topology(range(41), spokes), attract=2)
    system.become_publisher(0, "t")
    for number, node in enumerate((40, 35, 30, 25, 20, 15)):
        system.subscribe(node, Subscription(f"s{number}", type="t"))
    assert set(attraction(system, 0)["attached"]) == {"40", "35"}
    attached = [attraction(system, node)["attached"] for node in (40, 35)]
    assert [len(found) for found in attached] == [2, 2]
    cost = system.publish(0, Event("e", "t"))
    assert (cost.messages, cost.time) == (6, 2.0)


def test_a_seeker_is_passed_on_to_a_member_whose_filter_covers_its_own():
    system = overlay(line(30), attract=2)
    system.become_publisher(0, "t")
    for node, filter in ((29, "x < 1"), (25, "x > 5")):
        system.subscribe(node, Subscription(f"s{node}", parse(filter), "t"))
    system.subscribe(20, Subscription("s20", parse("x > 7"), "t"))
    assert attraction(system, 25)["attached"] == {"20": "t"}
    assert attraction(system, 29)["attached"] == {}


def test_nobody_asks_for_more_links_than_allowed_and_a_stronger_one_replaces_the_weakest():
    system = overlay(line(20), attract=1)
    for node, type in ((16, "near"), (10, "far"), (15, "nearer")):
        system.become_publisher(node, type)
    system.subscribe(19, Subscription("a", type="near"))
    assert attraction(system, 19)["opened"] == {"16": {"type": "near", "gain": 2}}
    system.subscribe(19, Subscription("b", type="far"))
    assert attraction(system, 19)["opened"] == {"10": {"type": "far", "gain": 6}}  # 7 levels, by way of 16
    assert attraction(system, 16)["attached"] == {}
    system.subscribe(19, Subscription("c", type="nearer"))
    assert list(attraction(system, 19)["opened"]) == ["10"]
    system.unsubscribe(19, "b")
    system.unsubscribe(19, "c")
    system.subscribe(19, Subscription("d", type="nearer"))
    assert list(attraction(system, 19)["opened"]) == ["15"]  # the link that served nothing any more gave way
    for type, node in (("near", 16), ("nearer", 15)):
        system.publish(node, Event(type, type))
    assert [delivery.event for delivery in system.deliveries] == ["near", "nearer"]


def test_a_neighbour_of_the_publisher_stays_where_it_is():
    system = overlay(star(5))
    system.become_publisher(0, "t")
    system.subscribe(1, Subscription("s", type="t"))
    assert attraction(system, 1)["opened"] == {}


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_or_doubled_while_links_change(seed):
    """Events that are published while subscribers move arrive exactly once."""
    rng = Random(seed)
    topology = random_graph(20, 10, rng)
    settings = TreeSettings(attract=2, attract_seconds=5.0)
    system = System(topology, lambda node: TreeNode(node, settings), Links(uniform(0.1, 2.0, rng)), seed)
    publishers = rng.sample(range(20), 2)
    for node in publishers:
        system.become_publisher(node, "t")
    subscribers = rng.sample(range(20), 6)
    simulation = system.simulation
    for number, node in enumerate(subscribers):
        simulation.ask(node, Subscribe(Subscription(f"s{number}", type="t")))
        simulation.run(until=simulation.now + 1)
    settled = simulation.now + 80.0  # the first tree of each is there; the moves come later
    simulation.run(until=simulation.now + 2.0)
    for number in range(300):
        simulation.ask(rng.choice(publishers), Publish(Event(f"e{number}", "t")), simulation.now + rng.uniform(0, 100))
    published = {}
    system.simulation._watch = lambda step: published.update(
        {step.stimulus.request.event.id: step.time}
        if isinstance(getattr(step.stimulus, "request", None), Publish)
        else {}
    )
    system.run_until_quiet()
    got = {}
    for delivery in system.deliveries:
        got.setdefault(delivery.event, []).append(delivery.node)
    assert all(len(nodes) == len(set(nodes)) for nodes in got.values())
    late = [event for event, time in published.items() if time > settled]
    assert late
    assert all(sorted(got.get(event, ())) == sorted(subscribers) for event in late)


# -- one node, by hand


def node_with_tree(**settings):
    """A subscriber with one neighbour, through which its publisher was found."""
    node, rng = TreeNode("x", TreeSettings(attract=1, **settings)), Random(1)

    def step(stimulus):
        return node.handle(stimulus, 0.0, rng)

    step(Started(("relay",), {}, "127.0.0.1:7000"))
    (question,) = [one.message for one in step(Asked(Subscribe(Subscription("s", type="t")))) if isinstance(one, Send)]
    assert isinstance(question, Q)
    step(Received("relay", QYes("s", question.interest.epoch)))
    return node, step


def seek_of(effects):
    return next(one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Seek))


def test_the_best_offer_is_taken_and_others_are_not_asked_for():
    _, step = node_with_tree()
    seek = seek_of(step(TimerFired(("seek", "s"))))
    assert (seek.address, seek.path) == ("127.0.0.1:7000", ("x",))
    for name, gain, op in (("near", 1, seek.op), ("far", 3, seek.op), ("stranger", 9, seek.op + 1), ("x", 1, seek.op)):
        step(Received("relay", Offer(op, name, f"{name}:1", gain, ())))
    effects = step(TimerFired(("choose", "s")))
    assert [one for one in effects if isinstance(one, Connect)] == [Connect("far", "far:1")]
    assert not [one for one in step(TimerFired(("choose", "s"))) if isinstance(one, Connect)]


def test_a_link_that_does_not_come_is_given_up_and_one_that_is_lost_may_be_sought_again():
    node, step = node_with_tree()
    for moves in (1, 1):
        seek = seek_of(step(TimerFired(("seek", "s"))))
        step(Received("relay", Offer(seek.op, "far", "far:1", 3, ())))
        step(TimerFired(("choose", "s")))
        assert node.state.local["s"].moves == moves
        if moves == 1 and "far" in node.state.attraction.opened:
            effects = step(LinkUp("far"))
            assert Attach("t", "true") in [one.message for one in effects if isinstance(one, Send)]
            assert Disconnect("far") in step(LinkDown("far"))
            assert node.state.local["s"].moves == 0
    seek = seek_of(step(TimerFired(("seek", "s"))))
    step(Received("relay", Offer(seek.op, "far", "far:1", 3, ())))
    step(TimerFired(("choose", "s")))
    assert step(TimerFired(("opening", "far"))) == [Disconnect("far")]
    assert step(TimerFired(("seek", "s"))) == []  # it has looked around as often as it may


def test_room_is_kept_for_a_while_only():
    node, rng = TreeNode("p", TreeSettings(attract=1)), Random(1)

    def step(stimulus):
        return node.handle(stimulus, 0.0, rng)

    step(Started(("relay",), {}))
    step(Asked(BecomePublisher("t")))
    for id in ("s1", "s2"):
        step(Received("relay", Q(Interest(id, 1, "t", "true"))))

    def offers(id):
        seek = Seek(7, Interest(id, 1, "t", "true"), "", (f"seeker-{id}", "r", "relay"))
        return [one.message for one in step(Received("relay", seek)) if isinstance(one, Send)]

    assert offers("s1") == [Offer(7, "p", "", 2, ("seeker-s1", "r"))]
    assert offers("s2") == []
    step(TimerFired(("promise", "seeker-s1")))
    assert offers("s2") == [Offer(7, "p", "", 2, ("seeker-s2", "r"))]


@pytest.mark.parametrize(
    "message",
    [
        Seek(1, Interest("s", 1, "t", "true"), "a" * 400, ("x",)),
        Seek(1, Interest("s", 1, "t", "true"), "", ("x",) * (MAX_PATH + 2)),
        Seek(1, Interest("s", 1, "t", "not a filter ("), "", ("x",)),
        Offer(1, "n", "a" * 400, 1, ()),
        Offer(1, "", "", 1, ()),
        Attach("t", "not a filter ("),
    ],
)
def test_garbage_is_refused_at_the_door(message):
    with pytest.raises(RecadoError):
        check_message(message)


def test_settings_are_checked_and_have_to_be_common():
    with pytest.raises(SettingsError, match="attract is -1"):
        TreeSettings(attract=-1)
    protocol = find_protocol("trees")
    assert protocol.configure({}).name == "trees"
    assert protocol.configure({"attract": 2, "elect": True}).name == "trees attract=2 elect=True"
