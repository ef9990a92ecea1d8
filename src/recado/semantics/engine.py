"""Everything that similarities are made from, loaded when first needed: lexicon, frequencies, overrides, cache.

One ``Semantics`` serves a process; threads may share it. Each thing is asked in this order, and the first to answer
wins: equal names (1.0), what a person decided or gave, the cache, the measure. So the cache changes the time a question
takes and never its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.model.event import ENVELOPE
from recado.semantics import alignment as aligning
from recado.semantics.alignment import ALIKE, Alignment, Pair, distinct
from recado.semantics.cache import SimilarityCache
from recado.semantics.frequencies import Frequencies
from recado.semantics.lexicon.information import Information, load_information, load_lexicon
from recado.semantics.lexicon.wordnet import Lexicon
from recado.semantics.measures import registry
from recado.semantics.measures.base import Floats, NameMeasure
from recado.semantics.measures.wordnet import WordPairs
from recado.semantics.names import NameReader, Words, plain_readings, plain_words, tokens
from recado.semantics.overrides import NOTHING_ADDED, Given, Overrides, ReviewList, read_added, read_pairs
from recado.semantics.settings import DEFAULT, SemanticSettings
from recado.semantics.tables import Added
from recado.semantics.units import MONEY, Reading, Unit, convert, converters, find_converter, find_teller, is_teller
from recado.semantics.vetoes import (
    CONVERTED,
    DOUBT,
    FLOOR,
    SAME_WORDS,
    SPELT,
    STRICTER,
    Objection,
    Vetoes,
    WordBook,
    abbreviates,
)


class Semantics:
    """Answers how alike names are and which attribute stands for which name.

    ``data`` is the folder of another lexicon; ``decided`` are pairs that people accepted or refused, which win over
    ``overrides``; ``cache`` belongs to this one alone, and None computes every similarity anew.
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        frequencies: Frequencies | None = None,
        overrides: Overrides | None = None,
        decided: Sequence[Given] = (),
        cache: SimilarityCache | None = None,
    ) -> None:
        self.frequencies = frequencies
        self.cache = cache
        self._data = data
        self._overrides = overrides if overrides is not None else Overrides()
        self._decided = Overrides(decided)
        self._lock = threading.RLock()
        self._reader: NameReader | None = None
        self.tables = self._overrides.tables
        self._vetoes: dict[bool, Vetoes] = {}
        self._measures: dict[tuple[str, str], NameMeasure] = {}

    # -- what measures are made from ----------------------------------------------------------------------------------

    @property
    def lexicon(self) -> Lexicon:
        return self.reader.lexicon

    @property
    def reader(self) -> NameReader:
        with self._lock:
            if self._reader is None:
                self._reader = NameReader(load_lexicon(self._data), self.frequencies, self.tables)
            return self._reader

    @property
    def word_pairs(self) -> WordPairs:
        return self._overrides.words

    def information(self, source: str) -> Information:
        return load_information(self.lexicon, source, self.frequencies)

    @property
    def digest(self) -> str:
        """By whose knowledge similarities are made; caches that were saved under another one are not used."""
        counted = self.frequencies.digest if self.frequencies else "-"
        return f"{self.lexicon.digest} {self._overrides.digest} {counted} {self.tables.digest}"

    # -- questions ----------------------------------------------------------------------------------------------------

    def words(self, name: str, settings: SemanticSettings = DEFAULT) -> Words:
        """The words of a name; plain tokens if the measure needs no lexicon."""
        if registry.find(settings.measure).needs_lexicon:
            return self.reader.read(name, settings.languages)
        return plain_readings(name, settings.languages, self.tables)[0]

    def readings(self, name: str, settings: SemanticSettings = DEFAULT, as_values: bool = False) -> tuple[Words, ...]:
        """All readings of a name, or of a value."""
        if registry.find(settings.measure).needs_lexicon:
            return self.reader.readings(name, settings.languages, as_values)
        return (plain_words(name),) if as_values else plain_readings(name, settings.languages, self.tables)

    def measure(self, settings: SemanticSettings = DEFAULT) -> NameMeasure:
        key = (settings.measure, repr(sorted(settings.options.items())))
        with self._lock:
            if key not in self._measures:
                self._measures[key] = registry.make(settings.measure, self, settings.options)
            return self._measures[key]

    def prepare(self, settings: SemanticSettings = DEFAULT) -> None:
        """Load all that the settings need; a RecadoError says what is not installed, or which language is missing."""
        self.measure(settings)
        self.words("name", settings)

    def scope(self, settings: SemanticSettings = DEFAULT, as_values: bool = False) -> str:
        """Under which the cache has the similarities of these settings: the measure, and the words of the languages."""
        languages = settings.languages
        if registry.find(settings.measure).needs_lexicon:
            languages = tuple(self.reader.edition(code) for code in languages)
        marks = f"{' values' if as_values else ''}{'' if settings.vetoes else ' without vetoes'}"
        return f"{self.measure(settings).key} {','.join(sorted(languages))}{marks}"

    def similarity(self, a: str, b: str, settings: SemanticSettings = DEFAULT, *, as_values: bool = False) -> float:
        return float(self.similarities([a], [b], settings, as_values=as_values)[0, 0])

    def similarities(
        self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings = DEFAULT, *, as_values: bool = False
    ) -> Floats:
        """One row for each name of ``a``, one column for each of ``b``; as values they have no unit."""
        if not a or not b:
            return np.zeros((len(a), len(b)))
        values = self._compute(a, b, settings, as_values)
        self._correct(a, b, settings, values)
        return values

    def given(self, a: str, b: str, settings: SemanticSettings = DEFAULT) -> Given | None:
        """What a person said of two names."""
        one, other = self.words(a, settings), self.words(b, settings)
        return self._decided.find(one, other) or self._overrides.find(one, other)

    def _correct(self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings, values: Floats) -> None:
        """Put in what people gave, and 1 for equal names."""
        if self._overrides or self._decided:
            for row, one in enumerate(a):
                for column, other in enumerate(b):
                    pair = self.given(one, other, settings)
                    if pair is not None:
                        values[row, column] = pair.similarity
        places: dict[str, list[int]] = {}
        for column, name in enumerate(b):
            places.setdefault(name, []).append(column)
        for row, name in enumerate(a):
            values[row, places.get(name, [])] = 1.0

    def _compute(self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings, as_values: bool) -> Floats:
        """By the measure and the vetoes, as far as the cache does not know."""
        cache = self.cache
        if cache is None or len(a) * len(b) > cache.entries:
            return self.judge(a, b, settings, as_values)
        scope = self.scope(settings, as_values)
        known = cache.get(scope, ((one, other) for one in a for other in b))
        values = np.array([np.nan if value is None else value for value in known]).reshape(len(a), len(b))
        lacking = np.isnan(values)
        if lacking.any():
            rows, columns = np.flatnonzero(lacking.any(axis=1)), np.flatnonzero(lacking.any(axis=0))
            some_a, some_b = [a[row] for row in rows.tolist()], [b[column] for column in columns.tolist()]
            found = self.judge(some_a, some_b, settings, as_values)
            values[np.ix_(rows, columns)] = found
            new = zip(
                (one for one in some_a for _ in some_b), some_b * len(some_a), found.ravel().tolist(), strict=True
            )
            cache.put(scope, new)
        return values

    def judge(
        self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings = DEFAULT, as_values: bool = False
    ) -> Floats:
        """What measure and vetoes say, before people are asked: the best pair of readings of each pair of names."""
        rows, of_rows = self._all_readings(a, settings, as_values)
        columns, of_columns = self._all_readings(b, settings, as_values)
        values = self.measure(settings).matrix(rows, columns)
        if not as_values:
            self._spell_out(rows, columns, values)
        if settings.vetoes:
            self._veto(rows, columns, values, settings, as_values)
        values = np.maximum.reduceat(np.maximum.reduceat(values, of_rows, axis=0), of_columns, axis=1)
        return np.asarray(values, np.float64)

    def _all_readings(
        self, names: Sequence[str], settings: SemanticSettings, as_values: bool
    ) -> tuple[list[Words], npt.NDArray[np.intp]]:
        """The readings of all names, and where those of each begin."""
        lists = [self.readings(name, settings, as_values) for name in names]
        starts = np.cumsum([0, *(len(one) for one in lists)])[:-1]
        return [words for one in lists for words in one], starts

    def _spell_out(self, rows: Sequence[Words], columns: Sequence[Words], values: Floats) -> None:
        """Names with unknown words, compared with names that these may be the letters of."""
        for short, others, of in ((rows, columns, values), (columns, rows, values.T)):
            for at, words in enumerate(short):
                if any(not word.senses for word in words.own):
                    lemmas = words.lemmas
                    for place, other in enumerate(others):
                        if of[at, place] < SPELT and abbreviates(lemmas, other.lemmas):
                            of[at, place] = SPELT

    def _veto(
        self,
        rows: Sequence[Words],
        columns: Sequence[Words],
        values: Floats,
        settings: SemanticSettings,
        as_values: bool,
    ) -> None:
        places = np.argwhere(values >= FLOOR).tolist()
        if not places:
            return
        vetoes, book = self._vetoes_of(settings), self._word_book(rows, columns, settings)
        limit, own = _word_limit(settings), registry.find(settings.measure).threshold(settings.options)
        of_rows = {row: vetoes.facets(rows[row]) for row in {row for row, _ in places}}
        of_columns = {column: vetoes.facets(columns[column]) for column in {column for _, column in places}}
        for row, column in places:
            alike = book.alike(rows[row], columns[column])
            one, other = of_rows[row], of_columns[column]
            if as_values:
                objection = vetoes.object_to_values(one, other, alike)
            else:
                objection = vetoes.object(one, other, alike, limit)
            if objection is not None and objection.is_doubt:
                values[row, column] = min(values[row, column] * DOUBT, own)
            elif objection is not None:
                values[row, column] = 0.0
            elif one.words.unit != other.words.unit and one.words.unit and other.words.unit:
                values[row, column] = min(values[row, column], CONVERTED)
            elif values[row, column] < SAME_WORDS and not as_values and vetoes.is_same(one, other, alike):
                values[row, column] = SAME_WORDS

    def _vetoes_of(self, settings: SemanticSettings) -> Vetoes:
        knows = registry.find(settings.measure).needs_lexicon
        with self._lock:
            if knows not in self._vetoes:
                self._vetoes[knows] = Vetoes(self.tables, self.lexicon if knows else None)
            return self._vetoes[knows]

    def _word_book(self, rows: Sequence[Words], columns: Sequence[Words], settings: SemanticSettings) -> WordBook:
        knows = registry.find(settings.measure).needs_lexicon
        every = {word for words in (*rows, *columns) for word in words.own}
        single = {word: self.reader.single(word) if knows else plain_words(word.lemma) for word in every}
        return WordBook(self.measure(settings), rows, columns, single)

    def objection(self, a: str, b: str, settings: SemanticSettings = DEFAULT) -> Objection | None:
        """What speaks against two names in the readings that the measure finds most alike, whichever comes first."""
        rows, columns = self.readings(a, settings), self.readings(b, settings)
        values = self.measure(settings).matrix(rows, columns)
        best = values.max()
        if a == b or best < FLOOR or self.given(a, b, settings) is not None:
            return None
        vetoes, limit = self._vetoes_of(settings), _word_limit(settings)
        book, found = self._word_book(rows, columns, settings), []
        for row, column in np.argwhere(values >= best - 1e-9).tolist():
            one, other = rows[row], columns[column]
            objection = vetoes.object(vetoes.facets(one), vetoes.facets(other), book.alike(one, other), limit)
            if objection is None:
                return None
            found.append(objection)
        return min(found, key=lambda one: (one.sort, one.a, one.b))

    # -- alignment ----------------------------------------------------------------------------------------------------

    def align(
        self, constraints: Sequence[str], attributes: Sequence[str], settings: SemanticSettings = DEFAULT
    ) -> Alignment:
        """The attribute for each name; ``recado.semantics.alignment`` has the rules."""
        there = dict.fromkeys(attributes)
        names = distinct(constraints)
        own = [name for name in names if name in there or (name in ENVELOPE and not settings.envelope)]
        free = [name for name in names if name not in own]
        taken = own if settings.assignment != "best" else []
        reserved = () if settings.envelope else ENVELOPE
        candidates = [name for name in there if name not in reserved and name not in taken]
        found = self._pairs(free, candidates, tuple(there), settings)
        pairs = tuple(found.get(name) or _itself(name, name in there) for name in names)
        key = self.measure(settings).key if free and candidates else settings.measure
        return Alignment(pairs, key, settings.limit, settings.unmatched)

    def _pairs(
        self, names: list[str], candidates: list[str], there: Sequence[str], settings: SemanticSettings
    ) -> dict[str, Pair]:
        if not names or not candidates:
            return {name: Pair(name, None, 0.0, aligning.NO_ATTRIBUTES) for name in names}
        values = self.similarities(names, candidates, settings)
        choice = aligning.choose(values, settings)
        found = {}
        for row, (name, chosen, nearest) in enumerate(zip(names, *choice, strict=True)):
            column = chosen if chosen >= 0 else nearest
            pair = self._pair(name, candidates[column], float(values[row, column]), chosen >= 0, settings)
            if pair.attribute is not None:
                reading = self.reading(name, pair.attribute, there, settings)
                pair = msgspec.structs.replace(pair, reading=reading) if reading is not None else pair
            elif pair.reason == aligning.BELOW and settings.vetoes:
                pair = self._object(pair, candidates, settings)
            found[name] = pair
        return found

    def _object(self, pair: Pair, candidates: Sequence[str], settings: SemanticSettings) -> Pair:
        """The pair with what spoke against the attribute that the measure alone would have taken, if it did."""
        raw = self.measure(settings).matrix(
            [self.words(pair.constraint, settings)], [self.words(name, settings) for name in candidates]
        )[0]
        best = int(np.argmax(raw))
        if raw[best] <= settings.limit:
            return pair
        objection = self.objection(pair.constraint, candidates[best], settings)
        if objection is None:
            return pair
        words = self.words(candidates[best], settings).lemmas
        reason = objection.explain()
        return Pair(pair.constraint, None, pair.similarity, reason, pair.words, words, candidates[best])

    def unit(self, name: str, settings: SemanticSettings = DEFAULT) -> Unit | None:
        """The unit that a name says."""
        return next((words.unit for words in self.readings(name, settings) if words.unit is not None), None)

    def reading(
        self, constraint: str, attribute: str, attributes: Sequence[str], settings: SemanticSettings = DEFAULT
    ) -> Reading | None:
        """How the values of an attribute are converted for a filter's name; None if they are not."""
        if converters and (name := find_converter(constraint, attribute)):
            return Reading(_free(f"{attribute} by {name}", attributes), constraint, attribute, converter=name)
        target = self.unit(constraint, settings)
        if target is None:
            return None
        source = self.unit(attribute, settings)
        if source is not None:
            conversion = convert(source, target)
            place = _free(f"{attribute} in {target.symbol}", attributes)
            return None if conversion is None else Reading(place, constraint, attribute, target.symbol, conversion)
        others = {name: tokens(name) for name in attributes if name != attribute and is_teller(name)}
        teller, is_sure = find_teller(tokens(attribute), others, target.quantity == MONEY)
        place = _free(f"{attribute} in {target.symbol}", attributes)
        return Reading(place, constraint, attribute, target.symbol, None, teller, is_sure)

    def _pair(self, name: str, attribute: str, value: float, matched: bool, settings: SemanticSettings) -> Pair:
        words, others = self.words(name, settings).lemmas, self.words(attribute, settings).lemmas
        if not matched:
            reason = aligning.TAKEN if value > settings.limit or value >= ALIKE else aligning.BELOW
            return Pair(name, None, value, reason, words, others, attribute)
        given = self.given(name, attribute, settings)
        reason = given.origin if given else "same words" if words == others and words else "similar"
        return Pair(name, attribute, value, reason, words, others, attribute)


