"""``recado semantics explain|words|measures``: how alike names are, and why."""

from __future__ import annotations

from typing import Any

from recado.cli.output import complain, console, for_people, write_json
from recado.cli.semantics.options import Knowledge, read_option
from recado.cli.verb import OK
from recado.errors import RecadoError
from recado.semantics.engine import Semantics
from recado.semantics.lexicon.source import LexiconError
from recado.semantics.measures import registry
from recado.semantics.reading import Words, plain_words
from recado.semantics.settings import SemanticSettings, read_settings

_COLUMNS: dict[str, dict[str, Any]] = {
    "hybrid": {"measure": "hybrid"},
    "embedding": {"measure": "embedding"},
    "feng": {"measure": "feng"},
    "mean jcn": {"measure": "mean"},
    "mean lin": {"measure": "mean", "options": {"word": "lin"}},
    "mean wup": {"measure": "mean", "options": {"word": "wup"}},
    "mean res": {"measure": "mean", "options": {"word": "res"}},
    "levenshtein": {"measure": "levenshtein"},
}

Columns = dict[str, tuple[list[float], float]]
"""By measure: how alike the name is to each other name, and the threshold."""


def explain(
    name: str,
    others: tuple[str, ...],
    /,
    *,
    measure: tuple[str, ...] = (),
    option: tuple[str, ...] = (),
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    json: bool = False,
) -> int:
    """Compare a name with others, by several measures; a star marks what a measure takes for the same.

    Examples:
      recado semantics explain "sale price" price country
      recado semantics explain umidade humidity temperature --language en --language pt
      recado semantics explain city country --measure mean --option word=jcn --option mode=all

    Parameters
    ----------
    name
        A name as a subscriber writes it.
    others
        Names as events have them.
    measure
        Only these measures.
    option
        An option of the measures, as NAME=VALUE.
    json
        Write JSON even on a terminal.
    """
    if not others:
        raise RecadoError('explain compares a name with others: recado semantics explain "sale price" price country')
    semantics = knowledge.semantics()
    options = dict(map(read_option, option))
    asked = {one: {"measure": one, "options": options} for one in measure} or _COLUMNS
    columns: Columns = {}
    for label, members in asked.items():
        settings = read_settings({**members, "language": list(knowledge.language)}, place="semantic")
        assert settings is not None
        try:
            columns[label] = (semantics.similarities([name], others, settings)[0].tolist(), settings.limit)
        except RecadoError as error:
            if measure:
                raise
            complain(f"{label}: {error}")
    records = []
    for number, (other, given) in enumerate(zip(others, _given(name, others, semantics), strict=True)):
        words = [list(_words(semantics, one, knowledge.language).lemmas) for one in (name, other)]
        records.append({"name": name, "other": other, "words": words[0], "other_words": words[1], "given": given})
        records[-1] |= _scores(number, columns)
    if for_people(json):
        _show(records, columns)
    else:
        for record in records:
            write_json(record)
    return OK


def _given(name: str, others: tuple[str, ...], semantics: Semantics) -> list[str | None]:
    """What people said of the pairs, if they did."""
    found = [semantics.given(name, other, SemanticSettings("levenshtein")) for other in others]
    return [given.origin if given else None for given in found]


def _scores(number: int, columns: Columns) -> dict[str, Any]:
    return {
        "similarity": {label: values[number] for label, (values, _) in columns.items()},
        "same": [label for label, (values, limit) in columns.items() if values[number] > limit or values[number] == 1],
    }


def _words(semantics: Semantics, name: str, language: tuple[str, ...]) -> Words:
    """The words of a name; plain tokens where there is no lexicon."""
    try:
        return semantics.reader.read(name, language)
    except LexiconError:
        return plain_words(name)


def _show(records: list[dict[str, Any]], columns: Columns) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(f"{records[0]['name']} ({' '.join(records[0]['words'])})")
    for record in records:
        words = " ".join(record["other_words"])
        table.add_column(f"{record['other']} ({words})" if words != record["other"] else words, justify="right")
    table.add_column("threshold", justify="right")
    for label, (values, limit) in columns.items():
        stars = ("*" if label in record["same"] else " " for record in records)
        table.add_row(label, *(f"{value:.3f}{star}" for value, star in zip(values, stars, strict=True)), f"{limit:.2f}")
    out = console()
    out.print(table)
    for record in records:
        if record["given"]:
            out.print(f"{record['name']} ~ {record['other']} is {record['given']}", style="dim")


def words(name: str, /, *, knowledge: Knowledge = Knowledge(), json: bool = False) -> int:  # noqa: B008  # frozen
    """Show the words of a name: lemma, part of speech, concepts, frequency, weight, and the synonyms beside them.

    Examples:
      recado semantics words residentialArea
      recado semantics words "temperatura média" --language pt

    Parameters
    ----------
    name
        A name in any spelling.
    json
        Write JSON even on a terminal.
    """
    semantics = knowledge.semantics()
    found = semantics.reader.read(name, knowledge.language)
    rows = [
        {
            "word": word.lemma,
            "language": word.language,
            "part": word.part,
            "senses": len(word.senses),
            "means": ", ".join(semantics.lexicon.members(word.senses[0])[:4]) if word.senses else "",
            "frequency": word.frequency,
            "weight": round(word.weight, 3),
            "synonym": word.is_synonym,
        }
        for word in found.enriched
    ]
    if not for_people(json):
        for row in rows:
            write_json(row)
        return OK
    _show_rows(rows)
    return OK


def measures(*, json: bool = False) -> int:
    """List the measures with their options and the threshold that each is used with.

    Parameters
    ----------
    json
        Write JSON even on a terminal.
    """
    rows = []
    for name in registry.measure_names():
        entry = registry.find(name)
        options = ", ".join(f"{option}={value}" for option, value in registry.options_of(name).items())
        rows.append({"measure": name, "threshold": entry.threshold({}), "options": options, "about": entry.about})
    if for_people(json):
        _show_rows(rows)
    else:
        for row in rows:
            write_json(row)
    return OK


def _show_rows(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    out = console()
    if not rows:
        out.print("no words")
        return
    table = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(("yes" if value else "") if isinstance(value, bool) else str(value) for value in row.values()))
    out.print(table)
