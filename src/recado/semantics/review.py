"""Pairs that a person should look at, and what they said: remembered in one file of the data folder.

A pair is *uncertain* if its similarity is within a margin of the threshold. Accepted, it is as good as equal (1.0);
refused, it is as good as nothing (0.0), for every measure. The list of open pairs is bounded: when it is full, the
ones that are farther from their threshold make room.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.semantics.folders import data_folder, read_limited, write_whole
from recado.semantics.overrides import Given, spelt

OPEN_PAIRS = 1_000
FILE_BYTES = 64 << 20
VERSION = "recado-review-1"


class Open(msgspec.Struct, frozen=True):
    """An uncertain pair: a filter's name, an event's attribute, how alike they were, by what, against what."""

    constraint: str
    attribute: str
    similarity: float
    measure: str
    threshold: float


class _File(msgspec.Struct):
    version: str = VERSION
    open: list[Open] = []
    accepted: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []


def review_path() -> Path:
    return data_folder() / "review.json"


class ReviewList:
    """Open pairs and decisions. Changes are kept when ``save`` is called."""

    def __init__(self, content: _File | None = None) -> None:
        content = content or _File()
        self._open = {_key(one.constraint, one.attribute): one for one in content.open}
        self._decided = {_key(*pair): (*pair, True) for pair in content.accepted}
        self._decided |= {_key(*pair): (*pair, False) for pair in content.refused}

    @classmethod
    def load(cls, path: Path | None = None) -> ReviewList:
        """The list of the file; an empty one if there is none; a RecadoError if it is damaged."""
        place = path or review_path()
        if not place.exists():
            return cls()
        try:
            content = msgspec.json.decode(read_limited(place, FILE_BYTES, "the review list"), type=_File)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise RecadoError(f"{place}: the review list is damaged: {error}; repair or delete it") from None
        if content.version != VERSION:
            raise RecadoError(f"{place}: the review list is of version {content.version!r}, not {VERSION!r}")
        return cls(content)

    def save(self, path: Path | None = None) -> None:
        accepted = [(a, b) for a, b, yes in self._decided.values() if yes]
        refused = [(a, b) for a, b, yes in self._decided.values() if not yes]
        content = msgspec.json.encode(_File(VERSION, self.open, accepted, refused))
        write_whole(path or review_path(), msgspec.json.format(content, indent=1) + b"\n")

    @property
    def open(self) -> list[Open]:
        """What nobody has decided yet, the nearest to its threshold first."""
        return sorted(self._open.values(), key=_distance)

    def note(self, pairs: Iterable[Open]) -> None:
        """Put uncertain pairs on the list, unless they are decided."""
        for pair in pairs:
            key = _key(pair.constraint, pair.attribute)
            if key not in self._decided:
                self._open[key] = pair
        if len(self._open) > OPEN_PAIRS:
            self._open = {_key(one.constraint, one.attribute): one for one in self.open[:OPEN_PAIRS]}

    def decide(self, a: str, b: str, accept: bool) -> None:
        """Remember that two names are the same, or that they are not."""
        self._open.pop(_key(a, b), None)
        self._decided[_key(a, b)] = (a, b, accept)

    def decided(self) -> list[Given]:
        """Accepted and refused pairs, as similarities that people gave."""
        return [
            Given(a, b, float(yes), "name", "accepted" if yes else "refused") for a, b, yes in self._decided.values()
        ]


def _distance(one: Open) -> tuple[float, str, str]:
    return abs(one.similarity - one.threshold), one.constraint, one.attribute


def _key(a: str, b: str) -> tuple[str, str]:
    first, second = sorted((spelt(a), spelt(b)))
    return first, second
