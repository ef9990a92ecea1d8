"""The ids of matching subscriptions as text, in machine code."""

from __future__ import annotations

import numpy as np

from recado.matching.kernels.arrays import plain
from recado.matching.kernels.jit import lean, lean_jit
from recado.matching.kernels.layout import open_registry
from recado.matching.kernels.unaligned import PADDING, put_word, word_at


@lean
def write_ids(registry, entries, found):
    """The ids of all subscriptions of the first ``found`` entries into ``text``, each followed by a zero byte.

    Returns how many they are, and the bytes that they take; -1 if there is too little room. They are copied in words,
    so PADDING more bytes have to be there.
    """
    members, pool, text = registry.members, registry.pool, registry.text
    room, safe = text.shape[0] - PADDING, pool.shape[0] - PADDING
    count, top = 0, 0
    for i in range(found):
        size, at = members[entries[i], 0], members[entries[i], 1]
        for k in range(size):
            slot = at if size == 1 else registry.blocks[at + k]
            start = np.int64(registry.offsets[slot]) + 2  # two bytes of length come first
            length = np.int64(pool[start - 2]) | np.int64(pool[start - 1]) << 8
            if top + length > room:
                return count, -1
            if start + length <= safe:
                for place in range(0, length, 8):
                    put_word(text, top + place, word_at(pool, start + place))
            else:
                for place in range(length):
                    text[top + place] = pool[start + place]
            text[top + length] = 0
            top += length + 1
        count += size
    return count, top


@lean_jit
def write_ids_of(registry_handle, entries):
    """The same for entries that Python has."""
    entries = plain(entries)
    return write_ids(open_registry(registry_handle), entries, entries.shape[0])
