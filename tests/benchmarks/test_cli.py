"""``python -m benchmarks`` as a person or a program calls it; the measuring is replaced by made-up records."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks import baselines, cli
from benchmarks.cli import SUBJECTS, load, main
from benchmarks.harness import Case, DisagreementError, Machine, Rate, Record, Step, Subject, Target, at_least, table


class Speed(Record, frozen=True, tag="a speed"):
    what: str
    rate: Rate


def _plan(quick, parts):
    def run(folder):
        assert folder.is_dir()
        yield Step("in the middle")
        yield Speed("here", Rate(2.0 if quick else 200.0, 1.0))

    return [Case("walk", "walking, slowly", run), Case("run", "running", run)]


def _target(records):
    rates = [record.rate.best for record in records if isinstance(record, Speed)]
    yield at_least("speed", max(rates, default=None), 100, "events/s")


TOY = Subject(
    name="toy",
    title="A toy, measured",
    parts=("walk", "run"),
    plan=_plan,
    tables=(table("Speeds", Speed, {"what": lambda r: r.what, "events/s": lambda r: r.rate}),),
    targets=(_target,),
    packages=("msgspec",),
)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setattr(cli, "load", lambda name: TOY)


def _run(*arguments):
    return main(["run", "sim", *arguments])


@pytest.mark.parametrize("form", [["run", "sim"], ["sim"]])
def test_in_a_pipe_it_writes_ndjson(form, capfdbinary):
    assert main([*form, "--quick"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["record"] for line in lines] == ["machine", "a speed", "a speed", "target"]
    assert lines[-1]["met"] is False


def test_on_a_terminal_it_draws_tables(capsys, monkeypatch):
    monkeypatch.setattr(cli, "for_people", lambda json: not json)
    assert _run() == 0
    out = capsys.readouterr().out
    assert "cores (one used)" in out
    assert "at least 100 events/s" in out
    assert "200 events/s" in out


@pytest.mark.parametrize("option", ["--part", "--workload"])
def test_parts_can_be_chosen(option, capfdbinary):
    assert _run(option, "run", "--json") == 0
    assert capfdbinary.readouterr().out.count(b'"a speed"') == 1


def test_cases_can_be_chosen_by_title(capfdbinary):
    assert _run("--case", "slowly") == 0
    assert capfdbinary.readouterr().out.count(b'"a speed"') == 1
    assert _run("--case", "flying") == 2


def test_an_unknown_part_is_bad_usage(capsys):
    assert _run("--part", "fly") == 2
    assert capsys.readouterr().err == "recado: sim has no part 'fly'; it has walk, run\n"


def test_an_unknown_subject_is_bad_usage(capsys):
    assert main(["run", "nonsense"]) == 2


def test_it_writes_a_page(tmp_path, capfdbinary):
    page = tmp_path / "page.md"
    assert _run("--quick", "--part", "run", "--markdown", str(page)) == 0
    text = page.read_text()
    assert text.startswith("# A toy, measured\n\n```\npython -m benchmarks run sim --quick --part run\n```\n\n")
    assert "### Speeds\n\n| what | events/s |\n| --- | ---: |\n| here | 2 |" in text
    assert "| speed | at least 100 events/s | 2 events/s | no |" in text


def test_peers_are_installed_only_when_asked(monkeypatch, capfdbinary):
    monkeypatch.setattr(baselines, "install_missing", lambda: "installed polars")
    assert _run("--peers") == 0
    assert capfdbinary.readouterr().err == b"installed polars\n"


def test_a_disagreement_ends_the_run(monkeypatch, capsys):
    def wrong(folder):
        raise DisagreementError("mix: batch disagrees")

    broken = replace(TOY, plan=lambda quick, parts: [Case("run", "wrong", wrong)])
    monkeypatch.setattr(cli, "load", lambda name: broken)
    assert _run() == 1
    assert capsys.readouterr().err == "recado: mix: batch disagrees\n"


def test_help_imports_no_engine():
    code = "import sys; from benchmarks.cli import main; main(['--help']); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_has_cases_for_all_its_parts(name):
    subject = load(name)
    assert subject.name == name
    for quick in (False, True):
        cases = subject.select(quick)
        assert len({case.title for case in cases}) == len(cases)
        assert {case.part for case in cases} - {""} in ({*subject.parts}, set())
        for part in (*subject.parts, *subject.extra_parts):
            assert subject.select(quick, (part,))


def test_the_list_names_every_subject_and_part(monkeypatch, capsys):
    monkeypatch.setattr(cli, "load", load)
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == list(SUBJECTS)
    assert "only when named: ways, partitions" in out


def test_records_know_what_they_are():
    assert Target("t", "1", "2", True).sentence == ""
    assert Machine("c", 1, 1.0, "s", "p", {}).sentence == ""
