"""The group ``recado semantics`` and its verbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from recado.cli.inputs import Counts, Problems, read_events, read_subscriptions
from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.verb import FAILED, OK, verb
from recado.errors import RecadoError
from recado.filters.braces import event_line
from recado.filters.cost import check_filter
from recado.filters.expression import format_expression
from recado.filters.records import read_subscription
from recado.filters.syntax import Syntax, parse_filter
from recado.model.codec import read_event, write_flat
from recado.model.event import ENVELOPE, Event
from recado.model.flat import jsonable
from recado.model.subscription import Subscription
from recado.semantics import engine
from recado.semantics.alignment import Alignment, Pair, constraint_names, rename_event, rewrite, tell_units
from recado.semantics.engine import Semantics
from recado.semantics.files import read_limited
from recado.semantics.lexicon import languages as added
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.lexicon.wordnet import LexiconError
from recado.semantics.mapping import CANDIDATES, NAMES, Mapping, decide_many, export_decisions, import_decisions
from recado.semantics.mapping import map_names as find_candidates
from recado.semantics.match import attribute_names, resolve, semantic_match
from recado.semantics.measures import registry
from recado.semantics.names import Words, plain_words
from recado.semantics.overrides import OVERRIDES_BYTES, Open, ReviewList, review_path
from recado.semantics.settings import SemanticSettings, read_settings

SCHEMA_DEPTH = 8

# --- ``recado semantics review``: uncertain pairs of names, and what a person says of them ---------------------------


Two = Annotated[tuple[str, str] | None, Parameter(negative=())]


def review(*, accept: Two = None, refuse: Two = None, list: bool = False, json: bool = False) -> int:
    """Show the pairs that nobody has decided yet, or decide one.

    An accepted pair is as good as equal, a refused one as good as nothing, for every measure. Uncertain pairs come
    from `recado semantics align --note` and from services that are told to note them.

    Examples:
      recado semantics review
      recado semantics review --accept "sale price" price
      recado semantics review --refuse city country

    Parameters
    ----------
    accept
        Two names that mean the same.
    refuse
        Two names that do not.
    list
        Show the decided pairs too.
    json
        Write JSON even on a terminal.
    """
    if accept and refuse:
        raise RecadoError("give either --accept or --refuse, not both")
    listed = ReviewList.load()
    decision = accept or refuse
    if decision:
        listed.decide(*decision, accept=accept is not None)
        listed.save()
        if for_people(json):
            word = "accepted" if accept else "refused"
            write_line(f"{word}: {decision[0]} ~ {decision[1]}, remembered in {review_path()}")
        else:
            write_json({"a": decision[0], "b": decision[1], "accepted": accept is not None})
        return OK
    _show_review(listed, list, json)
    return OK


def _show_review(listed: ReviewList, decided: bool, json: bool) -> None:
    if not for_people(json):
        for one in listed.open:
            write_json({"state": "open", **msgspec.to_builtins(one)})
        for pair in listed.decided() if decided else []:
            write_json({"state": pair.origin, "constraint": pair.a, "attribute": pair.b})
        return
    from rich.table import Table

    table = Table("name", "attribute", "similarity", "threshold", "by", box=None, header_style="bold", pad_edge=False)
    for one in listed.open:
        table.add_row(one.constraint, one.attribute, f"{one.similarity:.3f}", f"{one.threshold:.3f}", one.measure)
    for pair in listed.decided() if decided else []:
        table.add_row(pair.a, pair.b, f"{pair.similarity:.0f}", "", pair.origin)
    console().print(table if table.row_count else "nothing to review")


# --- ``recado semantics add-language|languages``: the languages that names can be in ---------------------------------


def add_language(code: str, file: str, /, *, json: bool = False) -> int:
    """Add a language from a file of the Open Multilingual Wordnet; it replaces an earlier one of the same code.

    Such a file gives words to the concepts of WordNet 3.0, so names in that language reach names in all others. It is
    checked and kept in the data folder (RECADO_DATA, or XDG_DATA_HOME/recado).

    Example:
      recado semantics add-language por wn-data-por.tab

    Parameters
    ----------
    code
        The language's code of ISO 639, such as por or pt.
    file
        The .tab file.
    json
        Write JSON even on a terminal.
    """
    found = added.add_language(code, file, load_lexicon())
    if not for_people(json):
        write_json(msgspec.to_builtins(found))
        return OK
    write_line(f"{found.language}: {plural(found.words, 'word')} for {plural(found.concepts, 'concept')}")
    if found.unknown:
        write_line(f"{plural(found.unknown, 'line')} left out: WordNet 3.0 has no such concept")
    return OK


def languages(*, json: bool = False) -> int:
    """List English and the languages that were added.

    Parameters
    ----------
    json
        Write JSON even on a terminal.
    """
    sizes = {"eng": len(load_lexicon().words)} | {code: len(added.load_language(code)) for code in added.installed()}
    for code, size in sizes.items():
        if for_people(json):
            write_line(f"{code}  {plural(size, 'word')}")
        else:
            write_json({"language": code, "words": size})
    return OK


# --- What the verbs of ``recado semantics`` are told about meaning: options that become settings and knowledge -------


@Parameter(name="*")
@dataclass(frozen=True)
class Knowledge:
    """Where similarities come from.

    Parameters
    ----------
    language
        A language of the names, as a code; if there are several, all are tried.
    overrides
        TOML or JSON file of similarities that win over every measure.
    frequencies
        Folder that `recado pipeline frequencies` wrote.
    """

    language: Annotated[tuple[str, ...], Parameter(name=["--language", "-l"])] = ("en",)
    overrides: str | None = None
    frequencies: str | None = None

    def semantics(self) -> Semantics:
        return engine.Knowledge.read(overrides=self.overrides or "", frequencies=self.frequencies or "").semantics()


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """How names are compared.

    Parameters
    ----------
    measure
        A measure that `recado semantics measures` lists.
    option
        An option of the measure, as NAME=VALUE.
    threshold
        A pair must be more alike than this; left out, the measure's own.
    unmatched
        fail: a name without counterpart is an absent attribute; ignore: its predicates are left out.
    one_to_one
        An attribute stands for at most one name.
    envelope
        Let id, type, source and time take part.
    string_values
        SM compares values as strings and not by meaning.
    rename
        Show the event with the attributes under the subscriber's names, too.
    """

    measure: str | None = None
    option: tuple[str, ...] = ()
    threshold: float | None = None
    unmatched: str | None = None
    one_to_one: bool = False
    envelope: bool = False
    string_values: bool = False
    rename: bool = False

    def settings(self, language: tuple[str, ...], own: dict[str, Any] | None = None) -> SemanticSettings:
        """The settings of a subscription, over which the command's options win."""
        members: dict[str, Any] = {"language": list(language)} | (own or {})
        if self.measure is not None:
            members |= {"measure": self.measure}
            members.pop("options", None)
        if self.option:
            members["options"] = dict(map(read_option, self.option))
        named = {"threshold": self.threshold, "unmatched": self.unmatched}
        members |= {name: value for name, value in named.items() if value is not None}
        if self.one_to_one:
            members["assignment"] = "one-to-one"
        if self.envelope:
            members["envelope"] = True
        if self.string_values:
            members["values"] = "string"
        if self.rename:
            members["rename"] = True
        settings = read_settings(members, place="semantic")
        assert settings is not None
        return settings


