"""One entry to every way of writing a filter.

``auto`` looks at the first character: ``{`` is braces, ``<`` is a template, anything else an expression. CESQL has to
be asked for by name, since many of its texts are expressions too, with another meaning.
"""

from __future__ import annotations

from typing import Literal, get_args

from recado.errors import FilterError
from recado.filters import braces, cesql, expression, template
from recado.model.filter import Filter
from recado.model.limits import LIMITS, Limits

Syntax = Literal["auto", "expression", "braces", "template", "cesql"]
SYNTAXES: tuple[str, ...] = get_args(Syntax)


def parse_filter(text: str, syntax: Syntax = "auto", limits: Limits = LIMITS) -> Filter:
    """The filter that a text describes in the given syntax; ``auto`` looks at its first character.

    A FilterError says what is wrong, where, and what would be right; a text beyond the limits is one, too. CESQL has to
    be asked for by name.
    """
    match detect(text) if syntax == "auto" else syntax:
        case "expression":
            return expression.parse(text, limits)
        case "braces":
            return braces.parse(text, limits)
        case "template":
            return template.parse(text, limits)
        case "cesql":
            if len(text) > limits.filter_chars:
                raise FilterError(f"the filter has {len(text):,} characters; the limit is {limits.filter_chars:,}")
            return cesql.to_filter(text)
    raise FilterError(f"there is no filter syntax called {syntax!r}", hint=f"the syntaxes are {', '.join(SYNTAXES)}")


def format_filter(node: Filter, syntax: Syntax = "auto") -> str:
    """The filter as text; ``auto`` is the expression syntax, which can write every filter.

    A FilterError if the syntax cannot write it.
    """
    match syntax:
        case "auto" | "expression":
            return expression.format_expression(node)
        case "braces":
            return braces.format_braces(node)
        case "template":
            return template.format_template(node)
    raise FilterError(f"a filter cannot be written as {syntax!r}", hint="write it as expression, braces or template")


def detect(text: str) -> Syntax:
    """The syntax that ``auto`` stands for."""
    first = text.lstrip()[:1]
    if first == "{":
        return "braces"
    return "template" if first == "<" else "expression"
