"""The expression syntax: ``type == "StockExchange" and Stock == "PETR4" and (Price < 25 or Volume >= 1_000_000)``.

``parse`` reads a text into the filter tree, ``format`` writes a tree as text, and ``parse(format(f)) == f`` for every
tree. docs/filter-language.md has the grammar.
"""

from recado.filters.expression.parser import parse
from recado.filters.expression.printer import format, format_name, format_value

__all__ = ["format", "format_name", "format_value", "parse"]
