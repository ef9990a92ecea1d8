"""Damage in SQLite's write-ahead log, which SQLite itself passes over in silence.

After a crash SQLite replays the write-ahead log up to the first frame whose checksum is wrong and forgets the rest.
That is right for a write that was torn by the crash, but a flipped bit in the middle would take every later commit
with it. Frames are written in order and each commit is synced before the next begins, so a crash can tear one commit
at most, the last. Two or more commits after the first wrong frame are damage. This looks before SQLite does, since
SQLite overwrites what it has passed over.

The layout is in SQLite's documentation, "WAL-mode file format": a header of 32 bytes, then frames of 24 bytes and
a page; a frame of this generation repeats the salts of the header, and the last one of a commit has a size other
than 0. The checksum of a frame goes on from that of the frame before.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682  # the last bit tells the byte order of the checksums
_SUMMED = 24, 8  # how much of the header, and of a frame's own header, its checksum covers

Words = NDArray[np.uint32]


def wal_damage(path: Path) -> str:
    """What is wrong with a write-ahead log that has several commits after the place up to which SQLite can read it.

    Nothing ("") if it has not, or if there is none.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(raw) <= _HEADER.size:
        return ""
    magic, _, page_bytes, _, *rest = _HEADER.unpack_from(raw)
    order = np.dtype(">u4" if magic & 1 else "<u4")
    sums = _summed((0, 0), _words(raw[: _SUMMED[0]], order))
    if magic & ~1 != _MAGIC or sums != tuple(rest[2:]):
        return f"{path} is damaged in its header, so none of its commits can be read"
    return _frame_damage(path, memoryview(raw), _FRAME.size + page_bytes, order, rest)


def _frame_damage(path: Path, raw: memoryview, step: int, order: np.dtype[Any], header: list[int]) -> str:
    """``header`` has the two salts and the two sums of the file's header."""
    salts, sums = header[:2], (header[2], header[3])
    wrong, unread = None, 0
    for start in range(_HEADER.size, len(raw) - step + 1, step):
        frame = _FRAME.unpack_from(raw, start)
        if list(frame[2:4]) != salts:
            continue  # of an older generation, or never written
        if wrong is None:
            summed = b"".join((raw[start : start + _SUMMED[1]], raw[start + _FRAME.size : start + step]))
            sums = _summed(sums, _words(summed, order))
            wrong = start if sums != frame[4:] else None
        unread += wrong is not None and frame[1] != 0
    if unread > 1:
        return f"{path} is damaged from byte {wrong:,} on: {unread} commits cannot be read"
    return ""


def _words(raw: bytes, order: np.dtype[Any]) -> Words:
    return np.frombuffer(raw, order).astype(np.uint32)


def _summed(sums: tuple[int, int], words: Words) -> tuple[int, int]:
    """SQLite's running sums: for each pair of words (x, y), ``s += x + t`` and then ``t += y + s``, modulo 2^32."""
    x, y = words[::2], words[1::2]
    a, b, c, d = _weights(len(x) + 1)
    s = int((a[1:] * x + b[1:] * (x + y)).sum(dtype=np.uint32)) + int(a[0]) * sums[0] + int(b[0]) * sums[1]
    t = int((c[1:] * x + d[1:] * (x + y)).sum(dtype=np.uint32)) + int(c[0]) * sums[0] + int(d[0]) * sums[1]
    return s % 2**32, t % 2**32


@lru_cache(maxsize=8)
def _weights(count: int) -> tuple[Words, Words, Words, Words]:
    """The powers of the matrix (1 1; 1 2), entry by entry, the highest first: what each pair is worth at the end."""
    powers, current = [], (1, 0, 0, 1)
    for _ in range(count):
        powers.append(current)
        a, b, c, d = current
        current = (a + b, a + 2 * b, c + d, c + 2 * d)
    table = np.array([[value % 2**32 for value in power] for power in reversed(powers)], np.uint32)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
