"""Similarities that people gave (3.7, 4.12): they win over every measure, with the cache on or off.

A TOML or JSON file with a list ``precomputed``::

    [[precomputed]]
    a = "laptop"
    b = "notebook"
    similarity = 0.95

A pair of single words is a pair of *words*: it holds wherever a name has one of them, by its lemma. A pair with a
longer side is a pair of *names*, in any spelling (``sale price``, ``salePrice``). ``kind = "name"`` makes names of
single words too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recado.errors import RecadoError
from recado.semantics.folders import read_limited
from recado.semantics.names import tokens
from recado.semantics.reading import Words

FILE_BYTES = 16 << 20
PAIRS = 100_000
_MEMBERS = ("a", "b", "similarity", "kind")


class Given(NamedTuple):
    """One pair; ``kind`` is ``word`` or ``name``, ``origin`` says who gave it."""

    a: str
    b: str
    similarity: float
    kind: str
    origin: str = "given"


class Overrides:
    """Pairs by word and by name. Later pairs win over earlier ones."""

    def __init__(self, pairs: Iterable[Given] = ()) -> None:
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

    def __bool__(self) -> bool:
        return bool(self.words or self._names)

    @classmethod
    def load(cls, path: str | Path) -> Overrides:
        return cls(read_pairs(path))

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
    place = Path(path)
    content = read_limited(place, FILE_BYTES, "the file of similarities")
    try:
        decoded: Any = msgspec.json.decode(content) if place.suffix == ".json" else tomllib.loads(content.decode())
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecadoError(f"{place}: {error}") from None
    pairs = decoded.get("precomputed") if isinstance(decoded, Mapping) else None
    if not isinstance(pairs, list):
        raise RecadoError(f'{place}: lacks the list "precomputed"')
    if len(pairs) > PAIRS:
        raise RecadoError(f"{place}: has {len(pairs):,} pairs; the limit is {PAIRS:,}")
    return [_pair(pair, f"{place}: precomputed[{number}]") for number, pair in enumerate(pairs)]


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
