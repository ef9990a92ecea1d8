"""The page of an experiment, from its results: verdicts first, then values, claims and figures.

Every number and every verdict is computed here; the texts of the document's claims, and the reasons for known
differences, come from ``expected.toml``. The same code and the same runs give the same page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from experiments.base import Experiment, Results
from experiments.blocks import Block, Code, Heading, Image, Table, Text, to_html, to_markdown
from experiments.expected import (
    AnyLine,
    Claim,
    Column,
    ExperimentError,
    Judged,
    Measured,
    Point,
    Value,
    condition,
    judge,
    show,
)
from recado.sim.runs.results import code_digest
from recado.version import __version__

MARKDOWN, HTML = "report.md", "report.html"


class Written(msgspec.Struct, frozen=True):
    """What a report came to."""

    paths: tuple[Path, ...]
    judged: tuple[Judged, ...]

    @property
    def surprises(self) -> list[Judged]:
        return [one for one in self.judged if one.surprising]


def write_report(experiment: Experiment, results: Results, folder: Path) -> Written:
    """Draw every figure, judge every line, and write the page in both forms."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = experiment.expected()
    measured = experiment.measure(results)
    judged = tuple(judge(line, measured, results.quick, expected.columns, experiment.full) for line in expected.lines)
    blocks = [
        Heading(experiment.title, 1),
        Text(experiment.introduction),
        Text(f"The document: {expected.document}. Sections, figures and tables are its own."),
        *_how(experiment, results),
        *_missing(experiment, results),
        *_summary(judged),
        *_values(judged),
        *_rows(judged, expected.columns),
        *_claims(judged, measured),
        *_tables(experiment, results),
        *_figures(experiment, results, folder),
    ]
    (folder / MARKDOWN).write_text(to_markdown(blocks), encoding="utf-8")
    (folder / HTML).write_text(to_html(blocks, experiment.title), encoding="utf-8")
    return Written((folder / MARKDOWN, folder / HTML), judged)


def _missing(experiment: Experiment, results: Results) -> list[Block]:
    done, planned = len(results.studies), len(experiment.studies)
    if done == planned:
        return []
    return [Text(f"This report was written after {done} of its {planned} studies; the others were still to be made.")]


def _how(experiment: Experiment, results: Results) -> list[Block]:
    made = f"Recado {__version__} (code {code_digest()}): "
    if results.rows:
        count = sum(map(len, results.rows.values()))
        steps = sum(int(row["steps"]) for rows in results.rows.values() for row in rows)
        made += f"{count:,} runs of {steps:,} events in all, "
    made += f"{len(results.studies)} studies."
    size = " --quick" if results.quick else f" --{experiment.size}" if experiment.size else ""
    return [Code(f"python -m experiments run {experiment.name}{size}"), Text(made)]


def _summary(judged: Sequence[Judged]) -> list[Block]:
    """How many lines of each sort hold; and all that came out otherwise than expected, if anything did."""
    sorts: tuple[tuple[str, type[AnyLine], bool], ...] = (
        ("printed values", Value, True),
        ("rows of printed tables", Point, True),
        ("derived values", Value, False),
        ("printed claims", Claim, True),
        ("derived claims", Claim, False),
    )
    rows = []
    for name, kind, printed in sorts:
        verdicts = [one.verdict for one in judged if isinstance(one.line, kind) and one.line.printed == printed]
        if verdicts:
            counts = [str(verdicts.count(verdict)) for verdict in ("holds", "differs", "not measured")]
            rows.append((name, *counts))
    blocks: list[Block] = [Heading("Verdicts"), Table(("", "holds", "differs", "not measured"), tuple(rows), (1, 2, 3))]
    surprises = [one.line.id for one in judged if one.surprising]
    if surprises:
        blocks.append(Text(f"Otherwise than expected, and unexplained: {', '.join(surprises)}."))
    return blocks


