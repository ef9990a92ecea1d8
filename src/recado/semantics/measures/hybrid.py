"""Two measures that err differently, averaged: the one that the document's own probe set favours (13.6).

The lexicon knows synonyms and kinds, the language model knows what words occur together. Their mean was right more
often than either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recado.errors import RecadoError
from recado.semantics.measures.base import Floats, Measured, NameMeasure, rounded
from recado.semantics.reading import Words


class Hybrid(Measured):
    def __init__(self, parts: Sequence[NameMeasure], share: float) -> None:
        if not 0 <= share <= 1:
            raise RecadoError(f"the share of the embedding must be from 0 to 1, not {share}")
        self._embedding, self._lexical = parts
        self._share = share
        self.key = f"hybrid({self._embedding.key}, {self._lexical.key}, share={share:g})"

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        embedding, lexical = self._embedding.matrix(a, b), self._lexical.matrix(a, b)
        return rounded(np.asarray(self._share * embedding + (1 - self._share) * lexical))
