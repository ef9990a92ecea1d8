"""What a verb writes: tables for people on a terminal, NDJSON for programs; problems and progress on stderr.

``rich`` respects ``NO_COLOR`` and the terminal's width by itself, and is imported only when something is drawn.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

_encode = msgspec.json.Encoder().encode


def for_people(json: bool = False) -> bool:
    """Should stdout get tables? Not with ``--json`` and not in a pipe."""
    return not json and sys.stdout.isatty()


def console(stderr: bool = False) -> Console:
    """A console on today's stdout or stderr; nothing in a text is taken as markup or highlighted."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def write_json(record: Any) -> None:
    """One JSON object, on a line of its own."""
    sys.stdout.buffer.write(_encode(record) + b"\n")


def write_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def complain(text: str) -> None:
    """One message to the person, on stderr."""
    sys.stderr.write(text + "\n")


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """``1 match``, ``2 matches``: a number with its noun."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def span(first: int, end: int) -> str:
    """``position 60``, ``positions 60 to 64``: the range ``[first, end)`` of a log."""
    return f"position {first:,}" if end == first + 1 else f"positions {first:,} to {end - 1:,}"