def read_option(text: str) -> tuple[str, Any]:
    """``share=0.4`` as a name and a number or a text."""
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


# --- ``recado semantics explain|words|measures``: how alike names are, and why ---------------------------------------


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


# --- ``recado semantics align``: one subscription, one event, and which attribute stands for which name --------------


def align(
    subscription: str,
    event: str,
    /,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008  # frozen
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    syntax: Syntax = "auto",
    note: bool = False,
    json: bool = False,
) -> int:
    """Show the pairs of names, the filter in the event's words, and whether the event matches. Exit code 1 if not.

    Examples:
      recado semantics align '{sale price, GT, 50}' '{"product": "book", "price": 60}'
      recado semantics align '`sale price` > 50' '{"price": 60}' --measure feng --threshold 0.3
      recado semantics align '{nation, EQ, Germany}' '{type=pressure event, country=Germany}'

    Parameters
    ----------
    subscription
        A filter in any syntax, or a subscription record in JSON.
    event
        An event in JSON, or as {name=value, name=value}.
    syntax
        The syntax of the filter.
    note
        Put uncertain pairs on the review list.
    json
        Write JSON even on a terminal.
    """
    asked, happened = _subscription(subscription, syntax), _event(event)
    settings = wanted.settings(knowledge.language, asked.semantic)
    semantics = knowledge.semantics()
    aligned = semantics.align(constraint_names(asked.filter), attribute_names(happened), settings)
    alignment = tell_units(happened, aligned)
    matched = semantic_match(happened, asked, settings, semantics) is not None
    rewritten = rewrite(asked.filter, alignment)
    filter = format_expression(resolve(rewritten, happened, settings, semantics, alignment.readings()))
    if for_people(json):
        _show_alignment(alignment, filter, matched)
        if settings.rename:
            write_line(
                f"the event with the subscriber's names: {write_flat(rename_event(happened, alignment)).decode()}"
            )
    else:
        write_json(_record(alignment, filter, matched, happened, settings))
    if note:
        _note(alignment, settings)
    return OK if matched else FAILED


