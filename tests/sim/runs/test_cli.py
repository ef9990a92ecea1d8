"""``recado sim`` as a person types it."""

import json
import sys

import pytest

from recado.cli.app import main

TEXT = """
name = "little"
[topology]
nodes = 6
[workload]
operations = 4
subscriptions = 2
[run]
repeats = 2
[sweep]
topology.kind = ["line", "ring"]
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "little.toml"
    path.write_text(TEXT)
    return str(path)


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_dry_run_lists_what_differs(scenario, capsys):
    assert main(["sim", "run", scenario, "--dry-run"]) == 0
    found = lines(capsys)
    assert [(each["pick"], each["run"], each["topology.kind"]) for each in found] == [
        (0, 0, "line"), (1, 0, "ring"), (2, 1, "line"), (3, 1, "ring"),
    ]  # fmt: skip
    assert set(found[0]) == {"pick", "configuration", "run", "seed", "topology.kind"}


def test_a_dry_run_for_people(scenario, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sim", "run", scenario, "--dry-run"]) == 0
    assert "topology.kind" in capsys.readouterr().out


def test_run_then_run_again_then_plot(scenario, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["sim", "run", scenario, "--out", out, "--workers", "1"]) == 0
    *runs, last = lines(capsys)
    assert len(runs) == 4
    assert runs[0]["metrics"]["subscribe.messages"] == 10
    assert last["summary"] == {"scenario": "little", "runs": 4, "new": 4, "results": out}
    assert main(["sim", "run", scenario, "--out", out]) == 0
    assert lines(capsys)[-1]["summary"]["new"] == 0
    assert main(["sim", "plot", out, "--x", "topology.kind", "--y", "messages"]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "runs.ndjson", "results.parquet", "results.csv", "messages-over-topology-kind.svg",
        "messages-over-topology-kind.png",
    }  # fmt: skip


def test_for_people_there_is_a_sentence(scenario, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sim", "run", scenario, "--out", str(tmp_path / "o"), "--workers", "1", "--pick", "1"]) == 0
    assert "1 run, 1 of them new; results in" in capsys.readouterr().out


def test_progress_is_for_terminals(scenario, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["sim", "run", scenario, "--out", str(tmp_path / "p"), "--workers", "1"]) == 0
    assert "events/s" in capsys.readouterr().err


def test_traces(capsys, tmp_path):
    path = tmp_path / "net.toml"
    path.write_text('[topology]\nkind = "NET-13"\n[workload]\nfilters = "any"\noperations = 1\n')
    assert main(["sim", "run", str(path), "--trace-node", "K"]) == 0
    assert " K: started" in capsys.readouterr().out
    assert main(["sim", "run", str(path), "--trace-event", "e11"]) == 0
    assert "was asked for Publish" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pick", "9"], "--pick 9: the runs are numbered 0 to 3"),
        (["--trace-node", "77"], "there is no node '77'; nodes are 0 to 5"),
    ],
)
def test_bad_usage(scenario, capsys, arguments, message):
    assert main(["sim", "run", scenario, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_bad_scenario(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text("[network]\nloss = 7.0\n")
    assert main(["sim", "run", str(path)]) == 2
    assert f"recado: {path}: Expected `float` <= 1.0 - at `$.network.loss`" in capsys.readouterr().err


def test_a_dry_run_refuses_an_unknown_protocol_and_lists_the_known_ones(tmp_path, capsys):
    path = tmp_path / "gossip.toml"
    path.write_text('protocol = "gossip"\n')
    assert main(["sim", "run", str(path), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert f"{path}: there is no protocol 'gossip'; there are trees, flooding" in told
    assert "your own as module:Class - at `$.protocol.name`" in told


def test_a_run_is_recorded_and_drawn(scenario, tmp_path, capsys):
    recorded, page = tmp_path / "run.ndjson", tmp_path / "deep" / "run.html"
    assert main(["sim", "run", scenario, "--pick", "1", "--record", str(recorded)]) == 0
    assert main(["sim", "draw", str(recorded), "--out", str(page)]) == 0
    assert main(["sim", "draw", scenario, "--pick", "1"]) == 0
    assert page.read_text() == (tmp_path / "little.html").read_text()
    picture = tmp_path / "moment.svg"
    assert main(["sim", "draw", str(recorded), "--picture", "end", str(picture), "--subscription", "s1"]) == 0
    assert picture.read_text().startswith("<svg")
    assert capsys.readouterr().err.count("wrote ") == 4


def test_a_recording_that_is_thinned_says_so(scenario, tmp_path, capsys):
    assert main(["sim", "run", scenario, "--record", str(tmp_path / "r.ndjson"), "--record-limit", "5"]) == 0
    assert "transmissions was kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["--pick", "9"], "the runs are numbered 0 to 3"),
        (["--publication", "e1"], "are for a --picture"),
        (["--picture", "soon", "x.svg"], "'soon' is no time of this run"),
        (["--picture", "end", "x.svg", "--publication", "e99"], "no publication 'e99'"),
    ],
)
def test_what_cannot_be_drawn(scenario, typed, says, capsys):
    assert main(["sim", "draw", scenario, *typed]) == 2
    assert says in capsys.readouterr().err
