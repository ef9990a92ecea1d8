r"""The template syntax: ``<News, [Newspaper-X],[Column-Y],[Subject-A],[Author-*]>``, a type and positional groups.

A group names an attribute and says what it must be: ``*`` anything, ``re:`` a regular expression that describes the
whole value, otherwise the value itself. Values are strings. A declared ``Template`` gives the attribute names, so that
names and values may hold hyphens; without one, a group's name ends at its first hyphen. Double quotes protect what
could be misread: ``[Author-"*"]``, ``[Code-re:"\\]+"]``. Nothing is optional: there is one group for each name.

A notification has the same shape without names, ``<News,[X],[Y],[A],[anyone]>``, and needs the template to be read.
"""

from __future__ import annotations

import re
from typing import NoReturn

import msgspec

from recado.errors import FilterError
from recado.filters.patterns import regex
from recado.filters.scanner import Scanner, quote
from recado.model.filter import And, Compare, Exists, Filter, Regex
from recado.model.limits import LIMITS, Limits

_LITERAL = re.compile(r"[^\[\]]*")
_PATTERN = re.compile(r"(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\[\]\\])*", re.DOTALL)
_PLAIN = re.compile(r'[^\s\[\]"](?:[^\[\]]*[^\s\[\]])?')
_GROUP_HINT = "a group is written [Name-value], [Name-*] or [Name-re:pattern]"


class TemplateError(FilterError):
    """A subscription or notification that does not fit its template."""


class Template(msgspec.Struct, frozen=True):
    """The attribute names of an event type, in order."""

    type: str
    names: tuple[str, ...]


def parse(text: str, limits: Limits = LIMITS, *, template: Template | None = None) -> Filter:
    """The filter: a conjunction of the type and one predicate a group."""
    scanner = Scanner(text, limits)
    type = _read_type(scanner, template)
    parts: list[Filter] = [Compare("type", "==", type)]
    while _next_group(scanner):
        if len(parts) >= limits.filter_predicates:
            scanner.fail(f"there are more than {limits.filter_predicates - 1:,} groups")
        if template is not None and len(parts) > len(template.names):
            _wrong_count(scanner, template)
        parts.append(_read_group(scanner, template.names[len(parts) - 1] if template else None))
        _end_group(scanner)
    if template is not None and len(parts) - 1 != len(template.names):
        _wrong_count(scanner, template)
    scanner.finish("'>'")
    return And(tuple(parts))


def parse_notification(text: str, template: Template, limits: Limits = LIMITS) -> dict[str, str]:
    """The attributes of a notification of the template's type."""
    scanner = Scanner(text, limits)
    _read_type(scanner, template)
    values: list[str] = []
    while _next_group(scanner):
        if len(values) >= len(template.names):
            _wrong_count(scanner, template)
        values.append(_read_text(scanner))
        _end_group(scanner)
    if len(values) != len(template.names):
        _wrong_count(scanner, template)
    scanner.finish("'>'")
    return dict(zip(template.names, values, strict=True))


def _read_type(scanner: Scanner, template: Template | None) -> str:
    scanner.skip_space()
    if scanner.char != "<":
        scanner.fail("expected '<'", "write <Type, [Name-value],[Name-*]>")
    scanner.position += 1
    scanner.skip_space()
    start = scanner.position
    quoted = scanner.char == '"'
    type = scanner.quoted() if quoted else scanner.until(",<>[]")
    if not type or (type == "*" and not quoted):
        scanner.fail("the event type is missing", "a template syntax filter names one type", start)
    if template is not None and type != template.type:
        _misfit(scanner, f"the type is {type!r} but the template describes {template.type!r}", start)
    return type


def _next_group(scanner: Scanner) -> bool:
    """Pass over the comma and bracket before a group; False at the closing ``>``."""
    scanner.skip_space()
    if scanner.char == ">":
        return False
    if scanner.char != ",":
        scanner.fail("expected ',' or '>'", _GROUP_HINT)
    scanner.position += 1
    scanner.skip_space()
    if scanner.char != "[":
        scanner.fail("expected '['", _GROUP_HINT)
    scanner.position += 1
    scanner.skip_space()
    return True


def _end_group(scanner: Scanner) -> None:
    scanner.skip_space()
    if scanner.char != "]":
        scanner.fail("expected ']'", 'brackets inside a value need quotes: [Name-"a[1]"]')
    scanner.position += 1