def _subscription(text: str, syntax: Syntax) -> Subscription:
    if text.lstrip().startswith('{"') and '"id"' in text:
        return read_subscription(text)
    return Subscription("subscription", check_filter(parse_filter(text, syntax)))


def _event(text: str) -> Event:
    body = text.strip()
    is_pairs = body.startswith("{") and not body[1:].lstrip().startswith(('"', "}"))
    return event_line(f"event\t{body}") if is_pairs else read_event(text, default_id="event")


def _record(
    alignment: Alignment, filter: str, matched: bool, event: Event, settings: SemanticSettings
) -> dict[str, Any]:
    record = {
        "matches": matched,
        "filter": filter,
        "measure": alignment.measure,
        "threshold": alignment.threshold,
        "pairs": [_pair(pair) for pair in alignment.pairs],
        "uncertain": [pair.constraint for pair in alignment.uncertain(settings.margin)],
    }
    if settings.rename:
        record["event"] = {name: jsonable(value) for name, value in rename_event(event, alignment).items()}
    return record


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "name": pair.constraint,
        "attribute": pair.attribute,
        "similarity": pair.similarity,
        "reason": pair.reason,
        "words": list(pair.words),
        "attribute_words": list(pair.attribute_words),
        "nearest": pair.nearest,
        "converted": pair.reading.explain() if pair.reading is not None else "",
    }


def _show_alignment(alignment: Alignment, filter: str, matched: bool) -> None:
    from rich.table import Table

    table = Table("name", "attribute", "similarity", "why", box=None, header_style="bold", pad_edge=False)
    for pair in alignment.pairs:
        found = pair.attribute if pair.attribute is not None else "none"
        near = f" (nearest: {pair.nearest})" if pair.attribute is None and pair.nearest is not None else ""
        converted = f", {pair.reading.explain()}" if pair.reading is not None and pair.reading.explain() else ""
        table.add_row(pair.constraint, found, f"{pair.similarity:.3f}", pair.reason + near + converted)
    out = console()
    out.print(table)
    out.print(f"by {alignment.measure}, threshold {alignment.threshold:g}", style="dim")
    out.print(f"the filter in the event's words: {filter}")
    out.print("the event matches" if matched else "the event does not match", style="green" if matched else "red")


