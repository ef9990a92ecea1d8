"""``python -m benchmarks matching`` as a person or a program calls it; the measuring is replaced by made-up records."""

import json
import subprocess
import sys

import pytest

from benchmarks import runner
from benchmarks.cli import main
from benchmarks.oracle import DisagreementError
from benchmarks.records import Machine, Target

RECORDS = [
    Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"numpy": "2.4"}),
    Target("speed", "at least 4 x", "5 x", True),
]


@pytest.fixture
def plans(monkeypatch):
    """What would have been run, call by call."""
    calls = []

    def run_plan(cases, settings, announce):
        calls.append((cases, settings))
        for case in cases:
            announce(case)
        yield from RECORDS

    monkeypatch.setattr(runner, "run_plan", run_plan)
    return calls


def test_in_a_pipe_it_writes_ndjson(plans, capfdbinary):
    assert main(["matching", "--quick"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["record"] for line in lines] == ["machine", "target"]
    assert plans[0][1].seconds < 1


def test_on_a_terminal_it_draws_tables(plans, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.cli.for_people", lambda json: not json)
    assert main(["matching"]) == 0
    out = capsys.readouterr().out
    assert "A processor" in out
    assert "at least 4 x" in out
    assert plans[0][1].seconds > 1


def test_workloads_can_be_chosen(plans, capfdbinary):
    assert main(["matching", "--workload", "mix", "growth", "--json"]) == 0
    assert {case.name for case in plans[0][0]} == {"mix", "growth"}


def test_an_unknown_workload_is_bad_usage(plans, capsys):
    assert main(["matching", "--workload", "nonsense"]) == 2
    assert not plans


def test_it_writes_a_page(plans, tmp_path, capfdbinary):
    page = tmp_path / "page.md"
    assert main(["matching", "--quick", "--workload", "mix", "--markdown", str(page)]) == 0
    assert page.read_text().startswith("```\npython -m benchmarks matching --quick --workload mix\n```")


def test_peers_are_installed_only_when_asked(plans, monkeypatch, capfdbinary):
    monkeypatch.setattr(runner, "install_peers", lambda: "installed polars")
    assert main(["matching", "--peers"]) == 0
    assert capfdbinary.readouterr().err == b"installed polars\n"


def test_a_disagreement_ends_the_run(monkeypatch, capsys):
    def run_plan(cases, settings, announce):
        raise DisagreementError("mix: batch disagrees")

    monkeypatch.setattr(runner, "run_plan", run_plan)
    assert main(["matching"]) == 1
    assert capsys.readouterr().err == "recado: mix: batch disagrees\n"


def test_help_imports_no_engine():
    code = "import sys; from benchmarks.cli import main; main(['--help']); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
