"""Tables are what a look at the whole overlay says, also when operations overlap and messages take their time."""

from __future__ import annotations

from random import Random

import pytest

from protocols.baselines.common import (
    TYPES,
    Oracle,
    delivered,
    random_delays,
    random_event,
    random_filter,
    random_overlay,
    sub,
)
from recado.filters.covering import covers
from recado.filters.normal import filter_key
from recado.protocols.baselines import BASELINES, make_baseline
from recado.protocols.baselines.plan import Tree
from recado.protocols.baselines.routing import merge_filters
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.wire import read_filter
from recado.sim.system import System


class Rush:
    """Many operations in a short time, and then quiet. Node 0 always publishes, others come and go."""

    def __init__(self, name, seed, steps=40):
        self.rng = Random(seed)
        self.topology = random_overlay(self.rng)
        make = make_baseline(name, self.topology)
        self.system = System(self.topology, make, random_delays(self.rng), seed)
        self.oracle = Oracle()
        self.publishing = {(0, type): True for type in TYPES}
        for type in TYPES:
            self.ask(0, BecomePublisher(type), 0.0)
        clock = 0.0
        for step in range(steps):
            clock += self.rng.choice([0.0, 0.1, 5.0])
            self.step(step, clock)
        self.system.run_until_quiet()

    def ask(self, node, request, clock):
        self.system.simulation.ask(node, request, clock)

    def step(self, step, clock):
        node, type = self.rng.choice(self.topology.nodes), self.rng.choice(TYPES)
        match self.rng.choice(["subscribe", "subscribe", "unsubscribe", "publish", "role"]):
            case "subscribe":
                wanted = sub(f"s{step}", random_filter(self.rng), type)
                self.oracle.held[wanted.id] = (node, wanted)
                self.ask(node, Subscribe(wanted), clock)
            case "unsubscribe" if self.oracle.held:
                id = self.rng.choice(list(self.oracle.held))
                self.ask(self.oracle.held.pop(id)[0], Unsubscribe(id), clock)
            case "publish":
                self.ask(0, Publish(random_event(self.rng, f"early{step}")), clock)
            case "role" if node != 0:
                publishes = self.publishing.get((node, type), False)
                self.publishing[node, type] = not publishes
                self.ask(node, BecomeBroker(type) if publishes else BecomePublisher(type), clock)


@pytest.mark.parametrize("name", BASELINES)
def test_after_a_rush_of_operations_all_is_as_if_they_had_come_one_by_one(name):
    for seed in range(30):
        rush = Rush(name, seed)
        early = [(one.event, one.node) for one in rush.system.deliveries]
        assert len(early) == len(set(early))
        rush.system.deliveries.clear()
        for number, (node, type) in enumerate(key for key, publishes in rush.publishing.items() if publishes):
            event = random_event(rush.rng, f"e{number}", type)
            rush.system.publish(node, event)
            assert delivered(rush.system) == rush.oracle.expected(event), (name, seed)


def sides(rush):
    """Of every link of the tree, both ways: sender, receiver, and the subscriptions on the sender's side."""
    tree = Tree(rush.topology, rush.topology.nodes[0])
    for child, parent in tree.parents.items():
        below = {child}
        for node in tree.order:
            if tree.parents.get(node) in below:
                below.add(node)
        held = list(rush.oracle.held.values())
        yield child, parent, [wanted for node, wanted in held if node in below]
        yield parent, child, [wanted for node, wanted in held if node not in below]


def maximal(filters):
    """The keys of the filters that no other one covers."""
    return {
        key
        for key, filter in filters.items()
        if not any(covers(other, filter) for other_key, other in filters.items() if other_key != key)
    }


def told(rush, sender, receiver):
    """The rows that the receiver has from the sender."""
    return rush.system.inspect([receiver])[receiver]["tables"].get(sender, {})


@pytest.mark.parametrize("name", ["simple", "identity", "covering"])
def test_tables_hold_what_the_subscriptions_behind_each_link_come_to(name):
    for seed in range(15):
        rush = Rush(name, seed)
        for sender, receiver, behind in sides(rush):
            rows = told(rush, sender, receiver)
            if name == "simple":
                assert set(rows) == {wanted.id for wanted in behind}
                continue
            keys = {filter_key(read_filter(text)) for text in rows.values()}
            filters = {filter_key(wanted.whole_filter()): wanted.whole_filter() for wanted in behind}
            assert len(rows) == len(keys)
            assert keys == (set(filters) if name == "identity" else maximal(filters))


@pytest.mark.parametrize(("name", "limit"), [("merging", None), ("merging-imperfect", 4)])
def test_merged_tables_hold_the_mergers_of_what_the_sender_has_from_elsewhere(name, limit):
    fewer = 0
    for seed in range(15):
        rush = Rush(name, seed)
        for sender, receiver, behind in sides(rush):
            rows = told(rush, sender, receiver)
            tables = rush.system.inspect([sender])[sender]["tables"]
            texts = {key: text for other, table in tables.items() if other != receiver for key, text in named(table)}
            assert rows == merge_filters(tuple(sorted(texts.values())), limit)
            assert all(any(covers(read_filter(row), want.whole_filter()) for row in rows.values()) for want in behind)
            assert limit is None or len(rows) <= limit
            fewer += len(behind) - len(rows)
    assert fewer > 0


def named(table):
    return [(filter_key(read_filter(text)), text) for text in table.values()]
