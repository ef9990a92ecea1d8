"""*words* and *text*: strings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Workload, draw, pick_columns, strings, zipf_weights
from recado.model.filter import And, Compare, Filter, Text

# --- words ------------------------------------------------------------------------------------------------------------
# *words*: five strings an event, 100 words each; a subscription asks for two of them: one match in 10,000.
#
# The easiest of all workloads, so that what surrounds matching is what it costs: reading events from text, and calling.


WORD_NAMES = ("city", "kind", "brand", "color", "state")
WORDS = [f"word{number}" for number in range(100)]
WORD_PREDICATES = 2


class Words(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "words"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        names = pick_columns(rng, count, len(WORD_NAMES), WORD_PREDICATES).tolist()
        words = rng.integers(0, len(WORDS), (count, WORD_PREDICATES)).tolist()
        for chosen, values in zip(names, words, strict=True):
            parts = (Compare(WORD_NAMES[name], "==", WORDS[word]) for name, word in zip(chosen, values, strict=True))
            yield And(tuple(parts))

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        return pa.RecordBatch.from_pydict(
            {name: strings(WORDS, rng.integers(0, len(WORDS), count)) for name in WORD_NAMES}
        )


# --- text -------------------------------------------------------------------------------------------------------------
# *text*: prefix, suffix, contains and wildcard on word-like strings.
#
# A vocabulary of 5,000 made-up words of two to four syllables, used by Zipf's law, makes three attributes: ``name`` is
# one word and a number, ``path`` three words with slashes, ``title`` six words. A subscription cuts its pattern out of
# a value that could have been an event's: 5 to 10 characters from its beginning, its end or its middle, or two cuts
# joined by ``*`` (sometimes with a ``?`` in them). Half of the subscriptions have a second pattern on another
# attribute. All matching is by content; no equality helps.


VOCABULARY = 5_000
EXPONENT = 0.8
_NAME, _PATH, _TITLE = 1, 3, 6

ATTRIBUTES = ("name", "path", "title")
Cuts = list[int]


class TextMatch(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "text"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        columns = [column.to_pylist() for column in self._rows(rng, count).columns]
        choices = rng.integers(0, 1 << 30, (count, 2, 5)).tolist()
        for number, (first, second) in enumerate(choices):
            attribute = first[0] % len(ATTRIBUTES)
            parts = [_pattern(ATTRIBUTES[attribute], columns[attribute][number], first)]
            if number % 2:
                other = (attribute + 1 + second[0] % 2) % len(ATTRIBUTES)
                parts.append(_pattern(ATTRIBUTES[other], columns[other][number], second))
            yield And(tuple(parts)) if len(parts) > 1 else parts[0]

    def events(self, count: int) -> pa.RecordBatch:
        return self._rows(self.event_rng(), count)

    def _rows(self, rng: np.random.Generator, count: int) -> pa.RecordBatch:
        words = vocabulary(self.seed)
        per_row = _NAME + _PATH + _TITLE
        drawn = draw(rng, zipf_weights(VOCABULARY, EXPONENT), count * per_row).reshape(count, per_row).tolist()
        numbers = rng.integers(0, 1_000, count).tolist()
        texts = [[words[word] for word in row] for row in drawn]
        names = [f"{row[0]}{number}" for row, number in zip(texts, numbers, strict=True)]
        paths = ["/" + "/".join(row[1:4]) for row in texts]
        titles = [" ".join(row[4:]) for row in texts]
        return pa.RecordBatch.from_pydict({"name": names, "path": paths, "title": titles})


@lru_cache
def vocabulary(seed: int) -> tuple[str, ...]:
    """Different words of consonant-vowel syllables."""
    rng = np.random.default_rng([seed, VOCABULARY])
    syllables = [c + v + end for c in "bcdfglmnprstv" for v in "aeiou" for end in ("", "n", "r", "s")]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        length = int(rng.integers(2, 5))
        words["".join(syllables[k] for k in rng.integers(0, len(syllables), length))] = None
    return tuple(words)


def _pattern(attribute: str, value: str, choice: Cuts) -> Text:
    return _CUTS[choice[1] % len(_CUTS)](attribute, value, choice)


def _prefix(attribute: str, value: str, choice: Cuts) -> Text:
    return Text(attribute, "prefix", value[: _length(choice[2])])


def _suffix(attribute: str, value: str, choice: Cuts) -> Text:
    return Text(attribute, "suffix", value[-_length(choice[2]) :])


def _contains(attribute: str, value: str, choice: Cuts) -> Text:
    length = _length(choice[2])
    start = choice[3] % max(1, len(value) - length)
    return Text(attribute, "contains", value[start : start + length])


def _wildcard(attribute: str, value: str, choice: Cuts) -> Text:
    """The first characters, anything, some from the second half, and anything; one in four hides a character."""
    half = len(value) // 2
    start = half + choice[3] % max(1, half - 2)
    head, tail = value[: _length(choice[2]) - 1], value[start : start + 4]
    if choice[4] % 4 == 0:
        head = head[:-1] + "?"
    return Text(attribute, "like", f"{head}*{tail}*")


def _length(choice: int) -> int:
    return 5 + choice % 6


_CUTS: tuple[Callable[[str, str, Cuts], Text], ...] = (_prefix, _suffix, _contains, _wildcard)
