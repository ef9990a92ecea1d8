"""Who subscribed to what: subscription ids, and the entries (distinct filters) that they share.

A *slot* is the number of a subscription. Millions of them must fit, so ids lie in one byte pool behind a hash table
of slots, filter keys are kept as 128-bit digests behind another, and the slots of an entry are inlined when there is
only one. All of it is flat arrays that a snapshot can map.

Whoever subscribes chooses ids and filters. So where they lie in the tables depends on a ``seed`` that is kept with the
tables: nobody who does not know it can make many of them meet.

Rows of ``members``: how many slots the entry has, then that slot, or where the block of slots begins and its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.matching.kernels.ids import write_ids_of
from recado.matching.kernels.jit import inner, jit
from recado.matching.kernels.layout import RegistryArrays
from recado.matching.kernels.unaligned import PADDING, put_word, word_at
from recado.matching.store import grown

Array = NDArray[Any]
EMPTY = -1


@inner
def _rotate(value, count):
    return value << np.uint64(count) | value >> np.uint64(64 - count)


@inner
def _round(a, b, c, d):
    """One round of SipHash."""
    a, c = a + b, c + d
    b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
    a = _rotate(a, 32) + d
    c = c + b
    b, d = _rotate(b, 17) ^ c, _rotate(d, 21) ^ a
    return a, b, _rotate(c, 32), d


@inner
def _hash_bytes(data, at, length, seed):
    """SipHash-1-3: whoever does not know the seed cannot choose ids that meet in the table."""
    first, second = np.uint64(seed[0]), np.uint64(seed[1])
    a, b = first ^ np.uint64(0x736F6D6570736575), second ^ np.uint64(0x646F72616E646F6D)
    c, d = first ^ np.uint64(0x6C7967656E657261), second ^ np.uint64(0x7465646279746573)
    end = at + length
    while at + 8 <= end:
        word = word_at(data, at)
        a, b, c, d = _round(a, b, c, d ^ word)
        a ^= word
        at += 8
    word = np.uint64(length & 0xFF) << np.uint64(56)
    for i in range(end - at):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    a, b, c, d = _round(a, b, c, d ^ word)
    a ^= word
    c ^= np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return np.int64((a ^ b ^ c ^ d) & np.uint64(0x7FFFFFFFFFFFFFFF))


@inner
def _home_of_key(first, seed, mask):
    """The digests of filters are known to whoever chooses them, so their places depend on the seed, too."""
    mixed = (np.uint64(np.int64(first)) ^ np.uint64(seed[0])) * (np.uint64(seed[1]) | np.uint64(1))
    mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & mask


@inner
def _id_at(data, offset):
    """Start and length of an id in the pool: two length bytes come first."""
    return np.int64(offset) + 2, np.int64(data[offset]) | np.int64(data[offset + 1]) << 8


@inner
def _find_id(table, offsets, pool, data, first, id_length, seed):
    mask = table.shape[0] - 1
    at = _hash_bytes(data, first, id_length, seed) & mask
    while table[at] != EMPTY:
        start, length = _id_at(pool, offsets[table[at]])
        if length == id_length:
            same = True
            for i in range(length):
                if pool[start + i] != data[first + i]:
                    same = False
                    break
            if same:
                return at, np.int64(table[at])
        at = (at + 1) & mask
    return at, np.int64(-1)


@jit
def find_id(table, offsets, pool, id_, id_length, seed):
    """(position in the table, slot or -1) of an id."""
    return _find_id(table, offsets, pool, id_, 0, id_length, seed)


@jit
def find_ids(table, offsets, pool, data, ends, slots, seed):
    """The slots of many ids, which lie in ``data`` one after the other."""
    first = 0
    for i in range(ends.shape[0]):
        slots[i] = _find_id(table, offsets, pool, data, first, ends[i] - first, seed)[1]
        first = ends[i]


@jit
def enter_ids(table, offsets, pool, top, data, ends, slots, seed):
    """Append many ids to the pool and enter their slots; returns the new top."""
    mask = table.shape[0] - 1
    first = 0
    for i in range(ends.shape[0]):
        length = ends[i] - first
        pool[top], pool[top + 1] = length & 0xFF, length >> 8
        for k in range(length):
            pool[top + 2 + k] = data[first + k]
        offsets[slots[i]] = top
        at = _hash_bytes(pool, top + 2, length, seed) & mask
        while table[at] != EMPTY:
            at = (at + 1) & mask
        table[at] = slots[i]
        top += length + 2
        first = ends[i]
    return top


@jit
def enter_id(table, offsets, pool, top, data, slot, seed):
    """Append an id, its two length bytes first, to the pool and enter its slot."""
    length = data.shape[0] - 2
    for i in range(length + 2):
        pool[top + i] = data[i]
    offsets[slot] = top
    mask = table.shape[0] - 1
    at = _hash_bytes(pool, top + 2, length, seed) & mask
    while table[at] != EMPTY:
        at = (at + 1) & mask
    table[at] = slot


@inner
def _home_of_slot(slot, offsets, pool, mask, seed):
    start, length = _id_at(pool, offsets[slot])
    return _hash_bytes(pool, start, length, seed) & mask


@jit
def drop_id(table, at, offsets, pool, seed):
    """Empty a position of the id table and close the gap behind it."""
    mask = table.shape[0] - 1
    hole = at
    while True:
        at = (at + 1) & mask
        if table[at] == EMPTY:
            break
        home = _home_of_slot(table[at], offsets, pool, mask, seed)
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
    table[hole] = EMPTY


@jit
def rehash_ids(old, table, offsets, pool, seed):
    mask = table.shape[0] - 1
    for slot in old:
        if slot != EMPTY:
            at = _home_of_slot(slot, offsets, pool, mask, seed)
            while table[at] != EMPTY:
                at = (at + 1) & mask
            table[at] = slot


@jit
def find_key(table, keys, first, second, seed):
    """(position in the table, entry or -1) of a filter key's digest."""
    mask = table.shape[0] - 1
    at = _home_of_key(first, seed, mask)
    while table[at] != EMPTY:
        entry = table[at]
        if keys[entry, 0] == first and keys[entry, 1] == second:
            return at, np.int64(entry)
        at = (at + 1) & mask
    return at, np.int64(-1)