def _word_limit(settings: SemanticSettings) -> float:
    """From where on words that are left over are alike."""
    return min(0.9, STRICTER * registry.find(settings.measure).threshold(settings.options))


def _free(wanted: str, attributes: Sequence[str]) -> str:
    """A name that no attribute has."""
    while wanted in attributes:
        wanted += "'"
    return wanted


def _itself(name: str, is_there: bool) -> Pair:
    if is_there:
        return Pair(name, name, 1.0, "identical")
    return Pair(name, None, 0.0, aligning.LACKS_FIELD)


_shared_lock = threading.Lock()
_shared: list[Semantics] = []


def shared() -> Semantics:
    """The process's own, with a cache and nothing that a person gave."""
    with _shared_lock:
        if not _shared:
            _shared.append(Semantics(cache=SimilarityCache()))
        return _shared[0]


def get_measure(name: str, semantics: Semantics | None = None, **options: Any) -> NameMeasure:
    """A measure by name, made from the shared lexicon unless another is given; a RecadoError tells what there is."""
    return registry.make(name, semantics or shared(), options)


def align(
    constraints: Sequence[str],
    attributes: Sequence[str],
    settings: SemanticSettings = DEFAULT,
    semantics: Semantics | None = None,
) -> Alignment:
    """The attribute that stands for each name of a filter, by the shared knowledge unless another is given."""
    return (semantics or shared()).align(constraints, attributes, settings)


