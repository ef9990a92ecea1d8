"""How often a word occurs in a corpus: the table that ``recado pipeline frequencies`` wrote, as a lookup by lemma.

A word tells the less the more common it is: ``I(x) = 1 - ln(freq(x) + 1) / ln(N + 1)`` (4.10). Without a table,
``freq`` is how often SemCor, the tagged corpus that comes with WordNet, has the word.
"""

from __future__ import annotations

import math
from collections.abc import ItemsView, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from recado.errors import RecadoError
from recado.semantics.files import read_limited

_ABOUT, _WORDS = "frequencies.json", "words.parquet"
_ABOUT_BYTES = 1 << 20


class _About(msgspec.Struct):
    format: Literal["recado-frequencies-1"]
    tokens: int
    language: str


class Frequencies:
    """Counts by lemma in a corpus of ``tokens`` words of one language (ISO 639-1)."""

    def __init__(self, counts: Mapping[str, int], tokens: int, language: str = "en") -> None:
        self._counts = dict(counts)
        self.tokens = tokens
        self.language = language
        listed = msgspec.json.encode(sorted(self._counts.items()))
        self.digest = blake2b(listed + str(tokens).encode(), digest_size=8).hexdigest()

    @classmethod
    def load(cls, folder: str | Path) -> Frequencies:
        """Read the folder; a RecadoError if it is not a complete table."""
        path = Path(folder)
        content = read_limited(path / _ABOUT, _ABOUT_BYTES, "the table of frequencies")
        try:
            about = msgspec.json.decode(content, type=_About)
        except msgspec.DecodeError as error:
            raise RecadoError(f"{path / _ABOUT}: does not describe a table of frequencies: {error}") from None
        return cls(_read_words(path / _WORDS), about.tokens, about.language)

    def items(self) -> ItemsView[str, int]:
        return self._counts.items()

    def count(self, lemma: str) -> int:
        return self._counts.get(lemma, 0)


def weight(frequency: int, tokens: int) -> float:
    """``I(x)``: 1 for a word that the corpus lacks, 0 for one that is all of it."""
    return max(0.0, 1.0 - math.log(frequency + 1) / math.log(tokens + 1)) if tokens > 0 else 1.0


def _read_words(path: Path) -> dict[str, int]:
    import pyarrow as pa  # noqa: PLC0415  # large, and most processes have no table
    from pyarrow import parquet  # noqa: PLC0415

    try:
        table = parquet.read_table(path, columns=["lemma", "count"])
    except (OSError, pa.ArrowException) as error:
        raise RecadoError(f"{path}: the table of frequencies cannot be read: {error}") from None
    sums = table.group_by("lemma").aggregate([("count", "sum")])
    return dict(zip(sums.column("lemma").to_pylist(), sums.column("count_sum").to_pylist(), strict=True))
