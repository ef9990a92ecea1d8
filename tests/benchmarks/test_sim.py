"""The benchmark of the simulator: that its cases do what they say, its targets, its tables, its command."""

from types import SimpleNamespace

import pytest

from benchmarks import harness, sim
from benchmarks.harness import Machine, Rate, Target, judge, make_tables, markdown
from benchmarks.sim import (
    SUBJECT,
    TOKENS,
    TREES,
    Peer,
    Queue,
    Speed,
    compare_queues,
    rate_of,
    simpy_tokens,
    tokens,
    trees,
)
from benchmarks.sim_peers import BASE, SUPER_NODES, PeerSpeed, measure_peers, settled_peers
from recado.protocols.supernodes import SuperNodeSettings


def speed(protocol, network, nodes, rate):
    return Speed(protocol, network, nodes, 1000, 10, Rate(rate, rate * 0.9))


@pytest.mark.parametrize("network", ["unit delay", "random delays in order"])
def test_every_node_has_a_token_and_hands_it_on(network):
    simulation, advance = tokens(50, network, steps=5_000)
    assert advance() == 5_000
    assert advance() == 5_000
    assert (simulation.steps, simulation.pending) == (10_000, 50)
    assert simulation.nodes[0].machine.inspect() == {}
    assert min(node.up_messages for node in simulation.nodes.values()) > 50


def test_trees_deliver_and_leave_nothing_behind():
    simulation, advance = trees(30, "unit delay")
    before = simulation.nodes[3].machine.inspect()
    steps = [advance() for _ in range(5)]
    assert min(steps) > 60
    assert simulation.pending == 0
    assert simulation.nodes[3].machine.inspect()["tables"] == before["tables"]


@pytest.fixture
def short(monkeypatch):
    """Rates of a moment, so that whole cases can be run."""
    monkeypatch.setattr(sim, "rate_of", lambda advance, warm_up, seconds, runs: rate_of(advance, 10, 0.01, 2))


def run_cases(*titles):
    return [record for title in titles for case in SUBJECT.select(True, (), title) for record in case.run(None)]


def test_cases_give_records(short, monkeypatch):
    monkeypatch.setattr(sim, "simpy_installed", lambda: False)
    token, peer, tree = run_cases("tokens, unit delay, 100 nodes", "trees, unit delay, 100 nodes")
    assert [(s.protocol, s.nodes) for s in (token, tree)] == [(TOKENS, 100), (TREES, 100)]
    assert all(s.rate.best >= s.rate.median > 0 for s in (token, tree))
    assert peer == Peer("SimPy", "", 100, note="not installed: pip install simpy")


def test_queues_are_compared():
    queue = compare_queues(50, 500, 2)
    assert queue.entries == 50
    assert min(queue.heap_seconds, queue.agenda_seconds) > 0


def test_plans_know_their_cases():
    assert {case.title.split(", ")[-1] for case in SUBJECT.select(False, (TOKENS,))} == {
        "100 nodes",
        "1,000 nodes",
        "20,000 nodes",
    }


def test_targets():
    records = [speed(TOKENS, "unit delay", 100, 600_000), speed(TOKENS, "unit delay", 20_000, 150_000)]
    rate, trees_rate, growth = judge(SUBJECT, records)
    assert (rate.measured, rate.met) == ("600,000", True)
    assert (trees_rate.measured, trees_rate.met) == ("", None)
    assert (growth.measured, growth.met) == ("4 x", False)
    assert judge(SUBJECT, records[:1])[-1].met is None


def peer_speed(protocol, peers, rate, per_second):
    return PeerSpeed(
        protocol, "leader", peers, peers // 5, 10_000, per_second, Rate(rate, rate * 0.9), 5_000.0, 4_000.0
    )


def test_targets_of_peers():
    records = [
        peer_speed(SUPER_NODES, 1_000, 150_000, 40.0),
        peer_speed(SUPER_NODES, 20_000, 100_000, 900.0),
        peer_speed(BASE, 20_000, 100_000, 2_400.0),
    ]
    targets = {target.name: (target.measured, target.met) for target in judge(SUBJECT, records)}
    assert targets["super nodes: time a step with 20,000 peers against 1,000"] == ("1.5 x", True)
    assert targets["super nodes, 20,000 peers, 82,800 s: minutes"] == ("13.8 min", False)
    assert targets["super nodes, 20,000 peers, 82,800 s: memory"] == ("0.56 GB", True)
    assert targets["base (BL0): time a step with 20,000 peers against 1,000"] == ("", None)
    assert targets["base (BL0), 20,000 peers, 82,800 s: minutes"] == ("36.8 min", True)


