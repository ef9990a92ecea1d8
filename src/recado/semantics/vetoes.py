"""What speaks against a pair of names, whatever a measure says: units, contraries, siblings, and what is left over.

A measure finds ``windSpeed`` and ``windDirection`` alike, since half of them is the same. So every pair that it takes
for alike at all is looked at word by word:

- *unit*: both names have a unit, and no value of the one can be converted into the other; or what they end with are
  two units, or a unit and what may be another, by the table or by WordNet (``swell_km``, ``swell_fathoms``).
- *contrary*, *sibling*, *aspect*: each name has a pole of one group of the tables, and none in common (``min`` and
  ``max``, ``city`` and ``country``, ``id`` and ``name``), or WordNet has words of theirs for antonyms.
- *alone*: one name has a word that the bare name does not stand for (``old price``).
- *rest*: when the words are taken away that the names have in common, what is left of each is not alike; or the one
  name has nothing left, and what is left of the other is what it is about (``price``, ``price currency``). If both are
  about the same and only what is said of it is not alike (``urban area``, ``residential area``), it is a doubt.
- *kin*: single words that WordNet has side by side below one concept; values also if they are cousins of one small
  kind (``cat``, ``dog``). That is a doubt.

A veto makes the similarity 0. A doubt halves it, and what is in doubt is never more alike than the measure's own
threshold: by default it does not match, and names in doubt are for a person to review.

A veto is symmetric, depends on the two names and the tables alone, and never concerns equal names: those are the same
before anything is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import numpy as np

from recado.semantics.lexicon.wordnet import Lexicon
from recado.semantics.measures.base import Floats, NameMeasure
from recado.semantics.names import ENGLISH, Word, Words, tokens
from recado.semantics.tables import NameTables
from recado.semantics.units import (
    BY_SYMBOL,
    SYMBOLS,
    TRAILING,
    Unit,
    convert,
    find_units,
    is_per_unit,
    is_rate,
    loose_units,
    plain,
    said_by,
)

FLOOR = 0.08
"""A pair that a measure finds less alike is not looked at: no threshold of use is lower."""
DOUBT = 0.5
CONVERTED = 0.999
"""How alike names of different units are at most: an attribute in the wanted unit comes first."""
SAME_WORDS = 0.6
"""How alike names are at least whose words are the same, by spelling, meaning or the tables."""
STRICTER = 1.4
"""So many times as alike as names have to be words that are left over."""
SAME_WORD = 0.85
_NEGATIONS = ("un", "dis", "non", "des", "in", "im", "ir", "il", "de")
_NOT = frozenset({"not", "never", "without", "except", "nao", "nunca", "sem", "exceto"})
_ROLES = (("er", "ee"), ("or", "ee"))
"""Of words that end so, the one does what is done to the other: ``payer``, ``payee``."""
_NUMBERED = frozenset({"no", "number", "num", "nr", "nro", "numero"})
_LINKS = frozenset({"of", "de", "do", "da", "dos", "das", "del", "della", "di"})
_INSIDE = {
    True: frozenset({"in", "inside", "within"}),
    False: frozenset({"em", "no", "na", "nos", "nas", "en", "dans"}),
}
"""Words before what only says where a thing is, in English and in other languages."""
BROAD = 150
"""A concept with more concepts below it is no sort of thing beside others, but a class: ``device``, ``equipment``."""
SHORT = 3
"""A word of at most so many letters is a unit if any sense of it is one, a longer one if a common sense is."""
SMALL = 500
"""Concepts below one with at most so many are of one kind: ``cat`` and ``dog`` are carnivores."""
COMMON_SENSES = 2
"""So many senses of a value are looked at: the first of ``tiger`` is a person."""


class Objection(msgspec.Struct, frozen=True, gc=False):
    """What speaks against a pair: the sort, and the words of either name; a doubt only, or a veto."""

    sort: str
    a: str
    b: str
    is_doubt: bool = False

    def explain(self) -> str:
        if not self.a or not self.b:
            return f"vetoed: {self.a or self.b!r} is in one of them only"
        if self.is_doubt:
            return f"doubtful ({self.sort}): {self.a!r} may not be {self.b!r}"
        return f"vetoed ({self.sort}): {self.a!r} is not {self.b!r}"


def _against(sort: str, a: str, b: str, is_doubt: bool = False) -> Objection:
    """The same objection whichever name comes first."""
    return Objection(sort, min(a, b), max(a, b), is_doubt)


class Facets(msgspec.Struct, frozen=True):
    """What is looked at of one reading of a name.

    ``head`` is the place of the word that it is about; words from the place ``inside`` on say only where that is.
    ``loose`` are the units that it may end with, if it has none for certain. ``is_none``: it begins with ``no``.
    """

    words: Words
    all: frozenset[str]
    poles: dict[int, frozenset[int]]
    alone: frozenset[str]
    head: int
    inside: int
    own: tuple[dict[int, frozenset[int]], ...]
    spelling: str
    loose: frozenset[str]
    per_unit: bool
    rate: bool
    is_none: bool


class Vetoes:
    """The tables, and the lexicon if there is one."""

    def __init__(self, tables: NameTables, lexicon: Lexicon | None) -> None:
        self.tables = tables
        self._lexicon = lexicon
        self._antonyms = lexicon.antonyms if lexicon is not None else {}

    def facets(self, words: Words) -> Facets:
        said = dict.fromkeys((*words.tokens, *map(plain, words.lemmas)))
        poles = self.tables.poles((*said, *self._translations(words)))
        said |= dict.fromkeys(plain(word) for word in words.english.split())
        alone = self.tables.alone & said.keys()
        own = tuple(self.tables.poles((word.lemma, *self._forms(word, words))) for word in words.own)
        inside = self._inside(words)
        head = self._head(words, inside)
        loose = frozenset() if words.unit is not None else self._loose(words)
        written = tokens(words.name)
        per_unit, rate = words.unit is None and is_per_unit(written), is_rate(words.tokens)
        is_none = len(written) > 2 and written[0] == "no" and written[1] != "of"
        spelling = "".join(words.tokens)
        return Facets(words, frozenset(said), poles, alone, head, inside, own, spelling, loose, per_unit, rate, is_none)

    def _loose(self, words: Words) -> frozenset[str]:
        """The units that the last word may be: symbols of the table, else WordNet's words for a concept."""
        written = tokens(words.name)
        found = set(loose_units(written))
        if self._lexicon is None or len(words.own) < 2 or plain(words.own[-1].lemma) in TRAILING:
            return frozenset(found)
        last = words.own[-1]
        senses = last.senses if len(last.lemma) <= SHORT else last.senses[:COMMON_SENSES]
        for sense in senses:
            if self._lexicon.is_measure(sense):
                members = self._lexicon.members(sense)
                known = {unit.symbol for member in members for unit in find_units(member)}
                found |= known or {members[0]}
        return frozenset(found)

    def _translations(self, words: Words) -> list[str]:
        """The English of the words that the tables do not have as they are: a table knows better what they mean."""
        if self._lexicon is None:
            return []
        known = {plain(token)[:4] for token in (*words.tokens, *words.lemmas) if self.tables.knows(token)}
        foreign = [word for word in words.own if word.language != ENGLISH and word.senses]
        firsts = [self._lexicon.members(word.senses[0])[0] for word in foreign if plain(word.lemma)[:4] not in known]
        return [plain(part) for first in firsts for part in first.split("_")]

    def _inside(self, words: Words) -> int:
        """The place of the first word after *in*, if there is one before it too; else how many words there are."""
        links = _INSIDE[words.language == ENGLISH]
        at = next((at for at, token in enumerate(words.tokens) if token in links), 0)
        before = {token[:4] for token in words.tokens[:at]}
        place = next((n for n, word in enumerate(words.own) if plain(word.lemma)[:4] not in before), 0) if at else 0
        return place or len(words.own)

    def _forms(self, word: Word, words: Words) -> list[str]:
        """The tokens that a word was written as, and its English."""
        stem = plain(word.lemma)[:4]
        written = [token for token in words.tokens if token[:4] == stem]
        if word.language != ENGLISH and word.senses and self._lexicon is not None:
            written += self._lexicon.members(word.senses[0])[:1]
        return written

    def _head(self, words: Words, inside: int) -> int:
        """English names end with what they are about, unless it comes before *of*; Portuguese ones begin with it.

        A name whose first or last word only English has is English, whatever else the others may be (``total count``,
        ``customer email``); unless the first one is an abbreviation of the other language.
        """
        lemmas = [plain(lemma) for lemma in words.lemmas]
        places = [at for at, lemma in enumerate(lemmas) if lemma not in TRAILING] or list(range(len(lemmas)))
        if not places:
            return -1
        first = self._is_foreign(words) or inside < len(lemmas) or any(token in _LINKS for token in words.tokens)
        return places[0] if first else places[-1]

    def _is_foreign(self, words: Words) -> bool:
        """Is a name of another language by its first and its last word, be it one that the tables have in English?"""
        if words.language == ENGLISH:
            return False
        written = [token for token in tokens(words.name) if token not in SYMBOLS] or [""]
        begins = words.own[0].language != ENGLISH or bool(self.tables.expand(written[0], words.language))
        is_short = self.tables.expand(written[-1], words.language) and not self.tables.expand(written[-1], ENGLISH)
        return begins and (words.own[-1].language != ENGLISH or bool(is_short))

    # -- one pair ------------------------------------------------------------------------------------------------------

    def object(self, a: Facets, b: Facets, alike: Floats, limit: float) -> Objection | None:
        """What speaks against a pair; ``alike`` has how alike their words are, ``limit`` from where words are alike."""
        return self._units(a, b) or self._groups(a, b) or self._alone(a, b, alike) or self._rest(a, b, alike, limit)

    def object_to_values(self, a: Facets, b: Facets, alike: Floats) -> Objection | None:
        """The same for values. They are phrases, of which no word is what they are about: only contraries count."""
        objection = self._groups(a, b)
        if objection is not None:
            return None if objection.sort == "aspect" else objection
        if len(a.words.own) != 1 or len(b.words.own) != 1:
            return None
        return self._kin_values(a.words.own[0], b.words.own[0]) if alike[0, 0] < SAME_WORD else None

    def _units(self, a: Facets, b: Facets) -> Objection | None:
        one, other = a.words.unit, b.words.unit
        if (a.per_unit and not (b.rate or b.per_unit)) or (b.per_unit and not (a.rate or a.per_unit)):
            return Objection("unit", "per", "")
        if one is not None and other is not None:
            clash = one != other and convert(one, other) is None
            return _against("unit", one.symbol, other.symbol) if clash else None
        for unit, loose in ((one, b.loose), (other, a.loose)):
            against = _other_units(unit, loose) if unit is not None else []
            if unit is not None and against:
                return _against("unit", unit.symbol, against[0])
        if a.loose and b.loose and a.loose.isdisjoint(b.loose):
            return _against("unit", min(a.loose), min(b.loose))
        return None

    def _groups(self, a: Facets, b: Facets) -> Objection | None:
        clashes = self.tables.clashes(a.poles, b.poles)
        group = next((group for group in clashes if self._is_evidence(group, a, b)), None)
        if group is not None:
            found = self.tables.groups[group]
            sides = ((a, b), (b, a))
            words = [_first(found.poles[min(one.poles[group] - other.poles[group])], one.all) for one, other in sides]
            return _against(found.sort, words[0], words[1])
        negated = self._negation(a, b)
        if negated is not None:
            return negated
        for word in sorted(a.all):
            others = self._antonyms.get(word)
            if others and word not in b.all:
                against = sorted(others & b.all - a.all)
                if against:
                    return _against("contrary", word, against[0])
        return None

    def _negation(self, a: Facets, b: Facets) -> Objection | None:
        """Is one the negation of the other, by a prefix (``disconnected``) or a word, or as ``payee`` to ``payer``?"""
        for one, other in ((a, b), (b, a)):
            for word in sorted(one.all - other.all):
                bare = next((bare for bare in _contraries(word) if bare in other.all - one.all), None)
                if bare is not None:
                    return _against("contrary", word, bare)
        negated = sorted((a.all & _NOT) ^ (b.all & _NOT))
        if negated and not (a.all & _NOT and b.all & _NOT):
            return Objection("contrary", negated[0], "")
        if a.is_none != b.is_none and (a.all if b.is_none else b.all).isdisjoint(_NUMBERED):
            return Objection("contrary", "no", "")
        return None

    def _is_evidence(self, group: int, a: Facets, b: Facets) -> bool:
        """Does a clash tell the names apart? Contraries always do.

        A word of siblings that only says where a thing is does not (``room``, ``place in the building``), nor a word of
        aspects that the names have in common in another meaning (``state``, ``country name``).
        """
        sort = self.tables.groups[group].sort
        if sort == "sibling":
            return not (self._is_inside(group, a, b) or self._is_inside(group, b, a))
        if sort == "aspect":
            return not (self._is_shared(group, a, b) or self._is_shared(group, b, a))
        return True

    def _is_inside(self, group: int, a: Facets, b: Facets) -> bool:
        """Are words of the group what ``a`` is about, and in ``b`` only where that is?"""
        of_a, of_b = ([at for at, poles in enumerate(one.own) if group in poles] for one in (a, b))
        if not of_a or not of_b or self._is_carrier(b.words.own[b.head]):
            return False
        return a.head in of_a and min(of_b) >= b.inside

    def _is_shared(self, group: int, a: Facets, b: Facets) -> bool:
        """Have all words of the group in ``a`` a pole of another group in common with ``b``?"""
        words = [
            {other: places for other, places in poles.items() if other != group} for poles in a.own if group in poles
        ]
        return bool(words) and all(self.tables.share(poles, b.poles) for poles in words)

    def _alone(self, a: Facets, b: Facets, alike: Floats) -> Objection | None:
        if not alike.size or max(map(max, self._partners(a, b, alike))) < SAME_WORD:
            return None
        lone = sorted((a.alone - b.all) | (b.alone - a.all))
        if not lone or (a.alone and b.alone):
            return None
        return Objection("alone", lone[0], "")

    def _rest(self, a: Facets, b: Facets, alike: Floats, limit: float) -> Objection | None:
        own, others = a.words.own, b.words.own
        if not own or not others:
            return None
        of_a, of_b = self._partners(a, b, alike)
        if len(own) == len(others) == 1:
            return self._kin_or_unknown(own[0], others[0]) if max(*of_a, *of_b) < SAME_WORD else None
        if max(*of_a, *of_b) < SAME_WORD:  # nothing in common but meaning
            return None
        left_a = [at for at, value in enumerate(of_a) if value < limit]
        left_b = [at for at, value in enumerate(of_b) if value < limit]
        heavy_a = [at for at in left_a if not self._is_carrier(own[at])]
        heavy_b = [at for at in left_b if not self._is_carrier(others[at])]
        if heavy_a and heavy_b:
            same_heads = min(of_a[a.head], of_b[b.head]) >= SAME_WORD
            return _against("rest", own[heavy_a[0]].lemma, others[heavy_b[0]].lemma, is_doubt=same_heads)
        for left, words, head in ((heavy_a, own, a.head), (heavy_b, others, b.head)):
            if head in left:
                return Objection("rest", words[head].lemma, "")
        return None

    def _partners(self, a: Facets, b: Facets, alike: Floats) -> tuple[list[float], list[float]]:
        """How alike each word is to its best partner in the other name, or what else stands for it there."""
        if self._lexicon is not None:
            alike = self._spell_out(a.words.own, b.words.own, alike)
        of_a, of_b = alike.max(axis=1).tolist(), alike.max(axis=0).tolist()
        return self._with_tables(a, b, of_a), self._with_tables(b, a, of_b)

    def _with_tables(self, one: Facets, other: Facets, partners: list[float]) -> list[float]:
        """1 for a word with a pole in common with the other name, and for one that the other's unit says."""
        said = said_by(other.words.unit, one.words.unit)
        return [
            1.0 if self.tables.share(poles, other.poles) or (said and plain(word.lemma) in said) else value
            for value, poles, word in zip(partners, one.own, one.words.own, strict=True)
        ]

    def _spell_out(self, own: Sequence[Word], others: Sequence[Word], alike: Floats) -> Floats:
        """With words that are spelt alike, or are letters of the other: ``cdtr`` for ``creditor``, whom nobody knows.

        A word that two languages have is one word here: that the names have it in common says nothing for the rest.
        """
        spelt = [
            (row, column)
            for row, one in enumerate(own)
            for column, other in enumerate(others)
            if alike[row, column] < SPELT and _is_spelt(one, other)
        ]
        if spelt:
            alike = alike.copy()
            alike[tuple(zip(*spelt, strict=True))] = SPELT
        return alike

    def is_same(self, a: Facets, b: Facets, alike: Floats) -> bool:
        """Are two names, to which nothing objects, one: by all words that tell something, or those of the shorter?"""
        if not a.words.own or not b.words.own:
            return False
        if a.spelling == b.spelling:
            return True
        of_a, of_b = self._partners(a, b, alike)
        heavy = self._heavy(a, of_a), self._heavy(b, of_b)
        if all(heavy) and min(map(min, heavy)) >= SAME_WORD:
            return True
        lists = [of_a, of_b] if len(of_a) == len(of_b) else [min(of_a, of_b, key=len)]
        return max(map(min, lists)) >= SAME_WORD and of_a[a.head] >= SAME_WORD and of_b[b.head] >= SAME_WORD

    def _heavy(self, one: Facets, partners: list[float]) -> list[float]:
        """How alike those words are that tell what a name is about."""
        return [value for word, value in zip(one.words.own, partners, strict=True) if not self._is_carrier(word)]

    def _is_carrier(self, word: Word) -> bool:
        return plain(word.lemma) in self.tables.carriers

    def _kin_or_unknown(self, a: Word, b: Word) -> Objection | None:
        """Of words that no lexicon has a measure knows the letters only; what abbreviates the other is fine."""
        if self._lexicon is not None and not (a.senses and b.senses) and not _is_spelt(a, b):
            return _against("unknown", a.lemma, b.lemma, is_doubt=True)
        return self._kin(a, b)

    def _kin(self, a: Word, b: Word) -> Objection | None:
        """Do the first senses of two words stand side by side below one concept, and is neither a whole class?"""
        lexicon = self._lexicon
        if lexicon is None or not _have_senses_apart(a, b):
            return None
        one, other = a.senses[0], b.senses[0]
        if set(lexicon.parents(one)).isdisjoint(lexicon.parents(other)):
            return None
        if max(lexicon.size(one), lexicon.size(other)) > BROAD:
            return None
        return _against("kin", a.lemma, b.lemma, is_doubt=True)

    def _kin_values(self, a: Word, b: Word) -> Objection | None:
        """Are two words, in common senses of theirs, different things of one small kind: side by side, or cousins?"""
        lexicon = self._lexicon
        if lexicon is None or not _have_senses_apart(a, b):
            return None
        pairs = product(a.senses[:COMMON_SENSES], b.senses[:COMMON_SENSES])
        if any(lexicon.are_kin(one, other, SMALL) for one, other in pairs):
            return _against("kin", a.lemma, b.lemma, is_doubt=True)
        return None


