"""Words of a text and their lemmas: the one definition for corpus statistics and for whoever looks words up in them.

A *word* is a run of letters and digits of any alphabet, with the marks that belong to its letters. An apostrophe
between two of them is part of the word (``don't``, ``d'água``), a typographic one is written as a plain one. Everything
else separates: spaces, punctuation, hyphens (``wind-speed`` is two words) and underscores. Numbers are words, cut at
the decimal point: ``3.14`` is ``3`` and ``14``. Text is brought to Unicode's composed form (NFC) and folded to one
case, so ``STRASSE`` and ``Straße`` are one word; a soft hyphen is no character at all. Languages that put no space
between words are not cut any further.

A *lemma* is the form under which a dictionary has the word: ``stations`` has ``station``, ``subiram`` has ``subir``. It
is looked up word by word, without the sentence around it, in the lists of the package simplemma, which also has rules
for words it does not know. What it does not know at all is its own lemma.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from recado.errors import RecadoError

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
