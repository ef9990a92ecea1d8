"""Tables of words in names: abbreviations, and words that exclude each other. They ship and can be extended.

``abbreviations`` says what short words stand for, by language. ``groups`` are words of which a name may have one and
not the other, such as ``min`` and ``max``: a group has *poles*, each with the words that mean it. What a user adds
stands in the file of overrides (``recado.semantics.overrides``) and wins over what ships.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Literal

import msgspec

from recado.errors import RecadoError
from recado.semantics.units import plain

Sort = Literal["contrary", "sibling", "aspect"]
Poles = Mapping[int, frozenset[int]]
"""By group, the poles that a name has."""

MEANINGS = 4
"""Of one abbreviation, at most."""


class Group(msgspec.Struct, frozen=True):
    """Poles that exclude each other, each a tuple of words."""

    sort: Sort
    poles: tuple[tuple[str, ...], ...]


class Added(msgspec.Struct, frozen=True):
    """What a user's file adds: short words with what they stand for, and groups of contraries."""

    abbreviations: tuple[tuple[str, str], ...] = ()
    contraries: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.abbreviations or self.contraries)


class NameTables:
    """What is shipped, and what was added."""

    def __init__(
        self,
        abbreviations: Mapping[str, Mapping[str, str]],
        groups: Sequence[Group],
        alone: Iterable[str],
        carriers: Iterable[str],
        added: Added = Added(),  # noqa: B008  # frozen
    ) -> None:
        self.added = added
        self._abbreviations = {
            language: {plain(short): _meanings(listed) for short, listed in table.items()}
            for language, table in abbreviations.items()
        }
        self._given = {plain(short): _meanings(listed) for short, listed in added.abbreviations}
        self.groups = (*groups, *(_group("contrary", line) for line in added.contraries))
        self.alone = frozenset(map(plain, alone))
        self.carriers = frozenset(map(plain, carriers))
        self._poles: dict[str, list[tuple[int, int]]] = {}
        for number, group in enumerate(self.groups):
            for place, pole in enumerate(group.poles):
                for word in pole:
                    self._poles.setdefault(plain(word), []).append((number, place))
        content = msgspec.json.encode(
            [self._abbreviations, self._given, self.groups, sorted(self.alone), sorted(self.carriers)]
        )
        self.digest = blake2b(content, digest_size=8).hexdigest()

    def expand(self, token: str, language: str) -> tuple[tuple[str, ...], ...]:
        """What a token stands for in a language, each as words; nothing if it is no abbreviation."""
        key = plain(token)
        return self._given.get(key) or self._abbreviations.get(language, {}).get(key, ())

    def is_short(self, token: str) -> bool:
        """Is the token an abbreviation in any language?"""
        return token in self._given or any(token in table for table in self._abbreviations.values())

    def poles(self, words: Iterable[str]) -> dict[int, frozenset[int]]:
        """The poles that some words have, by group."""
        found: dict[int, set[int]] = {}
        for word in words:
            for group, pole in self._poles.get(plain(word), ()):
                found.setdefault(group, set()).add(pole)
        return {group: frozenset(places) for group, places in found.items()}

    def knows(self, word: str) -> bool:
        """Has the word a pole, or does it carry names?"""
        return plain(word) in self._poles or plain(word) in self.carriers

    def clashes(self, a: Poles, b: Poles) -> list[int]:
        """The groups of which each has a pole that the other lacks, in the order of the tables."""
        return sorted(group for group in a.keys() & b.keys() if a[group] - b[group] and b[group] - a[group])

    def share(self, a: Poles, b: Poles) -> bool:
        """Have both a pole in common?"""
        return any(not places.isdisjoint(b.get(group, ())) for group, places in a.items())

    def extend(self, added: Added) -> NameTables:
        return _load(added)


@cache
def shipped_tables() -> NameTables:
    return _load(Added())


def _load(added: Added) -> NameTables:
    folder = files("recado") / "data" / "names"
    abbreviations = tomllib.loads((folder / "abbreviations.toml").read_text(encoding="utf-8"))
    table: dict[str, Any] = tomllib.loads((folder / "contraries.toml").read_text(encoding="utf-8"))
    sorts: tuple[tuple[Sort, str], ...] = (
        ("contrary", "contraries"),
        ("sibling", "siblings"),
        ("aspect", "aspects"),
    )
    groups = [_group(sort, line) for sort, member in sorts for line in table[member]]
    return NameTables(abbreviations, groups, table["alone"].split(), table["carriers"].split(), added)


def _meanings(listed: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(meaning.split()) for meaning in listed.split("|") if meaning.split())[:MEANINGS]


def _group(sort: Sort, line: str) -> Group:
    poles = tuple(tuple(pole.split()) for pole in line.split(","))
    if len(poles) < 2 or not all(poles):
        raise RecadoError(f"{line!r} is no group of contraries: write its words with commas between the contraries")
    return Group(sort, poles)