def _contraries(word: str) -> list[str]:
    """What a word may be the contrary of, by its beginning or end alone."""
    found = [word.removeprefix(prefix) for prefix in _NEGATIONS if word.startswith(prefix)]
    found = [bare for bare in found if len(bare) > SHORT]
    return found + [
        word.removesuffix(end) + other for other, end in _ROLES if word.endswith(end) and len(word) > SHORT + 2
    ]


def _other_units(unit: Unit, loose: frozenset[str]) -> list[str]:
    """The units that a name may end with, if none of them is this one; a day is much besides a unit of time."""
    if unit.symbol in loose:
        return []
    known = ((symbol, BY_SYMBOL.get(symbol)) for symbol in sorted(loose))
    return [symbol for symbol, one in known if one is None or one.quantity != "time" or unit.quantity == "time"]


def _is_spelt(a: Word, b: Word) -> bool:
    if a.lemma == b.lemma:
        return True
    is_known = a.senses and b.senses
    return not is_known and (abbreviates((a.lemma,), (b.lemma,)) or abbreviates((b.lemma,), (a.lemma,)))


def _have_senses_apart(a: Word, b: Word) -> bool:
    return bool(a.senses and b.senses) and set(a.senses).isdisjoint(b.senses)


def _first(pole: Sequence[str], said: frozenset[str]) -> str:
    return next((word for word in pole if plain(word) in said), pole[0])


