"""The repository keeps its own rules: pinned installs, true tables, links that lead somewhere."""

import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from recado import __version__
from recado.model.limits import LIMITS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def requirement_names(requirements):
    return {re.split(r"[<>=!\[ ;]", text)[0].lower() for text in requirements}


def test_every_dependency_is_pinned():
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = requirement_names([*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)])
    wanted.remove("recado")  # one extra may contain another
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert all("==" in pin for pin in pins)
    assert wanted <= requirement_names(pins)


def test_the_pins_name_no_host():
    assert not re.search(r"://|--index|--find-links", (ROOT / "constraints.txt").read_text())


def test_ci_runs_the_test_command():
    script = ROOT / ".ci" / "run"
    assert "make test" in script.read_text()
    assert os.access(script, os.X_OK)


def test_the_version_is_in_one_place():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_table_of_limits_is_true():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", (ROOT / "docs" / "limits.md").read_text(), re.MULTILINE)
    assert [(name, int(value.replace(",", ""))) for name, value in rows] == list(msgspec.structs.asdict(LIMITS).items())


def test_every_promise_names_tests_that_exist():
    rows = [line for line in (ROOT / "docs" / "promises.md").read_text().splitlines() if line.startswith("| **")]
    assert len(rows) > 8
    for row in rows:
        places = re.findall(r"`(tests/[\w/.]+)`", row)
        assert places or "pyproject.toml" in row
        assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_room_has_a_layer():
    rooms = {path.name for path in (ROOT / "src" / "recado").iterdir() if (path / "__init__.py").exists()}
    listed = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    layers = {room.strip(" ()") for layer in listed for room in layer.split("|")}
    assert rooms <= layers
