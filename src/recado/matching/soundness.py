"""Is an index that came out of a file one that kernels may use?

Kernels check no index: the arrays of a store and a registry hold numbers that lead into each other, and one that leads
outside reads or writes memory of others. A file's checksums say that it is as it was written, not who wrote it. So
everything that leads anywhere is looked at once, when a snapshot is loaded:

- programs end, their jumps lead forward to instructions of their own, their attributes and constants exist;
- lists, the table, grids and matrices stay inside their arrays, and a posting begins at an instruction of its entry;
- whatever may be written to later (programs, posting blocks, rows of bits, blocks of slots, what is free) overlaps
  nothing else, so that no later change makes an unsound thing of a sound one;
- hash tables have room, so that looking something up ends.

What is *not* looked at is whether the index finds what its filters say: whoever may write the file decides what it
matches. All checks run over whole arrays, and take a small part of the time that loading takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recado.matching.kernels import access, matrix
from recado.matching.kernels.instructions import (
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    IN,
    JUMPS,
    LAST,
    NE,
    NEVER,
    NUM,
    OPAQUE,
    PREFIX,
    STR_LT,
    TIME,
)
from recado.matching.kernels.postings import (
    CAPACITY,
    CELL,
    EMPTY,
    FREE_LIST,
    GRID,
    GRID_BOUNDS,
    LENGTH,
    LEVELS,
    LEVELS_AT_MOST,
    LIST_COLUMNS,
    LISTS_TOP,
    MATRIX,
    POSTINGS_TOP,
    START,
    TABLE_USED,
)
from recado.matching.registry import Registry
from recado.matching.store import Store

Array = NDArray[Any]
MOST_INSTRUCTIONS = 65_536
"""Of one program. A filter has far fewer, and nobody may keep the check busy for long."""
_REJECTS = 0xFFFFFFFF
_WIDTHS = {"lists": LIST_COLUMNS, "postings": 2, "table": 2, "grids": 2, "attributes": access.ATTRIBUTE_COLUMNS}


class UnsoundError(ValueError):
    """What is wrong, in words for who wrote the file."""


def check_store(store: Store, names: int, constants: int) -> None:
    """``names`` and ``constants`` are how many the dictionary has. Raises UnsoundError."""
    for name, width in _WIDTHS.items():
        _require(getattr(store, name).shape[1] == width, f"{name} has a wrong shape")
    top = store.capacity
    _require(0 <= top <= len(store.starts), "there are more entries than were written")
    _require(0 <= store.words_top <= len(store.words), "there are more words than were written")
    _require(store.events >= 0 and len(store.heads) >= 32 and len(store.state) >= 4, "a counter is wrong")
    _require(len(store.matrices) >= matrix.FIRST, "there is no room for matrices")
    _require(len(store.attributes) >= names and len(store.grids) >= 2 * len(store.attributes), "a name has no place")
    _require(min(len(store.by_constant), len(store.hits)) >= constants, "a constant has no place")
    starts = store.starts[:top]
    live = np.flatnonzero(starts >= 0)
    _require(int(starts.min(initial=0)) >= -1 and store.entries == len(live), "the number of entries is wrong")
    owners = _check_programs(store, live, names, constants)
    _check_free_entries(store, starts)
    lists = _check_lists(store)
    _check_postings(store, lists, owners, starts)
    _check_ways_to_lists(store, names, constants)
    _check_matrices(store, lists, names)


def _check_programs(store: Store, live: Array, names: int, constants: int) -> Array:
    """Walk all programs at once, an instruction each a step; whose instruction begins at each word, or -1."""
    words = store.words[: store.words_top]
    owners = np.full(store.words_top + 1, -1, np.int32)
    entries, at = live, store.starts[live].astype(np.int64)
    begins, sizes, jumping = [], [], []
    is_tree = np.zeros(store.capacity, np.bool_)
    for step in range(MOST_INSTRUCTIONS):
        if not len(entries):
            break
        _require(bool((at < len(words)).all()), "a program leads outside")
        word = words[at]
        op, argument = word & 63, (word >> 32) & 0xFFFFFFFF
        has_jumps = (word & JUMPS) != 0
        if step == 0:
            is_tree[entries] = has_jumps
        size = 1 + has_jumps + _payload_words(op, argument)
        _require(bool((op <= NEVER).all()), "there is an unknown instruction")
        _require(bool((at + size <= len(words)).all()), "a program leads outside")
        _require(bool((has_jumps == is_tree[entries]).all()), "a program has jumps in part")
        attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
        _require(bool((attribute < max(names, 1)).all()), "an instruction tests an unknown name")
        compares = (op == EQ) | (op == NE)
        _require(bool((argument[compares] >> 2 < constants).all()), "an instruction tests an unknown constant")
        _check_sets(store, at, has_jumps, argument, op == IN, constants)
        owners[at] = entries
        begins.append(at)
        sizes.append(size)
        jumping.append(at[has_jumps])
        goes_on = (word & LAST) == 0
        entries, at = entries[goes_on], (at + size)[goes_on]
    _require(not len(entries), "a program has no end")
    free = [(pc, size) for size, places in store.free()["words"] for pc in places]
    free_begins, free_sizes = _pairs(free)
    _check_apart([*begins, free_begins], [*sizes, free_sizes], store.words_top, "programs overlap")
    _check_jumps(words, np.concatenate([*jumping, free_begins[:0]]), owners)
    return owners


def _payload_words(op: Array, argument: Array) -> Array:
    fixed = (op == NUM) | (op == TIME) | (op == OPAQUE)
    text = (op >= PREFIX) & (op <= STR_LT)
    return np.select([fixed, op == IN, text], [2, (argument + 1) >> 1, (argument + 7) >> 3], 0)


def _check_sets(store: Store, at: Array, has_jumps: Array, argument: Array, is_set: Array, constants: int) -> None:
    if not is_set.any():
        return
    begin = 2 * (at[is_set] + 1 + has_jumps[is_set])
    count = argument[is_set]
    _require(int(count.min()) >= 1, "a set is empty")
    codes = store.ints[_spread(begin, count)]
    _require(int(codes.min()) >= 0 and int(codes.max()) >> 2 < constants, "a set holds an unknown constant")


def _check_jumps(words: Array, at: Array, owners: Array) -> None:
    jumps = words[at + 1]
    for jump in (jumps & 0xFFFFFFFF, (jumps >> 32) & 0xFFFFFFFF):
        leads = (jump != 0) & (jump != _REJECTS)
        source, target = at[leads], at[leads] + jump[leads]
        _require(bool((target < len(words)).all()), "a jump leads outside")
        _require(bool((owners[target] == owners[source]).all()), "a jump leads into another program")


def _check_free_entries(store: Store, starts: Array) -> None:
    free = _numbers(store.free()["entries"], len(starts), "a free entry does not exist")
    _require(bool((starts[free] < 0).all()) and len(np.unique(free)) == len(free), "a free entry is in use")


def _check_lists(store: Store) -> Array:
    """The rows of all lists."""
    state = store.state
    top, pool = int(state[LISTS_TOP]), int(state[POSTINGS_TOP])
    _require(
        1 <= top <= len(store.lists) and 0 <= pool <= len(store.postings), "there are more lists than were written"
    )
    lists: Array = store.lists[:top].astype(np.int64)
    start, length, capacity = lists[:, START], lists[:, LENGTH], lists[:, CAPACITY]
    _require(bool(((length >= 0) & (length <= capacity)).all()), "a list is longer than its room")
    _require(bool((capacity & (capacity - 1) == 0).all()), "the room of a list is no power of two")
    has_room = capacity > 0
    _require(bool(((start >= 0) & (start + capacity <= pool))[has_room].all()), "a list leads outside")
    grid, levels = lists[:, GRID], lists[:, LEVELS]
    _require(bool(((grid >= -1) & (grid < len(store.grids))).all()), "a list has an unknown grid")
    _require(bool(((levels >= 0) & (levels < 1 << LEVELS_AT_MOST)).all()), "a list has an unknown level")
    begins, sizes = _free_blocks(store, pool)
    _check_apart([start[has_room], begins], [capacity[has_room], sizes], pool, "lists overlap")
    _follow(int(state[FREE_LIST]), 0, top, lambda number: int(lists[number, START]), "a free list does not exist")
    first, count = store.grids[:, 0].astype(np.int64), store.grids[:, 1].astype(np.int64)
    fits = (first >= 0) & (count >= 0) & (count <= GRID_BOUNDS) & (first + count <= len(store.bounds))
    _require(bool(fits.all()), "a grid leads outside")
    return lists


def _free_blocks(store: Store, pool: int) -> tuple[Array, Array]:
    found: list[tuple[int, int]] = []
    for size_class, head in enumerate(store.heads.tolist()):
        size = 1 << size_class
        chain = _follow(head, -1, pool, lambda at: int(store.postings[at, 0]), "a free block does not exist")
        found += [(at, size) for at in chain]
    return _pairs(found)


def _check_postings(store: Store, lists: Array, owners: Array, starts: Array) -> None:
    used = _spread(lists[:, START], lists[:, LENGTH])
    begin, entry = store.postings[used, 0], store.postings[used, 1]
    entry = np.where(entry < 0, ~entry, entry)
    _require(bool((entry < len(starts)).all()) and bool((starts[entry] >= 0).all()), "a list holds an unknown entry")
    _require(int(begin.min(initial=0)) >= -1 and int(begin.max(initial=-1)) < len(owners), "a posting leads outside")
    tests = begin >= 0
    _require(bool((owners[begin[tests]] == entry[tests]).all()), "a posting begins in another program")


def _check_ways_to_lists(store: Store, names: int, constants: int) -> None:
    top = int(store.state[LISTS_TOP])
    _check_table(store.table[:, 0] != EMPTY, int(store.state[TABLE_USED]), 2, "the table")
    keys, numbers = store.table[store.table[:, 0] != EMPTY].T
    _require(bool(((numbers > 0) & (numbers < top)).all()), "the table leads to no list")
    cells = keys[keys >= CELL]
    _require(bool(((cells ^ CELL) >> 24 < top).all()) and int(keys.min(initial=1)) > 0, "a cell belongs to no list")
    for numbers in (store.by_constant, store.attributes[:, access.PRESENCE]):
        _require(int(numbers.min(initial=0)) >= 0 and int(numbers.max(initial=0)) < top, "a list does not exist")
    lengths = store.attributes[:, access.LENGTHS :]
    longest = max(access.LONGEST_END, access.LONGEST_MIDDLE)
    _require(int(lengths.min(initial=0)) >= 0 and int(lengths.max(initial=0)) < 2 << longest, "a fragment is too long")


def _check_matrices(store: Store, lists: Array, names: int) -> None:
    matrices, size = store.matrices, len(store.matrices)
    heads = lists[:, MATRIX][lists[:, MATRIX] != 0]
    work = int(matrices[matrix.WORK])
    _require(0 <= work <= matrix.PLACES + 66 * size, "the work space of matrices is wrong")
    ranges: list[tuple[int, int]] = [(0, matrix.FIRST)]
    for head in heads.tolist():
        _require(matrix.FIRST <= head <= size - matrix.HEAD_WORDS, "a matrix leads outside")
        columns, row = int(matrices[head + matrix.COLUMNS]), int(matrices[head + matrix.ROW_WORDS])
        _require(0 <= columns <= matrix.MOST_COLUMNS, "a matrix has too many columns")
        _require(0 < row <= size and row % 8 == 0 and matrix.PLACES + row * 66 <= work, "a matrix has a wrong width")
        first, end = head + matrix.HEAD_WORDS, head + matrix.HEAD_WORDS + columns * matrix.COLUMN_WORDS
        _require(end <= size, "a matrix leads outside")
        ranges.append((head, end - head))
        for grid, edges, count, bits in matrices[first:end].reshape(columns, matrix.COLUMN_WORDS).tolist():
            _require(grid >= 0 and grid >> 1 < names, "a matrix is about an unknown name")
            _require(0 <= count < matrix.BINS and 0 <= edges <= size - matrix.BINS, "a matrix leads outside")
            _require(0 <= bits <= size - (count + 2) * row, "a matrix leads outside")
            behind = store.matrix_floats[edges + count : edges + matrix.BINS]
            _require(bool(np.isnan(behind).all()), "a matrix has too many edges")
            ranges += [(edges, matrix.BINS), (bits, (count + 2) * row)]
    begins, sizes = _pairs(ranges)
    _check_apart([begins], [sizes], size, "matrices overlap")


def check_registry(registry: Registry, entries: Array, counters: Mapping[str, int]) -> None:
    """``entries`` are the starts of the store's: those in use are not negative. Raises UnsoundError."""
    fresh = Registry()
    for name in Registry.arrays:
        array, expected = getattr(registry, name), getattr(fresh, name)
        same = array.dtype == expected.dtype and array.shape[1:] == expected.shape[1:] and array.ndim == expected.ndim
        _require(same, f"{name} has a wrong shape")
    _require(len(registry.seed) == len(fresh.seed), "the seed has a wrong length")
    slots, pool = registry.slots_top, registry.pool_top
    _require(0 <= slots <= min(len(registry.offsets), len(registry.entry_of)), "there are more slots than were written")
    _require(0 <= pool <= len(registry.pool), "there are more ids than were written")
    _require(len(entries) <= min(len(registry.keys), len(registry.members)), "an entry has no members")
    entry_of = registry.entry_of[:slots]
    _require(int(entry_of.min(initial=0)) >= -1 and int(entry_of.max(initial=-1)) < len(entries), "an entry is unknown")
    live = np.flatnonzero(entry_of >= 0)
    _require(bool((entries[entry_of[live]] >= 0).all()), "a subscription has no entry")
    _require(registry.count == len(live), "the number of subscriptions is wrong")
    _check_ids(registry, live, pool, counters["_garbage"])
    _check_table(registry.ids != -1, registry.count, 1, "the table of ids")
    _check_table(registry.key_table != -1, counters["_entries"], 1, "the table of filters")
    _require(counters["_entries"] == int((entries >= 0).sum()), "the number of filters is wrong")
    for table, known in ((registry.ids, entry_of), (registry.key_table, entries)):
        used = table[table != -1]
        _require(int(used.min(initial=0)) >= 0 and int(used.max(initial=-1)) < len(known), "a table leads outside")
        _require(bool((known[used] >= 0).all()), "a table leads to what is not in use")
    _check_members(registry, entries, entry_of, counters["_blocks_top"])
    free = _numbers(registry.free()["slots"], slots, "a free slot does not exist")
    _require(bool((entry_of[free] < 0).all()) and len(np.unique(free)) == len(free), "a free slot is in use")