def _note(alignment: Alignment, settings: SemanticSettings) -> None:
    uncertain = [
        Open(pair.constraint, pair.nearest, pair.similarity, alignment.measure, alignment.threshold)
        for pair in alignment.uncertain(settings.margin)
        if pair.nearest is not None
    ]
    listed = ReviewList.load()
    listed.note(uncertain)
    listed.save()
    complain(f"{plural(len(uncertain), 'uncertain pair')} put on the review list")


# --- ``recado semantics map``: which attributes may stand for the names that are asked for, for a person to decide ----


Pairs = Annotated[tuple[tuple[str, str], ...], Parameter(negative=())]


def map_names(
    subscriptions: str,
    events: str,
    /,
    *,
    wanted: Wanted = Wanted(),  # noqa: B008  # frozen
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
    most: int = CANDIDATES,
    accept: Pairs = (),
    refuse: Pairs = (),
    undo: Pairs = (),
    accept_from: float | None = None,
    refuse_below: float | None = None,
    export_to: Annotated[Path | None, Parameter(name="--export")] = None,
    import_from: Annotated[Path | None, Parameter(name="--import")] = None,
    json: bool = False,
) -> int:
    """Show which attributes may stand for the names that subscriptions ask for, and decide.

    Candidates are ranked, with a confidence and a reason. Names that no attribute stands for come last. Decisions are
    remembered as those of `recado semantics review` are, and can be written to a file that --overrides reads.

    Examples:
      recado semantics map subscriptions.ndjson events.ndjson
      recado semantics map asked.schema.json said.schema.json -l en -l pt
      recado semantics map subscriptions.ndjson events.ndjson --accept-from 0.6 --refuse-below 0.2 --export pairs.json
      recado semantics map subscriptions.ndjson events.ndjson --undo "sale price" price

    Parameters
    ----------
    subscriptions
        File of subscriptions, or a JSON Schema whose properties are the names that are asked for.
    events
        File of events, or a JSON Schema whose properties are the attributes.
    most
        Candidates of each name.
    accept
        Two names that mean the same; may be given several times.
    refuse
        Two names that do not.
    undo
        Two names whose decision is forgotten.
    accept_from
        Accept the best candidate of each name that has at least this confidence and no veto.
    refuse_below
        Refuse all candidates with less confidence.
    export_to
        Write all decisions to this JSON file, which --overrides reads.
    import_from
        Take the decisions of such a file first.
    json
        Write NDJSON even on a terminal.
    """
    listed = ReviewList.load()
    taken = import_decisions(listed, import_from) if import_from is not None else 0
    for pairs, yes in ((accept, True), (refuse, False)):
        for one, other in pairs:
            listed.decide(one, other, accept=yes)
    for one, other in undo:
        if not listed.undo(one, other):
            raise RecadoError(f"nothing was decided of {one!r} and {other!r}")
    if taken or accept or refuse or undo:
        listed.save()
    names, attributes = _ask_names(subscriptions), _said_names(events)
    settings = wanted.settings(knowledge.language)
    mapping = find_candidates(knowledge.semantics(), names, attributes, settings, most)
    if accept_from is not None or refuse_below is not None:
        accepted, refused = decide_many(listed, mapping.candidates, accept_from, refuse_below)
        listed.save()
        complain(f"{plural(accepted, 'pair')} accepted, {plural(refused, 'pair')} refused")
        mapping = find_candidates(knowledge.semantics(), names, attributes, settings, most)
    if export_to is not None:
        complain(f"{plural(export_decisions(listed, export_to), 'decision')} written to {export_to}")
    _show_mapping(mapping, json)
    return OK


def _show_mapping(mapping: Mapping, json: bool) -> None:
    if not for_people(json):
        for one in mapping.candidates:
            write_json(msgspec.to_builtins(one))
        for name in mapping.missing:
            write_json({"name": name, "attribute": None, "state": "missing"})
        return
    from rich.table import Table

    table = Table("name", "attribute", "confidence", "state", "why", box=None, header_style="bold", pad_edge=False)
    before = ""
    for one in mapping.candidates:
        why = f"{one.reason}, {one.converted}" if one.converted else one.reason
        table.add_row(one.name if one.name != before else "", one.attribute, f"{one.confidence:.3f}", one.state, why)
        before = one.name
    out = console()
    out.print(table if table.row_count else "no candidates")
    if mapping.missing:
        out.print(f"asked for, and no event has it: {', '.join(mapping.missing)}")