@jit
def enter_key(table, keys, members, entry_of, entry, slot, first, second, seed):
    """A new entry with its first member."""
    keys[entry, 0], keys[entry, 1] = first, second
    members[entry, 0], members[entry, 1], members[entry, 2] = 1, slot, 0
    entry_of[slot] = entry
    mask = table.shape[0] - 1
    at = _home_of_key(first, seed, mask)
    while table[at] != EMPTY:
        at = (at + 1) & mask
    table[at] = entry


@jit
def find_keys(table, keys, digests, entries, seed):
    """The entries of many digests, -1 for those that have none."""
    mask = table.shape[0] - 1
    for i in range(digests.shape[0]):
        at = _home_of_key(digests[i, 0], seed, mask)
        entries[i] = -1
        while table[at] != EMPTY:
            entry = table[at]
            if keys[entry, 0] == digests[i, 0] and keys[entry, 1] == digests[i, 1]:
                entries[i] = entry
                break
            at = (at + 1) & mask


@jit
def enter_keys(table, keys, members, entry_of, entries, slots, digests, seed):
    """Many new entries, each with its first member."""
    mask = table.shape[0] - 1
    for i in range(entries.shape[0]):
        entry, slot = entries[i], slots[i]
        keys[entry, 0], keys[entry, 1] = digests[i, 0], digests[i, 1]
        members[entry, 0], members[entry, 1], members[entry, 2] = 1, slot, 0
        entry_of[slot] = entry
        at = _home_of_key(digests[i, 0], seed, mask)
        while table[at] != EMPTY:
            at = (at + 1) & mask
        table[at] = entry


