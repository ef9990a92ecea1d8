"""Bit matrices over long lists: which entries an event cannot match, sixty-four at a time.

Where all tests of an entry are wide ranges, no access path is selective: an event is led to most entries of its lists,
and each has to be verified. A list that is long and has many ranges gets a *matrix*. It has a *column* for each grid
(an attribute's numbers or its instants) that many of its entries have a range on. The values of a column are cut into
up to ``BINS`` bins; each bin has a row of bits, one for each place of the list, and so has the lack of a value. A bit
is set if the entry at that place may match an event whose value lies in the bin: if its range touches the bin, or if it
has no range there. An event takes one row of each column; what is set in all of them is verified as ever.

So a matrix only leaves entries out, and never one that could match: a program with jumps, a negated range, a test of
another kind have all their bits set. As in the cells of a grid, a range is one float wider on both sides, because a
number between two floats is ranked by the lower of them.

A matrix is made when the store is optimised, for so many places. A posting behind them is verified as if there were
none. A place that is free has all its bits set; ``write_bits`` takes away what a program excludes and gives it back
again, so a list that changes touches the rows of one place only.

The words of all matrices lie in one array, and a list knows where its own begins: a head of four words (how many
columns, words a row, whether batches of many events read it), four for each column (grid, where its edges begin, how
many they are, where its bits begin), then the edges and the bits. What a list that is given back leaves behind is
freed when matrices are made next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.matching.kernels.arrays import plain
from recado.matching.kernels.instructions import (
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    HIGH_STRICT,
    JUMPS,
    LAST,
    LOW_STRICT,
    NEGATED,
    NUM,
    TIME,
)
from recado.matching.kernels.jit import inlined, lean, lean_jit
from recado.matching.kernels.layout import StoreArrays, open_store
from recado.matching.kernels.postings import LENGTH, MATRIX, START
from recado.matching.kernels.verify_columns import NUMBER
from recado.matching.kernels.verify_event import instruction_words

WORK, FIRST = 0, 8  # a word that tells the work space that matching needs; where the first matrix begins
COLUMNS, ROW_WORDS, FOR_BATCHES, HEAD_WORDS = 0, 1, 2, 4
GRID_OF, EDGES, COUNT, BITS, COLUMN_WORDS = 0, 1, 2, 3, 4
BINS = 64
LEAST = 512
"""Shorter lists are verified faster than a matrix is read."""
MOST_COLUMNS = 64
COLUMN_SHARE = 16
"""A column is about at least every so many-th entry of its list."""
COLUMN_GAIN = 4096
"""A column leaves out at least every so many-th entry of its list that others do not."""
FEW_LEFT = 64
"""If more than every so many-th entry is left, batches verify a program on many events side by side faster than what
is left one by one."""
MOST_LEFT = 2
"""A matrix pays if at most every so many-th entry is left ..."""
KILOBYTE = 1024
"""... and if each kilobyte of it saves an event at least one entry to verify."""
TOGETHER = 64
"""For so many events of a batch rows are picked at a time."""
PLACES = MOST_COLUMNS * TOGETHER
"""Where in the work space the places that are left begin, behind the rows picked."""
FAILED = -2  # instead of where to go on

Array = NDArray[Any]


# -- matching


@inlined
def bin_of(floats, edges, value):
    """How many of a column's edges are at or below the value; without branches, since none could be foreseen."""
    first = at = np.uint64(edges)
    at += np.uint64(32) if floats[at + np.uint64(31)] <= value else np.uint64(0)
    at += np.uint64(16) if floats[at + np.uint64(15)] <= value else np.uint64(0)
    at += np.uint64(8) if floats[at + np.uint64(7)] <= value else np.uint64(0)
    at += np.uint64(4) if floats[at + np.uint64(3)] <= value else np.uint64(0)
    at += np.uint64(2) if floats[at + np.uint64(1)] <= value else np.uint64(0)
    at += np.uint64(1) if floats[at] <= value else np.uint64(0)
    return np.int64(at - first)


@inlined
def row_of(floats, edges, count, bits, size, value):
    """Where the row of bits for a value begins; the last row of a column is for events that have none."""
    row = bin_of(floats, edges, value)
    return bits + (count + 1 if value != value else row) * size


@inlined
def places_known(store, head, length):
    """How many postings of a list its matrix knows; those behind are verified without it."""
    return min(store.matrices[head + ROW_WORDS] * 64, length)


