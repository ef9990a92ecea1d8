"""The cosine of two names' sentence vectors: what a language model trained on sentences takes for alike.

The model knows English. Names of other languages are given to it as far as the lexicon translates them. A negative
cosine counts as 0. Products are summed row by row, in the same order whatever the number of names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recado.semantics.embedding.model import Model
from recado.semantics.measures.base import Floats, Measured
from recado.semantics.reading import Words

DECIMALS = 6
"""Single precision, and another processor may add in another order: more digits would not mean anything."""


class Embedding(Measured):
    key = "embedding"

    def __init__(self, model: Model) -> None:
        self._model = model

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        result = np.zeros((len(a), len(b)))
        rows = [number for number, name in enumerate(a) if name.english]
        columns = [number for number, name in enumerate(b) if name.english]
        if rows and columns:
            left = self._model.vectors([a[number].english for number in rows]).astype(np.float64)
            right = self._model.vectors([b[number].english for number in columns]).astype(np.float64)
            for number, vector in zip(rows, left, strict=True):
                result[number, columns] = (right * vector).sum(axis=1)
        return np.asarray(np.round(np.clip(result, 0.0, 1.0), DECIMALS), np.float64)
