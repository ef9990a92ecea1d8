"""The tutorial of the service, typed in from top to bottom, against a service that runs."""

import re
from pathlib import Path

from cli.test_transcripts import commands, output, pattern
from client.service import Background

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-service.md"
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
                for (program, *arguments), shown in commands(body):
                    assert program == "recado"
                    written = output(recado(*arguments, terminal="--json" not in arguments))
                    assert pattern(shown).fullmatch(written), f"{arguments} wrote\n{written}"
                    typed += 1
    assert typed > 20
