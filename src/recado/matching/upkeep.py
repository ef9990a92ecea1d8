"""What ``optimize`` does over all entries, in machine code: sample bounds, vote for grids, pack programs."""

from __future__ import annotations

import numpy as np

from recado.matching.access import PRESENCE, begin
from recado.matching.instructions import (
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
from recado.matching.jit import inner, jit
from recado.matching.kernel import instruction_words
from recado.matching.postings import GRID, LENGTH, START, rank_of


@jit
def vote(words, floats, starts, attributes, by_constant, lists, grids, bounds, least, votes):
    """Give each long list the grid that most of its entries' narrowest ranges are on (a majority vote)."""
    for entry in range(starts.shape[0]):
        pc = starts[entry]
        if pc < 0 or words[pc] & JUMPS or not words[pc] & ACCESS:
            continue
        number = _own_list(words, pc, attributes, by_constant)
        if number == 0 or lists[number, LENGTH] < least:
            continue
        grid = _narrowest(words, floats, pc, grids, bounds)
        if grid < 0:
            continue
        if votes[number, 1] == 0:
            votes[number, 0] = grid
        votes[number, 1] += 1 if votes[number, 0] == grid else -1
    for number in range(1, lists.shape[0]):
        if votes[number, 1] > 0:
            lists[number, GRID] = votes[number, 0]


@inner
def _own_list(words, pc, attributes, by_constant):
    """The list that a conjunction hangs in; 0 for text and for sets, which are not split."""
    word = words[pc]
    op = word & 63
    if op == EQ:
        return by_constant[((word >> 32) & 0xFFFFFFFF) >> 2]
    if op == NUM or op == TIME or op == EXISTS:
        return attributes[(word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK, PRESENCE]
    return 0


@inner
def _narrowest(words, floats, pc, grids, bounds):
    best, best_width = -1, np.int64(1) << 40
    while True:
        word = words[pc]
        op = word & 63
        if (op == NUM or op == TIME) and not word & NEGATED:
            grid = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
            start, count = grids[grid]
            width = rank_of(bounds, start, count, floats[pc + 2]) - rank_of(bounds, start, count, floats[pc + 1])
            if count > 0 and width < best_width:
                best, best_width = grid, width
        if word & LAST:
            return best
        pc += instruction_words(word)


@jit
def count_bounds(words, starts, counts):
    """How many finite bounds there are for each grid, at most."""
    for entry in range(starts.shape[0]):
        pc = starts[entry]
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


@jit
def sample_bounds(words, floats, starts, steps, seen, filled, offsets, sample):
    """Every ``steps``-th bound of each grid into its part of ``sample``."""
    for entry in range(starts.shape[0]):
        pc = starts[entry]
        if pc < 0:
            continue
        while True:
            word = words[pc]
            op = word & 63
            if op == NUM or op == TIME:
                grid = ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM
                payload = pc + 1 + ((word >> 8) & 1)
                for bound in (floats[payload], floats[payload + 1]):
                    if np.isfinite(bound):
                        if seen[grid] % steps[grid] == 0 and filled[grid] < offsets[grid + 1] - offsets[grid]:
                            sample[offsets[grid] + filled[grid]] = bound
                            filled[grid] += 1
                        seen[grid] += 1
            if word & LAST:
                break
            pc += instruction_words(word)


@jit
def pack(words, starts, lists, postings, lists_top, packed):
    """Copy all programs into ``packed`` in the order in which lists are read, so that a list reads memory forward.

    Returns how many words were used; programs that hang nowhere come last.
    """
    top = 0
    moved = np.zeros(starts.shape[0], np.bool_)
    for number in range(lists_top):
        for at in range(lists[number, START], lists[number, START] + lists[number, LENGTH]):
            entry = postings[at, 1]
            if entry < 0:
                entry = ~entry
            if not moved[entry]:
                moved[entry] = True
                top = _copy_program(words, starts, entry, packed, top)
    for entry in range(starts.shape[0]):
        if starts[entry] >= 0 and not moved[entry]:
            top = _copy_program(words, starts, entry, packed, top)
    for number in range(lists_top):
        for at in range(lists[number, START], lists[number, START] + lists[number, LENGTH]):
            entry = postings[at, 1]
            postings[at, 0] = begin(packed, starts[~entry if entry < 0 else entry])
    return top


@inner
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
