"""What a measure of names is, and how lists of lists of words are put into arrays.

A name measure compares two names that have been read into words. It is symmetric, gives numbers from 0 to 1, gives
1 for a name with itself if it has words, and gives 0 where a name has none. ``matrix`` is the same for many pairs at
once; an entry never depends on which other names are in the call. Results are rounded to nine decimals, which takes
away what the order of additions leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from recado.semantics.names import Word, Words

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DECIMALS = 9


class NameMeasure(Protocol):
    """How alike two names are. ``key`` tells one measure from another: its name, its options, its sources."""

    @property
    def key(self) -> str: ...

    def similarity(self, a: Words, b: Words) -> float: ...

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats: ...


class Measured:
    """Makes ``similarity`` of ``matrix``."""

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        raise NotImplementedError

    def similarity(self, a: Words, b: Words) -> float:
        return float(self.matrix([a], [b])[0, 0])


def round_similarities(values: Floats) -> Floats:
    """Within 0 and 1, to nine decimals."""
    return np.asarray(np.round(np.clip(values, 0.0, 1.0), DECIMALS), np.float64)


class Bag:
    """The words of several names: each different word once, and for each name the places of its words.

    Names without words are left out of ``flat`` and ``starts``, since no reduction has a value for nothing; ``names``
    tells which names are in.
    """

    def __init__(self, names: Sequence[Words], choose: Callable[[Words], tuple[Word, ...]]) -> None:
        lists = [choose(name) for name in names]
        places: dict[Word, int] = {}
        flat = [places.setdefault(word, len(places)) for words in lists for word in words]
        self.words = list(places)
        self.flat: Ints = np.array(flat, np.int64)
        lengths = np.array([len(words) for words in lists], np.int64)
        self.names: Ints = np.flatnonzero(lengths)
        self.lengths: Ints = lengths[self.names]
        self.starts: Ints = np.cumsum(self.lengths) - self.lengths

    def rows(self, number: int) -> Ints:
        """The places of the words of the ``number``-th name that has any."""
        start = self.starts[number]
        return self.flat[start : start + self.lengths[number]]
