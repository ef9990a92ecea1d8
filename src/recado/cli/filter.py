"""``recado filter check|explain|normal|covers|merge``: the filter language shown to a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from recado.cli.output import complain, console, for_people, write_json, write_line
from recado.cli.verb import BAD_INPUT, FAILED, OK, Source, verb
from recado.errors import FilterError
from recado.filters.cost import check_filter, cost_of
from recado.filters.covering import covers as filter_covers
from recado.filters.covering import find_witness, merge_imperfect, satisfiable
from recado.filters.covering import merge as merge_filters
from recado.filters.evaluate import evaluate, names_of, walk
from recado.filters.expression import format_expression
from recado.filters.nodes import KINDS, View, is_predicate, predicate_kind, show
from recado.filters.normal import filter_key, normal_form
from recado.filters.syntax import Syntax, parse_filter
from recado.model.codec import read_event
from recado.model.event import expansions
from recado.model.filter import And, Constant, Filter, Not, Or
from recado.model.flat import jsonable
from recado.model.limits import LIMITS
from recado.model.values import Kind, kind_of

if TYPE_CHECKING:
    from rich.tree import Tree

app = verb("filter", help="Check, explain and compare filters.")


@app.command
def check(filter: Source, /, *, syntax: Syntax = "auto", json: bool = False) -> int:
    """Is the filter well formed and affordable? Exit code 0 if so, 2 with the reason if not.

    Examples:
      recado filter check 'Price < 25 and Volume >= 1_000_000'
      recado filter check '{umidade, GT, 60; temperatura média, LE, 25}'
      recado filter check "subject LIKE 'sensor-%'" --syntax cesql

    Parameters
    ----------
    filter
        The filter's text, or - to read it from standard input.
    syntax
        The syntax of the text; auto tells braces and templates from expressions by their first character.
    json
        Write JSON even on a terminal.
    """
    try:
        parsed = _read(filter, syntax)
    except FilterError as error:
        if not for_people(json):
            write_json({"ok": False, "reason": error.reason, "position": error.position, "hint": error.hint})
        complain(str(error))
        return BAD_INPUT
    facts = _facts(parsed)
    if for_people(json):
        write_line(f"ok: {format_expression(parsed)}")
        write_line(f"cost {facts['cost']:,} of {LIMITS.filter_cost:,}, predicates: {facts['predicates']}")
        if facts["satisfiable"] is False:
            write_line("note: no event can match this filter")
    else:
        write_json({"ok": True, **facts})
    return OK


@app.command
def explain(filter: Source, /, *, event: str | None = None, syntax: Syntax = "auto", json: bool = False) -> int:
    """Say in words what the filter asks for, and with --event what each part says of that event.

    Exit code 1 if the event does not match.

    Examples:
      recado filter explain 'type == "StockExchange" and not (Price >= 25)'
      recado filter explain 'Price < 25' --event '{"id": "e-1", "Price": "cheap"}'

    Parameters
    ----------
    filter
        The filter's text, or - to read it from standard input.
    event
        An event in JSON, flat or a CloudEvent.
    syntax
        The syntax of the filter's text.
    json
        Write JSON even on a terminal.
    """
    parsed = _read(filter, syntax)
    view = _telling_view(parsed, event) if event is not None else None
    truth = None if view is None else evaluate(parsed, view)
    if for_people(json):
        _print_explanation(parsed, view)
    else:
        write_json(
            {
                **_facts(parsed),
                "compiled": _is_compiled(parsed),
                "access": _access(parsed),
                "explanation": _as_record(parsed, view),
                **({} if truth is None else {"matches": truth}),
            }
        )
    return FAILED if truth is False else OK


@app.command
def normal(filter: Source, /, *, syntax: Syntax = "auto", json: bool = False) -> int:
    """Show the normal form and the key: filters with equal keys match the same events.

    Example:
      recado filter normal 'not (a < 1 or b == 2) and a >= 1'

    Parameters
    ----------
    filter
        The filter's text, or - to read it from standard input.
    syntax
        The syntax of the text.
    json
        Write JSON even on a terminal.
    """
    parsed = _read(filter, syntax)
    text, key = format_expression(normal_form(parsed)), filter_key(parsed)
    if for_people(json):
        write_line(text)
        write_line(f"key: {key}")
    else:
        write_json({"normal": text, "key": key})
    return OK


@app.command
def covers(broad: Source, narrow: Source, /, *, syntax: Syntax = "auto", json: bool = False) -> int:
    """Does every event that matches NARROW also match BROAD? Exit code 0 for yes, 1 for no.

    A yes is a proof. For conjunctions of simple predicates a no is one too; for other filters it may mean
    "not proven", and then no counterexample is shown.

    Example:
      recado filter covers 'Price < 30' 'Price < 25 and Stock == "PETR4"'

    Parameters
    ----------
    broad
        The filter that may cover.
    narrow
        The filter that may be covered.
    syntax
        The syntax of both texts.
    json
        Write JSON even on a terminal.
    """
    f, g = _read(broad, syntax), _read(narrow, syntax)
    answer = filter_covers(f, g)
    witness = None if answer else find_witness(And((g, Not(f))))
    if not for_people(json):
        write_json({"covers": answer, "counterexample": witness and _plain(witness)})
    elif answer:
        write_line("yes: every event that matches the second filter matches the first")
    elif witness is None:
        write_line("no, or not proven: no counterexample was found")
    else:
        write_line("no: this event matches the second filter and not the first")
        for name, value in _plain(witness).items():
            write_line(f"  {name} = {value}")
        if not witness:
            write_line("  (an event without any attribute)")
    return OK if answer else FAILED


@app.command
def merge(first: Source, second: Source, /, *, syntax: Syntax = "auto", json: bool = False) -> int:
    """One filter for two: a perfect merge matches just what either matches, an imperfect one may match more.

    Example:
      recado filter merge 'Price < 25' 'Price between 20 and 30'

    Parameters
    ----------
    first
        A filter.
    second
        Another filter.
    syntax
        The syntax of both texts.
    json
        Write JSON even on a terminal.
    """
    f, g = _read(first, syntax), _read(second, syntax)
    merged = merge_filters(f, g)
    perfect = merged is not None
    text = format_expression(merged if merged is not None else merge_imperfect(f, g))
    if for_people(json):
        write_line(text)
        write_line(
            "perfect: matches exactly what either of the two matches" if perfect else "imperfect: may match more"
        )
    else:
        write_json({"merged": text, "perfect": perfect})
    return OK


def _read(text: str, syntax: Syntax) -> Filter:
    """The accepted filter; a FilterError if it is malformed or costs too much."""
    if text == "-":
        text = sys.stdin.read(LIMITS.filter_chars + 1).strip()
    return check_filter(parse_filter(text, syntax))


def _facts(filter: Filter) -> dict[str, Any]:
    return {
        "filter": format_expression(filter),
        "cost": cost_of(filter),
        "predicates": sum(1 for node in walk(filter) if not isinstance(node, And | Or | Not | Constant)),
        "names": sorted(names_of(filter)),
        "satisfiable": satisfiable(filter),
    }


def _is_compiled(filter: Filter) -> bool:
    """Does the index decide the filter by itself, without the plain evaluator?"""
    from recado.matching.dictionary import Dictionary
    from recado.matching.program import Compiler

    return not Compiler(Dictionary()).compile(filter).is_opaque


def _access(filter: Filter) -> list[dict[str, str]] | None:
    """By what the index finds the filter; None if it compares every event with it."""
    from recado.matching.paths import access_paths

    paths = access_paths(filter)
    return None if paths is None else [path._asdict() for path in paths]


def _access_line(filter: Filter) -> str:
    access = _access(filter)
    if access is None:
        return "the index compares every event with it: no part of it leads from an event to the filter"
    if not access:
        return "the index never looks at it: no event can match"
    paths = [f"the {path['by']} of {path['name']}" for path in access]
    return f"the index finds it by {' or '.join(paths)}"


def _telling_view(filter: Filter, event: str) -> View:
    """The view of the event that matches, or else the first one: each array gives one element to a view."""
    views = list(expansions(read_event(event, default_id="event"), names_of(filter)))
    return next((view for view in views if evaluate(filter, view)), views[0])


_KINDS = {Kind.STRING: "a string", Kind.NUMBER: "a number", Kind.BOOL: "a boolean", Kind.TIME: "a timestamp"}


def _verdict(node: Filter, view: View) -> tuple[bool, str]:
    """The truth of a node on a view of an event, and for a predicate what it met there."""
    truth = evaluate(node, view)
    if not is_predicate(node):
        names = sorted(KINDS[type(node)].names(node))
        return truth, ", ".join(f"{name} = {show(view[name])}" for name in names if name in view)
    value = view.get(node.name)
    if value is None:
        return truth, f"{node.name} is absent"
    wanted, found = predicate_kind(node).wanted_kind(node), kind_of(value)
    mismatch = "" if wanted is None or found is wanted else f", {_KINDS[found]} and not {_KINDS[wanted]}"
    return truth, f"{node.name} = {show(value)}{mismatch}"


def _as_record(node: Filter, view: View | None) -> dict[str, Any]:
    record: dict[str, Any] = {"says": KINDS[type(node)].describe(node)}
    if view is not None:
        record["holds"], met = _verdict(node, view)
        if met:
            record["met"] = met
    parts = [_as_record(part, view) for part in KINDS[type(node)].parts(node)]
    return {**record, "parts": parts} if parts else record


def _print_explanation(filter: Filter, view: View | None) -> None:
    facts = _facts(filter)
    out = console()
    out.print(_as_tree(filter, view))
    names = ", ".join(facts["names"]) or "none"
    out.print(f"names: {names}   cost: {facts['cost']:,} of {LIMITS.filter_cost:,}", style="dim")
    compiled = "decides it in compiled code" if _is_compiled(filter) else "leaves a part of it to the plain evaluator"
    out.print(f"the index {compiled}", style="dim")
    out.print(_access_line(filter), style="dim", markup=False)
    if facts["satisfiable"] is False:
        out.print("no event can match this filter", style="yellow")
    if view is not None:
        matches = evaluate(filter, view)
        out.print("the event matches" if matches else "the event does not match", style="green" if matches else "red")


def _as_tree(node: Filter, view: View | None, tree: Tree | None = None) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    label = Text(KINDS[type(node)].describe(node))
    if view is not None:
        truth, met = _verdict(node, view)
        label = Text.assemble(("✓ ", "green") if truth else ("✗ ", "red"), label, (f"   {met}" if met else "", "dim"))
    branch = Tree(label) if tree is None else tree.add(label)
    for part in KINDS[type(node)].parts(node):
        _as_tree(part, view, branch)
    return branch


def _plain(view: View) -> dict[str, Any]:
    return {name: jsonable(value) for name, value in view.items()}