@pytest.mark.parametrize("families", [True, False])
def test_settled_peers_are_settled_and_stay_so(families):
    peers = settled_peers(60, SuperNodeSettings(families=families, leaves="leader"))
    simulation = peers.simulation
    roles = [one.state.role for one in peers.machines()]
    assert (roles.count("super"), len(roles)) == (12 if families else 60, 60)
    assert len(peers.supers) == roles.count("super")
    layer = [one.state.layer for one in peers.machines() if one.state.layer is not None]
    assert all(one.active and len(one.membership) == len(layer) for one in layer)
    peers.run(300.0)
    assert simulation.steps > 300
    born = set(range(60))
    again = {record.node: record.roles for record in peers.live.values() if record.node in born}
    changed = [node for node, roles in again.items() if len(roles) > 1]
    gone = 60 - len(again)
    assert len(changed) <= gone  # only who takes the place of a father that left


def test_peers_are_measured(tmp_path):
    (found,) = measure_peers(SUPER_NODES, "leader", 50, 0.01, 2, tmp_path)
    assert (found.protocol, found.peers) == (SUPER_NODES, 50)
    assert found.rate.best >= found.rate.median > 0
    assert found.per_second > 0
    assert found.bytes_per_peer > 0


def test_tables_and_page():
    records = [
        Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"msgspec": "0.22"}),
        speed(TOKENS, "unit delay", 100, 500_000),
        speed(TOKENS, "unit delay", 20_000, 250_000),
        Queue(20_000, 2e-6, 1e-6),
        Peer("SimPy", "4.1", 100, Rate(100_000, 90_000), 5.0),
        Peer("SimPy", "", 20_000, note="not installed"),
        Target("speed", "at least 1", "2", True),
    ]
    speeds, queue, peer, _ = make_tables(SUBJECT, records)  # none of super-node peers, which were not measured
    assert queue.rows == [("20,000", "2", "1", "2.00")]
    assert [row[6] for row in speeds.rows] == ["1.00", "2.00"]
    assert peer.rows == [("SimPy 4.1", "100", "100,000", "5.0"), ("SimPy", "20,000", "not installed", "")]
    page = markdown(SUBJECT, records, "python -m benchmarks run sim")
    assert page.startswith(
        "# The simulator, measured\n\n```\npython -m benchmarks run sim\n```\n\nA processor, 2 cores (one used)"
    )
    assert "| tokens | unit delay | 20,000 | 250,000 |" in page


class Store:
    def __init__(self, environment):
        self.environment, self.items = environment, []

    def put(self, item):
        self.items.append(item)

    def get(self):
        return self


class Environment:
    """As much of SimPy as the tokens use: processes that wait for a store or for a time."""

    def __init__(self):
        self.now, self.waiting = 0.0, []

    def timeout(self, seconds):
        return seconds

    def process(self, generator):
        self._go_on(generator, None)

    def _go_on(self, generator, value):
        wish = next(generator, None) if value is None else generator.send(value)
        if wish is not None:
            self.waiting.append((self.now + wish if isinstance(wish, float) else wish, generator))

    def run(self, until):
        while self.now < until:
            self.now += 0.5
            for wish, generator in self.waiting[:]:
                due = wish <= self.now if isinstance(wish, float) else bool(wish.items)
                if due:
                    self.waiting.remove((wish, generator))
                    self._go_on(generator, None if isinstance(wish, float) else wish.items.pop())


def test_the_peer_hands_on_the_same_tokens(short, monkeypatch):
    monkeypatch.setattr(sim, "import_module", lambda name: SimpleNamespace(Environment=Environment, Store=Store))
    advance = simpy_tokens(10)
    assert sum(advance() for _ in range(20)) >= 100
    monkeypatch.setattr(sim, "simpy_installed", lambda: True)
    _, peer = run_cases("tokens, unit delay, 100 nodes")
    assert peer.ratio > 0


def test_whether_the_peer_is_installed():
    assert sim.simpy_installed() == bool(harness.version_of("simpy"))
