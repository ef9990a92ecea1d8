"""Similarities of all names and values of a data set: by the document's measures as printed, and by Recado's own.

The document's mean over all pairs of words gives an equal name less than 1 (A-05), and that is measured here. Recado
takes equal names as equal before it asks a measure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.semantics.grid import Floats, Similarities, Vocabulary
from recado.semantics.engine import Semantics
from recado.semantics.measures import get_measure
from recado.semantics.measures.base import NameMeasure
from recado.semantics.measures.names import Mean
from recado.semantics.measures.wordnet import WordNetWords
from recado.semantics.names import Word
from recado.semantics.settings import SemanticSettings


def document_measure(semantics: Semantics, method: str, word: str) -> NameMeasure:
    """``mean`` is over all pairs of words, the reading that fits the published curves best; ``mean-best`` the other."""
    if word == "res-clipped":
        return Mean(_clipped(semantics), "all", "mean over Resnik clipped at 1")
    if method == "feng":
        return get_measure("feng", semantics, word=word)
    return get_measure("mean", semantics, word=word, mode="best" if method == "mean-best" else "all")


def as_printed(
    semantics: Semantics, vocabulary: Vocabulary, measure: NameMeasure, languages: tuple[str, ...] = ("eng",)
) -> Similarities:
    def matrix(wanted: Sequence[str], there: Sequence[str]) -> Floats:
        left, right = ([semantics.reader.read(name, languages) for name in names] for names in (wanted, there))
        return measure.matrix(left, right)

    return Similarities(
        matrix(vocabulary.wanted_names, vocabulary.event_names),
        matrix(vocabulary.wanted_values, vocabulary.event_values),
    )


def as_recado(semantics: Semantics, vocabulary: Vocabulary, settings: SemanticSettings) -> Similarities:
    return Similarities(
        semantics.similarities(vocabulary.wanted_names, vocabulary.event_names, settings),
        semantics.similarities(vocabulary.wanted_values, vocabulary.event_values, settings),
    )


def as_text(vocabulary: Vocabulary, bare: bool = False) -> Similarities:
    """Equality: as written, or of the words alone, whatever their case and what stands between them (7, B1 and B2)."""

    def same(wanted: Sequence[str], there: Sequence[str]) -> Floats:
        left, right = (np.array([_bare(name) if bare else name for name in names]) for names in (wanted, there))
        return np.asarray(left[:, None] == right[None, :], dtype=np.float64)

    return Similarities(
        same(vocabulary.wanted_names, vocabulary.event_names),
        same(vocabulary.wanted_values, vocabulary.event_values),
    )


def _bare(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


class _ClippedResnik(WordNetWords):
    """Resnik as the published tables seem to have it (13.6): what is shared, cut at 1 instead of scaled to it."""

    def matrix(self, a: Sequence[Word], b: Sequence[Word]) -> Floats:
        return np.minimum(1.0, super().matrix(a, b) * self._most[0])


def _clipped(semantics: Semantics) -> WordNetWords:
    return _ClippedResnik("res", semantics.lexicon, semantics.information("semcor"), {})
