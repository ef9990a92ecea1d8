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
    speeds, queue, peer, _ = make_tables(SUBJECT, records)
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
