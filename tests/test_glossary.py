"""One idea, one word: what docs/glossary.md names exists, and words that were replaced are not used as terms."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "glossary.md"
RENAMES = ROOT / "docs" / "decisions" / "house.md"
"""Tells which name was replaced by which, so it has the old ones."""

DOCS = ("docs/*.md", "docs/decisions/*.md", "README.md", "CONTRIBUTING.md")
ROOMS = ("broker", "client", "net", "protocols/session", "server", "sim/mobility", "store")
"""Where the words of the broker and of what is around it are at home; elsewhere a box is a shape, or one of a table."""

A = r"(?:a|an|the|each|every|one|its|their|his|her|this|that|of|no)"
REPLACED = {
    "broker": r"desks?|boxes of the desk",
    "subscription": rf"standings|{A} standing(?= (?:is|has|was|of|that|which|with)\b|[.,;:)])|{A} held(?=[.,;:)])",
    "notification": rf"{A} note|{A} mail|user's mail|notes (?:of|that|in|wait)",
    "mailbox": r"box|boxes",
    "cursor": rf"{A} feed|feeds",
    "consumer": r"legs?",
    "log committer": r"intake",
    "state writer": r"keepers?",
    "maintenance": r"upkeep",
    "listener": r"doors|ears?",
    "connection": rf"{A} lines? (?:of a client|to the service|that loses)",
}
"""By the word to use: patterns of what was used before. They are looked for in prose, outside of code."""
NAMES = {
    "desk": "broker",
    "standing": "subscription",
    "standings": "subscriptions",
    "mail": "notification",
    "box": "mailbox",
    "boxes": "mailboxes",
    "feed": "cursor",
    "feeds": "cursors",
    "leg": "consumer",
    "legs": "consumers",
    "intake": "log committer",
    "keeper": "state writer",
    "upkeep": "maintenance",
    "doors": "gateway",
    "ears": "listener",
}
"""Parts of names in code, and the word to use."""
CLASSES = NAMES | {"held": "subscription", "note": "notification", "wanted": "request", "own": "subscription"}
"""The same of the names of classes; functions may note something, and hold it."""
KEPT = {"leg_ttl_seconds", "box", "boxes", "feed", "upkeep", "FORGET_MAIL"}
"""Names that stay: a setting, an argument of tables on a terminal, a decoder's verb, columns and tables of files."""


def prose_of(text: str) -> str:
    """A page without its code: blocks, spans, and targets of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)


def used_words(prose: str) -> list[tuple[str, str]]:
    """What was found, and the word to use instead."""
    return [
        (found[0], word)
        for word, pattern in REPLACED.items()
        for found in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE)
    ]


def used_names(source: str) -> Iterator[tuple[str, str]]:
    """Names, and words in comments and docstrings; other texts may be anything, such as SQL."""
    before = tokenize.NEWLINE, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in KEPT:
            words = CLASSES if before[1] == "class" else NAMES
            for part in re.findall(r"[A-Z]?[a-z]+", token.string):
                if part.lower() in words:
                    yield token.string, words[part.lower()]
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and before[0] in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        ):
            yield from used_words(re.sub(r"``[^`]*``", "", token.string))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type, token.string


def checked() -> list[Path]:
    code = {path for room in ROOMS for path in (ROOT / "src" / "recado" / room).rglob("*.py")}
    return sorted({path for pattern in DOCS for path in ROOT.glob(pattern)} - {PAGE, RENAMES} | code)


@pytest.mark.parametrize("path", checked(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_replaced_words_are_not_used(path):
    text = path.read_text(encoding="utf-8")
    found = list(used_names(text)) if path.suffix == ".py" else used_words(prose_of(text))
    assert not found, f"{path.name}: {found}; docs/glossary.md has the words"


def test_replaced_words_are_found():
    assert used_words("the desk gives each leg what is in its box") == [
        ("desk", "broker"),
        ("box", "mailbox"),
        ("leg", "consumer"),
    ]
    assert used_words("a standing interest; legacy; a mailbox; a note that says so") == [("a note", "notification")]
    assert list(used_names('class Held:\n    """The ears."""\n    leg_count = "a desk"  # of the desk\n')) == [
        ("Held", "subscription"),
        ("ears", "listener"),
        ("leg_count", "consumer"),
        ("desk", "broker"),
    ]


def test_the_glossary_is_in_order_of_the_code():
    rows = [
        line.strip("|").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    words = [row[0].strip() for row in rows if row[0].strip() != "word"]
    assert len(words) > 60
    assert len(set(words)) == len(words)
    for row in rows:
        for path in re.findall(r"`(src/[^`]+)`", row[-1]):
            assert (ROOT / path).exists(), path
