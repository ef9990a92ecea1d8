"""What ``optimize`` does over all entries, in machine code: sample bounds, vote for grids, pack programs."""

from __future__ import annotations

import numpy as np

from recado.matching.kernels.access import PRESENCE, begin, cells_of, level_of, range_on
from recado.matching.kernels.arrays import plain
from recado.matching.kernels.instructions import (
    ACCESS,
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    EXISTS,
    JUMPS,
    LAST,
    NEGATED,
    NUM,
    TIME,
)
from recado.matching.kernels.jit import lean, lean_jit
from recado.matching.kernels.layout import open_store
from recado.matching.kernels.postings import GRID, LENGTH, LISTS_TOP, START, rank_of
from recado.matching.kernels.verify_event import instruction_words


@lean_jit
def vote(store_handle, entries, least, votes):
    """Give each long list the grid that most of its entries' narrowest ranges are on (a majority vote)."""
    store = open_store(store_handle)
    words, lists, votes = store.words, store.lists, plain(votes)
    for entry in range(entries):
        pc = store.starts[entry]
        if pc < 0 or words[pc] & JUMPS or not words[pc] & ACCESS:
            continue
        number = _own_list(store, pc)
        if number == 0 or lists[number, LENGTH] < least:
            continue
        grid = _narrowest(store, pc)
        if grid < 0:
            continue
        if votes[number, 1] == 0:
            votes[number, 0] = grid
        votes[number, 1] += 1 if votes[number, 0] == grid else -1
    for number in range(1, lists.shape[0]):
        if votes[number, 1] > 0:
            lists[number, GRID] = votes[number, 0]


@lean_jit
def count_visited(store_handle, entries, visited):
    """How many entries of each list an event would be led to if the list was split by its grid.

    ``visited`` holds the lengths of the lists; what would hang in cells that an event does not come to is taken away.
    """
    store = open_store(store_handle)
    words, lists, visited = store.words, store.lists, plain(visited)
    for entry in range(entries):
        pc = store.starts[entry]
        if pc < 0 or words[pc] & JUMPS or not words[pc] & ACCESS:
            continue
        number = _own_list(store, pc)
        grid = lists[number, GRID]
        where = range_on(words, pc, grid) if number and grid >= 0 else np.int64(-1)
        if where >= 0:
            low, high = cells_of(store, where, grid)
            level = level_of(low, high)
            share = (((high >> level) - (low >> level) + 1) << level) / (store.grids[grid, 1] + 1.0)
            visited[number] -= 1.0 - share if share < 1.0 else 0.0


@lean
def _own_list(store, pc):
    """The list that a conjunction hangs in; 0 for text and for sets, which are not split."""
    word = store.words[pc]
    op = word & 63
    if op == EQ:
        return store.by_constant[((word >> 32) & 0xFFFFFFFF) >> 2]
    if op == NUM or op == TIME or op == EXISTS:
        return store.attributes[(word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK, PRESENCE]
    return 0


@lean
def _narrowest(store, pc):
    floats, bounds = store.floats, store.bounds
    best, best_width = -1, np.int64(1) << 40
    while True:
        word = store.words[pc]
        op = word & 63
        if (op == NUM or op == TIME) and not word & NEGATED:
            grid = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
            start, count = store.grids[grid, 0], store.grids[grid, 1]
            width = rank_of(bounds, start, count, floats[pc + 2]) - rank_of(bounds, start, count, floats[pc + 1])
            if count > 0 and width < best_width:
                best, best_width = grid, width
        if word & LAST:
            return best
        pc += instruction_words(word)


@lean_jit
def count_bounds(store_handle, entries, counts):
    """How many finite bounds there are for each grid, at most."""
    store = open_store(store_handle)
    words, counts = store.words, plain(counts)
    for entry in range(entries):
        pc = store.starts[entry]
        if pc < 0:
            continue
        while True:
            word = words[pc]
            op = word & 63
            if op == NUM or op == TIME:
                counts[((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM] += 2
            if word & LAST:
                break
            pc += instruction_words(word)


@lean_jit
def sample_bounds(store_handle, entries, steps, seen, filled, offsets, sample):
    """Every ``steps``-th bound of each grid into its part of ``sample``."""
    store = open_store(store_handle)
    words, floats, steps, seen = store.words, store.floats, plain(steps), plain(seen)
    filled, offsets, sample = plain(filled), plain(offsets), plain(sample)
    for entry in range(entries):
        pc = store.starts[entry]
        if pc < 0:
            continue
        while True:
            word = words[pc]
            op = word & 63
            if op == NUM or op == TIME:
                grid = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
                payload = pc + 1 + ((word >> 8) & 1)
                for at in range(payload, payload + 2):
                    bound = floats[at]
                    if np.isfinite(bound):
                        if seen[grid] % steps[grid] == 0 and filled[grid] < offsets[grid + 1] - offsets[grid]:
                            sample[offsets[grid] + filled[grid]] = bound
                            filled[grid] += 1
                        seen[grid] += 1
            if word & LAST:
                break
            pc += instruction_words(word)


@lean_jit
def pack(store_handle, entries, moved, packed):
    """Copy all programs into ``packed`` in the order in which lists are read, so that a list reads memory forward.

    Returns how many words were used; programs that hang nowhere come last. ``moved`` is False for every entry.
    """
    store = open_store(store_handle)
    words, starts, lists, postings = store.words, store.starts, store.lists, store.postings
    moved, packed = plain(moved), plain(packed)
    lists_top = store.state[LISTS_TOP]
    top = 0
    for number in range(lists_top):
        for at in range(lists[number, START], lists[number, START] + lists[number, LENGTH]):
            entry = postings[at, 1]
            if entry < 0:
                entry = ~entry
            if not moved[entry]:
                moved[entry] = True
                top = _copy_program(words, starts, entry, packed, top)
    for entry in range(entries):
        if starts[entry] >= 0 and not moved[entry]:
            top = _copy_program(words, starts, entry, packed, top)
    for number in range(lists_top):
        for at in range(lists[number, START], lists[number, START] + lists[number, LENGTH]):
            entry = postings[at, 1]
            postings[at, 0] = begin(packed, starts[~entry if entry < 0 else entry])
    return top


@lean
def _copy_program(words, starts, entry, packed, top):
    at = starts[entry]
    starts[entry] = top
    while True:
        word = words[at]
        for i in range(instruction_words(word)):
            packed[top] = words[at + i]
            top += 1
        at += instruction_words(word)
        if word & LAST:
            return top
