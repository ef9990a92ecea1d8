"""A sweep on Spark executors gives what it gives here."""

import pytest

from recado.cli.app import main
from recado.errors import RecadoError
from recado.pipeline.sweeps import execute_on_spark
from recado.sim.runs.results import key_of, read_results
from recado.sim.runs.run import execute_runs
from recado.sim.runs.scenario import parse_scenario

TEXT = """
[topology]
nodes = 8
[workload]
operations = 6
subscriptions = 3
[run]
repeats = 2
[sweep]
protocol.name = ["trees", "covering"]
network = [{ delay = "unit" }, { delay = "exponential" }]
"""


def test_the_figures_are_the_same(spark):
    runs = parse_scenario(TEXT).runs()
    there = {key_of(outcome.run): outcome.metrics for outcome in execute_on_spark(spark, runs)}
    here = {key_of(outcome.run): outcome.metrics for outcome in execute_runs(runs, workers=1)}
    assert there == here
    assert list(execute_on_spark(spark, [])) == []


def test_an_error_on_an_executor_reaches_the_person(spark):
    runs = parse_scenario('[topology]\nkind = "ring"\nnodes = 2\n').runs()
    with pytest.raises(RecadoError, match="a ring has at least 3 nodes, not 2"):
        list(execute_on_spark(spark, runs))


def test_the_command_runs_there_too(spark, tmp_path, capsys):
    path = tmp_path / "scenario.toml"
    path.write_text(TEXT)
    assert main(["sim", "run", str(path), "--out", str(tmp_path / "here"), "--workers", "1"]) == 0
    assert main(["sim", "run", str(path), "--out", str(tmp_path / "there"), "--master", "local[2]"]) == 0
    capsys.readouterr()

    def figures(folder):
        rows = read_results(tmp_path / folder)
        return [{name: value for name, value in row.items() if not name.startswith("meta.")} for row in rows]

    assert figures("here") == figures("there")
