"""The commands of docs/experiments.md run as they stand there, on the files that it shows."""

import re
import shlex
from pathlib import Path

import pytest

from recado.cli.app import main
from recado.sim.runs.run import execute_run
from recado.sim.runs.scenario import PARTS, Setting, parse_scenario

PAGE = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```toml (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_run(folder, capsys):
    here = [command for command in COMMANDS if not any(word.startswith("examples/") for word in command)]
    typed = [command for command in here if command[0] == "sim"]
    assert len(typed) == 10
    for command in typed:
        assert main(command) == 0, command
        shown = capsys.readouterr().out
        if "--dry-run" in command:
            assert len(shown.splitlines()) == 35
    assert (folder / "time.png").exists()
    assert (folder / "net.html").read_text() == (folder / "net-recorded.html").read_text()
    assert (folder / "tree.svg").read_text().startswith("<svg")
    assert (folder / "results" / "subscribe-messages-over-topology-nodes.svg").exists()


def test_the_error_is_the_one_that_is_shown(folder, capsys):
    text = FILES["subscribing.toml"].replace("mean = 2.0", "mean = 2.0, loss = 7.0")
    (folder / "subscribing.toml").write_text(text)
    assert main(["sim", "run", "subscribing.toml"]) == 2
    shown = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().err == shown[1]


def test_every_name_and_metric_is_on_the_page():
    for part in PARTS:
        for name in getattr(Setting(), part).__struct_fields__:
            assert f"`{name}`" in PAGE or f"`{name} =" in PAGE, f"{part}.{name}"
    found = execute_run(parse_scenario(FILES["net.toml"]).runs()[0]).metrics
    for metric in found:
        name, dot, last = metric.rpartition(".")
        known = f"`{metric}`" in PAGE or (dot and f".{last}`" in PAGE and name in PAGE)
        assert known or metric in ("nodes", "edges"), metric
