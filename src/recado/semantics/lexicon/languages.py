"""Other languages: the ``.tab`` files of the Open Multilingual Wordnet, which give words to WordNet 3.0's own concepts.

    # OpenWN-PT <TAB> por <TAB> address <TAB> licence
    04961062-n <TAB> lemma <TAB> umidade

So ``umidade`` and ``humidity`` lead to one concept, and every measure of words works across languages. A file is
checked, made into arrays and kept in the data folder under its code of ISO 639-3. Lines of other sorts (definitions,
examples) are passed over. The files do not say which sense of a word is the commonest; it is taken to be the one that
English texts have most often.

Names of attributes are often written without accents (``preco``): a word that is not there as written is looked up
without them.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.semantics import files
from recado.semantics.files import Arrays, data_folder
from recado.semantics.lexicon.build import KEY
from recado.semantics.lexicon.wordnet import PARTS, Lexicon, WordTable

# --- Codes of languages: ISO 639-3 names a wordnet, ISO 639-1 names a lemmatiser; either is accepted everywhere


_ALPHA2 = {
    "als": "sq", "arb": "ar", "bul": "bg", "cat": "ca", "cmn": "zh", "dan": "da", "deu": "de", "ell": "el",
    "eng": "en", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi", "fra": "fr", "gle": "ga", "glg": "gl",
    "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id", "isl": "is", "ita": "it",
    "jpn": "ja", "kat": "ka", "lav": "lv", "lit": "lt", "mkd": "mk", "nld": "nl", "nno": "nn", "nob": "nb",
    "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv",
    "tha": "th", "tur": "tr", "ukr": "uk", "zsm": "ms",
}  # fmt: skip
_ALPHA3 = {short: long for long, short in _ALPHA2.items()}


def alpha3(code: str) -> str:
    """``por`` for ``pt`` and for ``por``; an unknown code is left as it is."""
    lower = code.strip().lower()
    return _ALPHA3.get(lower, lower)


def alpha2(code: str) -> str:
    """``pt`` for ``por`` and for ``pt``; an unknown code is left as it is."""
    lower = code.strip().lower()
    return _ALPHA2.get(lower, lower)


# --- Other languages: the ``.tab`` files of the Open Multilingual Wordnet, which give words to WordNet 3.0's own
# concepts

FILE_BYTES = 256 << 20
LINES = 5_000_000
WORD_BYTES = 256
_CODE = re.compile(r"[a-z]{3}")
_KEY = re.compile(r"([0-9]{8})-([nvars])")
_ABOUT = {"what": "language", "version": "1"}


class Imported(msgspec.Struct, frozen=True):
    """What an import found."""

    language: str
    words: int
    concepts: int
    unknown: int
    """Lines with a concept that WordNet 3.0 does not have."""


class Language:
    """The words of one language."""

    def __init__(self, code: str, arrays: Arrays) -> None:
        self.code = code
        self._words = WordTable(arrays)
        self.digest = blake2b(b"".join(arrays[name].tobytes() for name in sorted(arrays)), digest_size=8).hexdigest()
        self._bare = WordTable({name.removeprefix("bare_"): array for name, array in arrays.items() if "bare_" in name})

    def __len__(self) -> int:
        return len(self._words)

    def find(self, word: str) -> str | None:
        """The word as the language spells it, if it has it; accents may be missing."""
        if self._words.find(word) is not None:
            return word
        spelt = self._bare.senses(word)
        return self._words.text(spelt[0]) if spelt else None

    def senses(self, word: str) -> tuple[int, ...]:
        return self._words.senses(word)


def add_language(code: str, file: str | Path, lexicon: Lexicon) -> Imported:
    """Read a ``.tab`` file and keep it in the data folder; a RecadoError with the line where something is wrong."""
    language = check_code(code)
    concepts, unknown = _read(Path(file), language, lexicon)
    words = _by_word(concepts, lexicon)
    files.save_arrays(_path(language), _ABOUT | {"language": language}, _arrays(words))
    return Imported(language, len(words), len(concepts), unknown)


def load_language(code: str) -> Language:
    """A language that was added; a RecadoError says how to add it."""
    language = check_code(code)
    if not _path(language).exists():
        raise RecadoError(f"the language {code!r} is not there; add it with: recado semantics add-language {code} FILE")
    try:
        return Language(language, files.load_arrays(_path(language), _ABOUT | {"language": language}))
    except files.ArchiveError as error:
        raise RecadoError(f"{error}; add it again with: recado semantics add-language {code} FILE") from None


def installed() -> list[str]:
    """The codes of the languages that were added."""
    return sorted(path.stem for path in (data_folder() / "languages").glob("*.arrays"))


def check_code(code: str) -> str:
    """The three letters of ISO 639-3; ``pt`` is read as ``por``."""
    language = alpha3(code)
    if not _CODE.fullmatch(language) or language == "eng":
        wrong = "English is always there" if language == "eng" else "a language is named by its ISO 639 code"
        raise RecadoError(f"{code!r} cannot be added: {wrong}, such as por")
    return language


def without_accents(word: str) -> str:
    parts = unicodedata.normalize("NFD", word)
    return "".join(char for char in parts if unicodedata.category(char) != "Mn")


def _path(language: str) -> Path:
    return data_folder() / "languages" / f"{language}.arrays"


def _read(path: Path, language: str, lexicon: Lexicon) -> tuple[dict[int, list[str]], int]:
    """Words by concept, and how many lines name an unknown concept."""
    found: dict[int, list[str]] = {}
    unknown = 0
    try:
        if path.stat().st_size > FILE_BYTES:
            raise RecadoError(f"{path}: is larger than {FILE_BYTES:,} bytes")
        with path.open("rb") as stream:
            for number, raw in enumerate(iter(lambda: stream.readline(65_536), b""), 1):
                if number > LINES:
                    raise RecadoError(f"{path}:{number}: there are more than {LINES:,} lines")
                pair = _line(raw, f"{path}:{number}", language)
                if pair is None:
                    continue
                concept = lexicon.concept(pair[0])
                unknown += concept is None
                if concept is not None:
                    found.setdefault(concept, []).append(pair[1])
    except OSError as error:
        raise RecadoError(f"{path}: {error.strerror or error}") from None
    if not found:
        raise RecadoError(
            f"{path}: has no word for a concept of WordNet 3.0; expected lines as 00001740-n, lemma, word"
        )
    return found, unknown


def _line(raw: bytes, place: str, language: str) -> tuple[int, str] | None:
    """A concept's key and a word; None for a comment or a line of another sort."""
    try:
        line = raw.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise RecadoError(f"{place}: is not UTF-8") from None
    fields = line.split("\t")
    if line.startswith("#"):
        if len(fields) > 1 and len(fields[1]) == 3 and fields[1] != language:
            raise RecadoError(f"{place}: the file says it is of the language {fields[1]!r}, not {language!r}")
        return None
    if not line.strip():
        return None
    key = _KEY.fullmatch(fields[0])
    if key is None or len(fields) < 3:
        raise RecadoError(
            f"{place}: expected a concept, a sort and a word, separated by tabs, as 00001740-n, lemma, word"
        )
    if fields[1] != "lemma" and not fields[1].endswith(":lemma"):
        return None
    word = unicodedata.normalize("NFC", " ".join(fields[2].split()).casefold()).replace(" ", "_")
    if not word or len(word.encode()) > WORD_BYTES:
        raise RecadoError(f"{place}: a word must have between 1 and {WORD_BYTES} bytes")
    part = PARTS.index("a" if key[2] == "s" else key[2])
    return part * KEY + int(key[1]), word


def _by_word(concepts: dict[int, list[str]], lexicon: Lexicon) -> dict[str, list[int]]:
    """Concepts by word, the commonest in English first."""
    found: dict[str, dict[int, None]] = {}
    order = sorted(concepts, key=lambda concept: (-int(lexicon.concept_tags[concept]), concept))
    for concept in order:
        for word in concepts[concept]:
            found.setdefault(word, {})[concept] = None
    return {word: list(numbers) for word, numbers in found.items()}


def _arrays(words: dict[str, list[int]]) -> Arrays:
    """The table of the words, and one from words without accents to the numbers of the spelt ones."""
    numbers = {word: number for number, word in enumerate(sorted(words, key=str.encode))}
    bare: dict[str, list[int]] = {}
    for word, number in numbers.items():
        plain = without_accents(word)
        if plain != word:
            bare.setdefault(plain, []).append(number)
    return WordTable.arrays(words) | {f"bare_{name}": array for name, array in WordTable.arrays(bare).items()}
