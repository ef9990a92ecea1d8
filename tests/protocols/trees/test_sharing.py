"""Subscriptions that share a tree: what it saves, and that nothing is lost when the tree's owner goes."""

import pytest

from protocols.trees.test_golden import system
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.pubsub import Subscribe, Unpublished, Unsubscribe
from recado.protocols.topology import NET_16, line
from recado.protocols.trees import TreeSettings
from recado.sim.system import Cost

FILTERS = ("v > 1", "v > 5", "v > 5", "v > 7 and w == 1", "v < 3")


def build(share):
    made = system(NET_16, [("B", "t"), ("L", "t")], TreeSettings(share=share))
    costs = [
        made.subscribe("K", Subscription(f"s{number}", parse(filter), "t")).messages
        for number, filter in enumerate(FILTERS)
    ]
    return made, costs, sum(view["counters"]["rows"] for view in made.inspect().values())


def hear(made, value):
    made.deliveries.clear()
    made.publish("B", Event(f"e{value}", "t", attributes={"v": value, "w": 1}))
    return [id for one in made.deliveries for id in one.subscriptions]


def test_what_it_saves():
    _, costs, rows = build(share=False)
    assert (costs, rows) == ([34] * 5, 35)
    _, costs, rows = build(share=True)
    assert (costs, rows) == ([34, 0, 0, 0, 34], 14)


def test_the_same_is_delivered():
    for share in (False, True):
        made, _, _ = build(share)
        assert [hear(made, value) for value in (2, 6, 9)] == [
            ["s0", "s4"],
            ["s0", "s1", "s2"],
            ["s0", "s1", "s2", "s3"],
        ]


def test_those_who_ride_build_their_own_when_the_carrier_goes():
    made, _, _ = build(share=True)
    assert made.unsubscribe("K", "s0").messages == 6 + 34
    assert hear(made, 9) == ["s1", "s2", "s3"]
    view = made.inspect(["K"])["K"]["subscriptions"]
    assert {id: own["carrier"] for id, own in view.items()} == {"s1": None, "s2": "s1", "s3": "s1", "s4": None}
    assert made.unsubscribe("K", "s3").messages == 0
    assert hear(made, 9) == ["s1", "s2"]


def test_facts_are_those_of_the_carrier():
    made, _, _ = build(share=True)
    assert [fact.subscription for _, _, fact in made.facts] == ["s0", "s1", "s2", "s3", "s4"]
    assert all(fact.published for _, _, fact in made.facts)


# -- along a tree


def along(share=True, **options):
    """A line of ten nodes: 0 publishes, 9 subscribes, and 5 wants a part of it."""
    made = system(line(10), [(0, "t")], TreeSettings(share=share, **options))
    made.subscribe(9, Subscription("all", parse("v > 1"), "t"))
    cost = made.subscribe(5, Subscription("part", parse("v > 5"), "t"))
    return made, cost


def rows(made):
    return sum(view["counters"]["rows"] for view in made.inspect().values())


def reached(made, publisher, value):
    made.deliveries.clear()
    made.publish(publisher, Event(f"e{value}", "t", attributes={"v": value}))
    return sorted(id for one in made.deliveries for id in one.subscriptions)


def test_joining_costs_the_path_to_the_other_root():
    made, cost = along(share=False)
    assert (cost, rows(made)) == (Cost(18, 10), 10 + 6)
    made, cost = along()
    assert (cost, rows(made)) == (Cost(4, 4), 10 + 5)
    assert made.inspect([7])[7]["tables"]["t"]["part"] == {"next": [6], "origin": [8], "rides": "all"}
    assert [reached(made, 0, value) for value in (1, 2, 6)] == [[], ["all"], ["all", "part"]]


def test_with_named_trees_only_subscriptions_of_one_node_share():
    _, cost = along(forwarding="subscriptions")
    assert cost == Cost(18, 10)


@pytest.mark.parametrize("where", [1, 3, 5, 7, 9])
def test_publishers_that_come_later_reach_both(where):
    made, _ = along()
    made.become_publisher(where, "t")
    assert reached(made, where, 6) == ["all", "part"]
    made.become_broker(0, "t")
    assert reached(made, where, 6) == ["all", "part"]
    made.become_broker(where, "t")
    assert rows(made) == 0
    assert {fact.subscription for _, _, fact in made.facts if isinstance(fact, Unpublished)} == {"all", "part"}
    made.become_publisher(2, "t")
    assert reached(made, 2, 6) == ["all", "part"]


def test_when_the_tree_goes_those_who_joined_build_their_own():
    made, _ = along()
    made.unsubscribe(9, "all")
    assert reached(made, 0, 6) == ["part"]
    assert made.inspect([5])[5]["subscriptions"]["part"]["along"] is None
    made.unsubscribe(5, "part")
    assert rows(made) == 0


def test_leaving_a_tree_leaves_the_tree():
    made, _ = along()
    assert made.unsubscribe(5, "part") == Cost(4, 4)
    assert rows(made) == 10
    assert reached(made, 0, 6) == ["all"]


def test_when_the_tree_is_built_anew():
    made, _ = along()
    made.simulation.link_down(7, 8)
    made.run_until_quiet()
    assert reached(made, 0, 6) == ["part"]
    made.simulation.link_up(7, 8)
    made.run_until_quiet()
    assert reached(made, 0, 6) == ["all", "part"]


def test_a_join_that_finds_no_tree_makes_the_root_ask():
    made, _ = along()
    made.simulation.ask(5, Subscribe(Subscription("late", parse("v > 7"), "t")))
    made.simulation.ask(4, Subscribe(Subscription("other", parse("v > 7"), "t")))
    made.simulation.ask(9, Unsubscribe("all"))
    made.run_until_quiet()
    assert reached(made, 0, 8) == ["late", "other", "part"]
