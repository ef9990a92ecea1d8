"""How much a concept tells: ``IC(c) = -ln p(c)``, with ``p(c)`` from counts of the concept and all below it (5, A-12).

The counts come from a file of the package wn (``semcor`` is WS4J's default and the one the reference values hold for;
``semcor-add1`` counts every concept once more, so that a concept which the small corpus lacks still tells something),
or from a table of word frequencies. There each word's count is shared out equally among its noun and verb senses and
added to every concept above them, plus one for every concept. An uncounted concept has the information 0.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.semantics import files
from recado.semantics.files import Arrays, cache_folder
from recado.semantics.frequencies import Frequencies
from recado.semantics.lexicon.build import KEY, build
from recado.semantics.lexicon.wordnet import (
    INSTALL,
    PARTS,
    Lexicon,
    LexiconError,
    damaged,
    find_data,
    fingerprint,
    source_files,
)

# --- The lexicon and its counts, read once a process and kept as arrays in the cache folder between processes --------
#
# Reading the text files takes seconds, reading the arrays milliseconds. A cached file that is damaged, of another
# version, or made from other text files is made anew; one that cannot be written only costs the next process its time.


VERSION = "3"
_lock = threading.Lock()
_lexicons: dict[str, Lexicon] = {}


def load_lexicon(folder: Path | None = None) -> Lexicon:
    """The lexicon of the installed package, or of another folder of the same form; a LexiconError if there is none."""
    data = folder or find_data()
    mark = fingerprint(source_files(data))
    with _lock:
        if mark not in _lexicons:
            _lexicons[mark] = Lexicon(load_or_make("wordnet", mark, lambda: build(data)), data)
        return _lexicons[mark]


def load_or_make(name: str, mark: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of that name in the cache folder if they were made from ``mark``, else made now and kept."""
    path = cache_folder() / f"{name}.arrays"
    about = {"what": name, "version": VERSION, "made from": mark}
    try:
        return files.load_arrays(path, about)
    except files.ArchiveError:
        arrays = make()
    with suppress(RecadoError):  # a cache that cannot be written is no reason to fail
        files.save_arrays(path, about, arrays)
    return arrays


# --- How much a concept tells: ``IC(c) = -ln p(c)``, with ``p(c)`` from counts of the concept and all below it (5,
#

Floats = npt.NDArray[np.float64]
TABLE = "table"
"""The source's name for counts from a table of word frequencies."""

_loaded: dict[str, Information] = {}


class Information:
    """The information content of every concept; ``most`` is that of a concept seen once, for nouns and for verbs."""

    def __init__(self, source: str, counts: Floats, totals: Floats, parts: npt.NDArray[np.int32]) -> None:
        self.source = source
        self.counts = counts
        total_of = np.repeat(np.append(totals, (0.0, 0.0)), parts)
        seen = (counts > 0) & (total_of > 0)
        self.content: Floats = np.zeros(len(counts))
        self.content[seen] = np.maximum(0.0, -np.log(counts[seen] / total_of[seen]))
        self.most: tuple[float, float] = (_most(totals[0]), _most(totals[1]))


def _most(total: float) -> float:
    return math.log(total) if total > 1 else 1.0


def sources(lexicon: Lexicon) -> list[str]:
    """The names of the shipped counts."""
    files = sorted((lexicon.source / "wordnet_ic").glob("ic-*.dat"))
    return [path.stem.removeprefix("ic-") for path in files]


def load_information(lexicon: Lexicon, source: str = "semcor", frequencies: Frequencies | None = None) -> Information:
    """The information content from a shipped file, or from a frequency table if the source is ``table``."""
    if source == TABLE:
        if frequencies is None:
            raise RecadoError("information from a table needs the folder that `recado pipeline frequencies` wrote")
        return from_frequencies(lexicon, frequencies)
    known = sources(lexicon)
    if source not in known:
        there = ", ".join((*known, TABLE)) or "none"
        raise RecadoError(f"there is no information content called {source!r}; there are: {there}")
    path = lexicon.source / "wordnet_ic" / f"ic-{source}.dat"
    mark = f"{fingerprint([path])} {lexicon.digest}"
    with _lock:
        if mark not in _loaded:
            arrays = load_or_make(f"information-{source}", mark, lambda: _read(path, lexicon))
            _loaded[mark] = Information(source, arrays["counts"], arrays["totals"], lexicon.parts)
        return _loaded[mark]


def _read(path: Path, lexicon: Lexicon) -> Arrays:
    counts, totals = np.zeros(len(lexicon)), np.zeros(2)
    numbers = {key: number for number, key in enumerate(lexicon.keys.tolist())}
    try:
        lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        raise LexiconError(f"{path}: cannot be read; the package wn is damaged: {INSTALL}") from None
    for number, line in enumerate(lines[1:], 2):
        fields = line.split()
        try:
            part = PARTS[:2].index(fields[0][-1])
            concept = numbers[part * KEY + int(fields[0][:-1])]
            counts[concept] = float(fields[1])
        except (ValueError, IndexError, KeyError):
            raise damaged(path, number) from None
        if not line.endswith("\n"):
            raise damaged(path, number)
        if fields[2:] == ["ROOT"]:
            totals[part] += counts[concept]
    _check(path, counts, lexicon)
    return {"counts": counts, "totals": totals}


def _check(path: Path, counts: Floats, lexicon: Lexicon) -> None:
    """A noun above a counted one is counted, else lines are missing. The verbs' cycle is not counted in any file."""
    last = lexicon.bounds[1]
    links = lexicon.ancestor_starts[: last + 1]
    below = np.repeat(counts[:last], np.diff(links))
    if not counts.any() or (counts[lexicon.ancestors[: links[-1]][below > 0]] == 0).any():
        raise LexiconError(f"{path}: lacks counts of some concepts; the package wn is damaged: {INSTALL}")


def from_frequencies(lexicon: Lexicon, frequencies: Frequencies) -> Information:
    """Counts of concepts from counts of English words."""
    own = np.ones(len(lexicon))
    last = lexicon.bounds[2]
    for lemma, count in frequencies.items():
        senses = [concept for concept in lexicon.senses(lemma) if concept < last]
        own[senses] += count / max(1, len(senses))
    own[last:] = 0.0
    counts = np.zeros(len(lexicon))
    np.add.at(counts, lexicon.ancestors, np.repeat(own, np.diff(lexicon.ancestor_starts)))
    totals = np.array([own[: lexicon.bounds[1]].sum(), own[lexicon.bounds[1] : last].sum()])
    return Information(f"{TABLE}-{frequencies.digest}", counts, totals, lexicon.parts)
