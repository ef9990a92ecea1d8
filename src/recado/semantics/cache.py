"""Similarities of pairs of names that were asked for before (4.12), bounded, shared by threads, kept over restarts.

Names are few and events are many, so nearly every question is a repeated one. The least recently used pair is
forgotten first. A pair is kept under the measure's key and the languages, in one order, since measures are symmetric;
what comes out is exactly what the measure would give. A saved file says by whose knowledge it was made (``digest``:
lexicon, overrides, frequencies); one made by other knowledge, by another release of Recado, or damaged, is not used.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.semantics.files import read_limited, write_whole
from recado.semantics.names import REMEMBERED_CHARS
from recado.version import __version__

ENTRIES = 200_000
VERSION = f"recado-similarities-1 of {__version__}"
FILE_BYTES = 1 << 30
AT_A_TIME = 1_024
"""So many pairs are looked up before another thread has its turn."""

_FRAME_BYTES = 256
"""Of a file, at most, besides its entries and its digest."""

Pair = tuple[str, str]
Key = tuple[str, str, str]


class _File(msgspec.Struct):
    version: str
    digest: str
    entries: list[tuple[str, str, str, float]]


class SimilarityCache:
    """Values by ``scope`` (measure and languages) and pair of names."""

    def __init__(self, entries: int = ENTRIES) -> None:
        if entries < 1:
            raise RecadoError(f"a cache holds at least one entry, not {entries}")
        self.entries = entries
        self.hits = 0
        self.misses = 0
        self._values: OrderedDict[Key, float] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, scope: str, pairs: Iterable[Pair]) -> list[float | None]:
        """What is known of each pair."""
        found: list[float | None] = []
        waiting = iter(pairs)
        while some := list(islice(waiting, AT_A_TIME)):
            with self._lock:
                found += [self._get((scope, a, b) if a <= b else (scope, b, a)) for a, b in some]
        return found

    def _get(self, key: Key) -> float | None:
        value = self._values.get(key)
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
            self._values.move_to_end(key)
        return value

    def put(self, scope: str, values: Iterable[tuple[str, str, float]]) -> None:
        waiting = iter(values)
        while some := list(islice(waiting, AT_A_TIME)):
            with self._lock:
                for a, b, value in some:
                    if len(a) <= REMEMBERED_CHARS and len(b) <= REMEMBERED_CHARS:
                        self._values[(scope, a, b) if a <= b else (scope, b, a)] = value
                while len(self._values) > self.entries:
                    self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def save(self, path: Path, digest: str, most_bytes: int = FILE_BYTES) -> None:
        """Write the entries, the least recently used first; what is too much of them is left out."""
        with self._lock:
            entries = [(*key, value) for key, value in self._values.items()]
        lines = [msgspec.json.encode(entry) for entry in entries]
        room = most_bytes - _FRAME_BYTES - len(digest)
        kept = len(lines)
        while kept and (room := room - len(lines[kept - 1]) - 1) >= 0:
            kept -= 1
        body = msgspec.json.encode(_File(VERSION, digest, []))[:-2] + b",".join(lines[kept:]) + b"]}"
        write_whole(path, _checksum(body) + b"\n" + body + b"\n")

    def load(self, path: Path, digest: str) -> int:
        """Take the entries of a file and say how many; 0 if it is missing, damaged, or made by other knowledge."""
        try:
            checksum, _, body = (
                read_limited(path, FILE_BYTES, "the cache of similarities").rstrip(b"\n").partition(b"\n")
            )
            content = msgspec.json.decode(body, type=_File)
        except (RecadoError, msgspec.DecodeError, UnicodeError):
            return 0
        if checksum != _checksum(body) or content.version != VERSION or content.digest != digest:
            return 0
        for scope, a, b, value in content.entries:
            self.put(scope, [(a, b, value)])
        return len(content.entries)


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
