"""The same script in the simulator and over TCP between real processes: the same deliveries.

And the same messages where order does not matter: building a tree always costs 2m, and on a graph without cycles
everything costs the same and leaves the same tables.
"""

from random import Random

import pytest

from overlay.fleet import connected, plan_of, random_script, simulate
from recado.overlay.client import Step, run_script
from recado.protocols.topology import NET_13, NET_16, Topology, random_graph, random_tree
from recado.protocols.trees import TreeNode
from recado.sim.system import System


def named(topology):
    return Topology((f"n{i}" for i in topology.nodes), ((f"n{a}", f"n{b}") for a, b in topology.edges))


def assert_same(live, simulated):
    """Rows hold sets, in the order in which their members were learnt."""

    def rows(tables):
        return {
            (node, type, id): {column: sorted(members) for column, members in row.items()}
            for node, table in tables.items()
            for type, rows in table.items()
            for id, row in rows.items()
        }

    assert rows(live) == rows(simulated)


def compare(topology, steps, tmp_path, processes):
    with connected(plan_of(topology), tmp_path, processes) as client:
        live = list(run_script(client, steps))
        tables = {name: shown["machine"]["tables"] for name, shown in client.ask_all("show").items()}
        system = System(topology, TreeNode)
        for step, simulated, real in zip(steps, simulate(system, steps), live, strict=True):
            assert real.deliveries == simulated.deliveries, step
            if step.do == "subscribe":
                assert sum(real.messages.values()) == sum(simulated.messages.values()) == 2 * len(topology.edges)
            if len(topology.edges) == len(topology.nodes) - 1:
                assert real.messages == simulated.messages, step
        if len(topology.edges) == len(topology.nodes) - 1:
            assert_same(tables, {name: shown["tables"] for name, shown in system.inspect().items()})
            assert any(tables.values())
    assert sum(len(outcome.deliveries) for outcome in live) > 3
    return live


def document_script():
    """The roles of section 1.7 of the tree document, then an event of each publisher."""
    yield from (Step(node, "become-publisher", type=type) for node, type in (("F", "y"), ("B", "z"), ("L", "z")))
    for node, type in (("O", "y"), ("R", "y"), ("K", "z"), ("E", "z")):
        yield Step(node, "subscribe", subscription={"id": f"I({node})", "type": type})
    for node, type in (("F", "y"), ("B", "z"), ("L", "z")):
        yield Step(node, "publish", event={"id": f"of-{node}", "type": type})


def test_the_documents_network_of_sixteen(tmp_path):
    live = compare(NET_16, list(document_script()), tmp_path, processes=0)
    notified = {step.step.event["id"]: [d.node for d in step.deliveries] for step in live[-3:]}
    assert notified == {"of-F": ["O", "R"], "of-B": ["E", "K"], "of-L": ["E", "K"]}
    assert [sum(step.messages.values()) for step in live[3:7]] == [34] * 4
    assert live[7].messages == {"N": 4}


def test_the_documents_network_of_thirteen_with_all_roles_changing(tmp_path):
    compare(NET_13, list(random_script(NET_13, 1, 60)), tmp_path, processes=4)


def test_a_random_tree_costs_the_same_in_every_operation(tmp_path):
    topology = named(random_tree(9, Random(1)))
    compare(topology, list(random_script(topology, 1, 60)), tmp_path, processes=3)


def test_a_random_graph_delivers_the_same(tmp_path):
    topology = named(random_graph(8, 5, Random(3)))
    compare(topology, list(random_script(topology, 3, 60)), tmp_path, processes=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 24))
def test_many_random_graphs_deliver_the_same(seed, tmp_path):
    topology = named(random_graph(12, seed % 8, Random(seed)))
    compare(topology, list(random_script(topology, seed, 200)), tmp_path, processes=3)
