"""The mean of the word similarities of two names (4.9, A-05).

``all`` averages over all pairs of words, ``best`` over each word's best partner, both ways. ``all`` is nearer to the
document's curves; ``best`` gives 1 to a name with itself and is the better one to use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import DamerauLevenshtein, Jaro, JaroWinkler, Levenshtein

from recado.errors import RecadoError
from recado.semantics.embedding.model import Model
from recado.semantics.measures.base import Bag, Floats, Ints, Measured, NameMeasure, round_similarities
from recado.semantics.measures.wordnet import WordNetWords
from recado.semantics.names import Words

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
        return round_similarities(result)

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


# --- Feng's similarity of short sentences, for names (4.10, A-06): relevance of the words, and of their order --------
#
# Names are enriched with the synonyms of each word's first sense. *Direct relevance* is how much each enriched name
# bears on the other: the weighted mean, over its words, of the best similarity with a word of the other, weighted by
# how much the word tells. *Indirect relevance* is an alignment of the two word sequences (Needleman-Wunsch, no cost
# for gaps) over the longer length. The result is ``lambda`` of the first and the rest of the second.


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
        return round_similarities(result)


def relevance(words: Floats, rows: Bag, columns: Bag) -> Floats:
    """``dr``: both ways, each way with the share that the name has of all the enriched words."""
    of_rows = np.maximum.reduceat(words[:, columns.flat], columns.starts, axis=1)
    of_columns = np.maximum.reduceat(words[rows.flat], rows.starts, axis=0)
    forward = _weigh(of_rows, rows)
    backward = _weigh(of_columns.T, columns).T
    lengths = rows.lengths[:, None] + columns.lengths[None, :]
    return np.asarray((rows.lengths[:, None] * forward + columns.lengths[None, :] * backward) / lengths)


def _weigh(best: Floats, bag: Bag) -> Floats:
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


# --- How alike two names are written: distances between strings, which know nothing of meaning -----------------------
#
# They need no lexicon, see through typing errors and joined words, and are the yardstick that the others must beat. The
# names are compared as their plain words, in one case.


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
        return round_similarities(np.array(scores, np.float64).reshape(len(a), len(b)))

    def _pair(self, one: str, other: str) -> float:
        if one == other:
            return 1.0 if one else 0.0
        first, second = sorted((one, other))  # Jaro's transpositions are counted from one side
        return self._score(first, second) if first else 0.0


# --- The cosine of two names' sentence vectors: what a language model trained on sentences takes for alike -----------
#
# The model knows English. Names of other languages are given to it as far as the lexicon translates them. A negative
# cosine counts as 0. Products are summed row by row, in the same order whatever the number of names.


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


# --- Two measures that err differently, averaged: the one that the document's own probe set favours (13.6) -----------
#
# The lexicon knows synonyms and kinds, the language model knows what words occur together. Their mean was right more
# often than either.


class Hybrid(Measured):
    def __init__(self, parts: Sequence[NameMeasure], share: float) -> None:
        if not 0 <= share <= 1:
            raise RecadoError(f"the share of the embedding must be from 0 to 1, not {share}")
        self._embedding, self._lexical = parts
        self._share = share
        self.key = f"hybrid({self._embedding.key}, {self._lexical.key}, share={share:g})"

    def matrix(self, a: Sequence[Words], b: Sequence[Words]) -> Floats:
        embedding, lexical = self._embedding.matrix(a, b), self._lexical.matrix(a, b)
        return round_similarities(np.asarray(self._share * embedding + (1 - self._share) * lexical))
