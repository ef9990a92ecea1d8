"""Where nodes are drawn that have no places."""

import math
from itertools import pairwise
from random import Random

import pytest

from recado.protocols.topology import grid, line, random_graph, star
from recado.sim.drawing.layout import arrange


def arranged(topology, seed=0):
    number = {node: place for place, node in enumerate(topology.nodes)}
    return arrange(len(number), [(number[a], number[b]) for a, b in topology.edges], seed)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_nodes(count):
    found = arrange(count, pairwise(range(count)))
    assert len(set(found)) == len(found) == count


@pytest.mark.parametrize("topology", [line(30), star(25), grid(6, 6), random_graph(80, 30, Random(1))])
def test_neighbours_are_nearer_than_others_and_nobody_is_upon_another(topology):
    found = arranged(topology)
    number = {node: place for place, node in enumerate(topology.nodes)}
    linked = [math.dist(found[number[a]], found[number[b]]) for a, b in topology.edges]
    pairs = [math.dist(a, b) for i, a in enumerate(found) for b in found[:i]]
    assert all(0 <= value <= 1 for place in found for value in place)
    assert sum(linked) / len(linked) < 0.8 * sum(pairs) / len(pairs)
    assert min(pairs) > 0.002


def test_the_same_graph_and_seed_give_the_same_places():
    topology = random_graph(50, 20, Random(2))
    assert arranged(topology, 3) == arranged(topology, 3) != arranged(topology, 4)


def test_parts_do_not_overlap():
    edges = [(0, n) for n in range(1, 10)] + [(10, n) for n in range(11, 16)]
    found = arrange(20, edges)
    boxes = []
    for part in (range(10), range(10, 16)):
        xs, ys = [found[n][0] for n in part], [found[n][1] for n in part]
        boxes.append((min(xs), max(xs), min(ys), max(ys)))
    (a, b, c, d), (e, f, g, h) = boxes
    assert b < e or f < a or d < g or h < c


@pytest.mark.long
@pytest.mark.timeout(600)  # it takes seconds
def test_five_thousand_nodes_have_places():
    topology = random_graph(5_000, 2_000, Random(1))
    found = arranged(topology)
    assert len(set(found)) > 4_900
