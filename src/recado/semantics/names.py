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
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import islice, pairwise, product

import msgspec

from recado.errors import RecadoError
from recado.semantics.frequencies import Frequencies, weight
from recado.semantics.lexicon.languages import Language, alpha2, alpha3, load_language
from recado.semantics.lexicon.wordnet import PARTS, Lexicon
from recado.semantics.tables import NameTables, shipped_tables
from recado.semantics.units import SYMBOLS, Unit, find_unit_token, plain, take_unit

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


# --- From a name to its words ----------------------------------------------------------------------------------------
#
# From a name to its words: tokens, lemmas, parts of speech, concepts, synonyms and frequencies (3.1, 4.14).
#
# A token's lemma is the form that a lexicon has. English forms go through WordNet's own rules, those of other languages
# through simplemma's lists. Without a sentence around it a token is what it mostly is: of several lemmas and parts of
# speech the one that SemCor has most often. The *synonyms* are the other words of the first sense, with WordNet's
# underscores, since ``domestic dog`` with a blank is found nowhere.
#
# A name may be read in several ways: in each of the ``languages``, and with each meaning of its abbreviations. All
# *readings* are tried and the one counts that fits best, so the order of the languages does not matter. The first
# reading is in the language that knows the most of the tokens; a token that a language lacks is looked up in the
# others. Nothing is ever an error: an unknown token is a word without concepts, alike to itself only. Unknown tokens
# are cut first, if the pieces are known: letters with digits (``pm25``), two glued English words (``windspeed``), and
# abbreviations, words and a unit written as one (``windspeedmph``). The unit of a name is no word of it.

ENGLISH = "eng"
_REMEMBERED = 16_384
_SHORTEST_PIECE = 3


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word: ``senses`` are concepts of the lexicon, ``weight`` is how much it tells, ``I(x)`` of 4.10."""

    lemma: str
    language: str = ENGLISH
    part: str = ""
    senses: tuple[int, ...] = ()
    frequency: int = 0
    weight: float = 1.0
    is_synonym: bool = False


class Words(msgspec.Struct, frozen=True, gc=False):
    """A name and its words. ``text`` is the name as plain words; ``english`` the same with what is known translated.

    ``tokens`` are all that it was made of, small and without accents: stop words, abbreviations and what they stand
    for; ``unit`` is the unit of its values, which is none of the words.
    """

    name: str
    text: str = ""
    english: str = ""
    language: str = ENGLISH
    own: tuple[Word, ...] = ()
    synonyms: tuple[Word, ...] = ()
    tokens: tuple[str, ...] = ()
    unit: Unit | None = None

    @property
    def enriched(self) -> tuple[Word, ...]:
        """The name's own words and their synonyms."""
        return self.own + self.synonyms

    @property
    def lemmas(self) -> tuple[str, ...]:
        return tuple(word.lemma for word in self.own)


READINGS = 6
"""Of one name, at most."""
_GLUED_CHARS = 32
_GLUED_PIECES = 4
_INSIDE = frozenset({"in", "out"})


def plain_words(name: str) -> Words:
    """The words of a name without a lexicon: tokens only."""
    found = content(tokens(name), ENGLISH)
    text = " ".join(found)
    return Words(name, text, text, ENGLISH, tuple(Word(token) for token in found), (), tuple(map(plain, tokens(name))))


def plain_readings(name: str, languages: Sequence[str], tables: NameTables) -> tuple[Words, ...]:
    """The readings of a name without a lexicon: what its abbreviations stand for, and its unit."""
    found: dict[tuple[str, ...], Words] = {}
    order = sorted({alpha3(language) for language in languages})
    for choice in _choices(tokens(name), lambda token: _short(token, order, tables) or [(token,)]):
        measured = take_unit(_join([word for words, _ in choice for word in words]), _kept(choice))
        kept = content(list(measured.tokens), ENGLISH)
        text = " ".join(kept)
        own = tuple(Word(token) for token in kept)
        words = Words(name, text, text, ENGLISH, own, (), _all_tokens(choice, measured.tokens), measured.unit)
        found.setdefault(words.lemmas, words)
    return tuple(found.values()) or (plain_words(name),)


Choice = list[tuple[tuple[str, ...], str]]
"""For each token of a name the words that it is read as, and the token."""


