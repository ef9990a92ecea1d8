"""Questions to the lexicon: which concepts a word has, which words a concept has, what lies above it.

A word is looked up as WordNet writes it, in lower case with underscores (``domestic_dog``). Words are found by binary
search in the sorted bytes, so that loading makes no Python object for each of 147,000 of them. ``morphy`` is WordNet's
own way from an inflected English form to its lemma: a list of exceptions, else endings that are taken off while the
result is a word.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recado.semantics.archive import Arrays
from recado.semantics.lexicon.source import PARTS

# --- Words and their concepts, as four arrays: the words' bytes in sorted order, and for each the numbers it leads to


class WordTable:
    """Words sorted by their UTF-8 bytes; a word's number is its place."""

    def __init__(self, arrays: Arrays) -> None:
        self._texts = arrays["texts"].tobytes()
        self._starts: list[int] = arrays["text_starts"].tolist()
        self.concepts: npt.NDArray[np.int32] = arrays["concepts"]
        self.concept_starts: npt.NDArray[np.int32] = arrays["concept_starts"]

    @staticmethod
    def arrays(words: dict[str, list[int]]) -> Arrays:
        """What a table of these words is made of."""
        items = sorted((word.encode(), concepts) for word, concepts in words.items())
        return {
            "texts": np.frombuffer(b"".join(word for word, _ in items), np.uint8),
            "text_starts": starts(len(word) for word, _ in items),
            "concepts": np.array([number for _, numbers in items for number in numbers], np.int32),
            "concept_starts": starts(len(numbers) for _, numbers in items),
        }

    def __len__(self) -> int:
        return len(self._starts) - 1

    def text(self, number: int) -> str:
        return self._texts[self._starts[number] : self._starts[number + 1]].decode()

    def find(self, word: str) -> int | None:
        """The word's number, if it is there."""
        wanted = word.encode(errors="replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._texts[self._starts[middle] : self._starts[middle + 1]] < wanted:
                low = middle + 1
            else:
                high = middle
        there = low < len(self) and self._texts[self._starts[low] : self._starts[low + 1]] == wanted
        return low if there else None

    def senses(self, word: str) -> tuple[int, ...]:
        """The concepts of a word; none for one that is not there."""
        number = self.find(word)
        if number is None:
            return ()
        start, end = self.concept_starts[number], self.concept_starts[number + 1]
        return tuple(self.concepts[start:end].tolist())


def starts(lengths: Any) -> npt.NDArray[np.int32]:
    """Where each of the lists with these lengths begins in one flat array, and where the last one ends."""
    return np.cumsum([0, *lengths], dtype=np.int64).astype(np.int32)


# --- Questions to the lexicon: which concepts a word has, which words a concept has, what lies above it --------------

Ints = npt.NDArray[np.int32]

_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}


class Lexicon:
    """WordNet 3.0. Concepts are numbers; ``source`` is the folder it was made from, ``digest`` tells its content."""

    def __init__(self, arrays: Arrays, source: Path) -> None:
        self.source = source
        self.digest = arrays["digest"].tobytes().hex()
        self.words = WordTable(arrays)
        self.keys: Ints = arrays["keys"]
        self.parts: Ints = arrays["parts"]
        self.bounds: list[int] = [0, *np.cumsum(self.parts).tolist()]
        self.word_tags: Ints = arrays["word_tags"]
        self.concept_tags: Ints = arrays["concept_tags"]
        self.ancestors: Ints = arrays["ancestors"]
        self.distances: npt.NDArray[np.uint8] = arrays["distances"]
        self.ancestor_starts: Ints = arrays["ancestor_starts"]
        self.depths: Ints = arrays["depths"]
        self._members: Ints = arrays["members"]
        self._member_starts: Ints = arrays["member_starts"]
        self._exceptions = arrays["exceptions"].tobytes().decode()

    def __len__(self) -> int:
        """The number of concepts."""
        return len(self.keys)

    def __contains__(self, lemma: str) -> bool:
        return self.words.find(lemma) is not None

    def senses(self, lemma: str) -> tuple[int, ...]:
        """The concepts of a word: nouns, verbs, adjectives, adverbs; within each the most common first."""
        return self.words.senses(lemma)

    def tags(self, lemma: str) -> tuple[int, ...]:
        """How often SemCor has the word as noun, verb, adjective and adverb."""
        number = self.words.find(lemma)
        return (0, 0, 0, 0) if number is None else tuple(self.word_tags[number].tolist())

    @cached_property
    def tokens(self) -> int:
        """How many words of SemCor are tagged with a concept."""
        return int(self.concept_tags.sum(dtype=np.int64))

    def part(self, concept: int) -> str:
        """n, v, a or r."""
        return PARTS[bisect_right(self.bounds, concept) - 1]

    def members(self, concept: int) -> tuple[str, ...]:
        """The words of a concept, in WordNet's order."""
        start, end = self._member_starts[concept], self._member_starts[concept + 1]
        return tuple(self.words.text(number) for number in self._members[start:end].tolist())

    def above(self, concept: int) -> slice:
        """Where ``ancestors`` and ``distances`` have the concept itself and all above it."""
        return slice(int(self.ancestor_starts[concept]), int(self.ancestor_starts[concept + 1]))

    def concept(self, key: int) -> int | None:
        """The number of the concept with this part of speech and offset."""
        at = int(np.searchsorted(self.keys, key))
        return at if at < len(self.keys) and self.keys[at] == key else None

    # -- inflected forms ----------------------------------------------------------------------------------------------

    @cached_property
    def exceptions(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for line in self._exceptions.splitlines():
            part, form, lemma = line.split(" ")
            found.setdefault((part, form), []).append(lemma)
        return found

    def has(self, lemma: str, part: str) -> bool:
        """Is the word there as this part of speech?"""
        low, high = self.bounds[PARTS.index(part)], self.bounds[PARTS.index(part) + 1]
        return any(low <= concept < high for concept in self.senses(lemma))

    def morphy(self, form: str, part: str) -> list[str]:
        """The lemmas that an English form may belong to, the likeliest first; the form itself if it is one."""
        found = dict.fromkeys(lemma for lemma in self._candidates(form, part) if self.has(lemma, part))
        return list(found)

    def _candidates(self, form: str, part: str) -> Iterator[str]:
        if (part, form) in self.exceptions:
            yield from self.exceptions[part, form]
            yield form
            return
        yield form
        stem, tail = (form[:-3], "ful") if part == "n" and form.endswith("ful") else (form, "")
        if part == "n" and stem.endswith("ss"):
            return
        for ending, instead in _ENDINGS[part]:
            if stem.endswith(ending) and len(stem) > len(ending):
                yield stem[: len(stem) - len(ending)] + instead + tail
