"""The safetensors format: the length of a JSON header (8 bytes), the header, and raw little-endian tensors.

The header gives each tensor its type, shape and place. The file is mapped and not copied, so that processes share it.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError

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
