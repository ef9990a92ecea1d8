"""The hand-written thesaurus of the experiment: what attributes and values are called, in two languages.

It is kept apart from WordNet, so that no measure is tested on its own words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Language = Literal["eng", "por"]
LANGUAGES: tuple[Language, ...] = ("eng", "por")


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ways to say one thing; the first is the plain one."""

    eng: tuple[str, ...]
    por: tuple[str, ...]

    def of(self, language: Language) -> tuple[str, ...]:
        return self.eng if language == "eng" else self.por


class Meaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value that an attribute can have; ``within`` names what it implies for other attributes."""

    id: str
    eng: tuple[str, ...]
    por: tuple[str, ...]
    weight: int = 1
    family: str = ""
    within: dict[str, str] = msgspec.field(default_factory=dict, name="in")

    def of(self, language: Language) -> tuple[str, ...]:
        return self.eng if language == "eng" else self.por


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events of one sort of sensor: the attributes all of them have, and those that half of them have."""

    id: str
    seeds: int
    names: tuple[str, ...]
    optional: tuple[str, ...]


class Thesaurus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: dict[str, Words]
    values: dict[str, tuple[Meaning, ...]]
    families: tuple[Family, ...]

    def value(self, concept: str, id: str) -> Meaning:
        return next(meaning for meaning in self.values[concept] if meaning.id == id)


@cache
def thesaurus() -> Thesaurus:
    text = (files("experiments") / "semantics" / "thesaurus.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Thesaurus)


def implied(values: Mapping[str, tuple[Meaning, ...]], concept: str, id: str) -> dict[str, str]:
    """Everything that follows from a value: the city gives the country, the country the continent."""
    found: dict[str, str] = {}
    waiting = [(concept, id)]
    while waiting:
        at, value = waiting.pop()
        meaning = next(one for one in values[at] if one.id == value)
        for other, what in meaning.within.items():
            found[other] = what
            waiting.append((other, what))
    return found
