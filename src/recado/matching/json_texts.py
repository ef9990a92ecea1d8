"""Many JSON texts in one array of bytes, as the kernel that reads them wants it (``recado.matching.kernels.scan``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LONGEST_NAME = 4_096
"""Longer names of attributes the kernel does not read."""


class Texts(NamedTuple):
    """Where texts begin and end in ``data``. It goes on behind them: from ``top[0]`` on the kernel may write there."""

    data: Array
    starts: Array
    ends: Array
    top: Array

    @property
    def size(self) -> int:
        return len(self.starts)

    def part(self, first: int, last: int) -> Texts:
        """Some of them, with the same room."""
        return Texts(self.data, self.starts[first:last], self.ends[first:last], self.top)


def joined(texts: Sequence[bytes]) -> Texts:
    """Many texts, each of which may hold any bytes."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends
    return _with_room(b"\0".join((*texts, b"")), starts, ends - 1)


def from_lines(block: bytes) -> Texts:
    """The lines of a block, without their ends; the last one need not have one."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 0x0A)
    if len(block) and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    texts = _with_room(block, np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1)), ends)
    texts.data[ends] = 0
    return texts


def _with_room(block: bytes, starts: Array, ends: Array) -> Texts:
    """The bytes, a zero, and twice their size: for strings without escapes, and for casefolded ones."""
    data: Array = np.empty(3 * len(block) + LONGEST_NAME + 128, np.uint8)
    data[: len(block)] = np.frombuffer(block, np.uint8)
    data[len(block) : len(block) + 64] = 0
    return Texts(data, starts, ends, np.array([len(block) + 64], np.int64))
