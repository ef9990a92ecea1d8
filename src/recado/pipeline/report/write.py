"""A report as a folder.

    index.html      the page for people: one file, nothing loaded from elsewhere
    summary.json    the figures for programs
    tables/*.csv    every table, in UTF-8; a cell with a map or a list holds JSON
    pictures/*      every picture, as SVG and as PNG

What an earlier report left there is written over; other files are left alone. The page comes last, so a folder with a
new page is complete.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from recado.pipeline.errors import PipelineError
from recado.pipeline.report.figures import as_png, as_svg, draw
from recado.pipeline.report.page import page
from recado.pipeline.report.summary import Rows, Tables


def write_report(tables: Tables, summary: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Write everything; the summary with the paths of what was written, relative to the folder."""
    figures = draw(tables, summary)
    pictures = {name: as_svg(figure, name) for name, figure in figures.items()}
    files: dict[str, bytes] = {f"tables/{name}.csv": as_csv(rows) for name, rows in tables.items() if rows}
    for name, figure in figures.items():
        files[f"pictures/{name}.svg"] = _standalone(pictures[name])
        files[f"pictures/{name}.png"] = as_png(figure)
    whole = dict(summary) | {"files": sorted([*files, "index.html", "summary.json"])}
    files["summary.json"] = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    files["index.html"] = page(tables, summary, pictures).encode()
    _write(Path(folder), files)
    return whole


def as_csv(rows: Rows) -> bytes:
    """Rows with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    return (
        msgspec.json.encode(value).decode()
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str)
        else value
    )


def _standalone(svg: str) -> bytes:
    """An SVG file has no page to take its ink from."""
    declared = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (declared + svg.replace("<svg ", '<svg style="color:#223344;background:white" ', 1)).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise PipelineError(f"the report cannot be written to {folder}: {error.strerror}") from None
