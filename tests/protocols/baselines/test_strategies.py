"""The corners of what neighbours are told."""

from __future__ import annotations

from random import Random

from protocols.baselines.common import event, sub
from recado.protocols.algebra import covers, merge
from recado.protocols.baselines import machines as flooding
from recado.protocols.baselines import machines as virtual_groups
from recado.protocols.baselines import make_baseline
from recado.protocols.baselines import routing as strategies
from recado.protocols.baselines.node import Interests, SentRows
from recado.protocols.machine import Asked, Received
from recado.protocols.pubsub import Subscribe, Unsubscribe
from recado.protocols.topology import parse_edges
from recado.sim.system import System


def test_only_the_difference_since_the_last_message_is_told():
    told = SentRows()
    told.put("a", "x == 1")
    told.put("b", "x == 2")
    told.take("b")
    assert told.message("t") == Interests((("a", "x == 1"),), (), "t")
    assert told.message("t") is None
    told.take("a")
    told.put("a", "x == 1")
    assert told.message("t") is None
    told.take("a")
    assert told.message("t") == Interests((), ("a",), "t")


def told(machine, neighbour, subscribe=(), unsubscribe=()):
    return list(machine.handle(Received(neighbour, Interests(subscribe, unsubscribe)), 0.0, Random(0)))


def test_what_a_neighbour_says_twice_is_said_once():
    machine = make_baseline("simple", parse_edges("A-B A-C"))("A")
    row = ("s", "x == 1")
    assert len(told(machine, "B", [row])) == 1
    assert told(machine, "B", [row]) == []
    assert machine.inspect()["rows"] == 1
    assert len(told(machine, "B", [], ["s"])) == 1
    assert told(machine, "B", [], ["s"]) == []
    assert machine.inspect()["tables"] == {}


def test_filters_with_too_many_alternatives_are_compared_by_their_parts():
    parts = [f"(a{number} == 1 or b{number} == 1)" for number in range(16)]
    huge, smaller = " and ".join(parts), " and ".join([*parts, "c == 1"])
    assert covers(huge, huge)
    assert covers(huge, smaller)
    assert not covers(smaller, huge)
    assert merge(huge, smaller) == huge
    assert merge(huge, "c == 1") is None


def test_old_floods_and_groups_are_forgotten(monkeypatch):
    monkeypatch.setattr(flooding, "FLOODS_REMEMBERED", 3)
    monkeypatch.setattr(virtual_groups, "EVENTS_REMEMBERED", 3)
    line = parse_edges("A-B B-C")
    for name in ("flooding", "virtual-groups"):
        system = System(line, make_baseline(name, line))
        system.become_publisher("A", "news")
        for number in range(8):
            system.subscribe("C", sub(f"s{number}", f"x == {number}"))
        for number in range(8):
            system.publish("A", event(f"e{number}", x=number))
        assert [one.event for one in system.deliveries] == [f"e{number}" for number in range(8)]
        for node in system.simulation.nodes.values():
            machine = node.machine
            assert 0 < len(machine.seen if name == "flooding" else machine.groups) <= 3


def test_a_cover_of_a_cover_that_is_not_known_to_cover_loses_nothing(monkeypatch):
    """The algebra is made to know that large covers middle and middle small, but nothing of large and small."""
    small, middle, large = 'x like "abc*"', 'x like "ab*"', 'x like "a*"'
    known = {(large, middle), (middle, small)}
    monkeypatch.setattr(strategies, "covers", lambda text, other: text == other or (text, other) in known)
    machine = make_baseline("covering", parse_edges("A-B"))("A")

    def ask(request):
        return [effect.message for effect in machine.handle(Asked(request), 0.0, Random(0))]

    for text in (small, middle, large):
        ask(Subscribe(sub(text, text, "")))
    assert ask(Unsubscribe(middle)) == []
    (message,) = ask(Unsubscribe(large))
    assert [text for _, text in message.subscribe] == [small]
