"""What operations cost: the formulas of sections 3 and 4.5, and the tree paths that a notification has to take."""

from __future__ import annotations

from random import Random

import pytest

from protocols.baselines.common import Oracle, event, random_event, random_filter, random_overlay, sub
from recado.protocols.baselines import make_baseline
from recado.protocols.baselines.plan import Rendezvous, Tree, lowest
from recado.protocols.topology import NET_13, NET_16
from recado.sim.system import Cost, System


def system_of(name, topology, **options):
    system = System(topology, make_baseline(name, topology, **options))
    for node in topology.nodes:
        for type in ("news", "flight"):
            system.become_publisher(node, type)
    return system


@pytest.mark.parametrize(("topology", "graph", "tree"), [(NET_13, 16, 12), (NET_16, 19, 15)])
def test_one_flooded_notification_on_the_documents_networks(topology, graph, tree):
    assert system_of("flooding", topology).publish("F", event("e")) == Cost(graph, 4.0)
    assert system_of("flooding", topology, spanning=True).publish("F", event("e")).messages == tree
    assert system_of("flooding-tree", topology).publish("K", event("e")).messages == tree


def test_flooding_on_random_overlays():
    for seed in range(40):
        topology = random_overlay(Random(seed))
        n, m = len(topology.nodes), len(topology.edges)
        for name in ("flooding", "flooding-tree", "hierarchical-flooding", "jedi-centralised"):
            system = system_of(name, topology)
            wanted = 2 * m - n + 1 if name == "flooding" else n - 1
            assert system.subscribe(0, sub("s")).messages == 0
            assert system.publish(0, event("e")).messages == wanted
            assert len(system.deliveries) == 1
        everywhere = system_of("flooding", topology, flood_all=True)
        assert everywhere.subscribe(0, sub("s")).messages == 2 * m - n + 1
        assert sum(state["rows"] for state in everywhere.inspect().values()) == n
        assert everywhere.unsubscribe(0, "s").messages == 2 * m - n + 1


def test_simple_routing_tells_everybody():
    for seed in range(40):
        rng = Random(seed)
        topology = random_overlay(rng)
        n, system = len(topology.nodes), system_of("simple", topology)
        for number in range(5):
            assert system.subscribe(rng.choice(topology.nodes), sub(f"s{number}", "x == 1")).messages == n - 1
            rows = [state["rows"] for state in system.inspect().values()]
            assert rows == [number + 1] * n


@pytest.mark.parametrize(("name", "second"), [("identity", "x > 1"), ("covering", "x == 5"), ("merging", "x == 5")])
def test_a_filter_that_is_known_goes_only_to_where_it_came_from(name, second):
    """Everybody was told a cover, but the nodes towards its subscriber were not told it from this side."""
    for seed in range(40):
        rng = Random(seed)
        topology = random_overlay(rng)
        tree, system = Tree(topology, topology.nodes[0]), system_of(name, topology)
        first, other = rng.choice(topology.nodes), rng.choice(topology.nodes)
        assert system.subscribe(first, sub("a", "x > 1")).messages == len(topology.nodes) - 1
        far = len(path(tree, first, other))
        assert system.subscribe(other, sub("b", second)).messages == far
        assert system.unsubscribe(other, "b").messages == far
        assert system.unsubscribe(first, "a").messages == len(topology.nodes) - 1


def path(tree, start, end):
    """The links between two nodes, each with its ends in the order of the tree."""
    links = {}
    for node in (start, end):
        while node in tree.parents:
            links[tree.parents[node], node] = links.get((tree.parents[node], node), 0) + 1
            node = tree.parents[node]
    return [link for link, times in links.items() if times == 1]


def union(tree, start, ends):
    return dict.fromkeys(link for end in ends for link in path(tree, start, end))


def expected_links(name, topology, publisher, published, oracle):
    """The links that a notification must take, by the definition of each baseline."""
    here = Tree(topology, topology.nodes[0])
    wanting = [node for node, _, _ in oracle.expected(published)]
    same_type = [node for node, held in oracle.held.values() if held.type == published.type]
    own = Rendezvous(topology, {}).tree(published.type)
    querier = Tree(topology, lowest(topology))
    match name:
        case "simple" | "identity" | "covering" | "merging":
            return len(union(here, publisher, wanting))
        case "hierarchical" | "hierarchical-simple" | "hierarchical-identity" | "jedi":
            return len(union(here, publisher, [*wanting, here.root]))
        case "hermes":
            return len(union(own, publisher, wanting))
        case "hermes-type":
            return len(union(own, publisher, [*same_type, own.root]))
        case "multicast":
            return len(union(querier, publisher, [*same_type, querier.root]))
        case "virtual-groups":
            return len(path(here, publisher, here.root)) + len(union(here, here.root, wanting))


EXACT = (
    "simple identity covering merging hierarchical hierarchical-simple hierarchical-identity jedi hermes hermes-type"
)


@pytest.mark.parametrize("name", [*EXACT.split(), "multicast", "virtual-groups"])
def test_a_notification_takes_just_the_links_that_it_must(name):
    for seed in range(25):
        rng = Random(seed)
        topology = random_overlay(rng)
        system, oracle = system_of(name, topology), Oracle()
        for number in range(rng.randrange(8)):
            node, wanted = (
                rng.choice(topology.nodes),
                sub(f"s{number}", random_filter(rng), rng.choice(["news", "flight"])),
            )
            system.subscribe(node, wanted)
            oracle.held[wanted.id] = (node, wanted)
        for number in range(10):
            publisher, published = rng.choice(topology.nodes), random_event(rng, f"e{number}")
            messages = system.publish(publisher, published).messages
            assert messages == expected_links(name, topology, publisher, published, oracle), (seed, number)


@pytest.mark.parametrize("name", ["merging-imperfect", "groups", "groups-summaries"])
def test_whatever_is_sent_too_much_stays_below_flooding(name):
    extra = 0
    for seed in range(25):
        rng = Random(seed)
        topology = random_overlay(rng)
        options = {"limit": 1} if name == "merging-imperfect" else {"group_size": 3}
        system, oracle = system_of(name, topology, **options), Oracle()
        for number in range(6):
            node, wanted = rng.choice(topology.nodes), sub(f"s{number}", random_filter(rng))
            system.subscribe(node, wanted)
            oracle.held[wanted.id] = (node, wanted)
        for number in range(10):
            publisher, published = rng.choice(topology.nodes), random_event(rng, f"e{number}")
            messages = system.publish(publisher, published).messages
            least = expected_links("simple", topology, publisher, published, oracle)
            assert least <= messages <= len(topology.nodes) - 1
            extra += messages - least
    assert extra > 0


def test_a_subscription_in_a_hierarchy_costs_the_way_to_the_root():
    for name, root in [("hierarchical-simple", "C"), ("jedi", "K"), ("virtual-groups", "F"), ("hierarchical", "O")]:
        system = system_of(name, NET_16, root=root)
        assert system.subscribe("B", sub("s")).messages == NET_16.distances(root)["B"]
        assert system.inspect([root])[root]["rows"] == 1
        assert system.unsubscribe("B", "s").messages == NET_16.distances(root)["B"]


def test_the_first_member_of_a_multicast_group_is_reported_and_the_next_is_not():
    system = system_of("multicast", NET_13)
    assert system.subscribe("K", sub("k")).messages == NET_13.distances("A")["K"]
    assert system.subscribe("K", sub("k2", "x == 1")).messages == 0
    assert system.unsubscribe("K", "k").messages == 0
    assert system.unsubscribe("K", "k2").messages == NET_13.distances("A")["K"]
