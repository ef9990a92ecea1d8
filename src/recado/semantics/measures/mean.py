"""The mean of the word similarities of two names (4.9, A-05).

``all`` averages over all pairs of words, ``best`` over each word's best partner, both ways. ``all`` is nearer to the
document's curves; ``best`` gives 1 to a name with itself and is the better one to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from recado.errors import RecadoError
from recado.semantics.measures.base import Bag, Floats, Measured, rounded
from recado.semantics.measures.wordnet import WordNetWords
from recado.semantics.reading import Words

Mode = Literal["best", "all"]
MODES: tuple[str, ...] = get_args(Mode)


class Mean(Measured):
    def __init__(self, words: WordNetWords, mode: str, key: str) -> None:
        if mode not in MODES:
            raise RecadoError(f"there is no mode {mode!r} of the mean; there are {', '.join(MODES)}")
        self.key = key
        self._words = words
        self._mode = mode

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        rows, columns = Bag(a, lambda name: name.own), Bag(b, lambda name: name.own)
        result = np.zeros((len(a), len(b)))
        if rows.words and columns.words:
            words = self._words.matrix(rows.words, columns.words)
            scores = self._all(words, rows, columns) if self._mode == "all" else best_means(words, rows, columns)
            result[np.ix_(rows.names, columns.names)] = scores
        return rounded(result)

    @staticmethod
    def _all(words: Floats, rows: Bag, columns: Bag) -> Floats:
        sums = np.add.reduceat(words[:, columns.flat], columns.starts, axis=1)
        totals: Floats = np.add.reduceat(sums[rows.flat], rows.starts, axis=0)
        return totals / np.outer(rows.lengths, columns.lengths)


def best_means(words: Floats, rows: Bag, columns: Bag) -> Floats:
    """The average of each word's best partner, in both directions."""
    of_rows = np.maximum.reduceat(words[:, columns.flat], columns.starts, axis=1)
    of_columns = np.maximum.reduceat(words[rows.flat], rows.starts, axis=0)
    forward = np.add.reduceat(of_rows[rows.flat], rows.starts, axis=0) / rows.lengths[:, None]
    backward = np.add.reduceat(of_columns[:, columns.flat], columns.starts, axis=1) / columns.lengths[None, :]
    return np.asarray((forward + backward) / 2)
