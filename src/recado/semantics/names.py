"""A name cut into tokens (4.14): ``residentialArea``, ``residential_area`` and ``Residential-Area`` are two words.

A capital letter begins a word after any letter or digit that is no capital, and the last of several capitals does
before a small letter: ``HTTPServer2Port`` is ``http``, ``server2``, ``port``. Everything else is what
``recado.semantics.words`` says of texts. Words such as ``of`` and ``da`` that only join others are left out, unless
there are no others.

A name longer than ``NAME_CHARS`` or with more than ``NAME_WORDS`` words has no words at all: whatever it is, it is
alike to itself only. Cutting it would make two long names with one beginning the same name.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from recado.semantics.words import WORD_CHARS, words

NAME_CHARS = 1_024
NAME_WORDS = 32
REMEMBERED_CHARS = 256
"""What is known of a longer name is not remembered, so that memory is bounded by numbers of entries."""

_STOP = {
    "eng": "a an and as at by for from in into of on or per the to with",
    "por": "a à ao aos as às com da das de do dos e em na nas no nos o os ou para pela pelas pelo pelos por um uma",
    "spa": "a al con de del e el en la las lo los o para por un una y",
    "fra": "à au aux avec d de des du en et l la le les ou par pour sur un une",
    "ita": "a al alla con da dal dalla de dei del della di e ed il in la le lo nel nella o per su un una",
    "deu": "am an auf das dem den der des die ein eine einer für im in mit oder und von vom zu zum zur",
}
STOP_WORDS = {language: frozenset(listed.split()) for language, listed in _STOP.items()}


def tokens(name: str) -> list[str]:
    """The tokens of a name, in order, folded to one case."""
    if len(name) > NAME_CHARS:
        return []
    found = [_bare(word) for word in words(_camel(unicodedata.normalize("NFC", name)))]
    return found if len(found) <= NAME_WORDS and all(len(word) <= WORD_CHARS for word in found) else []


def content(found: list[str], language: str) -> list[str]:
    """The tokens that are not stop words of the language; all of them if there are no others."""
    stop = STOP_WORDS.get(language, frozenset())
    return [token for token in found if token not in stop] or found


def letters_and_digits(token: str) -> list[str]:
    """``pm25`` as ``pm`` and ``25``."""
    spaced = "".join(a + " " if a.isdecimal() != b.isdecimal() else a for a, b in pairwise(token)) + token[-1:]
    return spaced.split()


def _camel(name: str) -> str:
    padded = f" {name} "
    cut = []
    for before, char, after in zip(padded, padded[1:], padded[2:], strict=False):
        begins = char.isupper() and before.isalnum() and (after.islower() or not before.isupper())
        cut.append(" " + char if begins else char)
    return "".join(cut)


def _bare(word: str) -> str:
    """Without an English possessive."""
    return word.removesuffix("'s")
