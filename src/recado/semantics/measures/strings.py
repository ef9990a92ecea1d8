"""How alike two names are written: distances between strings, which know nothing of meaning.

They need no lexicon, see through typing errors and joined words, and are the yardstick that the others must beat. The
names are compared as their plain words, in one case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import DamerauLevenshtein, Jaro, JaroWinkler, Levenshtein

from recado.semantics.measures.base import Floats, Measured, rounded
from recado.semantics.reading import Words

SCORERS: dict[str, Callable[[str, str], float]] = {
    "levenshtein": Levenshtein.normalized_similarity,
    "damerau": DamerauLevenshtein.normalized_similarity,
    "jaro": Jaro.similarity,
    "jaro-winkler": JaroWinkler.similarity,
    "token-set": lambda a, b: fuzz.token_set_ratio(a, b) / 100,
    "token-sort": lambda a, b: fuzz.token_sort_ratio(a, b) / 100,
}


class Strings(Measured):
    def __init__(self, scorer: str) -> None:
        self.key = scorer
        self._score = SCORERS[scorer]

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        scores = [[self._pair(one.text, other.text) for other in b] for one in a]
        return rounded(np.array(scores, np.float64).reshape(len(a), len(b)))

    def _pair(self, one: str, other: str) -> float:
        if one == other:
            return 1.0 if one else 0.0
        first, second = sorted((one, other))  # Jaro's transpositions are counted from one side
        return self._score(first, second) if first else 0.0
