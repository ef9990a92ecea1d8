"""Files that semantics keeps: where they are, how they are written, and named arrays in one file.

``XDG_CACHE_HOME`` and ``XDG_DATA_HOME`` say where, as on any desktop; ``RECADO_DATA`` names the data folder itself.
What is in the cache folder can be deleted at any time. A file is written whole under another name and then renamed, so
a reader sees the old one or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import numpy as np
import numpy.typing as npt

from recado import files
from recado.errors import RecadoError


def cache_folder() -> Path:
    return _home("XDG_CACHE_HOME", ".cache") / "recado"


def data_folder() -> Path:
    if folder := os.environ.get("RECADO_DATA"):
        return Path(folder)
    return _home("XDG_DATA_HOME", ".local/share") / "recado"


def _home(variable: str, otherwise: str) -> Path:
    folder = os.environ.get(variable, "")
    return Path(folder) if folder.startswith("/") else Path.home() / otherwise


def write_whole(path: Path, content: bytes) -> None:
    """Put the content in the place of the file at once; a RecadoError if the folder does not take it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, content)
    except OSError as error:
        raise RecadoError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_limited(path: Path, most: int, what: str) -> bytes:
    """The file's content; a RecadoError if it cannot be read or has more than ``most`` bytes."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            content = stream.read(min(size, most) + 1)
    except OSError as error:
        raise RecadoError(f"{path}: {what} cannot be read: {error.strerror or error}") from None
    if len(content) > most or size > most:
        raise RecadoError(f"{path}: {what} is larger than {most:,} bytes")
    return content


# --- arrays in a file ------------------------------------------------------------------------------------------------
#
# A file of arrays is read in a few milliseconds, and refused whole if a byte of it is wrong:
#
#     magic line, BLAKE2b digest of all that follows (32 hexadecimal digits), length of the header (8 bytes),
#     header (JSON), payload
#
# The header says what the file is *about* (a dictionary of texts that the reader compares with what it expects) and
# where each array lies in the payload. Nothing in it is executed or unpickled. The arrays are views of the bytes that
# were read, and read-only.

Arrays = dict[str, npt.NDArray[Any]]
MAGIC = b"recado-arrays-2\n"
MOST_BYTES = 1 << 30
_ALIGN = 64
_START = len(MAGIC) + 32 + 8
_DTYPES = {name: np.dtype(name) for name in ("uint8", "int32", "int64", "float32", "float64")}


class _Place(msgspec.Struct):
    dtype: Literal["uint8", "int32", "int64", "float32", "float64"]
    shape: tuple[Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)], ...]
    start: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]


class _Header(msgspec.Struct):
    about: dict[str, str]
    arrays: dict[str, _Place]


class ArchiveError(RecadoError):
    """The file is damaged, or is about something else."""


def save_arrays(path: Path, about: Mapping[str, str], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    places: dict[str, _Place] = {}
    payload = bytearray()
    for name, array in arrays.items():
        assert array.dtype.name in _DTYPES, f"{name}: {array.dtype} is not kept"
        payload += bytes(-len(payload) % _ALIGN)
        places[name] = _Place(cast(Any, array.dtype.name), array.shape, len(payload))
        payload += np.ascontiguousarray(array).tobytes()
    header = msgspec.json.encode(_Header(dict(about), places))
    header += b" " * (-(_START + len(header)) % _ALIGN)  # so that the arrays are aligned in memory
    body = len(header).to_bytes(8, "little") + header + bytes(payload)
    write_whole(path, MAGIC + _digest(body) + body)


def load_arrays(path: Path, about: Mapping[str, str]) -> Arrays:
    """The arrays; an ArchiveError if the file is missing, damaged or about something else."""
    try:
        content = memoryview(read_limited(path, MOST_BYTES, "the file of arrays"))
    except RecadoError as error:
        raise ArchiveError(str(error)) from None
    magic, digest, body = content[: len(MAGIC)], content[len(MAGIC) : _START - 8], content[_START - 8 :]
    if magic != MAGIC or digest != _digest(body):
        raise ArchiveError(f"{path}: is not a file of arrays, or is damaged: it does not fit its checksum")
    end = 8 + int.from_bytes(body[:8], "little")
    try:
        header = msgspec.json.decode(body[8:end], type=_Header)
        if header.about != dict(about):
            raise ArchiveError(f"{path}: is about something else: {header.about}")
        return {name: _array(body[end:], place) for name, place in header.arrays.items()}
    except (msgspec.DecodeError, OverflowError, UnicodeError, ValueError) as error:
        raise ArchiveError(f"{path}: has a header that cannot be read: {error}") from None


def _array(payload: memoryview, place: _Place) -> npt.NDArray[Any]:
    count = prod(place.shape)
    return np.frombuffer(payload, _DTYPES[place.dtype], count, place.start).reshape(place.shape)


def _digest(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