@lean
def prune_event(store, head, length, numbers, places):
    """The places of a list that an event with these numbers has to look at, in ``places`` from PLACES on; how many."""
    matrices, floats = store.matrices, store.matrix_floats
    size = matrices[head + ROW_WORDS]
    for i in range(matrices[head + COLUMNS]):
        at = head + HEAD_WORDS + i * COLUMN_WORDS
        edges, count, bits = matrices[at + EDGES], matrices[at + COUNT], matrices[at + BITS]
        value = numbers[matrices[at + GRID_OF] >> 1, (matrices[at + GRID_OF] & 1) * 2]
        places[i * TOGETHER] = row_of(floats, edges, count, bits, size, value)
    return join_rows(store, head, length, 0, places)


@lean
def pick_rows(store, head, batch, events, first, last, places):
    """The rows that some events of a batch take, at most TOGETHER of them, for ``join_rows``."""
    matrices, floats, numbers = store.matrices, store.matrix_floats, batch.by_event
    size = matrices[head + ROW_WORDS]
    for i in range(matrices[head + COLUMNS]):
        at = head + HEAD_WORDS + i * COLUMN_WORDS
        edges, count, bits = matrices[at + EDGES], matrices[at + COUNT], matrices[at + BITS]
        row = batch.rows[matrices[at + GRID_OF] >> 1, NUMBER + (matrices[at + GRID_OF] & 1)]
        for j in range(last - first):
            value = numbers[np.uint64(events[first + j]), np.uint64(row)]
            places[i * TOGETHER + j] = row_of(floats, edges, count, bits, size, value)


@lean
def join_rows(store, head, length, which, places):
    """The places of a list that are set in all rows picked for one of the events, ascending, from PLACES on; how many.

    Four rows are joined at a time, so that what is left is read and written less often. Positions are unsigned, because
    the compiler makes no vectors of others. There are few branches, because nobody could foresee them: first the words
    are found in which something is left.
    """
    words = store.matrices
    known, columns = places_known(store, head, length), words[head + COLUMNS]
    if known == 0:
        return 0
    size = np.uint64((known + 63) >> 6)
    left = np.uint64(places.shape[0]) - size
    for j in range(size):
        places[left + j] = -1
    places[left + size - np.uint64(1)] = -1 if known & 63 == 0 else (np.int64(1) << (known & 63)) - 1
    last = (columns - 1) * TOGETHER + which
    for i in range(which, last + 1, 4 * TOGETHER):
        first, second = np.uint64(places[i]), np.uint64(places[min(i + TOGETHER, last)])
        third = np.uint64(places[min(i + 2 * TOGETHER, last)])
        fourth = np.uint64(places[min(i + 3 * TOGETHER, last)])
        some = np.int64(0)
        for j in range(size):
            joined = places[left + j] & words[first + j] & words[second + j] & words[third + j] & words[fourth + j]
            places[left + j] = joined
            some |= joined
        if some == 0:
            return 0
    filled = left - size
    end = filled
    for j in range(size):
        places[end] = j
        end += np.uint64(places[left + j] != 0)
    count = np.uint64(PLACES)
    for j in range(filled, end):
        first = np.uint64(places[j])
        word = places[left + first]
        while word:
            lowest = word & -word
            places[count] = np.int64(first) * 64 + count_bits(np.uint64(lowest) - np.uint64(1))
            count += np.uint64(1)
            word ^= lowest
    return np.int64(count) - PLACES


