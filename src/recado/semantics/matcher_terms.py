"""The names of semantic subscriptions as *terms*, and their filters compiled so that one index serves all event shapes.

A filter's name, understood by certain settings, gets an *alias* such as ``n17``. In the filter that goes into the index
the alias stands for the name; an event is shown to the index with its values under the aliases of all names that are
aligned with them. So an alignment changes what an event looks like and never what is in the index.

- ``fail``: a name without counterpart is an absent alias, and a predicate on it is false, as it should be.
- ``ignore``: whether a predicate is left out depends on its alias being there, which ``exists`` can ask.
- ``one-to-one``: the names of a filter are aligned together, so they are one term with several aliases.
- ``similar`` by meaning: each text is an alias of its own, there if the value is similar to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from recado.filters import cesql
from recado.filters.cesql.evaluator import SPECVERSION
from recado.filters.evaluate import walk
from recado.model.filter import FALSE, And, Constant, Exists, Filter, Not, Or, Similar, Sql
from recado.model.limits import LIMITS, Limits
from recado.semantics.alignment import ALIKE, Alignment, Pair, constraint_names, rewrite
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings

REMEMBERED = 4_096
REMEMBERED_CHARS = 1_024
"""So many values, of at most this length, are remembered with the texts that they are similar to."""
COMPACT_FROM = 64
BRANCHES = 8
"""A conjunction of at most so many names is taken apart under ``ignore``, so that each part can lead to it."""

Key = tuple[Any, ...]


class Scope:
    """Settings that align alike. ``texts`` counts the texts that values are compared with.

    What is remembered of values is dropped as a whole *after* the texts changed: so a thread that compares with the
    texts of before remembers it where nobody looks any more.
    """

    def __init__(self, settings: SemanticSettings) -> None:
        self.settings = settings
        self.terms: dict[Key, Term] = {}
        self.texts: dict[str, int] = {}
        self._similar: dict[str, list[str]] = {}

    def knows(self, value: str) -> bool:
        """Can it be said without much work which texts a value is alike to? A long value has no words to compare."""
        return value in self._similar or len(value) > REMEMBERED_CHARS

    def similar_texts(self, value: str, semantics: Semantics) -> list[str]:
        """Those of the texts that a value is more alike to than the threshold."""
        remembered = self._similar
        found = remembered.get(value)
        if found is None:
            texts = list(self.texts)
            row = semantics.similarities([value], texts, self.settings, as_values=True)[0]
            limit = self.settings.value_limit
            found = [text for text, alike in zip(texts, row.tolist(), strict=True) if alike > limit or alike >= ALIKE]
            if len(value) <= REMEMBERED_CHARS:
                if len(remembered) >= REMEMBERED:
                    remembered.clear()
                remembered[value] = found
        return found

    def enter_text(self, text: str) -> None:
        self.texts[text] = self.texts.get(text, 0) + 1
        if self.texts[text] == 1:
            self._similar = {}

    def leave_text(self, text: str) -> None:
        self.texts[text] -= 1
        if not self.texts[text]:
            del self.texts[text]
            self._similar = {}


class Term:
    """Names that are aligned together, and their aliases; ``count`` filters have it.

    ``texts`` are the aliases of texts that values of a name may be similar to; ``uses`` counts those.
    """

    __slots__ = ("aliases", "count", "names", "scope", "texts", "uses")

    def __init__(self, scope: Scope, names: tuple[str, ...], aliases: tuple[str, ...]) -> None:
        self.scope, self.names, self.aliases = scope, names, aliases
        self.texts: dict[str, dict[str, str]] = {}
        self.uses: dict[tuple[str, str], int] = {}
        self.count = 0

    def leave_text(self, name: str, text: str) -> list[str]:
        """One use less; the alias, if that was the last one."""
        self.uses[name, text] -= 1
        if self.uses[name, text]:
            return []
        del self.uses[name, text]
        return [self.texts[name].pop(text)]


class Vocabulary:
    """All terms in use. ``terms`` only grows while ``generation`` stays, so a reader can go on where it stopped.

    ``changes`` counts the filters that came and went.
    """

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.generation = 0
        self.changes = 0
        self._scopes: dict[Key, Scope] = {}
        self._numbers = count()
        self._free: list[str] = []
        self._retired: list[str] = []  # aliases that plans may still know
        self._in_use = 0

    def enter(self, node: Filter, settings: SemanticSettings) -> Filter:
        """The filter over aliases; its terms are in use until ``leave`` is called with the same arguments."""
        self.changes += 1
        scope = self._scope(settings)
        aliases: dict[str, str] = {}
        terms: dict[str, Term] = {}
        for key in _keys(node, settings):
            term = scope.terms.get(key) or self._new_term(scope, key)
            term.count += 1
            aliases |= dict(zip(term.names, term.aliases, strict=True))
            terms |= dict.fromkeys(term.names, term)
        by_text = {}
        for name, text in meanings(node, settings):
            by_text[aliases[name], text] = self._enter_text(terms[name], name, text)
        return compile_filter(node, aliases, by_text, settings)

    def lacks(self, node: Filter, settings: SemanticSettings) -> list[str]:
        """Names of a filter that no filter in use has under such settings."""
        scope = self._scopes.get(_scope_key(settings))
        return [name for key in _keys(node, settings) if scope is None or key not in scope.terms for name in key[0]]

    def _enter_text(self, term: Term, name: str, text: str) -> str:
        term.scope.enter_text(text)
        term.uses[name, text] = term.uses.get((name, text), 0) + 1
        known = term.texts.setdefault(name, {})
        if text not in known:
            known[text] = self._alias()
        return known[text]

    def leave(self, node: Filter, settings: SemanticSettings) -> None:
        self.changes += 1
        scope_key = _scope_key(settings)
        scope = self._scopes.get(scope_key)
        if scope is None:  # no filter of this scope has a name
            return
        terms: dict[str, Term] = {}
        for key in _keys(node, settings):
            term = scope.terms[key]
            terms |= dict.fromkeys(term.names, term)
            term.count -= 1
            if not term.count:
                del scope.terms[key]
                self._retire(term.aliases)
        for name, text in meanings(node, settings):
            self._retire(terms[name].leave_text(name, text))
            scope.leave_text(text)
        if not scope.terms:
            del self._scopes[scope_key]
        if len(self._retired) >= COMPACT_FROM and len(self._retired) > self._in_use:
            self._compact()

    def _retire(self, aliases: Sequence[str]) -> None:
        self._retired += aliases
        self._in_use -= len(aliases)

    def _compact(self) -> None:
        """Forget terms that are out of use; when all plans are made anew, their aliases can be given again."""
        self.terms = [term for term in self.terms if term.count]
        self._free += self._retired
        self._retired = []
        self.generation += 1

    def _scope(self, settings: SemanticSettings) -> Scope:
        key = _scope_key(settings)
        if key not in self._scopes:
            self._scopes[key] = Scope(settings)
        return self._scopes[key]

    def _new_term(self, scope: Scope, key: Key) -> Term:
        names: tuple[str, ...] = key[0]
        term = scope.terms[key] = Term(scope, names, tuple(self._alias() for _ in names))
        self.terms.append(term)
        return term

    def _alias(self) -> str:
        self._in_use += 1
        return self._free.pop() if self._free else f"n{next(self._numbers)}"  # a name that CESQL can spell, too


def _scope_key(settings: SemanticSettings) -> Key:
    """What an alignment depends on, and the comparison of values."""
    options = repr(sorted(settings.options.items()))
    thresholds = settings.limit, settings.value_limit, settings.vetoes
    return settings.measure, options, thresholds, settings.assignment, settings.languages, settings.envelope


def _keys(node: Filter, settings: SemanticSettings) -> list[Key]:
    """The terms of a filter: names, and which of them have values that are compared by meaning."""
    names = constraint_names(node)
    by_meaning = {name: None for name, _ in meanings(node, settings)}
    if settings.assignment != "best":
        return [(names, tuple(by_meaning))] if names else []
    return [((name,), name in by_meaning) for name in names]


def meanings(tree: Filter, settings: SemanticSettings) -> Iterator[tuple[str, str]]:
    """Name and text of each ``similar`` that is decided by meaning."""
    if settings.values == "semantic":
        yield from ((node.name, node.text) for node in walk(tree) if isinstance(node, Similar))


def may_grow_too_long(tree: Filter, limits: Limits = LIMITS) -> bool:
    """Could a CESQL part become longer than CESQL allows when its names are replaced?"""
    for node in walk(tree):
        if isinstance(node, Sql):
            words = len(re.findall(r"\w+", node.text))
            if len(cesql.format_node(cesql.parse(node.text))) + 2 * limits.name_chars * words > limits.filter_chars:
                return True
    return False


# -- filters over aliases ----------------------------------------------------------------------------------------------


def compile_filter(
    node: Filter, aliases: Mapping[str, str], by_text: Mapping[tuple[str, str], str], settings: SemanticSettings
) -> Filter:
    """The filter as the index gets it: true of an event under its aliases iff the rewritten filter is of the event."""
    pairs = tuple(Pair(name, alias, 1.0, "") for name, alias in aliases.items())
    replaced = rewrite(node, Alignment(pairs, "", 0.0, "fail"))
    asked = _by_text(replaced, by_text) if by_text else replaced
    if settings.unmatched == "fail" or not aliases:
        return asked
    owners = {text_alias: alias for (alias, _), text_alias in by_text.items()}
    return _ignore(asked, owners, tuple(aliases.values()))


def _by_text(node: Filter, by_text: Mapping[tuple[str, str], str]) -> Filter:
    match node:
        case And(parts) | Or(parts):
            return type(node)(tuple(_by_text(part, by_text) for part in parts))
        case Not(part):
            return Not(_by_text(part, by_text))
        case Similar(alias, text):
            return Exists(by_text[alias, text])
    return node


def _ignore(node: Filter, owners: Mapping[str, str], aliases: tuple[str, ...]) -> Filter:
    """With predicates left out whose alias is absent; false if all are (Algorithm 1)."""
    grouped = _group(node, owners)
    if grouped is not None and len(grouped) <= BRANCHES:
        return _take_apart(grouped)
    some = Or(tuple(Exists(alias) for alias in aliases))
    return And((some, Not(_leave_out(node, owners)), _keep(node, owners)))


def _group(node: Filter, owners: Mapping[str, str]) -> dict[str, Filter] | None:
    """What a conjunction of plain predicates asks of each alias; None for any other filter."""
    found: dict[str, list[Filter]] = {}
    for part in node.parts if isinstance(node, And) else (node,):
        leaf = part.part if isinstance(part, Not) else part
        if isinstance(leaf, And | Or | Not | Constant | Sql):
            return None
        alias = owners.get(leaf.name, leaf.name)
        asked = found.setdefault(alias, [])
        asked += [Exists(alias), part] if isinstance(part, Not) else [part]
    return {alias: parts[0] if len(parts) == 1 else And(tuple(parts)) for alias, parts in found.items()}


def _take_apart(asked: Mapping[str, Filter]) -> Filter:
    """The first alias that is there says which branch is meant, so every branch has a predicate to be found by."""
    aliases = list(asked)
    branches = []
    for at, alias in enumerate(aliases):
        before = [Not(Exists(other)) for other in aliases[:at]]
        after = [Or((asked[other], Not(Exists(other)))) for other in aliases[at + 1 :]]
        branches.append(And((asked[alias], *before, *after)))
    return branches[0] if len(branches) == 1 else Or(tuple(branches))


def _keep(node: Filter, owners: Mapping[str, str]) -> Filter:
    """What a node asks, given that it is not left out."""
    match node:
        case And(parts):
            return And(tuple(Or((_leave_out(part, owners), _keep(part, owners))) for part in parts))
        case Or(parts):
            return Or(tuple(And((Not(_leave_out(part, owners)), _keep(part, owners))) for part in parts))
        case Not(part):
            return Not(_keep(part, owners))
    return node


def _leave_out(node: Filter, owners: Mapping[str, str]) -> Filter:
    """Is a node left out?"""
    match node:
        case Constant():
            return FALSE
        case And(parts) | Or(parts):
            return And(tuple(_leave_out(part, owners) for part in parts)) if parts else FALSE
        case Not(part):
            return _leave_out(part, owners)
        case Sql(text):
            names = sorted(cesql.names(text) - {SPECVERSION})
            return Or(tuple(Not(Exists(name)) for name in names)) if names else FALSE
    return Not(Exists(owners.get(node.name, node.name)))
