"""Runs: the same seed, the same figures; the figures are those of the tree document's formulas."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from recado.protocols.baselines import BASELINES
from recado.sim.runs.run import ScenarioRun, execute_run, replay
from recado.sim.runs.scenario import Run, ScenarioError, Setting, parse_scenario

SMALL = """
[topology]
nodes = 12
[workload]
operations = 30
subscriptions = 5
width = 0.4
mix = { publish = 3, subscribe = 1, unsubscribe = 1, become_publisher = 1, become_broker = 1 }
"""


def run_of(text, **changes):
    run = parse_scenario(text).runs()[0]
    return msgspec.structs.replace(run, **changes)


def metrics(text):
    return execute_run(run_of(text)).metrics


def test_a_run_is_its_seed():
    assert metrics(SMALL) == metrics(SMALL)
    assert execute_run(run_of(SMALL, number=1)).metrics != metrics(SMALL)


def test_a_run_does_not_depend_on_hashing():
    program = (
        "import sys, msgspec\nfrom recado.sim.runs.scenario import parse_scenario\n"
        "from recado.sim.runs.run import execute_run\n"
        "sys.stdout.buffer.write(msgspec.json.encode(execute_run(parse_scenario(sys.argv[1]).runs()[0]).metrics))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program, SMALL], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "42")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert json.loads(found[0]) == metrics(SMALL)


def test_trees_cost_what_the_formulas_say():
    found = metrics('[topology]\nkind = "NET-16"\n[workload]\nsubscriptions = 4\nfilters = "any"\n')
    assert (found["nodes"], found["edges"]) == (16, 17)
    assert found["subscribe.messages"] == 34
    assert found["setup.messages"] == 34 * 5
    assert found["messages"] == found["setup.messages"] + 20 * found["mix.messages"]
    assert found["deliveries.expected"] == found["deliveries.ok"] == 80
    assert found["bytes"] > found["messages"] * 5


@pytest.mark.parametrize("protocol", ["trees", *BASELINES])
def test_every_protocol_delivers_all_of_a_workload(protocol):
    found = metrics(f'{SMALL}\n[protocol]\nname = "{protocol}"\n')
    assert found["deliveries.expected"] == found["deliveries.ok"] > 0
    assert [found[f"deliveries.{word}"] for word in ("lost", "duplicated", "unexpected")] == [0, 0, 0]


def test_all_protocols_of_a_sweep_meet_the_same_operations():
    settings = [run_of(f'protocol = "{protocol}"\n{SMALL}').setting for protocol in ("trees", "flooding")]
    found = [ScenarioRun(setting, 7) for setting in settings]
    for run in found:
        run.execute()
    first, second = (
        [(expected.event, expected.publisher, expected.wanted) for expected in run.workload.ledger.expectations]
        for run in found
    )
    assert first == second


@pytest.mark.parametrize(
    "kind", ["line", "ring", "star", "complete", "grid", "random-tree", "random-graph", "scale-free", "NET-13"]
)
def test_every_topology_can_be_run(kind):
    found = metrics(f'[topology]\nkind = "{kind}"\nnodes = 9\n[workload]\nsubscriptions = 3\noperations = 3\n')
    assert found["subscribe.messages"] == 2 * found["edges"]


def test_a_list_of_links_is_a_topology():
    assert metrics('[topology]\nkind = "edges"\nedges = "A-B B-C"\n[workload]\noperations = 1\n')["edges"] == 2


@pytest.mark.parametrize("delay", ["constant", "uniform", "exponential", "lognormal"])
def test_delays_change_times_and_not_deliveries(delay):
    found = metrics(f'{SMALL}\n[network]\ndelay = "{delay}"\nmean = 3.0\n')
    assert found["deliveries.lost"] == found["deliveries.duplicated"] == 0
    assert found["publish.time"] > 1


def test_a_network_that_loses_and_repeats():
    found = metrics(
        '[protocol]\nname = "flooding-tree"\n[topology]\nkind = "line"\nnodes = 10\n'
        "[network]\nloss = 0.3\n[workload]\noperations = 40\nwidth = 0.9\n"
    )
    assert found["deliveries.lost"] > 0
    found = metrics(
        '[protocol]\nname = "flooding"\n[topology]\nnodes = 10\n[workload]\nwidth = 0.9\n'
        "[network]\nduplication = 0.5\nreordering = 0.2\nbandwidth = 1000.0\n"
    )
    assert found["deliveries.duplicated"] == found["deliveries.lost"] == 0
    assert found["events.duplicates"] > found["publish.messages"] - 9


def test_trees_over_reliable_links_stand_a_network_that_loses_and_repeats():
    found = metrics(
        "[protocol]\nreliable = true\n[topology]\nnodes = 10\n[workload]\nwidth = 0.9\nsubscriptions = 4\n"
        "[network]\nloss = 0.1\nduplication = 0.2\nreordering = 0.2\n"
    )
    assert found["deliveries.ok"] == found["deliveries.expected"] > 0
    assert found["deliveries.duplicated"] == found["deliveries.unexpected"] == 0
    assert found["events.notifications"] > 0


def test_warm_up_and_time_limit_are_times_of_the_simulation():
    whole = metrics(SMALL)
    late = metrics(f"{SMALL}\n[run]\nwarm_up = 60.0\n")
    short = metrics(f"{SMALL}\n[run]\ntime_limit = 60.0\n")
    assert late["mix.count"] < whole["mix.count"]
    assert late["messages"] == whole["messages"]
    assert short["messages"] < whole["messages"]


def test_operations_may_overlap():
    found = metrics(SMALL.replace("operations = 30", "operations = 30\nrate = 0.5\nsettling = 40"))
    assert "publish.messages" not in found
    assert found["publish.count"] > 0
    assert found["deliveries.lost"] == found["deliveries.duplicated"] == found["deliveries.unexpected"] == 0


def test_a_storm_of_failures_passes():
    found = metrics(
        "[topology]\nnodes = 12\n[workload]\noperations = 60\nrate = 0.05\nsettling = 100\nwidth = 0.9\n"
        "[faults]\nrate = 0.05\nstart = 300.0\nduration = 200.0\n"
    )
    assert found["deliveries.ok"] > 0
    assert found["deliveries.duplicated"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('protocol = "gossip"', "there is no protocol 'gossip'; there are trees, flooding"),
        ('[protocol]\nname = "gossip"', "and your own as module:Class - at `$.protocol.name`"),
        ('[configurations.a]\nprotocol = "gossip"', "at `$.configurations.a.protocol.name`"),
        ('[sweep]\nprotocol = ["trees", "gossip"]', "at `$.sweep.protocol[1].name`"),
        ('protocol = "no.such:Thing"', "the module 'no.such' cannot be imported"),
        ('protocol = "math:pi"', "'math' has no machine class 'pi' with the methods handle and inspect"),
        ("[protocol.options]\nmod = 1", "protocol 'trees' has no setting 'mod'; it has filtering"),
        ('[protocol.options]\nfiltering = "none"', "Invalid enum value 'none' - at `$.protocol.options.filtering`"),
        ("[protocol.options]\nmax_rows = 0", "max_rows is 0; it has to be at least 1 - at `$.protocol.options`"),
        (
            '[protocol]\nname = "simple"\nreliable = true',
            "protocol 'simple' cannot have reliable links - at `$.protocol.reliable`",
        ),
        ('[protocol]\nname = "flooding"\noptions = { speed = 3 }', "protocol 'flooding' has no setting 'speed'"),
        (
            '[protocol]\nname = "merging-imperfect"\noptions = { limit = 0 }',
            "Expected `int` >= 1 - at `$.protocol.options.limit`",
        ),
    ],
)
def test_a_protocol_that_cannot_be_run_is_told_when_the_file_is_read(text, message):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[protocol]\nname = "simple"\noptions = { root = "Z" }', "no node 'Z' in this topology"),
        ('[topology]\nkind = "ring"\nnodes = 2', "a ring has at least 3 nodes, not 2 - at `$.topology`"),
        ('[topology]\nkind = "edges"\nedges = "A-B C-D"', "the network is not in one piece - at `$.topology.edges`"),
        ('[topology]\nkind = "edges"\nedges = "A-B-C"', "at `$.topology`"),
        ("[faults]\nrate = 1.0", "set workload.rate - at `$.faults.rate`"),
        ("[run]\nmax_steps = 60", "a loop, or run.max_steps is too low"),
    ],
)
def test_what_cannot_be_run_is_told(text, message):
    with pytest.raises(ScenarioError) as caught:
        execute_run(run_of(text))
    assert "configuration 'base'" in str(caught.value)
    assert message in str(caught.value)


# -- once more, step by step

NET = Run("net", "base", 0, parse_scenario('[topology]\nkind = "NET-13"\n[workload]\nfilters = "any"\n').settings[0][1])


def test_a_run_can_be_replayed_for_one_node():
    lines = list(replay(NET, node="K"))
    assert lines
    assert all(" K: " in line for line in lines)


def test_a_run_can_be_replayed_for_one_event():
    text = "\n".join(replay(NET, event="e11"))
    assert "id='e11'" in text
    assert "delivered Notified, because it" in text
    assert text.rstrip().endswith("because it was asked for Publish")


def test_nodes_and_events_that_are_not_there():
    with pytest.raises(ScenarioError, match="there is no node 'Z'"):
        list(replay(NET, node="Z"))
    with pytest.raises(ScenarioError, match="no event 'e999' was published"):
        list(replay(Run("x", "base", 0, Setting()), event="e999"))
