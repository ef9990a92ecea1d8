"""Large pages for large simulations.

With 20,000 nodes a step costs more for finding memory than for work: it touches some thirty places that are anywhere in
hundreds of megabytes, and the processor's table of pages has room for few of 4 KB. ``use_large_pages`` asks the kernel
to keep what the process has now in pages of 2 MB (Linux 6.1 and later, ``madvise``). Nothing else changes: where that
cannot be had, a run is slower and the same.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_LARGE = 2 << 20
_WANT, _COLLAPSE = 14, 25  # MADV_HUGEPAGE, MADV_COLLAPSE


def use_large_pages() -> int:
    """Keep the objects that there are in large pages from now on; how many bytes lie in such places.

    What is made later goes to other places: call it again when there is much of that. 0 where the system has no large
    pages.
    """
    if not sys.platform.startswith("linux"):
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found = 0
    for start, end in _own_memory():
        begin = -(-start // _LARGE) * _LARGE
        size = end // _LARGE * _LARGE - begin
        if size > 0 and madvise(begin, size, _WANT) == 0:
            madvise(begin, size, _COLLAPSE)  # if there is no room for it now, the kernel may do it later
            found += size
    return found


def _own_memory() -> list[tuple[int, int]]:
    """Where private memory of this process lies that is no file's."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        place, mode, _, _, inode, *name = line.split(maxsplit=5)
        if mode == "rw-p" and inode == "0" and (not name or name[0] == "[heap]"):
            start, _, end = place.partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found