@jit
def drop_key(table, at, keys, seed):
    mask = table.shape[0] - 1
    hole = at
    while True:
        at = (at + 1) & mask
        if table[at] == EMPTY:
            break
        home = _home_of_key(keys[table[at], 0], seed, mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
    table[hole] = EMPTY


@jit
def rehash_keys(old, table, keys, seed):
    mask = table.shape[0] - 1
    for entry in old:
        if entry != EMPTY:
            at = _home_of_key(keys[entry, 0], seed, mask)
            while table[at] != EMPTY:
                at = (at + 1) & mask
            table[at] = entry


@jit
def slots_of(entries, members, blocks, out):
    """The slots of all entries, one after the other."""
    count = 0
    for entry in entries:
        size = members[entry, 0]
        if size == 1:
            out[count] = members[entry, 1]
        else:
            start = members[entry, 1]
            for i in range(size):
                out[count + i] = blocks[start + i]
        count += size


@jit
def total_members(entries, members):
    total = 0
    for entry in entries:
        total += members[entry, 0]
    return total


@jit
def compact_ids(offsets, slots, pool, packed):
    """Copy the ids of ``slots`` into ``packed`` one after the other, and point at them there."""
    top = 0
    for slot in slots:
        start, length = _id_at(pool, offsets[slot])
        for i in range(length + 2):
            packed[top + i] = pool[start - 2 + i]
        offsets[slot] = top
        top += length + 2
    return top


@jit
def unpack_ids(offsets, pool, slots, ends, data):
    """The ids of ``slots`` as an Arrow string array has them: end offsets, and bytes; returns how many bytes.

    They are copied in words, so PADDING more bytes have to be there, or nothing is written where they end.
    """
    top = 0
    ends[0] = 0
    for i in range(slots.shape[0]):
        start, length = _id_at(pool, offsets[slots[i]])
        if top + length + PADDING <= data.shape[0]:
            if start + length + PADDING <= pool.shape[0]:
                for k in range(0, length, 8):
                    put_word(data, top + k, word_at(pool, start + k))
            else:
                for k in range(length):
                    data[top + k] = pool[start + k]
        top += length
        ends[i + 1] = top
    return top


class Registry(RegistryArrays):
    """Subscription ids and shared entries."""

    arrays = ("ids", "offsets", "pool", "entry_of", "keys", "key_table", "members", "blocks", "seed")

    def __init__(self, seed: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.seed: Array = np.array(default_seed() if seed is None else seed, np.int64)
        self.ids: Array = np.full(64, EMPTY, np.int32)
        self.offsets = np.zeros(64, np.uint32)
        self.pool = np.zeros(1024, np.uint8)
        self.entry_of: Array = np.full(64, -1, np.int32)
        self.keys: Array = np.zeros((64, 2), np.int64)
        self.key_table: Array = np.full(64, EMPTY, np.int32)
        self.members = np.zeros((64, 3), np.int32)
        self.blocks = np.zeros(64, np.int32)
        self.count = 0
        self.slots_top = 0
        self.pool_top = 0
        self._garbage = 0
        self._entries = 0
        self._blocks_top = 0
        self._text = bytearray(4_096)
        self.text = np.frombuffer(self._text, np.uint8)
        self._free_slots: list[int] = []
        self._free_blocks: dict[int, list[int]] = {}

    # -- ids

    def slot(self, subscription_id: str) -> int:
        """The slot of a subscription, or -1."""
        data = np.frombuffer(subscription_id.encode(), np.uint8)
        return int(find_id(self.ids, self.offsets, self.pool, data, len(data), self.seed)[1])

    def new_slot(self, subscription_id: str) -> int:
        """A slot for an id that has none."""
        encoded = subscription_id.encode()
        size = len(encoded) + 2
        if (self.count + 1) * 3 > len(self.ids) * 2:
            bigger = np.full(len(self.ids) * 2, EMPTY, np.int32)
            rehash_ids(self.ids, bigger, self.offsets, self.pool, self.seed)
            self.ids = bigger
        if self.pool_top + size > len(self.pool):
            self.pool = grown(self.pool, self.pool_top + size)
        slot = self._free_slots.pop() if self._free_slots else self._next_slot()
        data = np.frombuffer(len(encoded).to_bytes(2, "little") + encoded, np.uint8)
        enter_id(self.ids, self.offsets, self.pool, self.pool_top, data, slot, self.seed)
        self.pool_top += size
        self.count += 1
        return slot

    def slots_of_ids(self, ids: Sequence[bytes]) -> Array:
        """The slots of many subscriptions, -1 for those that have none."""
        slots = np.empty(len(ids), np.int32)
        find_ids(self.ids, self.offsets, self.pool, *_join(ids), slots, self.seed)
        return slots

    def new_slots(self, ids: Sequence[bytes]) -> Array:
        """Slots for different ids that have none."""
        data, ends = _join(ids)
        while (self.count + len(ids)) * 3 > len(self.ids) * 2:
            bigger = np.full(len(self.ids) * 2, EMPTY, np.int32)
            rehash_ids(self.ids, bigger, self.offsets, self.pool, self.seed)
            self.ids = bigger
        self.pool = grown(self.pool, self.pool_top + len(data) + 2 * len(ids))
        free = [self._free_slots.pop() for _ in range(min(len(ids), len(self._free_slots)))]
        first, self.slots_top = self.slots_top, self.slots_top + len(ids) - len(free)
        self.offsets = grown(self.offsets, self.slots_top)
        self.entry_of = grown(self.entry_of, self.slots_top, -1)
        slots = np.concatenate((np.array(free, np.int32), np.arange(first, self.slots_top, dtype=np.int32)))
        self.pool_top = int(enter_ids(self.ids, self.offsets, self.pool, self.pool_top, data, ends, slots, self.seed))
        self.count += len(ids)
        return slots

    def _next_slot(self) -> int:
        slot = self.slots_top
        self.slots_top += 1
        if self.slots_top > len(self.offsets):
            self.offsets = grown(self.offsets, self.slots_top)
            self.entry_of = grown(self.entry_of, self.slots_top, -1)
        return slot

    def drop_slot(self, subscription_id: str) -> None:
        encoded = subscription_id.encode()
        data = np.frombuffer(encoded, np.uint8)
        at, slot = find_id(self.ids, self.offsets, self.pool, data, len(data), self.seed)
        drop_id(self.ids, at, self.offsets, self.pool, self.seed)
        self.entry_of[slot] = -1
        self._free_slots.append(int(slot))
        self.count -= 1
        self._garbage += len(encoded) + 2
        if self._garbage > 65_536 and self._garbage * 2 > self.pool_top:
            live = np.flatnonzero(self.entry_of[: self.slots_top] >= 0)
            packed = np.empty(self.pool_top - self._garbage + 1024, np.uint8)
            self.pool_top = int(compact_ids(self.offsets, live, self.pool, packed))
            self.pool, self._garbage = packed, 0

    def id_of(self, slot: int) -> str:
        start = int(self.offsets[slot])
        length = int(self.pool[start]) | int(self.pool[start + 1]) << 8
        return bytes(self.pool[start + 2 : start + 2 + length]).decode()

    def id_array(self, slots: Array) -> pa.Array:
        """The ids of many slots as an Arrow array of strings."""
        ends = np.empty(len(slots) + 1, np.int64)
        data = np.empty(len(slots) * 16 + 64, np.uint8)
        size = int(unpack_ids(self.offsets, self.pool, slots, ends, data))
        if size + PADDING > len(data):
            data = np.empty(size + PADDING, np.uint8)
            unpack_ids(self.offsets, self.pool, slots, ends, data)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data[:size])]
        return pa.Array.from_buffers(pa.large_string(), len(slots), buffers)

    def ids_of(self, entries: Array) -> list[str]:
        """The ids of all subscriptions of some entries; the quickest way for few."""
        ids = self.read_ids(*write_ids_of(self.handle, entries))
        return self.id_array(self.slots(entries)).to_pylist() if ids is None else ids

    def read_ids(self, count: int, written: int) -> list[str] | None:
        """The ids that a kernel has written; None if there was too little room, or if one of them has a zero inside."""
        if written > 0:
            ids = self._text[: written - 1].decode().split("\0")
            return ids if len(ids) == count else None
        return [] if written == 0 else None

    # -- keys and members

    def entry(self, digest: tuple[int, int]) -> int:
        """The entry of a filter key, or -1."""
        return int(find_key(self.key_table, self.keys, *digest, self.seed)[1])

    def new_entry(self, entry: int, digest: tuple[int, int], slot: int) -> None:
        """A first subscription has this filter."""
        if entry >= len(self.keys):
            self.keys = grown(self.keys, entry + 1)
            self.members = grown(self.members, entry + 1)
        if (self._entries + 1) * 3 > len(self.key_table) * 2:
            bigger = np.full(len(self.key_table) * 2, EMPTY, np.int32)
            rehash_keys(self.key_table, bigger, self.keys, self.seed)
            self.key_table = bigger
        enter_key(self.key_table, self.keys, self.members, self.entry_of, entry, slot, *digest, self.seed)
        self._entries += 1

    def entries_of(self, digests: Array) -> Array:
        """The entries of many filter keys, -1 for those that have none."""
        entries = np.empty(len(digests), np.int32)
        find_keys(self.key_table, self.keys, digests, entries, self.seed)
        return entries

    def new_entries(self, entries: Array, digests: Array, slots: Array) -> None:
        """First subscriptions have these filters, which are different ones."""
        if not len(entries):
            return
        most = int(entries.max()) + 1
        self.keys, self.members = grown(self.keys, most), grown(self.members, most)
        while (self._entries + len(entries)) * 3 > len(self.key_table) * 2:
            bigger = np.full(len(self.key_table) * 2, EMPTY, np.int32)
            rehash_keys(self.key_table, bigger, self.keys, self.seed)
            self.key_table = bigger
        enter_keys(self.key_table, self.keys, self.members, self.entry_of, entries, slots, digests, self.seed)
        self._entries += len(entries)

    def drop_entry(self, entry: int) -> None:
        first, second = self.keys[entry].tolist()
        at, _ = find_key(self.key_table, self.keys, first, second, self.seed)
        drop_key(self.key_table, at, self.keys, self.seed)
        self._entries -= 1

    def join(self, entry: int, slot: int) -> None:
        """One more subscription has this filter."""
        count, at, size = self.members[entry].tolist()
        self.entry_of[slot] = entry
        if count == max(size, 1):
            at = self._move_block(count, at, size)
            size = max(2, size * 2)
        self.blocks[at + count] = slot
        self.members[entry] = count + 1, at, size

    def _move_block(self, count: int, at: int, size: int) -> int:
        bigger = max(2, size * 2)
        free = self._free_blocks.get(bigger)
        if free:
            start = free.pop()
        else:
            start = self._blocks_top
            self._blocks_top += bigger
            self.blocks = grown(self.blocks, self._blocks_top)
        if size == 0:
            self.blocks[start] = at
        else:
            self.blocks[start : start + count] = self.blocks[at : at + count]
            self._free_blocks.setdefault(size, []).append(at)
        return start

    def leave(self, slot: int) -> tuple[int, int]:
        """One subscription less: (its entry, how many it has left)."""
        entry = int(self.entry_of[slot])
        count, at, size = self.members[entry].tolist()
        if size:
            block = self.blocks[at : at + count]
            block[np.flatnonzero(block == slot)[0]] = block[count - 1]
            if count == 2:  # back to the inlined form
                self._free_blocks.setdefault(size, []).append(at)
                at, size = int(block[0]), 0
        self.members[entry] = count - 1, at, size
        return entry, count - 1

    def slots(self, entries: Array) -> Array:
        """All slots of some entries."""
        out = np.empty(total_members(entries, self.members), np.int32)
        slots_of(entries, self.members, self.blocks, out)
        return out

    def trim(self) -> None:
        """Give back the room that arrays keep for growth."""
        for name, top in (("offsets", self.slots_top), ("entry_of", self.slots_top), ("pool", self.pool_top)):
            setattr(self, name, getattr(self, name)[: top + 1].copy())
        self.blocks = self.blocks[: self._blocks_top + 1].copy()
        entries = int(self.key_table.max()) + 1
        self.keys, self.members = self.keys[: entries + 1].copy(), self.members[: entries + 1].copy()

    # -- for snapshots

    def free(self) -> dict[str, Any]:
        return {"slots": self._free_slots, "blocks": list(self._free_blocks.items())}

    def restore_free(self, free: dict[str, Any]) -> None:
        self._free_slots = free["slots"]
        self._free_blocks = dict(free["blocks"])

    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.arrays)


def default_seed() -> tuple[int, int]:
    """That of this process's own hash tables: a secret, unless PYTHONHASHSEED says otherwise. It changes no answer."""
    return hash("recado.matching.registry 0"), hash("recado.matching.registry 1")


def _join(ids: Sequence[bytes]) -> tuple[Array, Array]:
    """Ids one after the other, and where each ends."""
    ends = np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
    return np.frombuffer(b"".join(ids) or bytes(1), np.uint8), ends
