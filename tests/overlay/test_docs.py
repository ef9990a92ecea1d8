"""docs/overlay.md: every session on it is typed in, and its tables are compared with the code.

In a ``shell-session`` block ``…`` stands for anything, and a command that ends in ``&`` goes on to run. Files are
``toml NAME`` and ``ndjson NAME`` blocks. Ports of four digits are exchanged for free ones; those of five digits were
chosen by the system, and stand for any.
"""

import io
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from recado.cli.app import main
from recado.overlay.addresses import running_nodes
from recado.overlay.client import ask
from recado.overlay.limits import OVERLAY_LIMITS

PAGE = Path(__file__).parents[2] / "docs" / "overlay.md"
BLOCK = re.compile(r"^```(shell-session|toml|ndjson)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"\b77\d\d\b")
CHOSEN = re.compile(r"(?<=127\.0\.0\.1:)\d{5}(?=  )")
RECADO = str(Path(sys.executable).parent / "recado")


class Session:
    """Types commands, in this process or in one of its own."""

    def __init__(self, tmp_path, monkeypatch, capsys):
        self.folder, self.capsys, self.processes, self.ports = tmp_path, capsys, [], {}
        for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        self.monkeypatch = monkeypatch

    def port(self, found):
        if found[0] not in self.ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports[found[0]] = str(free.getsockname()[1])
        return self.ports[found[0]]

    def type(self, command, shown):
        words = shlex.split(PORT.sub(self.port, command))
        if words[-1] == "&":
            self.begin(words[1:-1], shown)
            return
        self.monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        main(words[1:])
        written = self.capsys.readouterr()
        self.compare(command, shown, written.err + written.out)
        if words[1:3] == ["node", "subscribe"]:
            self.wait_for_publisher(words[words.index("--id") + 1])

    def wait_for_publisher(self, subscription):
        """A reader types more slowly than a message goes to Carla; what she publishes before reaches nobody."""
        end = time.monotonic() + 150
        shown = ""
        while subscription not in shown:
            assert time.monotonic() < end, shown
            main(["node", "show", "--node", "carla"])
            shown = self.capsys.readouterr().out

    def begin(self, words, shown):
        log = self.folder / f"{len(self.processes)}.log"
        with log.open("w") as file:
            self.processes.append(subprocess.Popen([RECADO, *words], stderr=file))
        lines = len(shown.splitlines())
        end = time.monotonic() + 90
        while len(log.read_text().splitlines()) < lines and time.monotonic() < end:
            time.sleep(0.02)
        self.compare(words, shown, "\n".join(log.read_text().splitlines()[:lines]))

    def compare(self, command, shown, written):
        text = "\n".join(line.rstrip() for line in written.strip().splitlines())
        expected = ".*?".join(re.escape(part) for part in CHOSEN.sub("…", PORT.sub(self.port, shown)).split("…"))
        assert re.fullmatch(expected, text, re.DOTALL), f"{command} wrote\n{text}"

    def end(self):
        for path in running_nodes():
            ask(path, "stop")
        for process in self.processes:
            process.wait(20)


def test_what_the_page_shows_is_what_happens(tmp_path, monkeypatch, capsys):
    session = Session(tmp_path, monkeypatch, capsys)
    try:
        for kind, name, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if kind != "shell-session":
                Path(name).write_text(body, encoding="utf-8")
                continue
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                session.type(command, shown.strip())
        assert [process.wait(20) for process in session.processes] == [0, 0, 0]
    finally:
        session.end()


def test_the_table_of_limits_is_true():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,.]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(name, float(value.replace(",", ""))) for name, value in rows] == list(
        msgspec.structs.asdict(OVERLAY_LIMITS).items()
    )