@inlined
def count_bits(word):
    """How many bits of an unsigned word are set, written so that the compiler knows an instruction for it."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def pass_ranges(store, pc, numbers):
    """Verify the ranges that a conjunction opens with on one event.

    Returns where to go on, -1 if all tests are done, FAILED if one failed. All are tested, without a branch for each:
    most of what a matrix leaves passes them all, and so the processor can fetch the next programs meanwhile.
    """
    words, floats = store.words, store.floats
    at = np.uint64(pc)
    holds = True
    while True:
        word = words[at]
        op = word & 63
        if (op != NUM and op != TIME) or word & NEGATED:
            return np.int64(at) if holds else FAILED
        attribute, column = np.uint64((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK), np.uint64((op - NUM) * 2)
        down, up = numbers[attribute, column], numbers[attribute, column + np.uint64(1)]
        left, right = up if word & LOW_STRICT else down, down if word & HIGH_STRICT else up
        holds &= (floats[at + np.uint64(1)] <= left) & (right <= floats[at + np.uint64(2)])
        if word & LAST:
            return -1 if holds else FAILED
        at += np.uint64(3)


@inlined
def pass_ranges_at(store, pc, batch, event):
    """The same on an event of a batch whose numbers are all floats: it does not matter then which bound is strict."""
    words, floats, rows, numbers = store.words, store.floats, batch.rows, batch.by_event
    at, event = np.uint64(pc), np.uint64(event)
    holds = True
    while True:
        word = words[at]
        op = word & 63
        if (op != NUM and op != TIME) or word & NEGATED:
            return np.int64(at) if holds else FAILED
        attribute = np.uint64((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK)
        value = numbers[event, np.uint64(rows[attribute, np.uint64(NUMBER + op - NUM)])]
        holds &= (floats[at + np.uint64(1)] <= value) & (value <= floats[at + np.uint64(2)])
        if word & LAST:
            return -1 if holds else FAILED
        at += np.uint64(3)


# -- changes


@lean
def write_bits(store, head, place, pc, value):
    """Clear (``value`` is 0) or set (1) the bits of a place that the ranges of a program exclude."""
    words, matrices, edges = store.words, store.matrices, store.matrix_floats
    size = matrices[head + ROW_WORDS]
    if pc < 0 or words[pc] & JUMPS or place >= size * 64:
        return
    bit = np.int64(1) << (place & 63)
    while True:
        word = words[pc]
        op = word & 63
        if (op == NUM or op == TIME) and not word & NEGATED:
            grid = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
            for i in range(matrices[head + COLUMNS]):
                column = head + HEAD_WORDS + i * COLUMN_WORDS
                if matrices[column + GRID_OF] == grid:
                    low = bin_of(edges, matrices[column + EDGES], np.nextafter(store.floats[pc + 1], -math.inf))
                    high = bin_of(edges, matrices[column + EDGES], np.nextafter(store.floats[pc + 2], math.inf))
                    for row in range(matrices[column + COUNT] + 2):
                        if row < low or row > high or row > matrices[column + COUNT]:
                            at = matrices[column + BITS] + row * size + (place >> 6)
                            matrices[at] = matrices[at] | bit if value else matrices[at] & ~bit
        if word & LAST:
            return
        pc += instruction_words(word)


@lean
def clear_last(store, number):
    """The last posting of a list is new: clear the bits of its place."""
    head = store.lists[number, MATRIX]
    if head:
        place = store.lists[number, LENGTH] - 1
        write_bits(store, head, place, store.postings[store.lists[number, START] + place, 0], 0)


@lean
def move_bits(store, number, place, pc):
    """The posting of the program at ``pc`` has gone from a place; the one that was the last lies there now."""
    head = store.lists[number, MATRIX]
    if head and place >= 0:
        last = store.lists[number, LENGTH]
        write_bits(store, head, place, pc, 1)
        if place != last:
            moved = store.postings[store.lists[number, START] + place, 0]
            write_bits(store, head, last, moved, 1)
            write_bits(store, head, place, moved, 0)


# -- making


@lean_jit
def collect_ranges(store_handle, number, owners, grids, lows, highs):
    """The ranges of a list: the place of each, its grid, its bounds. Returns how many, also if there is no room."""
    store = open_store(store_handle)
    words, start = store.words, store.lists[number, START]
    owners, grids, lows, highs = plain(owners), plain(grids), plain(lows), plain(highs)
    count = 0
    for place in range(store.lists[number, LENGTH]):
        pc = store.postings[start + place, 0]
        while pc >= 0:
            word = words[pc]
            op = word & 63
            if (op == NUM or op == TIME) and not word & (NEGATED | JUMPS):
                if count < owners.shape[0]:
                    owners[count] = place
                    grids[count] = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
                    lows[count], highs[count] = store.floats[pc + 1], store.floats[pc + 2]
                count += 1
            pc = -1 if word & (LAST | JUMPS) else pc + instruction_words(word)
    return count


@lean_jit
def fill(store_handle, number):
    """Clear the bits of all places of a list; all were set."""
    store = open_store(store_handle)
    start = store.lists[number, START]
    for place in range(store.lists[number, LENGTH]):
        write_bits(store, store.lists[number, MATRIX], place, store.postings[start + place, 0], 0)


class Plan:
    """The columns that a list's matrix would have, and how many of its entries an event would find left."""

    def __init__(self, owners: Array, grids: Array, lows: Array, highs: Array, length: int) -> None:
        self.length = length
        self.grids: list[int] = []
        self.edges: list[Array] = []
        left = np.ones(length)
        counts = np.bincount(grids)
        common = np.flatnonzero(counts * COLUMN_SHARE >= length)
        for grid in common[np.argsort(-counts[common], kind="stable")][:MOST_COLUMNS].tolist():
            chosen = np.flatnonzero(grids == grid)
            begins, ends = np.nextafter(lows[chosen], -np.inf), np.nextafter(highs[chosen], np.inf)
            edges = _edges(begins, ends)
            first, last = np.searchsorted(edges, begins, "right"), np.searchsorted(edges, ends, "right")
            after = left.copy()
            after[owners[chosen]] *= (last - first + 1) / (len(edges) + 1)
            if left.sum() - after.sum() >= length / COLUMN_GAIN:
                self.grids.append(grid)
                self.edges.append(edges)
                left = after
        self.left = float(left.sum())

    @property
    def leaves_few(self) -> bool:
        """Are so few entries left that batches of many events read it, too?"""
        return self.left * FEW_LEFT <= self.length

    @property
    def row_words(self) -> int:
        """Words a row: for some places more than there are postings, in blocks as a processor likes them."""
        return (self.length // 64 + 8) & ~7

    @property
    def size(self) -> int:
        """Words in all, so many that the next matrix begins at a multiple of eight, too."""
        head = (HEAD_WORDS + COLUMN_WORDS * len(self.grids) + 7) & ~7
        return head + BINS * len(self.grids) + self.row_words * sum(len(edges) + 2 for edges in self.edges)

    @property
    def places(self) -> int:
        """Work space that matching needs for it."""
        return PLACES + self.row_words * 66

    def pays(self, reach: float) -> bool:
        """Is it worth its memory? ``reach`` is how likely an event comes to the list."""
        saved = reach * (self.length - self.left)
        return len(self.grids) > 1 and self.left * MOST_LEFT <= self.length and saved * KILOBYTE >= self.size * 8


def _edges(begins: Array, ends: Array) -> Array:
    """Where bins begin: where ranges do and where they have just ended; quantiles of these, if they are many."""
    cuts = np.concatenate((begins, np.nextafter(ends, np.inf)))
    cuts = np.sort(cuts[np.isfinite(cuts)])
    distinct = np.unique(cuts)
    if len(distinct) < BINS:
        return distinct
    return np.unique(cuts[np.linspace(0, len(cuts) - 1, BINS + 1)[1:-1].astype(np.int64)])


@np.errstate(all="ignore")  # the float behind the last one is infinite
def plan(store: StoreArrays, reach: Array) -> dict[int, Plan]:
    """Plans for the matrices that pay, by list."""
    plans: dict[int, Plan] = {}
    owners, grids = np.zeros((2, LEAST * 8), np.int32)
    lows, highs = np.zeros((2, LEAST * 8))
    for number in np.flatnonzero((store.lists[:, LENGTH] >= LEAST) & (reach > 0)).tolist():
        length = int(store.lists[number, LENGTH])
        count = collect_ranges(store.handle, number, owners, grids, lows, highs)
        if count > len(owners):
            owners, grids = np.zeros((2, count), np.int32)
            lows, highs = np.zeros((2, count))
            collect_ranges(store.handle, number, owners, grids, lows, highs)
        if count >= 2 * length // COLUMN_SHARE:
            found = Plan(owners[:count], grids[:count], lows[:count], highs[:count], length)
            if found.pays(reach[number]):
                plans[number] = found
    return plans


def lay_out(plans: Sequence[Plan]) -> tuple[Array, list[int]]:
    """The words of matrices with all bits set, and where each begins."""
    matrices = np.full(FIRST + sum(plan.size for plan in plans), -1, np.int64)
    floats = matrices.view(np.float64)
    heads: list[int] = []
    head = FIRST
    for plan in plans:
        heads.append(head)
        columns = len(plan.grids)
        matrices[head : head + HEAD_WORDS] = columns, plan.row_words, plan.leaves_few, 0
        column = head + HEAD_WORDS
        edges = (column + COLUMN_WORDS * columns + 7) & ~7
        bits = edges + BINS * columns
        for grid, cuts in zip(plan.grids, plan.edges, strict=True):
            matrices[column : column + COLUMN_WORDS] = grid, edges, len(cuts), bits
            floats[edges : edges + BINS] = np.nan  # above every value
            floats[edges : edges + len(cuts)] = cuts
            column, edges, bits = column + COLUMN_WORDS, edges + BINS, bits + plan.row_words * (len(cuts) + 2)
        head += plan.size
    matrices[WORK] = max((plan.places for plan in plans), default=0)
    return matrices, heads
