"""The benchmark of the simulator: that its cases do what they say, its targets, its tables, its command."""

import json
from types import SimpleNamespace

import pytest

from benchmarks.cli import main
from benchmarks.records import Machine, Rate, Target
from benchmarks.sim import peers, run
from benchmarks.sim.cases import CASES, TOKENS, TREES, tokens, trees
from benchmarks.sim.plan import Case, Plan, full_plan, quick_plan
from benchmarks.sim.records import Peer, Queue, Speed
from benchmarks.sim.run import run_plan
from benchmarks.sim.tables import markdown, tables
from benchmarks.sim.targets import targets

TINY = Plan(
    cases=(Case(TOKENS, "unit delay", 10), Case(TREES, "unit delay", 10)),
    queues=(50,),
    rounds=500,
    seconds=0.01,
    runs=2,
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


def test_a_run_gives_records_and_targets(monkeypatch):
    monkeypatch.setattr(run, "simpy_installed", lambda: False)
    said = []
    machine, *speeds, queue, peer = [r for r in run_plan(TINY, said.append) if not isinstance(r, Target)]
    assert isinstance(machine, Machine)
    assert [(s.protocol, s.nodes) for s in speeds] == [(TOKENS, 10), (TREES, 10)]
    assert queue.entries == 50
    assert min(queue.heap_seconds, queue.agenda_seconds) > 0
    assert all(s.rate.best >= s.rate.median > 0 for s in speeds)
    assert peer == Peer("SimPy", "", 10, note="not installed: pip install simpy")
    assert said == [
        "tokens, unit delay, 10 nodes",
        "trees, unit delay, 10 nodes",
        "a queue of 50 entries",
        "SimPy, 10 nodes",
    ]


def test_plans_know_their_cases():
    for plan in (full_plan(), quick_plan()):
        assert {case.protocol for case in plan.cases} == set(CASES)
    assert {case.nodes for case in full_plan().cases} == {100, 1_000, 20_000}


def test_targets():
    records = [speed(TOKENS, "unit delay", 100, 600_000), speed(TOKENS, "unit delay", 20_000, 150_000)]
    rate, trees_rate, growth = targets(records)
    assert (rate.measured, rate.met) == ("600,000", True)
    assert (trees_rate.measured, trees_rate.met) == ("", None)
    assert (growth.measured, growth.met) == ("4.00 x", False)
    assert targets(records[:1])[-1].met is None


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
    speeds, queue, peer, _ = tables(records)
    assert queue.rows == [("20,000", "2", "1", "2.00")]
    assert [row[6] for row in speeds.rows] == ["1.00", "2.00"]
    assert peer.rows == [("SimPy 4.1", "100", "100,000", "5.0"), ("SimPy", "20,000", "not installed", "")]
    page = markdown(records, "python -m benchmarks sim")
    assert page.startswith(
        "# The simulator, measured\n\n```\npython -m benchmarks sim\n```\n\nA processor, 2 cores (one used)"
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


def test_the_peer_hands_on_the_same_tokens(monkeypatch):
    monkeypatch.setattr(peers, "import_module", lambda name: SimpleNamespace(Environment=Environment, Store=Store))
    advance = peers.simpy_tokens(10)
    assert sum(advance() for _ in range(20)) >= 100
    monkeypatch.setattr(run, "simpy_installed", lambda: True)
    (peer,) = [record for record in run_plan(TINY, lambda step: None) if isinstance(record, Peer)]
    assert peer.ratio > 0


def test_whether_the_peer_is_installed():
    assert peers.simpy_installed() in (True, False)


@pytest.fixture
def plans(monkeypatch):
    calls = []

    def run_plan(plan, announce):
        calls.append(plan)
        announce("working")
        yield Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {})
        yield Target("speed", "at least 1", "2", True)

    monkeypatch.setattr(run, "run_plan", run_plan)
    return calls


def test_in_a_pipe_it_writes_ndjson(plans, capfdbinary, tmp_path):
    page = tmp_path / "page.md"
    assert main(["sim", "--quick", "--markdown", str(page)]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["record"] for line in lines] == ["machine", "target"]
    assert plans == [quick_plan()]
    assert "python -m benchmarks sim --quick" in page.read_text()


def test_on_a_terminal_it_draws_tables(plans, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.cli.for_people", lambda json: not json)
    assert main(["sim"]) == 0
    out = capsys.readouterr().out
    assert "A processor, 2 cores (one used)" in out
    assert "at least 1" in out
    assert plans == [full_plan()]
