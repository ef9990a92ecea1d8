"""How alike two words are in WordNet: Wu & Palmer, Resnik, Lin, Jiang & Conrath (5; A-07 to A-12).

``c3`` is what two concepts have in common, and two words are as alike as their most alike senses. Only nouns and verbs
have a hierarchy; adjectives and adverbs are alike only if they share a concept.

    wup   2 N3 / (N1 + N2 + 2 N3): N1 and N2 links up to c3, N3 concepts from the top to c3; the best common concept
    res   IC(c3) / ln N, N the size of the corpus: the most that a concept can tell
    lin   2 IC(c3) / (IC(c1) + IC(c2))
    jcn   min(1, 1 / (IC(c1) + IC(c2) - 2 IC(c3)))

Verbs have many tops; above them is thought one more, which tells nothing. One concept is alike to itself (1 for wup,
lin and jcn), counted in the corpus or not; otherwise lin and jcn are 0 where a concept was never counted. Equal words
are alike, 1.

One sense against many is a gather: the values of all concepts above the one are laid out over those above the others,
and reduced sense by sense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.semantics.lexicon.information import Information
from recado.semantics.lexicon.wordnet import Lexicon
from recado.semantics.measures.base import Floats
from recado.semantics.names import Word

WordName = Literal["wup", "res", "lin", "jcn"]
WORD_MEASURES: tuple[str, ...] = get_args(WordName)
WordPairs = Mapping[str, Mapping[str, float]]
"""Similarities that people gave: lemma, other lemma, value; both ways round."""


class WordNetWords:
    """The similarity of words by one measure."""

    def __init__(self, measure: str, lexicon: Lexicon, information: Information, given: WordPairs) -> None:
        if measure not in WORD_MEASURES:
            raise RecadoError(f"there is no word measure {measure!r}; there are {', '.join(WORD_MEASURES)}")
        self.measure = measure
        self._lexicon = lexicon
        self._content = information.content
        self._most = information.most
        self._given = given
        self._nouns, self._hierarchy = lexicon.bounds[1], lexicon.bounds[2]

    def similarity(self, a: Word, b: Word) -> float:
        return float(self.matrix([a], [b])[0, 0])

    def matrix(self, a: Sequence[Word], b: Sequence[Word]) -> Floats:
        """One row for each word of ``a``, one column for each of ``b``."""
        result = np.zeros((len(a), len(b)))
        rows, columns = _Senses(a, self._hierarchy), _Senses(b, self._hierarchy)
        if rows.words.size and columns.words.size:
            target = _Above(columns.flat, self._lexicon)
            best = np.zeros((len(rows.words), len(columns.words)))
            for number, senses in enumerate(rows.lists):
                for sense in senses:
                    line = np.maximum.reduceat(self.row(sense, target), columns.starts)
                    np.maximum(best[number], line, out=best[number])
            result[np.ix_(rows.words, columns.words)] = best
        self._equal(a, b, result)
        return result

    # -- one sense against many ---------------------------------------------------------------------------------------

    def row(self, sense: int, target: _Above) -> Floats:
        """The similarity of a noun's or verb's concept with each concept of the target."""
        same = target.senses == sense
        if self.measure == "wup":
            return np.where(same, 1.0, self._wup(sense, target))
        common = self._common(sense, target)
        if self.measure == "res":
            return common / self._most[sense >= self._nouns]
        return np.where(same, 1.0, self._of_information(sense, target, common))

    def _of_information(self, sense: int, target: _Above, common: Floats) -> Floats:
        one, others = self._content[sense], self._content[target.senses]
        apart = one + others - 2 * common
        comparable = (one > 0) & (others > 0) & ((target.senses >= self._nouns) == (sense >= self._nouns))
        if self.measure == "lin":
            value = 2 * common / np.where(comparable, one + others, 1.0)
        else:
            value = 1 / np.maximum(apart, 1.0)
        return np.where(comparable, value, 0.0)

    def _common(self, sense: int, target: _Above) -> Floats:
        """The information of the most telling concept above both; 0 if there is none."""
        above = self._lexicon.ancestors[self._lexicon.above(sense)]
        layout = target.laid_out(above, self._content[above], 0.0)
        return np.maximum.reduceat(layout, target.starts)

    def _wup(self, sense: int, target: _Above) -> Floats:
        place = self._lexicon.above(sense)
        links = target.laid_out(self._lexicon.ancestors[place], self._lexicon.distances[place], np.inf)
        twice = 2.0 * target.depths
        return np.maximum.reduceat(twice / (links + target.links + twice), target.starts)

    # -- words --------------------------------------------------------------------------------------------------------

    def _equal(self, a: Sequence[Word], b: Sequence[Word], result: Floats) -> None:
        """Equal words, words that share an adjective or adverb, and the pairs that people gave; the last win."""
        by_lemma: dict[str, list[int]] = {}
        by_sense: dict[int, list[int]] = {}
        for column, word in enumerate(b):
            by_lemma.setdefault(word.lemma, []).append(column)
            for sense in word.senses:
                if sense >= self._hierarchy:
                    by_sense.setdefault(sense, []).append(column)
        for row, word in enumerate(a):
            for sense in word.senses:
                result[row, by_sense.get(sense, [])] = 1.0
            for column in by_lemma.get(word.lemma, []):
                if _same(word, b[column]):
                    result[row, column] = 1.0
            for lemma, value in self._given.get(word.lemma, {}).items():
                result[row, by_lemma.get(lemma, [])] = value


def _same(a: Word, b: Word) -> bool:
    """Equal lemmas are one word, but not where two languages both know it: Portuguese ``data`` is a date."""
    return a.language == b.language or not a.senses or not b.senses


class _Senses:
    """The noun and verb senses of words, flat; words that have none are left out."""

    def __init__(self, words: Sequence[Word], last: int) -> None:
        lists = [[sense for sense in word.senses if sense < last] for word in words]
        self.words = np.flatnonzero([len(senses) for senses in lists])
        self.lists = [lists[number] for number in self.words]
        self.flat = np.array([sense for senses in self.lists for sense in senses], np.int64)
        lengths = np.array([len(senses) for senses in self.lists], np.int64)
        self.starts = np.cumsum(lengths) - lengths


class _Above:
    """All concepts above each of several senses, flat, with links and depths."""

    def __init__(self, senses: npt.NDArray[np.int64], lexicon: Lexicon) -> None:
        places = [lexicon.above(sense) for sense in senses.tolist()]
        self.senses = senses
        self.ancestors = np.concatenate([lexicon.ancestors[place] for place in places])
        self.links = np.concatenate([lexicon.distances[place] for place in places]).astype(np.float64)
        self.depths = lexicon.depths[self.ancestors]
        lengths = np.array([place.stop - place.start for place in places], np.int64)
        self.starts = np.cumsum(lengths) - lengths
        self._different, self._places = np.unique(self.ancestors, return_inverse=True)

    def laid_out(self, concepts: npt.NDArray[Any], values: npt.NDArray[Any], otherwise: float) -> Floats:
        """For each of ``ancestors`` the value of that concept, or ``otherwise`` if it has none."""
        places = np.searchsorted(self._different, concepts)
        places[places == len(self._different)] = 0
        met = self._different[places] == concepts
        layout = np.full(len(self._different), otherwise)
        layout[places[met]] = values[met]
        return layout[self._places]
