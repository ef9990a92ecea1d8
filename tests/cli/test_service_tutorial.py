"""The tutorial of the service, typed in from top to bottom, and what the README shows, against a service that runs."""

import re
from pathlib import Path

from cli.test_transcripts import commands, output, pattern
from client.service import Background

README = Path(__file__).parents[2] / "README.md"
PAGE = README.parent / "docs" / "tutorial-service.md"
BLOCK = re.compile(
    r"^```(shell-session|ndjson|python|text)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)


def test_the_tutorial_is_true(recado, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    printed, typed = "", 0
    with Background(tmp_path / "data") as service:
        monkeypatch.setenv("RECADO_URL", service.url.replace("http://", "recado://ana@"))
        for kind, name, body in (found.groups() for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))):
            if kind == "ndjson":
                Path(name).write_text(body, encoding="utf-8")
            elif kind == "python":
                exec(compile(body, PAGE.name, "exec"), {"__name__": "tutorial"})
                printed = capsys.readouterr().out
            elif kind == "text":
                assert printed == body
            else:
                typed += type_in(body, recado)
    assert typed > 20


def type_in(body, recado):
    """The commands of a block, each with the output that the page shows; how many there are."""
    typed = list(commands(body))
    for (program, *arguments), shown in typed:
        assert program == "recado"
        written = output(recado(*arguments, terminal="--json" not in arguments))
        assert pattern(shown).fullmatch(written), f"{arguments} wrote\n{written}"
    return len(typed)


def test_the_readme_is_true(recado, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with Background(tmp_path / "data") as service:
        monkeypatch.setenv("RECADO_URL", service.url.replace("http://", "recado://ana@"))
        blocks = [
            found[3] for found in BLOCK.finditer(README.read_text(encoding="utf-8")) if found[1] == "shell-session"
        ]
        assert sum(type_in(body, recado) for body in blocks) == 4
