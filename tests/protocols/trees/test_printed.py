"""What the printed algorithms do wrong on the tree document's own examples, beside what the corrected ones do."""

import pytest

from protocols.trees.test_golden import complete, tables
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.topology import NET_13, NET_16, parse_edges
from recado.protocols.trees import TreeNode
from recado.protocols.trees.printed import PRINTED, printed_node
from recado.sim.system import Cost, System


def system(topology, publishers, operation=None, cap=3_000):
    make = (lambda node: printed_node(node, operation)) if operation else TreeNode
    made = System(topology, make, cap=cap)
    for node, type in publishers:
        made.become_publisher(node, type)
    return made


def test_a_no_that_comes_first_silences_a_yes():  # ER2
    made = system(NET_13, [("L", "z"), ("B", "z"), ("F", "y")], "subscribe")
    assert made.subscribe("K", Subscription("s", type="z")) == Cost(27, 8)
    views = made.inspect()
    assert [node for node, view in views.items() if view["counters"]["questions"]] == ["K", "J", "G"]
    assert tables(made, "z")["K"] == {"s": "K/L"}
    made.publish("B", Event("e", "z"))
    assert made.deliveries == []


def test_cancelling_stops_at_the_first_relay():  # ER9
    made = system(NET_13, [("L", "z"), ("B", "z")], "cancel")
    made.subscribe("K", Subscription("s", type="z"))
    assert made.unsubscribe("K", "s") == Cost(2, 1)
    assert sorted(tables(made, "z")) == ["B", "C", "F", "G"]
    right = system(NET_13, [("L", "z"), ("B", "z")])
    right.subscribe("K", Subscription("s", type="z"))
    assert right.unsubscribe("K", "s") == Cost(6, 5)
    assert tables(right, "z") == {}


def test_a_leaving_publisher_cuts_others_off():  # ER19
    made = system(NET_16, [("F", "y"), ("B", "z"), ("L", "z")], "broker")
    for node, type in [("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")]:
        made.subscribe(node, Subscription(node, type=type))
    assert made.become_broker("B", "z") == Cost(6, 5)
    assert tables(made, "z")["K"] == {"K": "K/L"}
    assert made.publish("L", Event("e", "z")) == Cost(1, 1)
    assert [delivery.node for delivery in made.deliveries] == ["K"]


def test_an_event_goes_round_a_triangle_for_ever():  # ER11
    made = system(complete(3), [(node, "t") for node in range(3)], "notify")
    for node in range(3):
        made.subscribe(node, Subscription(f"s{node}", type="t"))
    made.publish(0, Event("e", "t"))
    assert made.simulation.pending > 0
    assert len(made.deliveries) > 1_000


@pytest.mark.parametrize("operation", PRINTED)
def test_all_else_is_the_corrected_protocol(operation):
    made = system(NET_13, [("F", "t")], operation)
    assert made.subscribe("G", Subscription("s", type="t")).messages in {28, 29, 30, 31}
    made.publish("F", Event("e", "t"))
    assert [delivery.node for delivery in made.deliveries] == ["G"]


def test_printed_cancelling_goes_on_where_a_tree_forks():
    made = system(parse_edges("a-b b-c c-d c-e"), [("d", "t"), ("e", "t")], "cancel")
    made.subscribe("b", Subscription("s", type="t"))
    assert made.unsubscribe("b", "s") == Cost(3, 2)
    assert tables(made, "t") == {}


def test_a_printed_publisher_absorbs_what_a_broker_would_pass_on():
    made = system(parse_edges("a-b b-c"), [("b", "t"), ("c", "t")], "broker")
    made.subscribe("a", Subscription("s", type="t"))
    assert made.become_broker("c", "t") == Cost(1, 1)
    assert tables(made, "t") == {"a": {"s": "a/b"}, "b": {"s": "a/b"}}
