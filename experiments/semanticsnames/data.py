"""Labelled pairs of names, of values and of whole schemas, and how they are split.

The split was fixed before anything was tuned: a pair, or the title of a schema pair, belongs to a half by the parity of
its digest. Tables and thresholds were chosen by what the tuning half says; the final half is only counted.

A split by pairs leaves names in both halves, and who labelled the pairs also wrote the tables. So there are pairs of
other *trades*, labelled later and split by vocabulary: ``read_trades``. ``read_new`` has the pairs of the final half
of whose names the tuning half has none, ``read_blind`` pairs by somebody who had not read the tables.
"""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from typing import Literal, get_args

import msgspec

from experiments.expected import ExperimentError

Half = Literal["tuning", "final"]
Label = Literal["same", "convert", "other"]
HALVES: tuple[Half, ...] = get_args(Half)
LABELS: tuple[Label, ...] = get_args(Label)
SORTS = ("synonym", "spelling", "abbreviation", "language", "unit", "contrary", "sibling", "aspect", "unrelated")


class LabelledPair(msgspec.Struct, frozen=True):
    """``sort`` is what makes it hard; ``sources`` are the vocabularies that the names come from."""

    a: str
    b: str
    label: Label
    sort: str
    sources: tuple[str, str]

    @property
    def half(self) -> Half:
        return half_of("|".join(sorted((self.a, self.b))))


class SchemaPair(msgspec.Struct, frozen=True):
    """``right`` has the attribute for each name that has one; ``converted`` are names whose value has to be."""

    title: str
    sources: tuple[str, str]
    asks: tuple[str, ...]
    says: tuple[str, ...]
    right: dict[str, str]
    converted: frozenset[str]

    @property
    def half(self) -> Half:
        return half_of(self.title)


def read_trades(half: Half) -> list[LabelledPair]:
    """The pairs of vocabularies that nothing else is from; a vocabulary is in one half."""
    return [one for one in read_pairs("trades.txt") if half_of(one.sources[0]) == half]


def read_new() -> list[LabelledPair]:
    """The pairs of the final half whose names are in no pair of the tuning half."""
    pairs = read_pairs()
    seen = {name for one in pairs if one.half == "tuning" for name in (one.a, one.b)}
    return [one for one in pairs if one.half == "final" and seen.isdisjoint((one.a, one.b))]


def read_blind() -> list[LabelledPair]:
    """The pairs that somebody wrote down who had not read the tables."""
    return read_pairs("blind.txt")


def half_of(text: str) -> Half:
    return HALVES[blake2b(text.encode(), digest_size=1).digest()[0] % 2]


def read_pairs(file: str = "pairs.txt") -> list[LabelledPair]:
    found = []
    for place, line in _lines(file):
        fields = [field.strip() for field in line.split(" | ")]
        if len(fields) != 6 or fields[2] not in LABELS or fields[3] not in SORTS:
            raise ExperimentError(f"{place}: is not a labelled pair: {line!r}")
        a, b, label, sort, one, other = fields
        found.append(LabelledPair(a, b, LABELS[LABELS.index(label)], sort, (one, other)))
    return found


def read_schemas() -> list[SchemaPair]:
    found: list[SchemaPair] = []
    names: dict[str, tuple[str, ...]] = {}
    for place, line in _lines("schemas.txt"):
        if line.startswith("["):
            title, _, sources = line[1:].partition("] ")
            one, other = sources.split(", ")
            names = {}
        elif line.startswith(("asks: ", "says: ")):
            names[line[:4]] = tuple(line[6:].split(", "))
            if len(names) == 2:
                found.append(SchemaPair(title, (one, other), names["asks"], names["says"], {}, frozenset()))
        else:
            name, _, attribute = line[2:].partition(" -> ")
            last = found[-1]
            if line[0] not in "=~" or name not in last.asks or attribute not in last.says:
                raise ExperimentError(f"{place}: names what the schemas do not have: {line!r}")
            converted = last.converted | {name} if line[0] == "~" else last.converted
            found[-1] = msgspec.structs.replace(last, right=last.right | {name: attribute}, converted=converted)
    return found


def _lines(file: str) -> list[tuple[str, str]]:
    text = (files("experiments") / "semanticsnames" / file).read_text(encoding="utf-8")
    listed = [(f"{file}:{number}", line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    return [(place, line) for place, line in listed if line and not line.startswith("#")]
