"""The notification buffer: what late subscribers get, and what fills the gap of a failure."""

import pytest

from protocols.trees.test_golden import system
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.topology import NET_13, line, ring
from recado.protocols.trees import TreeSettings


def publish(made, node, *values):
    for value in values:
        made.publish(node, Event(f"e{value}", "t", attributes={"v": value}))


def got(made, id):
    return [one.event for one in made.deliveries if id in one.subscriptions]


@pytest.mark.parametrize("forwarding", ["seen", "subscriptions"])
def test_late_subscribers_get_what_matches(forwarding):
    made = system(NET_13, [("B", "t"), ("L", "t")], TreeSettings(buffer=10, forwarding=forwarding))
    publish(made, "B", 1, 2, 3)
    publish(made, "L", 4)
    made.subscribe("K", Subscription("s", parse("v >= 2"), "t"))
    assert sorted(got(made, "s")) == ["e2", "e3", "e4"]
    publish(made, "B", 5)
    made.subscribe("K", Subscription("more", parse("v < 3"), "t"))
    assert sorted(got(made, "s")) == ["e2", "e3", "e4", "e5"]
    assert sorted(got(made, "more")) == ["e1", "e2"]


def test_off_by_default():
    made = system(NET_13, [("B", "t")])
    publish(made, "B", 1)
    made.subscribe("K", Subscription("s", type="t"))
    assert made.deliveries == []


def test_the_oldest_go_first_and_none_stays_for_ever():
    made = system(line(3), [(0, "t")], TreeSettings(buffer=2, buffer_seconds=100.0))
    publish(made, 0, 1, 2, 3)
    made.subscribe(2, Subscription("s", type="t"))
    assert got(made, "s") == ["e2", "e3"]
    made.simulation.run(until=made.simulation.now + 101)
    made.subscribe(1, Subscription("late", type="t"))
    assert got(made, "late") == []
    assert made.inspect([0])[0]["counters"]["buffered"] == 0


def test_a_publisher_that_comes_to_a_subscriber_brings_its_buffer():
    made = system(line(3), [(0, "t")], TreeSettings(buffer=5))
    publish(made, 0, 1)
    made.simulation.link_down(0, 1)
    made.run_until_quiet()
    publish(made, 0, 2)
    made.subscribe(2, Subscription("s", type="t"))
    assert got(made, "s") == []
    made.simulation.link_up(0, 1)
    made.run_until_quiet()
    assert got(made, "s") == ["e1", "e2"]


def test_a_gap_is_filled_and_nothing_comes_twice():
    made = system(ring(6), [(0, "t")], TreeSettings(buffer=50))
    made.subscribe(3, Subscription("s", type="t"))
    publish(made, 0, 1)
    path = [node for node, view in made.inspect().items() if view["tables"]]
    broken = (path[0], path[1]) if path[1] in made.topology.neighbours(path[0]) else (path[0], path[-1])
    made.simulation.link_down(*broken)
    made.simulation.run(until=made.simulation.now)
    publish(made, 0, 2)
    publish(made, 0, 3)
    made.run_until_quiet()
    assert sorted(got(made, "s")) == ["e1", "e2", "e3"]