_IDS_AT_ONCE = 65_536


def _check_ids(registry: Registry, live: Array, pool: int, garbage: int) -> None:
    begin = registry.offsets[live].astype(np.int64)
    _require(bool((begin + 2 <= pool).all()), "an id leads outside")
    length = registry.pool[begin].astype(np.int64) | registry.pool[begin + 1].astype(np.int64) << 8
    _require(bool((begin + 2 + length <= pool).all()), "an id leads outside")
    _require(0 <= garbage <= pool - int((length + 2).sum()), "ids overlap")
    for first in range(0, len(live), _IDS_AT_ONCE):
        some = slice(first, first + _IDS_AT_ONCE)
        texts = registry.pool[_spread(begin[some] + 2, length[some])]
        ends = np.concatenate(([0], np.cumsum(length[some])))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
        try:
            pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers).validate(full=True)
        except pa.ArrowInvalid:
            raise UnsoundError("an id is not UTF-8") from None


def _check_members(registry: Registry, entries: Array, entry_of: Array, top: int) -> None:
    used = np.flatnonzero(entries >= 0)
    count, at, size = registry.members[used].astype(np.int64).T
    single = count == 1
    _require(bool((count >= 1).all()) and bool((size[single] == 0).all()), "a filter has no subscriptions")
    _require(bool((count <= np.maximum(size, 1)).all()), "a filter has more subscriptions than its room")
    blocks = ~single
    _require(0 <= top <= len(registry.blocks), "there are more members than were written")
    _require(bool(((at >= 0) & (at + size <= top))[blocks].all()), "the members of a filter lead outside")
    places, owner = _spread(at[blocks], count[blocks]), np.repeat(used[blocks], count[blocks])
    slots = np.concatenate((at[single], registry.blocks[places].astype(np.int64)))
    owner = np.concatenate((used[single], owner))
    _require(bool(((slots >= 0) & (slots < len(entry_of))).all()), "a member does not exist")
    _require(bool((entry_of[slots] == owner).all()), "a member belongs to another filter")
    free = [(begin, width) for width, begins in registry.free()["blocks"] for begin in begins]
    begins, sizes = _pairs(free)
    _check_apart([at[blocks], begins], [size[blocks], sizes], top, "members overlap")


