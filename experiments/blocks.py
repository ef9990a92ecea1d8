"""A page as a list of blocks, and the two ways in which it is written.

Text may hold ``code`` in backticks, and nothing else that is marked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

import msgspec


class Heading(msgspec.Struct, frozen=True):
    text: str
    level: int = 2


class Text(msgspec.Struct, frozen=True):
    text: str


class Code(msgspec.Struct, frozen=True):
    text: str


class Table(msgspec.Struct, frozen=True):
    """``numbers`` are the columns that stand to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()


class Image(msgspec.Struct, frozen=True):
    path: str
    caption: str


Block: TypeAlias = Heading | Text | Code | Table | Image

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #e5e5e5; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #bbb; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.holds { color: #22663b; font-weight: 600; } td.differs { color: #a6322f; font-weight: 600; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; } figcaption { color: #555; font-size: .9rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; background: #f5f5f5; }
pre { padding: .6rem .8rem; overflow-x: auto; }
"""
_CODE = re.compile(r"`([^`]+)`")


def to_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Code(text):
            return f"```\n{text}\n```"
        case Image(path, caption):
            return f"![{caption}]({path})\n\n*{caption}*"
        case Table(heads, rows, numbers):
            marks = tuple("---:" if place in numbers else "---" for place in range(len(heads)))
            return "\n".join("| " + " | ".join(_bar(cell) for cell in row) + " |" for row in (heads, marks, *rows))


def _bar(cell: str) -> str:
    return cell.replace("|", "\\|")


def to_html(blocks: Sequence[Block], title: str) -> str:
    """A page that needs nothing but its pictures."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>\n{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{_body(blocks)}\n</body>\n</html>\n'


def _body(blocks: Sequence[Block]) -> str:
    return "\n".join(map(_html, blocks))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Image(path, caption):
            source, words = escape(path), escape(caption)
            return f'<figure><img src="{source}" alt="{words}"><figcaption>{words}</figcaption></figure>'
        case Table(heads, rows, numbers):
            lines = [_html_row(heads, numbers, "th"), *(_html_row(row, numbers, "td") for row in rows)]
            return "<table>\n" + "\n".join(lines) + "\n</table>"


def _html_row(cells: Sequence[str], numbers: Sequence[int], tag: str) -> str:
    return "<tr>" + "".join(_html_cell(cell, place in numbers, tag) for place, cell in enumerate(cells)) + "</tr>"


def _html_cell(cell: str, number: bool, tag: str) -> str:
    """A verdict gets its colour."""
    kind = "n" if number else cell if cell in ("holds", "differs") else ""
    mark = f' class="{kind}"' if kind else ""
    return f"<{tag}{mark}>{_inline(cell)}</{tag}>"


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