# --- many pairs ------------------------------------------------------------------------------------------------------


class WordBook:
    """How alike the single words of some names are, by the measure of the names."""

    def __init__(self, measure: NameMeasure, a: Sequence[Words], b: Sequence[Words], single: dict[Word, Words]) -> None:
        self._rows = _places(a)
        self._columns = _places(b)
        self._values = measure.matrix([single[word] for word in self._rows], [single[word] for word in self._columns])

    def alike(self, a: Words, b: Words) -> Floats:
        rows = [self._rows[word] for word in a.own]
        columns = [self._columns[word] for word in b.own]
        values: Floats = self._values[np.ix_(rows, columns)]
        return values


def _places(names: Sequence[Words]) -> dict[Word, int]:
    found: dict[Word, int] = {}
    for words in names:
        for word in words.own:
            found.setdefault(word, len(found))
    return found


# --- names made of letters of the other's words ----------------------------------------------------------------------

SPELT = 0.9
"""How alike a name is to one whose words it abbreviates."""


def abbreviates(short: Sequence[str], words: Sequence[str]) -> bool:
    """Is each of some tokens a word of the others, in order, or made of the first letter and later ones of such?

    ``hmdty`` is ``humidity``, ``wspd`` is ``wind speed``. A token has at least three letters, half the consonants of a
    single word or all of its beginning and its end (``appt``), and the first letter of every word that it stands for.
    """
    ends = {0}  # up to which words the tokens so far may stand for; tried one by one they would be exponentially many
    for token in short:
        ends = {end for start in ends for end in _ends(token, words, start)}
        if not ends:
            return False
    return len(words) in ends


