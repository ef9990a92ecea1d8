"""Every table, trace and number of the tree document's examples (its sections 1.7, 2.2, 2.5, 2.6, 4.4 and 4.5)."""

import pytest

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Received
from recado.protocols.topology import NET_5_1, NET_13, NET_16, Topology, parse_edges
from recado.protocols.trees import TreeNode, TreeSettings
from recado.sim.system import Cost, System


def system(topology, publishers=(), settings=None, **options):
    made = System(topology, lambda node: TreeNode(node, settings), **options)
    for node, type in publishers:
        made.become_publisher(node, type)
    return made


def tables(made, type):
    """Node to subscription to ``next/origin``, both in alphabetical order."""
    return {
        node: {id: "/".join(",".join(sorted(row[side])) for side in ("next", "origin")) for id, row in rows.items()}
        for node, seen in made.inspect().items()
        if (rows := seen.get("tables", {}).get(type))
    }


def four_subscriptions():
    made = system(NET_16, [("F", "y"), ("B", "z"), ("L", "z")])
    costs = {
        node: made.subscribe(node, Subscription(node, type=type))
        for node, type in [("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")]
    }
    return made, costs


def complete(size):
    nodes = range(size)
    return Topology(nodes, [(one, two) for one in nodes for two in nodes if one < two])


def test_all_rows_of_section_1_7():
    made, _ = four_subscriptions()
    assert tables(made, "y") == {
        "O": {"O": "O/Q"},
        "Q": {"O": "O/R"},
        "R": {"O": "Q/S", "R": "R/S"},
        "S": {"O": "R/F", "R": "R/F"},
        "F": {"O": "S/F", "R": "S/F"},
    }
    assert tables(made, "z") == {
        "F": {"K": "G/C", "E": "C/G"},
        "G": {"K": "J/F", "E": "F/J"},
        "J": {"K": "K/G", "E": "G/K"},
        "K": {"K": "K/J,L", "E": "J/L"},
        "L": {"K": "K/L", "E": "K/L"},
        "C": {"K": "F/B", "E": "E/B,F"},
        "B": {"K": "C/B", "E": "C/B"},
        "E": {"E": "E/C"},
    }
    assert sum(seen["counters"]["rows"] for seen in made.inspect().values()) == 23
    assert all(seen["counters"]["questions"] == 0 for seen in made.inspect().values())


def test_the_trace_of_section_2_2_by_time_step():
    steps = {}

    def watch(step):
        if isinstance(step.stimulus, Received):
            kind = step.stimulus.message.__struct_config__.tag.removeprefix("Q_")
            steps.setdefault(step.time - began, []).append(f"{step.stimulus.sender}→{step.node} {kind}")

    began = 0.0
    made = system(NET_13, [("L", "z"), ("B", "z"), ("F", "y")], watch=watch)
    steps.clear()
    began = made.simulation.now
    assert made.subscribe("K", Subscription("s", type="z")) == Cost(28, 10)
    assert {time: sorted(lines) for time, lines in steps.items()} == {
        1: ["K→J Q", "K→L Q"],
        2: ["J→G Q", "L→K YES"],
        3: ["G→F Q", "G→H Q"],
        4: ["F→C Q", "F→S Q", "H→I Q"],
        5: ["C→A Q", "C→B Q", "C→D Q", "C→E Q", "I→H NO", "S→F NO"],
        6: ["A→B Q", "B→A Q", "B→C YES", "D→E Q", "E→D Q", "H→G NO"],
        7: ["A→C NO", "C→F YES", "D→C NO", "E→C NO"],
        8: ["F→G YES"],
        9: ["G→J YES"],
        10: ["J→K YES"],
    }


@pytest.mark.parametrize(
    ("topology", "publishers", "root", "cost"),
    [
        (NET_5_1, "L", "K", Cost(26, 11)),  # E1
        (NET_13, "L", "K", Cost(28, 11)),
        (NET_13, "LB", "K", Cost(28, 10)),
        (NET_13, "F", "K", Cost(28, 8)),
        (complete(3), (1, 2), 0, Cost(6, 2)),  # E4
        (complete(4), (1, 2, 3), 0, Cost(12, 2)),
        (complete(6), (1, 2, 3, 4, 5), 0, Cost(30, 2)),
        (complete(6), (1, 2, 3, 4), 0, Cost(30, 3)),
        (complete(3), (), 0, Cost(6, 3)),
        *(
            (parse_edges(" ".join(f"{i}-{i + 1}" for i in range(k))), [str(k)], "0", Cost(2 * k, 2 * k))
            for k in (1, 2, 7)
        ),
    ],
)
def test_what_a_subscription_costs(topology, publishers, root, cost):
    made = system(topology, [(node, "t") for node in publishers])
    assert made.subscribe(root, Subscription("s", type="t")) == cost


