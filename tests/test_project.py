"""The repository keeps its own rules: pinned installs, true tables, links that lead somewhere."""

import json
import os
import re
import subprocess
import sys
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
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith(" ")]
    assert all("==" in pin and pin.endswith("\\") for pin in pins), "each with a version, and a hash below it"
    hashes = [line for line in lines if line.startswith(" ")]
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
    assert wanted <= requirement_names(pins)
    build = requirement_names(PROJECT["build-system"]["requires"])
    assert build <= requirement_names(PROJECT["project"]["optional-dependencies"]["build"]), (
        "so it is pinned with the rest"
    )
    for file in ("Makefile", "deploy/Dockerfile", "deploy/Dockerfile.spark"):
        text = (ROOT / file).read_text()
        assert "--constraint constraints.txt --build-constraints constraints.txt" in text, (
            "nor is it built by anything else"
        )
        assert "--require-hashes" in text, "and what compares the hashes is compared itself"


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
def test_every_test_that_a_page_names_exists(page):
    """An attack whose test is gone would still be promised to fail."""
    places = re.findall(r"`(tests/[\w/.]+)`", page.read_text(encoding="utf-8"))
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_what_is_promised_about_attacks_names_its_test():
    tables = (ROOT / "docs" / "security.md").read_text().split("| against | promise | test |")[1:]
    rows = [row for table in tables for row in table.split("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 10
    assert [row for row in rows if not re.search(r"`tests/[\w/.]+`|the same", row)] == []


def audited(folder, *packages):
    """What the script makes of a report of pip-audit."""
    (folder / "audit.json").write_text(json.dumps({"dependencies": packages}))
    command = [sys.executable, str(ROOT / ".ci" / "count-audited"), str(folder / "audit.json")]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_an_audit_that_looked_nothing_up_says_so(tmp_path):
    good = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}]}
    unknown = {"name": "c", "skip_reason": "not found"}
    done = audited(tmp_path, good, bad, unknown)
    assert done.stdout == "2 of 3 packages were looked up, 1 vulnerabilities are known\n  b 2: CVE-1\n"
    assert done.stderr == ""
    assert "knows too little" in audited(tmp_path, good, unknown, unknown).stderr


def test_what_is_installed_and_known_against_it_is_one_command_each():
    """Their tools are installed when they are asked for, so here only what would be run is looked at."""
    for target, tool in (("sbom", "cyclonedx-py"), ("test-all-audit", "pip-audit")):
        shown = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert tool in shown.stdout
    assert {"cyclonedx-bom", "pip-audit"} <= requirement_names(PROJECT["project"]["optional-dependencies"]["audit"])
    assert "audit" in re.findall(r"^LONG\s*:= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()


def test_what_is_fuzzed_takes_its_seeds(monkeypatch):
    """Every target and what it imports is there, and what it begins with breaks nothing."""
    monkeypatch.syspath_prepend(str(ROOT / "fuzz"))
    import seeds
    import targets

    assert set(seeds.SEEDS) == set(targets.TARGETS)
    assert {"snapshot", "numbers", "set", "manifest", "arrays"} <= set(targets.TARGETS), "all that is read from files"
    for name, target in targets.TARGETS.items():
        given = list(seeds.SEEDS[name]())
        assert given, name
        for seed in given:
            target(seed)


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
