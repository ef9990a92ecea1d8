"""Every ``console`` block in the README and the docs that calls ``recado`` is typed in and compared with what it shows.

Left out are measurements: blocks that call ``python -m benchmarks`` or another program.

A block ``ndjson NAME`` is a file that the commands below it may read, and an example that a block ``sh`` calls writes
such files. Rates differ from run to run, so a number before ``events/s`` stands for any number, and ``…`` for anything;
what a progress bar or a summary says on stderr is shown after the output.
"""

import re
import runpy
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(console|ndjson|sh)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
RECADO = re.compile(r"\$ recado ")
EXAMPLE = re.compile(r"^python (examples/\S+\.py) (.*)$", re.MULTILINE)
RATE = re.compile(r"[\d,]+(?=  ?events/s)")


def commands(block):
    """Each command of a block with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command), shown.strip()


def typed_blocks(page):
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [b for b in found if b[1] == "ndjson" or RECADO.match(b[3]) or (b[1] == "sh" and EXAMPLE.search(b[3]))]


def run_examples(block, monkeypatch):
    for path, arguments in EXAMPLE.findall(block):
        monkeypatch.setattr(sys, "argv", [path, *shlex.split(arguments)])
        with redirect_stdout(StringIO()):
            runpy.run_path(str(ROOT / path), run_name="__main__")


def pattern(shown):
    return re.compile(".*?".join(re.escape(part) for part in RATE.sub("N", shown).split("…")))


def output(run):
    text = "\n".join(line.rstrip() for line in (run.out + run.err).splitlines())
    return RATE.sub("N", text.strip())


def test_there_are_transcripts():
    assert sum(len(typed_blocks(page)) for page in PAGES) > 5


@pytest.mark.parametrize("page", [page for page in PAGES if typed_blocks(page)], ids=lambda page: page.name)
def test_what_the_page_shows_is_what_happens(page, recado, tmp_path, monkeypatch, request):
    if any("$ recado pipeline" in block[3] for block in typed_blocks(page)):
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    for kind, name, body in (found.groups() for found in typed_blocks(page)):
        if kind == "ndjson":
            Path(name).write_text(body, encoding="utf-8")
            continue
        if kind == "sh":
            run_examples(body, monkeypatch)
            continue
        for (program, *arguments), shown in commands(body):
            assert program == "recado"
            written = output(recado(*arguments, terminal=True))
            assert pattern(shown).fullmatch(written), f"{shlex.join(arguments)} wrote\n{written}"