def _choices(found: Sequence[str], meanings: Callable[[str], Sequence[tuple[str, ...]]]) -> list[Choice]:
    """Some readings of the tokens, the likelier first; one that is a unit there is nothing else."""
    listed = [[(words, token) for words in meanings(token)] for token in found]
    unit = find_unit_token(found, [word for choices in listed[:-1] for words, _ in choices for word in words])
    if unit >= 0:
        listed[unit] = [((found[unit],), found[unit])]
    return [list(choice) for choice in islice(product(*listed), READINGS)]


_JOINED = {
    ("e", "mail"): "email", ("email", "address"): "email", ("mail", "address"): "mail", ("zip", "code"): "postcode",
    ("post", "code"): "postcode", ("postal", "code"): "postcode",
}  # fmt: skip
"""Two words that are one: the address of an e-mail is no place."""


def _join(pieces: Sequence[str]) -> list[str]:
    joined: list[str] = []
    for piece in pieces:
        whole = _JOINED.get((joined[-1], piece)) if joined else None
        joined[-1:] = [whole] if whole is not None else [*joined[-1:], piece]
    return joined


def _short(token: str, languages: Sequence[str], tables: NameTables) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(words for language in languages for words in tables.expand(token, language)))


def _kept(choice: Choice) -> list[str]:
    """Tokens as they were written, beside which a unit may stand."""
    return [plain(token) for _, token in choice]


def _all_tokens(choice: Choice, left: Sequence[str]) -> tuple[str, ...]:
    """What is left of a name without its unit, and the short words that some of it was written as."""
    there = set(left)
    short = [token for words, token in choice if there.issuperset(words) and words != (token,)]
    return tuple(dict.fromkeys(map(plain, (*left, *short))))


