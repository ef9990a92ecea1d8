"""The lexicon and its counts, read once a process and kept as arrays in the cache folder between processes.

Reading the text files takes seconds, reading the arrays milliseconds. A cached file that is damaged, of another
version, or made from other text files is made anew; one that cannot be written only costs the next process its time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from recado.errors import RecadoError
from recado.semantics import archive
from recado.semantics.archive import Arrays
from recado.semantics.folders import cache_folder
from recado.semantics.lexicon.build import build
from recado.semantics.lexicon.source import find_data, fingerprint, source_files
from recado.semantics.lexicon.wordnet import Lexicon

VERSION = "2"
_lock = threading.Lock()
_loaded: dict[str, Lexicon] = {}


def load_lexicon(folder: Path | None = None) -> Lexicon:
    """The lexicon of the installed package, or of another folder of the same form; a LexiconError if there is none."""
    data = folder or find_data()
    mark = fingerprint(source_files(data))
    with _lock:
        if mark not in _loaded:
            _loaded[mark] = Lexicon(kept("wordnet", mark, lambda: build(data)), data)
        return _loaded[mark]


def kept(name: str, mark: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of that name in the cache folder if they were made from ``mark``, else made now and kept."""
    path = cache_folder() / f"{name}.arrays"
    about = {"what": name, "version": VERSION, "made from": mark}
    try:
        return archive.load(path, about)
    except archive.ArchiveError:
        arrays = make()
    with suppress(RecadoError):  # a cache that cannot be written is no reason to fail
        archive.save(path, about, arrays)
    return arrays
