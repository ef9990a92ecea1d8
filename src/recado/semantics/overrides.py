"""Similarities that people gave (3.7, 4.12): they win over every measure, with the cache on or off.

A TOML or JSON file with a list ``precomputed``::

    [[precomputed]]
    a = "laptop"
    b = "notebook"
    similarity = 0.95

A pair of single words is a pair of *words*: it holds wherever a name has one of them, by its lemma. A pair with a
longer side is a pair of *names*, in any spelling (``sale price``, ``salePrice``). ``kind = "name"`` makes names of
single words too. The same file may add to the tables of words in names (``recado.semantics.tables``)::

    contraries = ["inlet intake, outlet exhaust"]

    [abbreviations]
    hmdt = "humidity"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recado.errors import RecadoError
from recado.semantics.files import data_folder, read_limited, write_whole
from recado.semantics.names import Words, tokens
from recado.semantics.tables import Added, NameTables, shipped_tables

OVERRIDES_BYTES = 16 << 20
PAIRS = 100_000
NOTHING_ADDED = Added()
_MEMBERS = ("a", "b", "similarity", "kind")
_ADDED = {"abbreviations", "contraries"}


class Given(NamedTuple):
    """One pair; ``kind`` is ``word`` or ``name``, ``origin`` says who gave it."""

    a: str
    b: str
    similarity: float
    kind: str
    origin: str = "given"


class Overrides:
    """Pairs by word and by name. Later pairs win over earlier ones."""

    def __init__(self, pairs: Iterable[Given] = (), added: Added = NOTHING_ADDED) -> None:
        self.added = added
        self.words: dict[str, dict[str, float]] = {}
        self._names: dict[tuple[str, str], Given] = {}
        for pair in pairs:
            if pair.kind == "word":
                self.words.setdefault(spelt(pair.a), {})[spelt(pair.b)] = pair.similarity
                self.words.setdefault(spelt(pair.b), {})[spelt(pair.a)] = pair.similarity
            else:
                self._names[_key(spelt(pair.a), spelt(pair.b))] = pair
        listed = [sorted((a, sorted(others.items())) for a, others in self.words.items()), sorted(self._names.values())]
        self.digest = blake2b(msgspec.json.encode(listed), digest_size=8).hexdigest()

    @property
    def tables(self) -> NameTables:
        """The tables of words in names, with what was added to them."""
        return shipped_tables().extend(self.added) if self.added else shipped_tables()

    def __bool__(self) -> bool:
        return bool(self.words or self._names)

    @classmethod
    def load(cls, path: str | Path) -> Overrides:
        return cls(read_pairs(path), read_added(path))

    def find(self, a: Words, b: Words) -> Given | None:
        """What was given for two names, or for the single words they consist of."""
        if self._names:
            pair = self._names.get(_key(spelt(a.name), spelt(b.name)))
            if pair is not None:
                return pair
        if self.words and len(a.own) == len(b.own) == 1:
            value = self.words.get(a.own[0].lemma, {}).get(b.own[0].lemma)
            if value is not None:
                return Given(a.own[0].lemma, b.own[0].lemma, value, "word")
        return None


def spelt(name: str) -> str:
    """One spelling for a name in all its spellings; a name without words is itself."""
    return " ".join(tokens(name)) or name


def read_pairs(path: str | Path) -> list[Given]:
    """The pairs of a file; a RecadoError names the place of what is wrong."""
    place, decoded = Path(path), _decode(path)
    pairs = decoded.get("precomputed", [] if _ADDED & decoded.keys() else None)
    if not isinstance(pairs, list):
        raise RecadoError(f'{place}: lacks the list "precomputed"')
    if len(pairs) > PAIRS:
        raise RecadoError(f"{place}: has {len(pairs):,} pairs; the limit is {PAIRS:,}")
    return [_pair(pair, f"{place}: precomputed[{number}]") for number, pair in enumerate(pairs)]


def read_added(path: str | Path) -> Added:
    """What a file adds to the tables of words in names; a RecadoError names the place of what is wrong."""
    place, decoded = Path(path), _decode(path)
    short, groups = decoded.get("abbreviations", {}), decoded.get("contraries", [])
    if not isinstance(short, Mapping) or not all(isinstance(one, str) and one.strip() for one in short.values()):
        raise RecadoError(f'{place}: abbreviations: must be a table such as hmdt = "humidity"')
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise RecadoError(f'{place}: contraries: must be a list such as ["inlet intake, outlet exhaust"]')
    if len(short) + len(groups) > PAIRS:
        raise RecadoError(f"{place}: adds {len(short) + len(groups):,} entries; the limit is {PAIRS:,}")
    added = Added(tuple(sorted(short.items())), tuple(groups))
    shipped_tables().extend(added)  # a group that is none is told here
    return added


def _decode(path: str | Path) -> Mapping[str, Any]:
    place = Path(path)
    content = read_limited(place, OVERRIDES_BYTES, "the file of similarities")
    try:
        decoded: Any = msgspec.json.decode(content) if place.suffix == ".json" else tomllib.loads(content.decode())
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecadoError(f"{place}: {error}") from None
    if not isinstance(decoded, Mapping):
        raise RecadoError(f'{place}: lacks the list "precomputed"')
    return decoded


def _pair(pair: Any, place: str) -> Given:
    if not isinstance(pair, Mapping):
        raise RecadoError(f'{place}: must be a table such as a = "laptop", b = "notebook", similarity = 0.95')
    for member in pair:
        if member not in _MEMBERS:
            raise RecadoError(f"{place}.{member}: there is no such member; there are {', '.join(_MEMBERS)}")
    a, b = (_text(pair, side, place) for side in "ab")
    value = pair.get("similarity")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise RecadoError(f"{place}.similarity: must be a number from 0 to 1, not {value!r}")
    kind = pair.get("kind", "word" if len(tokens(a)) == len(tokens(b)) == 1 else "name")
    if kind not in ("word", "name"):
        raise RecadoError(f"{place}.kind: must be word or name, not {kind!r}")
    return Given(a, b, float(value), kind)


def _text(pair: Mapping[str, Any], side: str, place: str) -> str:
    value = pair.get(side)
    if not isinstance(value, str) or not value.strip():
        raise RecadoError(f"{place}.{side}: must be a word or a name, not {value!r}")
    return value


def _key(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


# --- Pairs that a person should look at, and what they said: remembered in one file of the data folder ---------------
#
# A pair is *uncertain* if its similarity is within a margin of the threshold. Accepted, it is as good as equal (1.0);
# refused, it is as good as nothing (0.0), for every measure. The list of open pairs is bounded: when it is full, the
# ones that are farther from their threshold make room.


OPEN_PAIRS = 1_000
REVIEW_BYTES = 64 << 20
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
        self._open = {_review_key(one.constraint, one.attribute): one for one in content.open}
        self._decided = {_review_key(*pair): (*pair, True) for pair in content.accepted}
        self._decided |= {_review_key(*pair): (*pair, False) for pair in content.refused}

    @classmethod
    def load(cls, path: Path | None = None) -> ReviewList:
        """The list of the file; an empty one if there is none; a RecadoError if it is damaged."""
        place = path or review_path()
        if not place.exists():
            return cls()
        try:
            content = msgspec.json.decode(read_limited(place, REVIEW_BYTES, "the review list"), type=_File)
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
            key = _review_key(pair.constraint, pair.attribute)
            if key not in self._decided:
                self._open[key] = pair
        if len(self._open) > OPEN_PAIRS:
            self._open = {_review_key(one.constraint, one.attribute): one for one in self.open[:OPEN_PAIRS]}

    def decide(self, a: str, b: str, accept: bool) -> None:
        """Remember that two names are the same, or that they are not."""
        self._open.pop(_review_key(a, b), None)
        self._decided[_review_key(a, b)] = (a, b, accept)

    def undo(self, a: str, b: str) -> bool:
        """Forget what was decided of two names; was there anything?"""
        return self._decided.pop(_review_key(a, b), None) is not None

    def decided(self) -> list[Given]:
        """Accepted and refused pairs, as similarities that people gave."""
        return [
            Given(a, b, float(yes), "name", "accepted" if yes else "refused") for a, b, yes in self._decided.values()
        ]


def _distance(one: Open) -> tuple[float, str, str]:
    return abs(one.similarity - one.threshold), one.constraint, one.attribute


def _review_key(a: str, b: str) -> tuple[str, str]:
    first, second = sorted((spelt(a), spelt(b)))
    return first, second
