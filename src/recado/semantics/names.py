"""A name cut into tokens (4.14): ``residentialArea``, ``residential_area`` and ``Residential-Area`` are two words.

A capital letter begins a word after any letter or digit that is no capital, and the last of several capitals does
before a small letter: ``HTTPServer2Port`` is ``http``, ``server2``, ``port``. Everything else is what
``recado.semantics.names`` says of texts. Words such as ``of`` and ``da`` that only join others are left out, unless
there are no others.

A name longer than ``NAME_CHARS`` or with more than ``NAME_WORDS`` words has no words at all: whatever it is, it is
alike to itself only. Cutting it would make two long names with one beginning the same name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from recado.errors import RecadoError

# --- Words of a text and their lemmas: the one definition for corpus statistics and for whoever looks words up in
# them
#
# A *word* is a run of letters and digits of any alphabet, with the marks that belong to its letters. An apostrophe
# between two of them is part of the word (``don't``, ``d'água``), a typographic one is written as a plain one.
# Everything else separates: spaces, punctuation, hyphens (``wind-speed`` is two words) and underscores. Numbers are
# words, cut at the decimal point: ``3.14`` is ``3`` and ``14``. Text is brought to Unicode's composed form (NFC) and
# folded to one case, so ``STRASSE`` and ``Straße`` are one word; a soft hyphen is no character at all. Languages that
# put no space between words are not cut any further.
#
# A *lemma* is the form under which a dictionary has the word: ``stations`` has ``station``, ``subiram`` has ``subir``.
# It is looked up word by word, without the sentence around it, in the lists of the package simplemma, which also has
# rules for words it does not know. What it does not know at all is its own lemma.


WORD_CHARS = 64
"""A longer run of letters is no word: a key, a hash, or a text without spaces."""

_ASCII = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_JOINERS = str.maketrans({"’": "'", "ʼ": "'", "\u00ad": None, "_": " "})


def words(text: str) -> list[str]:
    """The words of a text, in order, folded to one case; too long ones included."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return _pattern().findall(folded.translate(_JOINERS))


def in_word(char: str) -> bool:
    """Could the character stand inside a word, so that a text must not be cut beside it?"""
    return char.isalnum() or char in "'’ʼ\u00ad" or unicodedata.category(char)[0] == "M"


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(map(chr, _marks()))
    run = rf"\w[\w{marks}]*"
    return re.compile(rf"{run}(?:'{run})*")


def _marks() -> list[int]:
    """All combining marks; above the second plane there are only variation selectors."""
    return [code for code in (*range(0x20000), *range(0xE0100, 0xE01F0)) if unicodedata.category(chr(code))[0] == "M"]


# -- lemmas ------------------------------------------------------------------------------------------------------------


def languages() -> frozenset[str]:
    """The languages that have lemmas, as ISO 639 codes."""
    try:
        from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES  # noqa: PLC0415
    except ImportError:
        raise RecadoError("lemmas need the package simplemma: pip install 'recado[spark]'") from None
    return frozenset(SUPPORTED_LANGUAGES)


def lemmatiser(language: str) -> Callable[[str], str]:
    """From a word to its lemma; the dictionary is read at the first word, once a process."""
    known = languages()
    if language not in known:
        raise RecadoError(f"there are no lemmas for the language {language!r}; there are: {', '.join(sorted(known))}")
    from simplemma import lemmatize  # noqa: PLC0415  # an extra

    def lemma(word: str) -> str:
        return lemmatize(word, lang=language).casefold() if word.isalpha() or "'" in word else word

    return lemma


# --- A name cut into tokens (4.14): ``residentialArea``, ``residential_area`` and ``Residential-Area`` are two words

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