def _values(judged: Sequence[Judged]) -> list[Block]:
    blocks: list[Block] = []
    kinds = (
        ("Values that the document prints", True, "printed in", "printed"),
        ("Derived values: they follow from the document and are not printed in it", False, "derived from", "derived"),
    )
    for title, printed, place, word in kinds:
        chosen = [one for one in judged if isinstance(one.line, Value) and one.line.printed == printed]
        if chosen:
            heads = ("id", place, "what", word, "measured", "verdict")
            blocks += [Heading(title), Table(heads, tuple(map(_value_row, chosen)), (3, 4)), *_reasons(chosen)]
    return blocks


def _value_row(one: Judged) -> tuple[str, ...]:
    line = one.line
    assert isinstance(line, Value)
    published = show(line.published) + (f" ± {show(line.tolerance)}" if line.tolerance else "")
    return (line.id, line.place, line.what, published, one.shown[0], one.verdict)


def _reasons(chosen: Sequence[Judged]) -> list[Block]:
    blocks = [Text(f"{one.line.id}: {one.reason}") for one in chosen if one.reason]
    return [*blocks, *(Text(f"{one.line.id}: unexpected, and not explained.") for one in chosen if one.surprising)]


def _rows(judged: Sequence[Judged], columns: Mapping[str, Column]) -> list[Block]:
    """Rows of printed tables, those with the same columns together; published and measured side by side."""
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    reasons: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for one in judged:
        if isinstance(one.line, Point):
            cells = [
                cell for pair in zip(map(show, one.line.published.values()), one.shown, strict=True) for cell in pair
            ]
            row = (one.line.id, one.line.what, *cells, one.verdict)
            names = tuple(one.line.published)
            groups.setdefault(names, []).append(row)
            if one.reason:
                reasons.setdefault(names, {}).setdefault(one.reason, []).append(one.line.id)
    blocks: list[Block] = [Heading("Rows of the document's tables, published and measured")] if groups else []
    for names, rows in groups.items():
        near = "; ".join(f"{name}: {columns[name].what}, near is {_nearness(columns[name])}" for name in names)
        heads = ("id", "what", *(head for name in names for head in (name, f"{name} here")), "verdict")
        blocks += [Text(f"{near}."), Table(heads, tuple(rows), tuple(range(2, 2 + 2 * len(names))))]
        blocks += [Text(f"{', '.join(ids)}: {reason}") for reason, ids in reasons.get(names, {}).items()]
    return blocks


def _nearness(column: Column) -> str:
    return f"± {show(100 * column.share)} %" if column.share else f"± {show(column.tolerance)}"


def _claims(judged: Sequence[Judged], measured: Measured) -> list[Block]:
    blocks: list[Block] = [Heading("Claims")]
    for one in judged:
        if isinstance(one.line, Claim):
            blocks += _claim(one, one.line, measured)
    return blocks


def _claim(one: Judged, line: Claim, measured: Measured) -> list[Block]:
    origin = f"printed in {line.place}" if line.printed else f"derived from {line.place}"
    rows = tuple(
        (check.what, condition(check, measured), shown, _word(passed))
        for check, shown, passed in zip(line.checks, one.shown, one.passed, strict=True)
    )
    return [
        Heading(f"{line.id}: {one.verdict}", 3),
        Text(f"{line.text} ({origin})"),
        Table(("check", "if it holds", "measured", ""), rows, (2,)),
        *([Text(one.reason)] if one.reason else []),
        *([Text("This is otherwise than expected, and not explained.")] if one.surprising else []),
    ]


def _word(passed: bool | None) -> str:
    return "not measured" if passed is None else "holds" if passed else "differs"


def _tables(experiment: Experiment, results: Results) -> list[Block]:
    blocks: list[Block] = [Heading("Measurements")]
    for title, table in experiment.tables(results):
        blocks += [Heading(title, 3), table]
    return blocks


def _figures(experiment: Experiment, results: Results, folder: Path) -> list[Block]:
    blocks: list[Block] = [Heading("Figures")]
    for figure in experiment.figures:
        path = folder / f"{figure.name}.svg"
        try:
            figure.draw(results, path)
        except ExperimentError:
            continue  # a quick run leaves out what is large
        blocks.append(Image(path.name, figure.caption))
    return blocks
