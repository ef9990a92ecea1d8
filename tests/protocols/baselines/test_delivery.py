"""Every baseline delivers what a global list of subscriptions says, once, and forgets what was cancelled."""

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
from recado.protocols.baselines import BASELINES, make_baseline
from recado.protocols.trees import TreeNode
from recado.sim.network import UnitDelay
from recado.sim.system import System

OPTIONS = {
    "flooding-all": ("flooding", {"flood_all": True}),
    "merging-one": ("merging-imperfect", {"limit": 1}),
    "groups-small": ("groups", {"group_size": 3}),
    "groups-summaries-small": ("groups-summaries", {"group_size": 3, "summaries": 1}),
    "groups-interests": ("groups-summaries", {"interests": {0: "news", 1: "news", 2: "flight", 3: "flight"}}),
}
ALL = {name: (name, {}) for name in BASELINES} | OPTIONS


def maker(name, topology):
    if name == "trees":
        return TreeNode
    baseline, options = ALL[name]
    return make_baseline(baseline, topology, **options)


def run(name, seed, steps=40):
    """A random history: one operation at a time, each until all is quiet."""
    rng = Random(seed)
    topology = random_overlay(rng)
    network = random_delays(Random(seed)) if seed % 2 else UnitDelay()
    system, oracle = System(topology, maker(name, topology), network, seed), Oracle()
    publishers, owed = {}, 0
    for step in range(steps):
        node = rng.choice(topology.nodes)
        match rng.choice(["subscribe", "subscribe", "unsubscribe", "role", "publish", "publish", "publish"]):
            case "subscribe":
                wanted = sub(f"s{step}", random_filter(rng), rng.choice(TYPES))
                system.subscribe(node, wanted)
                oracle.held[wanted.id] = (node, wanted)
            case "unsubscribe" if oracle.held:
                id = rng.choice(list(oracle.held))
                system.unsubscribe(oracle.held.pop(id)[0], id)
            case "role" if publishers and rng.random() < 0.5:
                system.become_broker(*publishers.pop(rng.choice(list(publishers))))
            case "publish":
                event = random_event(rng, f"e{step}")
                if (node, event.type) not in publishers:
                    system.become_publisher(node, event.type)
                    publishers[node, event.type] = (node, event.type)
                system.publish(node, event)
                owed += len(oracle.expected(event))
                assert delivered(system) == oracle.expected(event), f"{name}, seed {seed}, step {step}"
    return owed, (system, oracle, publishers)


def dissolve(system, oracle, publishers):
    for id, (node, _) in oracle.held.items():
        system.unsubscribe(node, id)
    for node, type in publishers.values():
        system.become_broker(node, type)


@pytest.mark.parametrize("name", ALL)
def test_what_the_oracle_says_is_delivered_and_nothing_remains(name):
    total = 0
    for seed in range(30):
        owed, (system, oracle, publishers) = run(name, seed)
        total += owed
        dissolve(system, oracle, publishers)
        for state in system.inspect().values():
            assert (state["rows"], state["tables"], state["subscriptions"]) == (0, {}, {}), (name, seed)
            assert not state.get("advertisements")
            assert not state.get("groups")
        for node in system.simulation.nodes.values():
            if hasattr(node.machine, "router"):
                assert not node.machine.router.count
            assert not getattr(node.machine, "routers", {})
    assert total == 234  # the histories are the same for all


def test_trees_deliver_the_same_in_the_same_histories():
    assert sum(run("trees", seed)[0] for seed in range(30)) == 234


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_many_more_histories(name):
    for seed in range(1000, 1200):
        dissolve(*run(name, seed, steps=60)[1])
