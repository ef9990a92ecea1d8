"""Access paths, in machine code: which lists an entry hangs in, and which test of a conjunction to hang it by.

Rows of ``attributes``: the list of entries reached by the attribute's presence, how many constants filters compare it
with, how often it was present, and bit masks of the lengths of text fragments in use (beginnings, ends, middles; then
the same casefolded). Grid ``2 * attribute`` orders numbers, ``2 * attribute + 1`` instants; a row of ``grids`` is the
start and the count of its bounds.
"""

from __future__ import annotations

import math

import numpy as np

from recado.matching.kernels.jit import lean, lean_jit
from recado.matching.kernels.layout import open_store
from recado.matching.kernels.matrix import clear_last, move_bits
from recado.matching.kernels.postings import (
    GRID,
    LEVELS,
    LISTS_TOP,
    TABLE_USED,
    cell_key,
    fragment_key,
    new_list,
    push,
    rank_of,
    table_find,
    table_put,
    take_out,
)
from recado.matching.kernels.verify_event import (
    ACCESS,
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    EXISTS,
    FOLDED,
    IN,
    JUMPS,
    LAST,
    LIKE,
    NEGATED,
    NEVER,
    NUM,
    OPAQUE,
    PREFIX,
    QUESTION,
    STR_GE,
    SUFFIX,
    TIME,
    instruction_words,
)

PRESENCE, CONSTANTS, PRESENT, LENGTHS = 0, 1, 2, 3
ATTRIBUTE_COLUMNS = 9
BEGINNING, ENDING, MIDDLE = 0, 1, 2
LONGEST_END, LONGEST_MIDDLE = 8, 5
FEW_EVENTS = 256  # what was seen of fewer tells nothing
ALWAYS = 0  # the list of entries that every event must be verified against


@lean
def probability(store, pc, events):
    """How likely an event makes this test an access path worth following: an estimate from what was seen."""
    word = store.words[pc]
    op = word & 63
    if word & NEGATED or op == NEVER:
        return 2.0
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = pc + 1
    if op == EQ:
        return _equality(argument >> 2, attribute, store, events)
    if op == IN:
        total = 0.0
        for i in range(payload * 2, payload * 2 + argument):
            total += _equality(store.ints[i] >> 2, attribute, store, events)
        return total
    present = 1.0 if events < FEW_EVENTS else (store.attributes[attribute, PRESENT] + 1.0) / events
    if op == NUM or op == TIME:
        grid = attribute * 2 + op - NUM
        start, count = store.grids[grid, 0], store.grids[grid, 1]
        if count == 0:
            return 0.3 * present
        low = rank_of(store.bounds, start, count, store.floats[payload])
        high = rank_of(store.bounds, start, count, store.floats[payload + 1])
        share = 2.0 * (high - low + 1.0) / (count + 1.0)
        return present * share if share < 1.0 else present
    if PREFIX <= op < STR_GE:
        return present * (0.5**argument if argument < 10 else 0.5**10)
    if op == OPAQUE and not argument:
        return 2.0
    return present


@lean
def _equality(constant, attribute, store, events):
    if events >= FEW_EVENTS:
        return (store.hits[constant] + 1.0) / events
    constants = store.attributes[attribute, CONSTANTS]
    return 1.0 / constants if constants > 100 else 0.01


@lean
def choose(store, pc, events):
    """Mark the most selective test of a conjunction and move it to the front; nothing to mark if all are negated.

    A test on text moves to the back instead: those that are led to it by a fragment mostly pass it.
    """
    words = store.words
    best, best_probability = -1, 1.5
    at = pc
    while True:
        word = words[at]
        words[at] = word & ~ACCESS
        chance = probability(store, at, events)
        if chance < best_probability:
            best, best_probability = at, chance
        if word & LAST:
            break
        at += instruction_words(word)
    if best < 0:
        return
    words[best] |= ACCESS
    if PREFIX <= (words[best] & 63) < STR_GE:
        _move_back(store, best)
    elif best != pc:
        _move_front(store, pc, best)


@lean
def _move_front(store, pc, best):
    """The instruction at ``best`` comes first; those before it move back. LAST stays with the last."""
    words = store.words
    size = instruction_words(words[best])
    if words[best] & LAST:
        previous = pc
        while previous + instruction_words(words[previous]) != best:
            previous += instruction_words(words[previous])
        words[previous] |= LAST
        words[best] &= ~LAST
    _rotate(words, pc, best, best + size)


