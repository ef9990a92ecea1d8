"""The same experiment in Portuguese, and with publishers and subscribers who speak English and Portuguese by turns.

Portuguese needs a lexicon that is not part of Recado: the Open Multilingual Wordnet's file for Portuguese. It is taken
from the file that ``RECADO_WORDNET_POR`` names, else from what ``recado semantics add-language por FILE`` imported.
Without either the variant is not run, and the report says so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from experiments.expected import ExperimentError
from experiments.semantics.dataset import FULL, QUICK, Speech, folder, generate
from experiments.semantics.own import CONFIGURATIONS, evaluate
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.lexicon.languages import add_language, installed

Numbers = dict[str, float | str]

VARIABLE = "RECADO_WORDNET_POR"
CHOSEN = (
    "document: mean, Jiang & Conrath", "token-set", "feng, add-one counts", "embedding", "hybrid", "hybrid, as shipped",
    "hybrid, one-to-one", "hybrid, any, apart",
)  # fmt: skip
SPEECHES: dict[Speech, tuple[str, ...]] = {"por": ("por",), "mixed": ("eng", "por")}
NOT_RUN = (
    "Not run: there is no Portuguese lexicon. Name the file wn-data-por.tab of the Open Multilingual Wordnet in "
    f"`{VARIABLE}`, or import it with `recado semantics add-language por FILE`."
)


def languages(quick: bool) -> Numbers:
    with portuguese() as there:
        if not there:
            return {"not run": NOT_RUN}
        numbers: Numbers = {}
        chosen = [one for one in CONFIGURATIONS if one.name in CHOSEN]
        for speech, codes in SPEECHES.items():
            found = evaluate(generate(QUICK if quick else FULL, speech), codes, chosen)
            numbers |= {f"{speech}.{name}": value for name, value in found.items() if ".curve." not in name}
        return numbers


@contextmanager
def portuguese() -> Iterator[bool]:
    """Is there a Portuguese lexicon? A named file is imported for as long as the context lasts, and nowhere else."""
    file = os.environ.get(VARIABLE)
    if not file:
        yield "por" in installed()
        return
    before = os.environ.get("RECADO_DATA")
    with tempfile.TemporaryDirectory(prefix="recado-languages-") as scratch:
        os.environ["RECADO_DATA"] = scratch
        try:
            add_language("por", file, load_lexicon())
            yield True
        finally:
            if before is None:
                del os.environ["RECADO_DATA"]
            else:
                os.environ["RECADO_DATA"] = before


def inputs() -> str:
    """What the answers depend on beside the code: fingerprints of the thesaurus and of the Portuguese lexicon."""
    words = _digest((folder() / "thesaurus.toml").read_bytes())
    file = os.environ.get(VARIABLE)
    if not file:
        return f"{words} {'installed' if 'por' in installed() else 'none'}"
    try:
        return f"{words} {_digest(Path(file).read_bytes())}"
    except OSError as error:
        raise ExperimentError(f"{VARIABLE} names {file}, which cannot be read: {error.strerror}") from None


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=6).hexdigest()