# --- What a process was told: knowledge from files -------------------------------------------------------------------
#
# What semantic subscriptions are understood by besides the lexicon, as one value.
#
# The service, the command line and jobs on Spark have to give the same matches, so what moves a match stands together
# here: what subscriptions leave open (``default``), similarities that people gave, and pairs that they accepted or
# refused. Those travel with the value; tables that may be large (``frequencies``, ``similarities``) travel as the path
# of a file that every machine of a job can read.


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())


class Knowledge(msgspec.Struct, frozen=True):
    """``given`` and ``decided`` are pairs, ``frequencies`` a folder, ``similarities`` a file; empty is none."""

    default: SemanticSettings = DEFAULT
    given: tuple[Given, ...] = ()
    decided: tuple[Given, ...] = ()
    frequencies: str = ""
    similarities: str = ""
    added: Added = NOTHING_ADDED

    @classmethod
    def read(
        cls,
        *,
        default: SemanticSettings = DEFAULT,
        overrides: str | Path = "",
        frequencies: str | Path = "",
        similarities: str | Path = "",
    ) -> Knowledge:
        """The pairs of the file ``overrides``, and those that were decided in this user's review list.

        The other two may be URLs for those who can read them, as Spark jobs can.
        """
        given = tuple(read_pairs(overrides)) if overrides else ()
        files = [_absolute(str(path)) if path else "" for path in (frequencies, similarities)]
        added = read_added(overrides) if overrides else NOTHING_ADDED
        return cls(default, given, tuple(ReviewList.load().decided()), files[0], files[1], added)

    def semantics(self) -> Semantics:
        """The engine that knows all this; a RecadoError for a table that cannot be used."""
        cache = SimilarityCache()
        made = Semantics(
            frequencies=Frequencies.load(self.frequencies) if self.frequencies else None,
            overrides=Overrides(self.given, self.added),
            decided=self.decided,
            cache=cache,
        )
        if self.similarities and not cache.load(Path(self.similarities), made.digest):
            raise RecadoError(
                f"{self.similarities} holds no similarities that were made by the lexicon, overrides and frequencies "
                "in use; make it with: recado pipeline align"
            )
        return made
