"""``python -m benchmarks pipeline`` as a person or a program calls it; the measuring is replaced by made-up records."""

import json

import pytest

from benchmarks.cli import main
from benchmarks.oracle import DisagreementError
from benchmarks.pipeline import run
from benchmarks.pipeline.plan import PARTS
from benchmarks.records import Machine, Target

RECORDS = [
    Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"pyspark": "4.3"}),
    Target("speed", "at least 100 x", "500 x", True),
]


@pytest.fixture
def plans(monkeypatch):
    """What would have been run, call by call."""
    calls = []

    def run_plan(plan, announce):
        calls.append(plan)
        announce("working")
        yield from RECORDS

    monkeypatch.setattr(run, "run_plan", run_plan)
    return calls


def test_in_a_pipe_it_writes_ndjson(plans, capfdbinary):
    assert main(["pipeline", "--quick"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["record"] for line in lines] == ["machine", "target"]
    assert max(plans[0].growth_sizes) < 1_000_000


def test_on_a_terminal_it_draws_tables(plans, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.cli.for_people", lambda json: not json)
    assert main(["pipeline"]) == 0
    out = capsys.readouterr().out
    assert "A processor, 2 cores, 8 GB" in out
    assert "at least 100 x" in out
    assert plans[0].growth_sizes[-1] == 1_000_000
    assert plans[0].parts == PARTS


def test_parts_can_be_chosen(plans, capfdbinary):
    assert main(["pipeline", "--part", "kernel", "state", "--json"]) == 0
    assert plans[0].parts == ("kernel", "state")


def test_an_unknown_part_is_bad_usage(plans, capsys):
    assert main(["pipeline", "--part", "nonsense"]) == 2
    assert not plans


def test_it_writes_a_page(plans, tmp_path, capfdbinary):
    page = tmp_path / "page.md"
    assert main(["pipeline", "--quick", "--part", "state", "--markdown", str(page)]) == 0
    assert "```\npython -m benchmarks pipeline --quick --part state\n```" in page.read_text()


def test_a_disagreement_ends_the_run(monkeypatch, capsys):
    def run_plan(plan, announce):
        raise DisagreementError("mix on Spark: not all sides give the same pairs")

    monkeypatch.setattr(run, "run_plan", run_plan)
    assert main(["pipeline"]) == 1
    assert capsys.readouterr().err == "recado: mix on Spark: not all sides give the same pairs\n"
