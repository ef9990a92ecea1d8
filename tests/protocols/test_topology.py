"""Generators: their sizes and shapes, always connected; the tree document's networks; spanning trees."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.protocols.topology import (
    GENERATORS,
    NET_5_1,
    NET_13,
    NET_16,
    Topology,
    TopologyError,
    complete,
    grid,
    line,
    parse_edges,
    random_graph,
    random_tree,
    ring,
    scale_free,
    spanning_tree,
    star,
)


def degrees(topology):
    return Counter(len(topology.neighbours(node)) for node in topology.nodes)


def test_the_networks_of_the_tree_document():
    assert (len(NET_13.nodes), len(NET_13.edges)) == (13, 14)
    assert (len(NET_16.nodes), len(NET_16.edges)) == (16, 17)
    assert (len(NET_5_1.nodes), len(NET_5_1.edges)) == (13, 13)
    assert all(net.connected for net in (NET_13, NET_16, NET_5_1))


def test_links_are_undirected_simple_and_in_order():
    topology = Topology("abc", [("b", "a"), ("a", "b"), ("a", "c")])
    assert topology.edges == (("b", "a"), ("a", "c"))
    assert topology.neighbours("a") == ("b", "c")
    assert topology.neighbours("b") == ("a",)


@pytest.mark.parametrize("edge", [("a", "a"), ("a", "z"), ("z", "a")])
def test_what_is_no_link(edge):
    with pytest.raises(TopologyError, match="is no link between two nodes"):
        Topology("ab", [edge])


def test_distances():
    topology = parse_edges("a-b b-c c-d d-a d-e")
    assert topology.distances("a") == {"a": 0, "b": 1, "d": 1, "c": 2, "e": 2}
    assert (topology.eccentricity("d"), topology.eccentricity("b"), topology.diameter) == (2, 3, 3)
    assert not Topology("ab", []).connected
    assert Topology((), ()).connected


@pytest.mark.parametrize("text", ["a-b c", "a-b-c", "-b", "a-"])
def test_what_is_no_list_of_links(text):
    with pytest.raises(TopologyError, match="is no list of links; write them as A-B B-C"):
        parse_edges(text)


def test_regular_shapes():
    assert degrees(line(5)) == {1: 2, 2: 3}
    assert degrees(ring(5)) == {2: 5}
    assert degrees(star(5)) == {4: 1, 1: 4}
    assert degrees(complete(5)) == {4: 5}
    assert degrees(grid(4, 3)) == {2: 4, 3: 6, 4: 2}
    assert grid(4, 3).neighbours(5) == (4, 6, 1, 9)
    assert [net.diameter for net in (line(5), ring(5), star(5), complete(5), grid(4, 3))] == [4, 2, 2, 1, 5]


def test_a_single_node_is_a_network():
    for net in (line(1), star(1), complete(1), grid(1, 1), random_tree(1, Random(1)), random_graph(1, 0, Random(1))):
        assert (net.nodes, net.edges, net.connected) == ((0,), (), True)


@given(st.integers(3, 60), st.integers(0, 2**30))
def test_all_generators_give_connected_networks_of_about_the_size(n, seed):
    for name, generate in GENERATORS.items():
        topology = generate(n, Random(seed))
        assert topology.connected
        assert topology.nodes == tuple(range(len(topology.nodes)))
        assert len(topology.nodes) == n or (name == "grid" and n - 8 < len(topology.nodes) <= n)
        again = generate(n, Random(seed))
        assert again.edges == topology.edges


@given(st.integers(2, 40), st.data())
def test_random_graphs_have_so_many_links_more_than_a_tree(n, data):
    extra = data.draw(st.integers(0, (n - 1) * (n - 2) // 2))
    topology = random_graph(n, extra, Random(n))
    assert topology.connected
    assert len(topology.edges) == n - 1 + extra


def test_random_trees_are_shallow_and_have_no_cycle():
    topology = random_tree(10_000, Random(1))
    assert len(topology.edges) == 9_999
    assert topology.connected
    assert topology.eccentricity(0) < 40


def test_scale_free_graphs_have_hubs():
    """The tail of the degrees falls with the third power, so the largest of 10,000 is near 2 * sqrt(10,000)."""
    topology = scale_free(10_000, 2, Random(1))
    assert topology.connected
    assert len(topology.edges) == 2 + 2 * (10_000 - 3)
    found = degrees(topology)
    assert min(found) >= 1
    assert max(found) > 100
    assert found[2] / 10_000 == pytest.approx(0.5, abs=0.02)
    assert max(degrees(random_graph(10_000, 10_001, Random(1)))) < 40


def test_sizes_that_cannot_be():
    with pytest.raises(TopologyError, match="a ring has at least 3 nodes, not 2"):
        ring(2)
    with pytest.raises(TopologyError, match="at least 1 links a node, not 0"):
        scale_free(5, 0, Random(1))
    with pytest.raises(TopologyError, match="at least 4 nodes, not 3"):
        scale_free(3, 3, Random(1))
    with pytest.raises(TopologyError, match="room for 6 links, and 7 were asked for"):
        random_graph(4, 4, Random(1))


@given(st.integers(1, 30), st.integers(0, 20), st.integers(0, 2**30))
def test_a_spanning_tree_keeps_the_distances_from_its_root(n, extra, seed):
    rng = Random(seed)
    topology = random_graph(n, min(extra, (n - 1) * (n - 2) // 2), rng)
    root = rng.randrange(n)
    tree = spanning_tree(topology, root)
    assert tree.nodes == topology.nodes
    assert len(tree.edges) == n - 1
    assert tree.distances(root) == topology.distances(root)
    assert all(other in topology.neighbours(node) for node, other in tree.edges)


def test_a_spanning_tree_needs_one_piece():
    with pytest.raises(TopologyError, match="only 2 of 3 nodes can be reached from 'a'"):
        spanning_tree(Topology("abc", [("a", "b")]), "a")