@lean
def _move_back(store, best):
    """The instruction at ``best`` comes last; those behind it move to the front. LAST stays with the last."""
    words = store.words
    if words[best] & LAST:
        return
    second = at = best + instruction_words(words[best])
    while not words[at] & LAST:
        at += instruction_words(words[at])
    words[best] |= LAST
    words[at] &= ~LAST
    _rotate(words, best, second, at + instruction_words(words[at]))


@lean
def _rotate(words, first, middle, last):
    """Exchange two neighbouring runs of words, by three reversals."""
    _reverse(words, first, middle)
    _reverse(words, middle, last)
    _reverse(words, first, last)


@lean
def _reverse(words, first, last):
    while first < last - 1:
        last -= 1
        words[first], words[last] = words[last], words[first]
        first += 1


@lean
def begin(words, pc):
    """Where verification begins: behind an access path that its list implies; -1 if nothing is left to verify."""
    word = words[pc]
    op = word & 63
    if word & JUMPS or not word & ACCESS or not (op == EQ or op == IN or op == EXISTS):
        return pc
    return -1 if word & LAST else pc + instruction_words(word)


@lean
def range_on(words, pc, grid):
    """The position of the bounds of a conjunction on the grid's attribute, or -1."""
    while True:
        word = words[pc]
        op = word & 63
        if (op == NUM or op == TIME) and not word & NEGATED:
            if ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM == grid:
                return pc + 1
        if word & LAST or word & JUMPS:
            return -1
        pc += instruction_words(word)


@lean
def targets(store, pc):
    """All lists that an entry belongs to, made where they do not exist, into ``scratch``.

    Returns how many, negative if one event can reach the entry through several of them.
    """
    words = store.words
    count = 0
    paths = 0
    at = pc
    single = not words[pc] & JUMPS
    if single and (words[pc] & 63) == NEVER and not words[pc] & NEGATED:
        return 0
    while True:
        word = words[at]
        if word & ACCESS:
            paths += 1
            count = _targets_of_test(store, pc if single else -1, at, count)
        if word & LAST:
            break
        at += instruction_words(word)
    if paths == 0:
        store.scratch[0] = ALWAYS
        return 1
    return -count if paths > 1 else count


@lean
def _targets_of_test(store, conjunction, at, count):
    attributes, by_constant, bytes_ = store.attributes, store.by_constant, store.bytes_
    word = store.words[at]
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = at + 1 + ((word >> 8) & 1)
    if op == EQ or op == IN:
        for i in range(argument if op == IN else 1):
            constant = (store.ints[payload * 2 + i] if op == IN else argument) >> 2
            number = by_constant[constant]
            if number == 0:
                number = new_list(store.lists, store.state)
                by_constant[constant] = number
            count = _cells(store, conjunction, at, number, count)
        return count
    if PREFIX <= op < STR_GE:
        part, start, length = fragment(op, bytes_, payload * 8, argument, attribute)
        if length > 0:
            attributes[attribute, LENGTHS + part] |= 1 << length
            key = fragment_key(attribute, part, bytes_, start, length)
            number = table_find(store.table, key)
            if number == 0:
                number = new_list(store.lists, store.state)
                table_put(store.table, store.state, key, number)
            store.scratch[count] = number
            return count + 1
    number = attributes[attribute, PRESENCE]
    if number == 0:
        number = new_list(store.lists, store.state)
        attributes[attribute, PRESENCE] = number
    return _cells(store, conjunction, at, number, count)


@lean
def cells_of(store, where, grid):
    """The first and the last cell of a grid that the range with these bounds touches.

    One float wider on both sides: a number between two floats is ranked by the lower of them.
    """
    start, size = store.grids[grid, 0], store.grids[grid, 1]
    low = rank_of(store.bounds, start, size, np.nextafter(store.floats[where], -math.inf))
    high = rank_of(store.bounds, start, size, np.nextafter(store.floats[where + 1], math.inf))
    return low, high


@lean
def level_of(low, high):
    """The level at which a range of cells touches one or two."""
    level = 0
    while ((high - low) >> level) > 0:
        level += 1
    return level


