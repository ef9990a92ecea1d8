"""``python -m experiments`` on a terminal."""

import sys
from pathlib import Path

import pytest

from experiments.cli import _progress, _tell, main
from experiments.expected import Value, judge
from experiments.report import Written
from experiments.run import Progress


@pytest.fixture
def terminal(monkeypatch):
    """To be called in the test: capturing puts other streams in place after the fixtures."""

    def claim():
        monkeypatch.setenv("TERM", "xterm")
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)

    return claim


def written(measured):
    line = Value(id="E1", place="p", printed=True, what="w", published=26, measure="m")
    return Written((Path("report.md"),), (judge(line, {"m": measured}),))


def test_list(terminal, capsys):
    terminal()
    assert main(["list"]) == 0
    assert "trees  Subscription trees" in capsys.readouterr().out


def test_verdicts_and_where_the_report_is(terminal, capsys):
    terminal()
    assert _tell(written(26), json=False) == 0
    assert capsys.readouterr().out == "1 holds, 0 differs, 0 not measured\nwrote report.md\n"


def test_a_surprise_is_told_and_fails(terminal, capsys):
    terminal()
    assert _tell(written(27), json=False) == 1
    assert "E1 differs, otherwise than expected: 27" in capsys.readouterr().out


def test_progress_of_every_part(terminal, capsys):
    terminal()
    with _progress(quiet=False) as tell:
        tell(Progress("studies", 1, 2))
        tell(Progress("sweep", 1, 2, steps=100))
        tell(Progress("sweep", 2, 2, steps=200))
    shown = capsys.readouterr().err
    assert "studies" in shown
    assert "events/s" in shown


def test_an_unknown_experiment(capsys):
    assert main(["run", "tree"]) == 2
    assert "there is no experiment 'tree'; there are: trees" in capsys.readouterr().err
