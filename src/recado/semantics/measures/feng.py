"""Feng's similarity of short sentences, for names (4.10, A-06): relevance of the words, and of their order.

Names are enriched with the synonyms of each word's first sense. *Direct relevance* is how much each enriched name
bears on the other: the weighted mean, over its words, of the best similarity with a word of the other, weighted by how
much the word tells. *Indirect relevance* is an alignment of the two word sequences (Needleman-Wunsch, no cost for
gaps) over the longer length. The result is ``lambda`` of the first and the rest of the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recado.errors import RecadoError
from recado.semantics.measures.base import Bag, Floats, Ints, Measured, rounded
from recado.semantics.measures.wordnet import WordNetWords
from recado.semantics.reading import Words

LAMBDA = 0.85


class Feng(Measured):
    def __init__(self, words: WordNetWords, share: float, key: str) -> None:
        if not 0 <= share <= 1:
            raise RecadoError(f"lambda must be from 0 to 1, not {share}")
        self.key = key
        self._words = words
        self._share = share

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        rows, columns = Bag(a, lambda name: name.enriched), Bag(b, lambda name: name.enriched)
        result = np.zeros((len(a), len(b)))
        if rows.words and columns.words:
            words = self._words.matrix(rows.words, columns.words)
            direct = relevance(words, rows, columns)
            places = np.ix_(rows.names, columns.names)
            result[places] = self._share * direct
            order = alignments(words, _own(a, rows), _own(b, columns))
            result[places] += (1 - self._share) * order
        return rounded(result)


def relevance(words: Floats, rows: Bag, columns: Bag) -> Floats:
    """``dr``: both ways, each way with the share that the name has of all the enriched words."""
    of_rows = np.maximum.reduceat(words[:, columns.flat], columns.starts, axis=1)
    of_columns = np.maximum.reduceat(words[rows.flat], rows.starts, axis=0)
    forward = _weighted(of_rows, rows)
    backward = _weighted(of_columns.T, columns).T
    lengths = rows.lengths[:, None] + columns.lengths[None, :]
    return np.asarray((rows.lengths[:, None] * forward + columns.lengths[None, :] * backward) / lengths)


def _weighted(best: Floats, bag: Bag) -> Floats:
    """``sig``: for each name of the bag, the mean of its words' rows, weighted by what the words tell."""
    weights = np.array([word.weight for word in bag.words])[bag.flat]
    totals = np.add.reduceat(weights, bag.starts)
    weights = np.where(np.repeat(totals, bag.lengths) > 0, weights, 1.0)  # words that tell nothing count alike
    totals = np.add.reduceat(weights, bag.starts)
    return np.asarray(np.add.reduceat(best[bag.flat] * weights[:, None], bag.starts, axis=0) / totals[:, None])


def _own(names: Sequence[Words], bag: Bag) -> list[Ints]:
    """For each name of the bag, the places of its own words, which come before the synonyms."""
    return [bag.rows(number)[: len(names[name].own)] for number, name in enumerate(bag.names.tolist())]


def alignments(words: Floats, rows: list[Ints], columns: list[Ints]) -> Floats:
    """``indr`` for all pairs; those with equally many words are computed together."""
    result = np.zeros((len(rows), len(columns)))
    by_length = _by_length(columns)
    for length, chosen in _by_length(rows).items():
        left = np.stack([rows[number] for number in chosen])
        for other, picked in by_length.items():
            right = np.stack([columns[number] for number in picked])
            result[np.ix_(chosen, picked)] = _needleman_wunsch(words, left, right) / max(length, other)
    return result


def _needleman_wunsch(words: Floats, left: Ints, right: Ints) -> Floats:
    """The best alignment of every sequence of ``left`` with every one of ``right``, row by row of the table."""
    zero = np.zeros((len(left), len(right)))
    above = [zero] * (right.shape[1] + 1)
    for x in range(left.shape[1]):
        row = [zero]
        for y in range(right.shape[1]):
            matched = above[y] + words[np.ix_(left[:, x], right[:, y])]
            row.append(np.maximum(matched, np.maximum(above[y + 1], row[y])))
        above = row
    return above[-1]


def _by_length(sequences: list[Ints]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, sequence in enumerate(sequences):
        found.setdefault(len(sequence), []).append(number)
    return found
