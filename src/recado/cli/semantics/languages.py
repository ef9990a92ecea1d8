"""``recado semantics add-language|languages``: the languages that names can be in."""

from __future__ import annotations

import msgspec

from recado.cli.output import for_people, plural, write_json, write_line
from recado.cli.verb import OK
from recado.semantics.lexicon import languages as added
from recado.semantics.lexicon.load import load_lexicon


def add_language(code: str, file: str, /, *, json: bool = False) -> int:
    """Add a language from a file of the Open Multilingual Wordnet; it replaces an earlier one of the same code.

    Such a file gives words to the concepts of WordNet 3.0, so names in that language reach names in all others. It is
    checked and kept in the data folder (RECADO_DATA, or XDG_DATA_HOME/recado).

    Example:
      recado semantics add-language por wn-data-por.tab

    Parameters
    ----------
    code
        The language's code of ISO 639, such as por or pt.
    file
        The .tab file.
    json
        Write JSON even on a terminal.
    """
    found = added.add_language(code, file, load_lexicon())
    if not for_people(json):
        write_json(msgspec.to_builtins(found))
        return OK
    write_line(f"{found.language}: {plural(found.words, 'word')} for {plural(found.concepts, 'concept')}")
    if found.unknown:
        write_line(f"{plural(found.unknown, 'line')} left out: WordNet 3.0 has no such concept")
    return OK


def languages(*, json: bool = False) -> int:
    """List English and the languages that were added.

    Parameters
    ----------
    json
        Write JSON even on a terminal.
    """
    sizes = {"eng": len(load_lexicon().words)} | {code: len(added.load_language(code)) for code in added.installed()}
    for code, size in sizes.items():
        if for_people(json):
            write_line(f"{code}  {plural(size, 'word')}")
        else:
            write_json({"language": code, "words": size})
    return OK