def _ends(token: str, words: Sequence[str], start: int) -> list[int]:
    """Up to where a token may stand for the words from ``start`` on."""
    if start < len(words) and token == words[start]:
        return [start + 1]
    last = min(start + 3, len(words))
    return [end for end in range(start + 1, last + 1) if _made_of(token, words[start:end])]


def _made_of(token: str, words: Sequence[str]) -> bool:
    letters = "".join(words)
    if len(token) < 3 or len(token) >= len(letters) or token[0] != letters[0]:
        return False
    if len(words) == 1:
        if len(token) > 3 and letters.startswith(token[:-1]) and letters.endswith(token[-1]):
            return True
        consonants = [char for char in letters if char not in "aeiou"]
        said = [char for char in token if char not in "aeiou"]
        return (
            _is_within(token, letters) and len(said) * 2 >= len(consonants) and token[-1] in letters[-3:] + token[-1:]
        )
    at = 0
    for number, word in enumerate(words):
        if at >= len(token) or token[at] != word[0]:
            return False
        at += 1
        following = words[number + 1][0] if number + 1 < len(words) else None
        for char in word[1:]:
            if at < len(token) and token[at] == char and not (following == char and at == len(token) - 1):
                at += 1
    return at == len(token)


def _is_within(short: str, long: str) -> bool:
    """Are the letters of the short one in the long one, in order?"""
    rest = iter(long)
    return all(char in rest for char in short)