def _ask_names(path: str) -> list[str]:
    properties = _schema_properties(path)
    if properties is not None:
        return properties
    problems = Problems(strict=True)
    found: dict[str, None] = {}
    for subscription in read_subscriptions(path, problems):
        found |= dict.fromkeys(name for name in constraint_names(subscription.filter) if name not in ENVELOPE)
    return [*found]


def _said_names(path: str) -> list[str]:
    properties = _schema_properties(path)
    if properties is not None:
        return properties
    found: dict[str, None] = {}
    for event in read_events(path, Problems(strict=True), Counts()):
        found |= dict.fromkeys(name for name in attribute_names(event) if name not in ENVELOPE)
    return [*found]


def _schema_properties(path: str) -> list[str] | None:
    """The properties of a JSON Schema, with dots between those of nested objects; None if the file is none."""
    if not path.endswith(".json"):
        return None
    try:
        schema = msgspec.json.decode(read_limited(Path(path), OVERRIDES_BYTES, "the schema"))
    except msgspec.DecodeError:
        return None
    if not isinstance(schema, dict):
        return None
    if not isinstance(schema.get("properties"), dict) and _SCHEMA_MARKS.isdisjoint(schema):
        return None
    return [name for name in dict.fromkeys(islice(_properties(schema, schema, "", ()), NAMES + 1)) if name]


_SCHEMA_MARKS = frozenset({"$schema", "$defs", "definitions"})


def _properties(schema: dict[str, Any], node: object, name: str, followed: tuple[str, ...]) -> Iterator[str]:
    """The names below a node of a schema; references inside the file are followed, each once on the way down."""
    parts = list(_parts(schema, node, followed)) if name.count(".") < SCHEMA_DEPTH else []
    below = [(part["properties"], refs) for part, refs in parts if isinstance(part.get("properties"), dict)]
    if not any(properties for properties, _ in below):
        yield name
    for properties, refs in below:
        for inner, about in properties.items():
            yield from _properties(schema, about, f"{name}.{inner}" if name else inner, refs)


def _parts(schema: dict[str, Any], node: object, followed: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """A node and what it is put together of: references, alternatives, the elements of an array."""
    if not isinstance(node, dict):
        return
    yield node, followed
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/") and ref not in followed:
        yield from _parts(schema, _find_node(schema, ref), (*followed, ref))
    for inner in (*(one for word in ("allOf", "anyOf", "oneOf") for one in node.get(word) or ()), node.get("items")):
        yield from _parts(schema, inner, followed)


def _find_node(schema: dict[str, Any], ref: str) -> object:
    node: object = schema
    for step in ref[2:].split("/"):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


_HELP = """\
  recado semantics explain "sale price" "price" "country"
  recado semantics align '{sale price, GT, 50}' '{"product": "book", "price": 60}'
  recado semantics add-language por wn-data-por.tab
  recado semantics review --accept "sale price" "price"
"""

app = verb("semantics", epilogue=_HELP)
app.command(explain, name="explain", help="Show how alike names are, by several measures.")
app.command(words, name="words", help="Show the words of a name and what is known of them.")
app.command(measures, name="measures", help="List the measures, their options and thresholds.")
app.command(align, name="align", help="Match an event with a subscription that uses other words.")
app.command(map_names, name="map", help="Map the names of subscriptions to those of events, and decide.")
app.command(add_language, name="add-language", help="Add a language to the lexicon.")
app.command(languages, name="languages", help="List the languages that names can be in.")
app.command(review, name="review", help="Look at uncertain pairs of names, accept or refuse them.")