def test_what_the_four_subscriptions_cost():
    _, costs = four_subscriptions()
    assert costs == {"O": Cost(34, 12), "R": Cost(34, 10), "K": Cost(34, 11), "E": Cost(34, 11)}


@pytest.mark.parametrize(("root", "cost"), [("O", Cost(4, 4)), ("R", Cost(2, 2)), ("K", Cost(6, 5)), ("E", Cost(7, 6))])
def test_what_cancelling_costs(root, cost):
    made, _ = four_subscriptions()
    assert made.unsubscribe(root, root) == cost
    assert not any(root in rows for type in "yz" for rows in tables(made, type).values())


def test_cancelling_with_one_publisher():  # E2
    made = system(NET_13, [("F", "t")])
    made.subscribe("K", Subscription("s", type="t"))
    assert made.unsubscribe("K", "s") == Cost(3, 3)


@pytest.mark.parametrize("forwarding", ["seen", "subscriptions"])
@pytest.mark.parametrize(
    ("publisher", "type", "cost", "receivers"),
    [("F", "y", Cost(4, 4), "OR"), ("B", "z", Cost(6, 5), "EK"), ("L", "z", Cost(6, 6), "EK")],
)
def test_what_notifying_costs(publisher, type, cost, receivers, forwarding):
    made = system(NET_16, [("F", "y"), ("B", "z"), ("L", "z")], TreeSettings(forwarding=forwarding))
    for node, wanted in [("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")]:
        made.subscribe(node, Subscription(node, type=wanted))
    assert made.publish(publisher, Event("e", type)) == cost
    assert sorted(delivery.node for delivery in made.deliveries) == list(receivers)


@pytest.mark.parametrize("forwarding", ["seen", "subscriptions"])
def test_notifying_three_trees(forwarding):  # E3 and E5
    made = system(NET_16, [("F", "y")], TreeSettings(forwarding=forwarding))
    for node in "ORK":
        made.subscribe(node, Subscription(node, type="y"))
    assert sum(seen["counters"]["rows"] for seen in made.inspect().values()) == 12
    assert made.publish("F", Event("e", "y")) == Cost(7, 4)
    assert 7 <= 4 + 2 + 3 - 1


def test_notifying_over_a_fork():
    made = system(NET_16, [("B", "t")])
    for node in "KR":
        made.subscribe(node, Subscription(node, type="t"))
    assert made.publish("B", Event("e", "t")) == Cost(7, 5)


@pytest.mark.parametrize(
    ("mode", "cost"), [("stream", Cost(30, 10)), ("aggregate", Cost(28, 11)), ("graft", Cost(37, 16))]
)
def test_the_new_publisher_of_section_2_5(mode, cost):
    made = system(NET_13, settings=TreeSettings(mpp=mode))
    for node in "KA":
        made.subscribe(node, Subscription(node, type="t"))
    assert made.become_publisher("I", "t") == cost
    assert tables(made, "t") == {
        "I": {"K": "H/I", "A": "H/I"},
        "H": {"K": "G/I", "A": "G/I"},
        "G": {"K": "J/H", "A": "F/H"},
        "J": {"K": "K/G"},
        "K": {"K": "K/J"},
        "F": {"A": "C/G"},
        "C": {"A": "A/F"},
        "A": {"A": "A/C"},
    }
    assert made.publish("I", Event("e", "t")) == Cost(7, 5)
    assert sum(seen["counters"]["searches"] for seen in made.inspect().values()) == (8 if mode == "stream" else 0)


def test_the_leaving_publisher_of_section_2_6():
    made, _ = four_subscriptions()
    assert made.become_broker("B", "z") == Cost(5, 5)
    assert made.publish("L", Event("e", "z")) == Cost(6, 6)
    assert sorted(delivery.node for delivery in made.deliveries) == ["E", "K"]


def test_the_triangle_of_section_2_4():
    for forwarding, messages in (("seen", 4), ("subscriptions", 2)):
        made = system(complete(3), settings=TreeSettings(forwarding=forwarding))
        for node in range(3):
            made.become_publisher(node, "t")
            made.subscribe(node, Subscription(f"s{node}", type="t"))
        assert made.publish(0, Event("e", "t")).messages == messages
        assert sorted(delivery.node for delivery in made.deliveries) == [0, 1, 2]