@lean
def _cells(store, conjunction, at, number, count):
    """The list itself, or the children that hold the cells which the entry's range touches."""
    words, lists = store.words, store.lists
    grid = lists[number, GRID]
    if grid >= 0:
        if conjunction >= 0:
            where = range_on(words, conjunction, grid)
        else:  # in a tree only the test itself is sure to hold
            word = words[at]
            op = word & 63
            own = (op == NUM or op == TIME) and ((word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK) * 2 + op - NUM == grid
            where = at + 2 if own else -1
        if where >= 0:
            low, high = cells_of(store, where, grid)
            if high < low:
                return count
            level = level_of(low, high)
            lists[number, LEVELS] |= 1 << level
            for cell in range(low >> level, (high >> level) + 1):
                key = cell_key(number, level, cell)
                child = table_find(store.table, key)
                if child == 0:
                    child = new_list(store.lists, store.state)
                    table_put(store.table, store.state, key, child)
                store.scratch[count] = child
                count += 1
            return count
    store.scratch[count] = number
    return count + 1


@lean
def fragment(op, bytes_, at, length, attribute):
    """Which piece of a text pattern to look for: (part, start, length); length 0 if there is none.

    Of the middle pieces it is the one with the smallest hash: any rule serves that finds the same piece again when the
    entry is removed, and this one spreads patterns that share common pieces.
    """
    folded = 3 if op >= PREFIX + FOLDED else 0
    if folded:
        op -= FOLDED
    if op == PREFIX:
        return folded + BEGINNING, at, min(LONGEST_END, length)
    if op == SUFFIX:
        size = min(LONGEST_END, length)
        return folded + ENDING, at + length - size, size
    if op == LIKE:
        front = 0
        while front < length and bytes_[at + front] < QUESTION:
            front += 1
        back = 0
        while back < length and bytes_[at + length - 1 - back] < QUESTION:
            back += 1
        if front >= 2 and front >= back:
            return folded + BEGINNING, at, min(LONGEST_END, front)
        if back >= 2:
            size = min(LONGEST_END, back)
            return folded + ENDING, at + length - size, size
    size = _longest_run(bytes_, at, length)
    best, best_key = at, np.int64(-1)
    for start in range(at, at + length - size + 1):
        if _is_literal(bytes_, start, size):
            key = fragment_key(attribute, folded + MIDDLE, bytes_, start, size)
            if best_key < 0 or key < best_key:
                best, best_key = start, key
    return folded + MIDDLE, best, size


@lean
def _is_literal(bytes_, start, size):
    for i in range(start, start + size):
        if bytes_[i] >= QUESTION:
            return False
    return True


@lean
def _longest_run(bytes_, at, length):
    """The length of the longest literal run, at most LONGEST_MIDDLE."""
    longest, run = 0, 0
    for i in range(at, at + length):
        run = 0 if bytes_[i] >= QUESTION else run + 1
        longest = max(longest, run)
    return min(LONGEST_MIDDLE, longest)


@lean_jit
def link(store_handle, first, last, events, rechoose):
    """Link the entries from ``first`` up to ``last``; returns where it stopped for want of room.

    ``starts`` tells where each entry's program begins, -1 for a free entry.
    """
    store = open_store(store_handle)
    words, lists, postings, scratch = store.words, store.lists, store.postings, store.scratch
    for entry in range(first, last):
        pc = store.starts[entry]
        if pc < 0:
            continue
        if not _has_room(store, pc):
            return entry
        if rechoose and not words[pc] & JUMPS:
            choose(store, pc, events)
        count = targets(store, pc)
        posted = entry
        if count < 0:
            count, posted = -count, ~entry
        start = begin(words, pc)
        for i in range(count):
            if not push(lists, postings, store.heads, store.state, scratch[i], start, posted):
                for done in range(i):
                    withdraw(store, scratch[done], start, posted)
                return entry
            clear_last(store, scratch[i])
    return last


@lean
def withdraw(store, number, start, posted):
    """Take the posting of an entry, whose verification begins at ``start``, out of a list."""
    move_bits(store, number, take_out(store.lists, store.postings, number, posted), start)


@lean
def _has_room(store, pc):
    """Is there room for all the lists that a program can need?"""
    needed = room(store.words, pc)
    if needed > store.scratch.shape[0] or store.state[LISTS_TOP] + needed > store.lists.shape[0]:
        return False
    return (store.state[TABLE_USED] + needed) * 2 <= store.table.shape[0]


@lean
def room(words, pc):
    """At most how many lists a program can need."""
    needed = 1
    while True:
        word = words[pc]
        if word & ACCESS or not word & JUMPS:
            needed += 2 + 2 * ((word >> 32) & 0xFFFFFFFF if (word & 63) == IN else 1)
        if word & LAST:
            return needed
        pc += instruction_words(word)


@lean_jit
def unlink(store_handle, entry):
    """Take an entry out of all its lists; False if there is no room to find them."""
    store = open_store(store_handle)
    pc = store.starts[entry]
    if not _has_room(store, pc):
        return False
    count = targets(store, pc)
    posted = entry
    if count < 0:
        count, posted = -count, ~entry
    for i in range(count):
        withdraw(store, store.scratch[i], begin(store.words, pc), posted)
    return True
