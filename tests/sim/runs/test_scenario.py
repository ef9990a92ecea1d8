"""Scenario files: what they say, and what they are told when they are wrong."""

import pytest

from recado.sim.runs.run import seed_of
from recado.sim.runs.scenario import PARTS, ScenarioError, Setting, parameters, parse_scenario, read_scenario


def settings(text):
    return [setting for _, setting in parse_scenario(text).settings]


def test_an_empty_file_is_the_default_setting():
    scenario = parse_scenario("", name="empty")
    assert scenario.name == "empty"
    assert scenario.settings == (("base", Setting()),)


def test_a_sweep_is_the_product_of_its_lists():
    found = settings('[sweep]\ntopology.nodes = [10, 20, 30]\ntopology.kind = ["line", "ring"]\n')
    assert [(each.topology.nodes, each.topology.kind) for each in found] == [
        (10, "line"), (10, "ring"), (20, "line"), (20, "ring"), (30, "line"), (30, "ring"),
    ]  # fmt: skip


def test_values_that_go_together_are_a_table():
    found = settings('[sweep]\nnetwork = [{ delay = "unit" }, { delay = "uniform", spread = 0.2 }]\n')
    assert [(each.network.delay, each.network.spread) for each in found] == [("unit", 0.5), ("uniform", 0.2)]


def test_where_admits_combinations_by_recados_own_filters():
    text = (
        "where = 'topology.kind != \"line\" or topology.nodes < 15'\n"
        '[sweep]\ntopology.nodes = [10, 20]\ntopology.kind = ["line", "ring"]\n'
    )
    assert [(each.topology.nodes, each.topology.kind) for each in settings(text)] == [
        (10, "line"), (10, "ring"), (20, "ring"),
    ]  # fmt: skip


def test_configurations_inherit_from_each_other_and_from_the_base():
    text = """
        [topology]
        nodes = 12
        [run]
        repeats = 2
        [configurations.calm]
        network.loss = 0.1
        [configurations.wild]
        extends = "calm"
        network.duplication = 0.2
        sweep.topology.nodes = [5, 6]
    """
    scenario = parse_scenario(text)
    assert [(name, s.topology.nodes, s.network.loss, s.network.duplication) for name, s in scenario.settings] == [
        ("calm", 12, 0.1, 0.0),
        ("wild", 5, 0.1, 0.2),
        ("wild", 6, 0.1, 0.2),
    ]
    assert [run.number for run in scenario.runs()] == [0, 0, 0, 1, 1, 1]


def test_a_nearer_sweep_takes_the_place_of_a_farther_one():
    text = "[sweep]\ntopology.nodes = [5, 6]\n[configurations.a]\nsweep.topology.nodes = [7]\n"
    assert [each.topology.nodes for each in settings(text)] == [7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[network]\nloss = 2.0", "Expected `float` <= 1.0 - at `$.network.loss`"),
        ("[sweep]\nnetwork.loss = [0.1, 3.0]", "Expected `float` <= 1.0 - at `$.sweep.network.loss[1]`"),
        ("[configurations.a]\nnetwork.lss = 1", "unknown field `lss` - at `$.configurations.a.network.lss`"),
        (
            '[configurations.a]\nextends = "b"\n[configurations.b.workload.mix]\npublish = -1',
            "Expected `float` >= 0.0 - at `$.configurations.b.workload.mix.publish`",
        ),
        (
            '[network]\ndelay = "slow"',
            "Invalid enum value 'slow', not one of unit, constant, uniform, exponential, lognormal - at `$.network.del",
        ),
        ('[configurations.a]\nextends = "b"', "there is no configuration 'b' - at `$.configurations.a.extends`"),
        ('[configurations.a]\nextends = "a"', "configuration 'a' extends itself - at `$.configurations.a`"),
        ('extends = "a"', "the base extends nothing; a configuration may - at `$.extends`"),
        ("[sweep]\nnodes = [1]", "a sweep gives a list of values for a name such as topology.nodes, not nodes = [1]"),
        ("[sweep]\ntopology.nodes = 3", "not topology.nodes = 3 - at `$.sweep.topology.nodes`"),
        ('where = "topology.nodes <"', "expected a value but found the end of the filter"),
        ('where = "topology.nodes < 3"', "0 runs; a scenario has 1 to 1,000,000"),
        ("nme = 3", "unknown field `nme`"),
        ("a = ", "Invalid value (at end of document)"),
        ('[workload]\nsubscriptions = "ten"', "at `$.workload.subscriptions`"),
    ],
)
def test_an_error_names_the_file_and_the_place(text, message):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "some.toml")
    assert str(caught.value).startswith("some.toml: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_scenario(tmp_path / "none.toml")


def test_runs_of_one_number_have_one_seed_in_all_configurations():
    text = "[run]\nrepeats = 3\nseed_set = {}\n[sweep]\ntopology.nodes = [5, 6]\n"
    runs = parse_scenario(text.format(0)).runs()
    assert [seed_of(run) for run in runs[:2]] == [seed_of(runs[0])] * 2
    assert len({seed_of(run) for run in runs}) == 3
    other = parse_scenario(text.format(1)).runs()
    assert not {seed_of(run) for run in runs} & {seed_of(run) for run in other}


def test_parameters_are_flat_and_do_not_tell_how_often():
    found = parameters(Setting())
    assert found["topology.nodes"] == 50
    assert found["workload.mix.publish"] == 1.0
    assert "run.repeats" not in found
    assert {name.partition(".")[0] for name in found} <= set(PARTS)