class NameReader:
    """Reads names with a lexicon; what it has read it remembers, since the same names come again and again."""

    def __init__(
        self, lexicon: Lexicon, frequencies: Frequencies | None = None, tables: NameTables | None = None
    ) -> None:
        self.lexicon = lexicon
        self.frequencies = frequencies
        self.tables = tables or shipped_tables()
        self._languages: dict[str, Language] = {}
        self._lemmatisers: dict[str, Callable[[str], str]] = {}
        self._lock = threading.Lock()
        self._read = lru_cache(_REMEMBERED)(self._read_name)
        self._lemma = lru_cache(_REMEMBERED)(self._find_lemma)
        self._known_word = lru_cache(_REMEMBERED)(self._make_word)

    def read(self, name: str, languages: tuple[str, ...] = ("en",)) -> Words:
        """The likeliest reading of a name; a RecadoError only for a language that was never added."""
        return self.readings(name, languages)[0]

    def readings(self, name: str, languages: tuple[str, ...] = ("en",), as_value: bool = False) -> tuple[Words, ...]:
        """The readings of a name, at least one; of a value, which has neither abbreviations nor a unit."""
        read = self._read if len(name) <= REMEMBERED_CHARS else self._read_name
        return read(name, tuple(sorted({alpha3(language) for language in languages})) or (ENGLISH,), as_value)

    def edition(self, language: str) -> str:
        """The language's code, and for one that was added which file it came from: another one gives other words."""
        code = alpha3(language)
        return code if code == ENGLISH else f"{code}:{self._language(code).digest}"

    def _read_name(self, name: str, languages: tuple[str, ...], as_value: bool) -> tuple[Words, ...]:
        found = tokens(name)
        by_share = sorted(languages, key=lambda code: (-self._known(found, code), code))
        readings: dict[tuple[tuple[str, tuple[int, ...]], ...], Words] = {}
        for language in by_share:
            order = (language, *(other for other in by_share if other != language))
            for choice in _choices(found, lambda token, order=order: self._meanings(token, order, as_value)):  # type: ignore[misc]
                words = self._reading(name, choice, order, as_value)
                if readings and not self._is_in(words, found, language):
                    continue
                readings.setdefault(tuple((word.lemma, word.senses) for word in words.own), words)
        return tuple(islice(readings.values(), READINGS)) or (Words(name),)

    def _is_in(self, words: Words, found: Sequence[str], language: str) -> bool:
        """Does a reading use anything of its language?"""
        return any(word.language == language for word in words.own) or any(
            self.tables.expand(token, language) for token in found
        )

    def single(self, word: Word, token: str = "") -> Words:
        """A word as a name of its own."""
        english = self._translate(word, token or word.lemma)
        return Words(word.lemma, word.lemma, english, word.language, (word,), self._synonyms((word,)))

    def _reading(self, name: str, choice: Choice, order: tuple[str, ...], as_value: bool) -> Words:
        pieces = _join([word for words, _ in choice for word in words])
        measured = None if as_value else take_unit(pieces, _kept(choice))
        left = pieces if measured is None else list(measured.tokens)
        kept = [piece for token in content(left, order[0]) for piece in self._pieces(token, order)]
        own = tuple(self._word(piece, order) for piece in kept)
        english = " ".join(self._translate(word, piece) for word, piece in zip(own, kept, strict=True))
        every = _all_tokens(choice, left)
        unit = None if measured is None else measured.unit
        return Words(name, " ".join(kept), english, order[0], own, self._synonyms(own), every, unit)

    def _meanings(self, token: str, order: tuple[str, ...], as_value: bool) -> list[tuple[str, ...]]:
        """What a token may be: each meaning of an abbreviation, else the word, else its pieces."""
        if as_value:
            return [(token,)]
        found = _short(token, order, self.tables) or self._short_lemma(token, order)
        if found:
            known = [code for code in order if not self.tables.expand(token, code)]
            return found + [(token,) for code in known[:1] if self._lemma(token, code) is not None]
        if any(self._lemma(token, code) is not None for code in order):
            return [(token,)]
        return [self._cut(token, order) or (token,)]

    def _known(self, found: list[str], language: str) -> float:
        """The share of the tokens that the language has."""
        wanted = content(found, language)
        return sum(self._lemma(token, language) is not None for token in wanted) / max(1, len(wanted))

    # -- one token ----------------------------------------------------------------------------------------------------

    def _pieces(self, token: str, languages: tuple[str, ...]) -> list[str]:
        """The token, or what it is made of if nobody knows it whole."""
        if any(self._lemma(token, language) is not None for language in languages):
            return [token]
        if "'" in token:
            return [part for part in token.split("'") if len(part) > 1] or [token]
        if token.isalpha():
            return self._cut_glued(token) if ENGLISH in languages else [token]
        return letters_and_digits(token)

    def _cut_glued(self, token: str) -> list[str]:
        """Two known words written as one, such that the rarer of them is as common as can be."""
        best, cut = 0, 0
        for at in range(_SHORTEST_PIECE, len(token) - _SHORTEST_PIECE + 1):
            rarer = min(sum(self.lexicon.tags(piece)) for piece in (token[:at], token[at:]))
            if rarer > best:
                best, cut = rarer, at
        return [token[:cut], token[cut:]] if best else [token]

    def _short_lemma(self, token: str, order: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The same for the lemma of a word of another language than English: ``preços`` is ``preço``."""
        for code in order:
            lemma = self._lemma(token, code) if code != ENGLISH else None
            if lemma is not None and lemma != token:
                return list(self.tables.expand(lemma, code))
        return []

    def _cut(self, token: str, order: tuple[str, ...]) -> tuple[str, ...]:
        """A token that nobody knows as words, abbreviations, ``in`` or ``out``, and a unit; nothing if it is not."""
        if not token.isalpha() or len(token) > _GLUED_CHARS or ENGLISH not in order:
            return ()
        glued = self._cut_glued(token)
        if len(glued) > 1:
            return tuple(glued)
        best: list[tuple[str, ...] | None] = [(), *[None] * len(token)]
        for end in range(1, len(token) + 1):
            for start in range(end):
                before, piece = best[start], token[start:end]
                if before is None or len(before) >= _GLUED_PIECES or not self._is_piece(piece, before, end, token):
                    continue
                there = best[end]
                if there is None or len(before) + 1 < len(there):
                    best[end] = (*before, piece)
        pieces = best[-1]
        if pieces is None or len(pieces) < 2:
            return ()
        return tuple(word for piece in pieces for word in (_short(piece, (ENGLISH,), self.tables) or [(piece,)])[0])

    def _is_piece(self, piece: str, before: tuple[str, ...], end: int, token: str) -> bool:
        if len(piece) >= _SHORTEST_PIECE and (self.tables.is_short(piece) or any(self.lexicon.tags(piece))):
            return True
        if not before:
            return False
        is_unit = piece in SYMBOLS and take_unit((*before, piece), self._expand(before)).unit is not None
        return piece in _INSIDE or (end == len(token) and is_unit)

    def _expand(self, pieces: tuple[str, ...]) -> list[str]:
        return [word for piece in pieces for words in _short(piece, (ENGLISH,), self.tables)[:1] for word in words]

    def _word(self, token: str, languages: tuple[str, ...]) -> Word:
        for language in languages:
            lemma = self._lemma(token, language)
            if lemma is not None:
                return self._known_word(lemma, language)
        return Word(token, languages[0])

    def _make_word(self, lemma: str, language: str, is_synonym: bool = False) -> Word:
        senses = self._senses(lemma, language)
        frequency = self._count(lemma, language)
        return Word(
            lemma,
            language,
            self._part(lemma, language, senses),
            senses,
            frequency,
            weight(frequency, self._corpus(language)),
            is_synonym,
        )

    def _senses(self, lemma: str, language: str) -> tuple[int, ...]:
        return self.lexicon.senses(lemma) if language == ENGLISH else self._language(language).senses(lemma)

    def _part(self, lemma: str, language: str, senses: tuple[int, ...]) -> str:
        if language != ENGLISH:
            return self.lexicon.part(senses[0])
        there = [part for part in PARTS if self.lexicon.has(lemma, part)]
        tags = dict(zip(PARTS, self.lexicon.tags(lemma), strict=True))
        return max(there, key=lambda part: tags[part])

    # -- lemmas -------------------------------------------------------------------------------------------------------

    def _find_lemma(self, token: str, language: str) -> str | None:
        if language == ENGLISH:
            return self._english_lemma(token)
        words = self._language(language)
        return words.find(token) or words.find(self._lemmatise(token, language))

    def _english_lemma(self, token: str) -> str | None:
        """The token itself or its singular, whichever is the commoner noun; else a verb's or an adjective's lemma."""
        forms = [token] if token in self.lexicon else []
        forms += [form for form in self.lexicon.morphy(token, "n") if form != token]
        if forms:
            return max(forms, key=lambda form: self.lexicon.tags(form)[0])
        for part in ("v", "a", "r"):
            found = self.lexicon.morphy(token, part)
            if found:
                return found[0]
        return None

    def _lemmatise(self, token: str, language: str) -> str:
        if language not in self._lemmatisers:
            try:
                self._lemmatisers[language] = lemmatiser(alpha2(language))
            except RecadoError:  # simplemma lacks the language, or is not installed
                self._lemmatisers[language] = str
        return self._lemmatisers[language](token)

    def _language(self, code: str) -> Language:
        with self._lock:
            if code not in self._languages:
                self._languages[code] = load_language(code)
            return self._languages[code]

    # -- what else a word has -----------------------------------------------------------------------------------------

    def _synonyms(self, own: tuple[Word, ...]) -> tuple[Word, ...]:
        seen = {(word.lemma, word.language): None for word in own}
        found = []
        for word in own:
            for lemma in self._first_sense(word):
                if (lemma, ENGLISH) not in seen:
                    seen[lemma, ENGLISH] = None
                    found.append(self._known_word(lemma, ENGLISH, True))
        return tuple(found)

    def _first_sense(self, word: Word) -> tuple[str, ...]:
        first = next((sense for sense in word.senses if self.lexicon.part(sense) == word.part), None)
        return () if first is None else self.lexicon.members(first)

    def _translate(self, word: Word, token: str) -> str:
        if word.language == ENGLISH or not word.senses:
            return token
        return self.lexicon.members(word.senses[0])[0].replace("_", " ")

    def _count(self, lemma: str, language: str) -> int:
        """How often the table has the word; without one, how often SemCor has it, or has what it means."""
        if self.frequencies is not None and alpha3(self.frequencies.language) == language:
            return self.frequencies.count(lemma)
        if language == ENGLISH:
            return sum(self.lexicon.tags(lemma))
        return int(self.lexicon.concept_tags[list(self._senses(lemma, language))].sum())

    def _corpus(self, language: str) -> int:
        """The size of the corpus that counts words of the language."""
        if self.frequencies is not None and alpha3(self.frequencies.language) == language:
            return self.frequencies.tokens
        return self.lexicon.tokens
