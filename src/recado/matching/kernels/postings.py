"""Posting lists, and the table that finds them, in machine code.

A *list* holds postings, pairs (where verification begins, entry); an entry is stored as its complement if an event may
reach it more than once. A list is found by constant, by attribute, or through a hash table by a 64-bit key: the
fragment of a text predicate, or the cell of a grid.

A list with a *grid* is split: the entries that also constrain the grid's attribute to a range hang in child lists,
one for each cell that the range touches. Cells come in levels: at level n a cell is 2**n ranks wide, and a range goes
to the level where it touches one or two cells. An event looks at one cell of each level in use.

Rows of ``lists``: start, length, capacity, grid (-1: none), levels in use (bit mask), matrix (0: none;
``recado.matching.kernels.matrix``). Postings are allocated in blocks of a power of two; ``heads`` keeps a chain of
free blocks for each size. ``state`` holds the counters.
"""

from __future__ import annotations

import numpy as np

from recado.matching.kernels.arrays import plain
from recado.matching.kernels.jit import inlined, lean, lean_jit

START, LENGTH, CAPACITY, GRID, LEVELS, MATRIX = 0, 1, 2, 3, 4, 5
LIST_COLUMNS = 6
GRID_BOUNDS = 4096
LEVELS_AT_MOST = GRID_BOUNDS.bit_length() + 1
POSTINGS_TOP, LISTS_TOP, FREE_LIST, TABLE_USED = 0, 1, 2, 3
EMPTY = 0  # no key of the table is 0
CELL = 1 << 62  # marks the keys of cells


@inlined
def mix(key):
    """A hash of a 64-bit key, as the finaliser of a multiplicative hash does it."""
    value = np.uint64(key)
    value ^= value >> np.uint64(31)
    value *= np.uint64(0x7FB5D329728EA185)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x81DADEF4BC2DD44D)
    value ^= value >> np.uint64(33)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@inlined
def table_find(table, key):
    """The list with this key, or 0."""
    mask = table.shape[0] - 1
    at = mix(key) & mask
    while table[at, 0] != EMPTY:
        if table[at, 0] == key:
            return table[at, 1]
        at = (at + 1) & mask
    return 0


@lean
def table_put(table, state, key, value):
    """Enter a new key; the caller keeps the table at most half full."""
    mask = table.shape[0] - 1
    at = mix(key) & mask
    while table[at, 0] != EMPTY:
        at = (at + 1) & mask
    table[at, 0] = key
    table[at, 1] = value
    state[TABLE_USED] += 1


@lean_jit
def table_copy(source, target, state):
    source, target, state = plain(source), plain(target), plain(state)
    state[TABLE_USED] = 0
    for i in range(source.shape[0]):
        if source[i, 0] != EMPTY:
            table_put(target, state, source[i, 0], source[i, 1])


@lean
def new_list(lists, state):
    """A fresh, empty list; the caller makes sure that there is room."""
    number = state[FREE_LIST]
    if number:
        state[FREE_LIST] = lists[number, START]
    else:
        number = state[LISTS_TOP]
        state[LISTS_TOP] += 1
    lists[number, START] = 0
    lists[number, LENGTH] = 0
    lists[number, CAPACITY] = 0
    lists[number, GRID] = -1
    lists[number, LEVELS] = 0
    lists[number, MATRIX] = 0
    return number


@lean
def _size_class(capacity):
    size_class = 0
    while (1 << size_class) < capacity:
        size_class += 1
    return size_class


@lean
def push(lists, postings, heads, state, number, pc, entry):
    """Append a posting; False if the pool must grow first."""
    length, capacity = lists[number, LENGTH], lists[number, CAPACITY]
    if length == capacity:
        bigger = capacity * 2 if capacity else 1
        size_class = _size_class(bigger)
        start = heads[size_class]
        if start >= 0:
            heads[size_class] = postings[start, 0]
        else:
            start = state[POSTINGS_TOP]
            if start + bigger > postings.shape[0]:
                return False
            state[POSTINGS_TOP] = start + bigger
        old = lists[number, START]
        for i in range(length):
            postings[start + i, 0] = postings[old + i, 0]
            postings[start + i, 1] = postings[old + i, 1]
        if capacity:
            release_block(postings, heads, old, capacity)
        lists[number, START] = start
        lists[number, CAPACITY] = bigger
    at = lists[number, START] + length
    postings[at, 0] = pc
    postings[at, 1] = entry
    lists[number, LENGTH] = length + 1
    return True


@lean
def release_block(postings, heads, start, capacity):
    size_class = _size_class(capacity)
    postings[start, 0] = heads[size_class]
    heads[size_class] = start


@lean
def take_out(lists, postings, number, entry):
    """Remove the posting of an entry; the last posting takes its place. Returns which place that was, or -1."""
    start, length = lists[number, START], lists[number, LENGTH]
    for i in range(start, start + length):
        if postings[i, 1] == entry:
            postings[i, 0] = postings[start + length - 1, 0]
            postings[i, 1] = postings[start + length - 1, 1]
            lists[number, LENGTH] = length - 1
            return i - start
    return -1


@lean_jit
def drop_list(lists, postings, heads, state, number):
    """Give back an empty list."""
    lists, postings, heads, state = plain(lists), plain(postings), plain(heads), plain(state)
    if lists[number, CAPACITY]:
        release_block(postings, heads, lists[number, START], lists[number, CAPACITY])
    lists[number, START] = state[FREE_LIST]
    lists[number, CAPACITY] = 0
    lists[number, LENGTH] = 0
    lists[number, MATRIX] = 0
    state[FREE_LIST] = number


@inlined
def rank_of(bounds, start, count, value):
    """How many of a grid's bounds are at or below the value."""
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def cell_key(number, level, cell):
    return (np.int64(number) << 24) | (np.int64(level) << 16) | np.int64(cell) | np.int64(CELL)


@inlined
def fragment_key(attribute, part, data, at, length):
    """The key of a text fragment: ``part`` tells beginnings, ends, middles, and their casefolded forms apart.

    Two fragments of one part of one attribute may share a key: what is found is verified whole, and a list that a
    string leads to twice is visited once.
    """
    value = np.uint64(length) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(at, at + length):
        value = (value ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(29)
    return np.int64(attribute) << 42 | np.int64(part) << 39 | np.int64(value & np.uint64(0x7FFFFFFFFF)) | np.int64(1)