# -- what all of these need


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UnsoundError(otherwise)


def _spread(begin: Array, count: Array) -> Array:
    """All numbers of some ranges, one range after the other."""
    total = int(count.sum())
    ends = np.cumsum(count)
    spread: Array = np.arange(total) + np.repeat(begin - (ends - count), count)
    return spread


def _pairs(ranges: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Begins and sizes; what is no number, or none of 64 bits, is no range."""
    if not all(type(part) is int and 0 <= part < 1 << 62 for pair in ranges for part in pair):
        raise UnsoundError("what is free is wrong")
    both = np.array(ranges, np.int64).reshape(len(ranges), 2)
    return both[:, 0], both[:, 1]


def _numbers(values: Any, top: int, otherwise: str) -> Array:
    _require(isinstance(values, list) and all(type(one) is int and 0 <= one < top for one in values), otherwise)
    return np.array(values, np.int64)


def _check_apart(begins: list[Array], sizes: list[Array], top: int, otherwise: str) -> None:
    """Do the ranges lie inside, and does none touch another?"""
    begin, size = np.concatenate(begins).astype(np.int64), np.concatenate(sizes).astype(np.int64)
    begin, size = begin[size > 0], size[size > 0]
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], (begin + size)[order]
    _require(bool((begin >= 0).all()) and bool((end <= top).all()), otherwise)
    _require(bool((begin[1:] >= end[:-1]).all()), otherwise)


def _check_table(used: Array, counted: int, half: int, name: str) -> None:
    """A power of two long, counted right, and not full; ``half`` 2: at most half full."""
    size, count = len(used), int(used.sum())
    _require(size > 0 and size & (size - 1) == 0, f"the size of {name} is no power of two")
    _require(count == counted and count * half <= size and count < size, f"{name} is full, or counted wrong")


def _follow(first: int, end: int, top: int, next_of: Any, otherwise: str) -> list[int]:
    """The numbers of a chain, which ends and stays inside."""
    found: list[int] = []
    seen: set[int] = set()
    while first != end:
        _require(0 <= first < top and first not in seen, otherwise)
        seen.add(first)
        found.append(first)
        first = next_of(first)
    return found
