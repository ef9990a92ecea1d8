"""Everything that similarities are made from, loaded when first needed: lexicon, frequencies, overrides, cache.

One ``Semantics`` serves a process; threads may share it. Each thing is asked in this order, and the first to answer
wins: equal names (1.0), what a person decided or gave, the cache, the measure. So the cache changes the time a question
takes and never its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

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
from recado.semantics.names import NameReader, Words, plain_words
from recado.semantics.overrides import Given, Overrides, ReviewList, read_pairs
from recado.semantics.settings import DEFAULT, SemanticSettings


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
        self._overrides = overrides or Overrides()
        self._decided = Overrides(decided)
        self._lock = threading.RLock()
        self._reader: NameReader | None = None
        self._measures: dict[tuple[str, str], NameMeasure] = {}

    # -- what measures are made from ----------------------------------------------------------------------------------

    @property
    def lexicon(self) -> Lexicon:
        return self.reader.lexicon

    @property
    def reader(self) -> NameReader:
        with self._lock:
            if self._reader is None:
                self._reader = NameReader(load_lexicon(self._data), self.frequencies)
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
        return f"{self.lexicon.digest} {self._overrides.digest} {counted}"

    # -- questions ----------------------------------------------------------------------------------------------------

    def words(self, name: str, settings: SemanticSettings = DEFAULT) -> Words:
        """The words of a name; plain tokens if the measure needs no lexicon."""
        if registry.find(settings.measure).needs_lexicon:
            return self.reader.read(name, settings.languages)
        return plain_words(name)

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

    def scope(self, settings: SemanticSettings = DEFAULT) -> str:
        """Under which the cache has the similarities of these settings: the measure, and the words of the languages."""
        languages = settings.languages
        if registry.find(settings.measure).needs_lexicon:
            languages = tuple(self.reader.edition(code) for code in languages)
        return f"{self.measure(settings).key} {','.join(languages)}"

    def similarity(self, a: str, b: str, settings: SemanticSettings = DEFAULT) -> float:
        return float(self.similarities([a], [b], settings)[0, 0])

    def similarities(self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings = DEFAULT) -> Floats:
        """One row for each name of ``a``, one column for each of ``b``."""
        if not a or not b:
            return np.zeros((len(a), len(b)))
        values = self._compute(a, b, settings)
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

    def _compute(self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings) -> Floats:
        """By the measure, as far as the cache does not know."""
        cache = self.cache
        if cache is None or len(a) * len(b) > cache.entries:
            return self._measure(a, b, settings)
        scope = self.scope(settings)
        known = cache.get(scope, ((one, other) for one in a for other in b))
        values = np.array([np.nan if value is None else value for value in known]).reshape(len(a), len(b))
        lacking = np.isnan(values)
        if lacking.any():
            rows, columns = np.flatnonzero(lacking.any(axis=1)), np.flatnonzero(lacking.any(axis=0))
            some_a, some_b = [a[row] for row in rows.tolist()], [b[column] for column in columns.tolist()]
            found = self._measure(some_a, some_b, settings)
            values[np.ix_(rows, columns)] = found
            new = zip(
                (one for one in some_a for _ in some_b), some_b * len(some_a), found.ravel().tolist(), strict=True
            )
            cache.put(scope, new)
        return values

    def _measure(self, a: Sequence[str], b: Sequence[str], settings: SemanticSettings) -> Floats:
        read = self.words
        return self.measure(settings).matrix([read(name, settings) for name in a], [read(name, settings) for name in b])

    # -- alignment ----------------------------------------------------------------------------------------------------

    def align(
        self, constraints: Sequence[str], attributes: Sequence[str], settings: SemanticSettings = DEFAULT
    ) -> Alignment:
        """The attribute for each name; ``recado.semantics.alignment`` has the rules."""
        there = dict.fromkeys(attributes)
        names = distinct(constraints)
        own = [name for name in names if name in there or (name in ENVELOPE and not settings.envelope)]
        free = [name for name in names if name not in own]
        taken = own if settings.assignment == "one-to-one" else []
        reserved = () if settings.envelope else ENVELOPE
        candidates = [name for name in there if name not in reserved and name not in taken]
        found = self._pairs(free, candidates, settings)
        pairs = tuple(found.get(name) or _itself(name, name in there) for name in names)
        key = self.measure(settings).key if free and candidates else settings.measure
        return Alignment(pairs, key, settings.limit, settings.unmatched)

    def _pairs(self, names: list[str], candidates: list[str], settings: SemanticSettings) -> dict[str, Pair]:
        if not names or not candidates:
            return {name: Pair(name, None, 0.0, aligning.NO_ATTRIBUTES) for name in names}
        values = self.similarities(names, candidates, settings)
        choice = aligning.choose(values, settings)
        found = {}
        for row, (name, chosen, nearest) in enumerate(zip(names, *choice, strict=True)):
            column = chosen if chosen >= 0 else nearest
            found[name] = self._pair(name, candidates[column], float(values[row, column]), chosen >= 0, settings)
        return found

    def _pair(self, name: str, attribute: str, value: float, matched: bool, settings: SemanticSettings) -> Pair:
        words, others = self.words(name, settings).lemmas, self.words(attribute, settings).lemmas
        if not matched:
            reason = aligning.TAKEN if value > settings.limit or value >= ALIKE else aligning.BELOW
            return Pair(name, None, value, reason, words, others, attribute)
        given = self.given(name, attribute, settings)
        reason = given.origin if given else "same words" if words == others and words else "similar"
        return Pair(name, attribute, value, reason, words, others, attribute)


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


class Knowledge(msgspec.Struct, frozen=True):
    """``given`` and ``decided`` are pairs, ``frequencies`` a folder, ``similarities`` a file; empty is none."""

    default: SemanticSettings = DEFAULT
    given: tuple[Given, ...] = ()
    decided: tuple[Given, ...] = ()
    frequencies: str = ""
    similarities: str = ""

    @classmethod
    def read(
        cls,
        *,
        default: SemanticSettings = DEFAULT,
        overrides: str | Path = "",
        frequencies: str | Path = "",
        similarities: str | Path = "",
    ) -> Knowledge:
        """The pairs of the file ``overrides``, and those that were decided in this user's review list."""
        given = tuple(read_pairs(overrides)) if overrides else ()
        files = [str(Path(path).absolute()) if path else "" for path in (frequencies, similarities)]
        return cls(default, given, tuple(ReviewList.load().decided()), *files)

    def semantics(self) -> Semantics:
        """The engine that knows all this; a RecadoError for a table that cannot be used."""
        cache = SimilarityCache()
        made = Semantics(
            frequencies=Frequencies.load(self.frequencies) if self.frequencies else None,
            overrides=Overrides(self.given),
            decided=self.decided,
            cache=cache,
        )
        if self.similarities and not cache.load(Path(self.similarities), made.digest):
            raise RecadoError(
                f"{self.similarities} holds no similarities that were made by the lexicon, overrides and frequencies "
                "in use; make it with: recado pipeline align"
            )
        return made
