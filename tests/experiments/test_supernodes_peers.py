"""Peers that come and go: the workload of the super-node system, and the composition that it leads to."""

import math
from statistics import mean

import pytest

from experiments.supernodes.peers import HOUR, Peers, Population, RandomSet
from recado.protocols.supernodes import SuperNodeSettings

LEADER = SuperNodeSettings(leaves="leader")


def test_a_population_has_as_many_filters_as_its_redundancy_says():
    assert Population(rate=1.4, redundancy=0.8).filter_count == 4032
    assert Population(rate=0.001, redundancy=0.99).filter_count == 1


def test_a_random_set_gives_what_was_added_and_not_removed():
    chosen = RandomSet()
    for node in (1, 2, 3, 2, 4):
        chosen.add(node)
    for node in (2, 9, 4):
        chosen.discard(node)
    assert sorted(chosen.nodes) == [1, 3]
    assert 3 in chosen
    assert 2 not in chosen
    assert len(chosen) == 2


def test_variants_meet_the_same_peers():
    worlds = []
    for settings in (LEADER, SuperNodeSettings(k=2, families=True, leaves="leader")):
        peers = Peers(Population(rate=0.1), settings, seed=4)
        peers.arrivals(HOUR)
        peers.run(HOUR)
        worlds.append([(record.arrived, record.filter, record.left) for record in peers.records])
    assert worlds[0] == worlds[1]


def test_a_run_repeats():
    steps = []
    for _ in range(2):
        peers = Peers(Population(rate=0.1), LEADER, seed=4)
        peers.arrivals(HOUR)
        peers.run(HOUR)
        steps.append((peers.simulation.steps, [record.roles for record in peers.records]))
    assert steps[0] == steps[1]


def test_events_reach_those_that_accept_them():
    peers = Peers(Population(rate=0.2, redundancy=0.9, filters="accept_all"), LEADER, seed=2)
    for _ in range(60):
        peers.arrive(session_seconds=float("inf"))
        peers.run(10)
    peers.run(900)
    peers.publications(5.0, 50.0)
    peers.run(120)
    assert peers.events == 10
    assert len(peers.deliveries) == 10 * 60


@pytest.mark.long
@pytest.mark.parametrize(
    ("redundancy", "supers", "children", "entering"), [(0.8, 0.23, 3.4, 0.42), (0.6, 0.40, 1.5, 0.59)]
)
def test_the_composition_of_the_document(redundancy, supers, children, entering):
    """T1 to T3 and T6 at a small lambda: what the composition is depends on the redundancy alone."""
    peers = Peers(Population(rate=0.05, redundancy=redundancy), LEADER, seed=1)
    peers.arrivals(23 * HOUR)
    peers.run(8 * HOUR)
    before, seen = len(peers.records), []
    for _ in range(60):
        peers.run(15 * HOUR / 60)
        seen.append(peers.shares())
    entries = sum(1 for record in peers.records for time, _ in record.activated if time >= 8 * HOUR)
    assert mean(one["super"] for one in seen) == pytest.approx(supers, abs=0.03)
    assert mean(one["children"] for one in seen) == pytest.approx(children, abs=0.3)
    assert entries / (len(peers.records) - before) == pytest.approx(entering, abs=0.04)
    assert mean(seconds for seconds, _ in peers.takeovers(8 * HOUR)) == pytest.approx(59, abs=5)


def test_whoever_runs_it_is_told_of_facts_departures_and_deliveries():
    peers = Peers(Population(rate=0.01, filters="nested"), SuperNodeSettings(), 1)
    facts, left, delivered = [], [], []
    peers.on_fact = lambda now, record, fact: facts.append((record.node, record.role))
    peers.before_leave = lambda record: left.append(peers.machine(record.node).inspect()["role"])
    peers.on_delivery = lambda now, node, notified: delivered.append(node)
    peers.draw_filter = lambda: 7
    for _ in range(2):
        peers.arrive(math.inf)
        peers.run(60)
    assert [record.filter for record in peers.records] == [7, 7]
    peers.publish(0, 1.0)
    peers.run(10)
    peers.leave(0)
    assert (0, "super") in facts
    assert (1, "sub") in facts
    assert left == ["super"]
    assert sorted(delivered) == [0, 1]
    assert peers.deliveries == []
