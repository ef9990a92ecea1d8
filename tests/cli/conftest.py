import io
import json
import sys

import pytest

from recado.cli.app import main


class Run:
    """What a command left behind."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def records(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def recado(capsys, monkeypatch):
    """Run ``recado`` in this process; with ``terminal`` stdout claims to be one, with ``progress`` stderr does."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("recado.cli.pipeline.spark._LOG_SECONDS", 3600.0)  # however busy the machine is

    def run(*arguments, stdin="", terminal=False, progress=False):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: progress)
        code = main(arguments)
        return Run(code, *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path):
    """Write a file of lines; its path."""

    def write_file(name, *lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    return write_file