def _read_group(scanner: Scanner, expected: str | None) -> Filter:
    name = _read_name(scanner, expected)
    start = scanner.position
    if scanner.text.startswith("re:", start):
        scanner.position += 3
        return _read_regex(scanner, name)
    if scanner.char == '"':
        return Compare(name, "==", scanner.quoted())
    value = _read_text(scanner)
    return Exists(name) if value == "*" else Compare(name, "==", value)


def _read_name(scanner: Scanner, expected: str | None) -> str:
    start = scanner.position
    if expected is not None:
        if not scanner.text.startswith(expected + "-", start):
            _misfit(scanner, f"this group should begin with {expected + '-'!r}", start)
        scanner.position += len(expected) + 1
        return expected
    name = scanner.until("-[]>")
    if scanner.char != "-":
        scanner.fail("the group has no hyphen between name and value", _GROUP_HINT, start)
    scanner.check_name(name, start)
    scanner.position += 1
    return name


def _read_text(scanner: Scanner) -> str:
    """A literal, trimmed unless quoted."""
    start = scanner.position
    if scanner.char == '"':
        return scanner.quoted()
    found = _LITERAL.match(scanner.text, start)
    assert found is not None  # the pattern matches the empty text
    scanner.position = found.end()
    value = found[0].strip()
    if not value:
        scanner.fail("a value is missing", 'an empty text is written ""', start)
    return value


def _read_regex(scanner: Scanner, name: str) -> Regex:
    start = scanner.position
    if scanner.char == '"':
        pattern = scanner.quoted()
    else:
        found = _PATTERN.match(scanner.text, start)
        assert found is not None  # the pattern matches the empty text
        scanner.position = found.end()
        pattern = found[0]
    try:
        regex(pattern)
    except FilterError as error:
        scanner.fail(error.reason, error.hint, start)
    return Regex(name, pattern)


def _wrong_count(scanner: Scanner, template: Template) -> NoReturn:
    groups = ", ".join(template.names)
    _misfit(scanner, f"the template of {template.type!r} has {len(template.names)} groups ({groups})", scanner.position)


def _misfit(scanner: Scanner, reason: str, position: int) -> NoReturn:
    hint = "every group of the template, in its order; nothing is optional"
    raise TemplateError(reason, text=scanner.text, position=position, hint=hint)


def format_template(node: Filter, *, template: Template | None = None) -> str:
    """The filter as a template; a FilterError names what the syntax cannot express."""
    match node:
        case And((Compare("type", "==", str(event_type)), *groups)) if event_type:
            pass
        case _:
            raise FilterError(
                "the template syntax needs a conjunction that begins with the type",
                hint='such as: type == "News" and Newspaper == "X"',
            )
    names = _names(groups, template, event_type)
    bare_type = re.fullmatch(r'[^\s,<>\[\]"](?:[^,<>\[\]]*[^\s,<>\[\]])?', event_type) and event_type != "*"
    head = event_type if bare_type else quote(event_type)
    tail = ",".join(f"[{name}-{_format_rest(group)}]" for name, group in zip(names, groups, strict=True))
    return f"<{head}, {tail}>" if groups else f"<{head}>"


def _names(groups: list[Filter], template: Template | None, event_type: str) -> list[str]:
    names = [group.name for group in groups if isinstance(group, (Compare, Regex, Exists))]
    if len(names) != len(groups):
        odd = next(type(group).__name__ for group in groups if not isinstance(group, (Compare, Regex, Exists)))
        reason = f"the template syntax has values, regular expressions and '*' only, and not {odd}"
        raise FilterError(reason, hint="use expressions")
    if template is not None:
        if (event_type, tuple(names)) != (template.type, template.names):
            raise TemplateError(
                f"the filter on {event_type!r} has not the attributes of the template {template.type!r}"
            )
        return names
    for name in names:
        if not re.fullmatch(r"[^\s\[\]>-](?:[^\[\]>-]*[^\s\[\]>-])?", name):
            raise FilterError(
                f"the template syntax cannot express the name {name!r} without a declared template",
                hint="a name there has no hyphen, bracket or '>', and no space at its ends",
            )
    return names


def _format_rest(group: Filter) -> str:
    match group:
        case Exists():
            return "*"
        case Regex(_, pattern):
            read = _PATTERN.match(pattern)  # not fullmatch: as the parser reads it, without second thoughts
            bare = read is not None and read.end() == len(pattern) and not pattern.startswith('"')
            return "re:" + (pattern if bare else quote(pattern))
        case Compare(_, "==", str(value)):
            plain = _PLAIN.fullmatch(value) and value != "*" and not value.startswith("re:")
            return value if plain else quote(value)
    raise FilterError("the template syntax compares with texts for equality only", hint="use the expression syntax")
