"""Every example in the documentation runs here, so that it cannot lie.

Four sorts of fenced blocks are read, in README.md and docs/**/*.md; all others are left alone.

- ``filter``: lines ``FILTER => EVENT => true|false``; the event is JSON, its id may be left out.
- ``filter-error``: a filter on the first line, the complete message below it.
- ``filter-same``: lines ``FILTER => EXPRESSION``; both read as the same tree.
- ``python`` blocks that hold ``>>>``: run as doctests, the blocks of one page in one namespace.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from recado.errors import FilterError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```([\w-]+)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(language):
    """The page, the number of the first line, and the text of every block in the language."""
    return [
        (page, text.count("\n", 0, found.start(2)) + 1, found[2])
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for found in BLOCK.finditer(text)
        if found[1] == language
    ]


def lines(language):
    return [
        pytest.param(line, id=f"{page.name}:{number}")
        for page, first, body in blocks(language)
        for number, line in enumerate(body.splitlines(), first)
        if line.strip()
    ]


def test_the_pages_are_found():
    assert "filter-language.md" in {page.name for page in PAGES}
    assert len(lines("filter")) > 50


@pytest.mark.parametrize("line", lines("filter"))
def test_filter_examples(line):
    text, event, expected = (part.strip() for part in line.rsplit(" => ", 2))
    assert expected in ("true", "false")
    assert matches(parse_filter(text), read_event(event, default_id="e-1")) is (expected == "true")


@pytest.mark.parametrize("line", lines("filter-same"))
def test_filters_that_are_the_same(line):
    text, expression = line.rsplit(" => ", 1)
    assert repr(parse_filter(text.strip())) == repr(parse_filter(expression.strip(), "expression"))


@pytest.mark.parametrize(
    "body", [pytest.param(body, id=f"{page.name}:{first}") for page, first, body in blocks("filter-error")]
)
def test_error_examples(body):
    text, message = body.split("\n", 1)
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert str(caught.value).splitlines() == message.rstrip().splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples(page, capsys):
    sessions = [body for found, _, body in blocks("python") if found == page and ">>>" in body]
    parsed = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(parsed)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
