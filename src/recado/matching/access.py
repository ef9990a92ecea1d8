"""Access paths, in machine code: which lists an entry hangs in, and which test of a conjunction to hang it by.

Rows of ``attributes``: the list of entries reached by the attribute's presence, how many constants filters compare it
with, how often it was present, and bit masks of the lengths of text fragments in use (beginnings, ends, middles; then
the same casefolded). Grid ``2 * attribute`` orders numbers, ``2 * attribute + 1`` instants; a row of ``grids`` is the
start and the count of its bounds.
"""

from __future__ import annotations

import math

import numpy as np

from recado.matching.jit import inner, jit
from recado.matching.kernel import (
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
from recado.matching.postings import (
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

PRESENCE, CONSTANTS, PRESENT, LENGTHS = 0, 1, 2, 3
ATTRIBUTE_COLUMNS = 9
BEGINNING, ENDING, MIDDLE = 0, 1, 2
LONGEST_END, LONGEST_MIDDLE = 8, 5
ALWAYS = 0  # the list of entries that every event must be verified against


@inner
def probability(words, floats, ints, pc, attributes, hits, events, grids, bounds):
    """How likely an event makes this test an access path worth following: an estimate from what was seen."""
    word = words[pc]
    op = word & 63
    if word & NEGATED or op == NEVER:
        return 2.0
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = pc + 1
    if op == EQ:
        return _equality(argument >> 2, attribute, attributes, hits, events)
    if op == IN:
        total = 0.0
        for i in range(payload * 2, payload * 2 + argument):
            total += _equality(ints[i] >> 2, attribute, attributes, hits, events)
        return total
    present = 1.0 if events < 256 else (attributes[attribute, PRESENT] + 1.0) / events
    if op == NUM or op == TIME:
        start, count = grids[attribute * 2 + op - NUM]
        if count == 0:
            return 0.3 * present
        low = rank_of(bounds, start, count, floats[payload])
        high = rank_of(bounds, start, count, floats[payload + 1])
        return present * min(1.0, 2.0 * (high - low + 1.0) / (count + 1.0))
    if PREFIX <= op < STR_GE:
        return present * 0.5 ** min(argument, 10)
    if op == OPAQUE and not argument:
        return 2.0
    return present


@inner
def _equality(constant, attribute, attributes, hits, events):
    if events >= 256:
        return (hits[constant] + 1.0) / events
    return 1.0 / max(attributes[attribute, CONSTANTS], 100)


@inner
def choose(words, floats, ints, pc, attributes, hits, events, grids, bounds):
    """Mark the most selective test of a conjunction and move it to the front; nothing to mark if all are negated.

    A test on text moves to the back instead: those that are led to it by a fragment mostly pass it.
    """
    best, best_probability = -1, 1.5
    at = pc
    while True:
        word = words[at]
        words[at] = word & ~ACCESS
        chance = probability(words, floats, ints, at, attributes, hits, events, grids, bounds)
        if chance < best_probability:
            best, best_probability = at, chance
        if word & LAST:
            break
        at += instruction_words(word)
    if best < 0:
        return
    words[best] |= ACCESS
    if PREFIX <= (words[best] & 63) < STR_GE:
        _move_back(words, best)
    elif best != pc:
        _move_front(words, pc, best)


@inner
def _move_front(words, pc, best):
    """The instruction at ``best`` comes first; those before it move back. LAST stays with the last."""
    size = instruction_words(words[best])
    moved = words[best : best + size].copy()
    if words[best] & LAST:
        previous = pc
        while previous + instruction_words(words[previous]) != best:
            previous += instruction_words(words[previous])
        words[previous] |= LAST
        moved[0] &= ~LAST
    for i in range(best - 1, pc - 1, -1):
        words[i + size] = words[i]
    words[pc : pc + size] = moved


@inner
def _move_back(words, best):
    """The instruction at ``best`` comes last; those behind it move to the front. LAST stays with the last."""
    size = instruction_words(words[best])
    at = best + size
    if words[best] & LAST:
        return
    moved = words[best:at].copy()
    moved[0] |= LAST
    while True:
        word = words[at]
        for i in range(at, at + instruction_words(word)):
            words[i - size] = words[i]
        words[at - size] &= ~LAST
        at += instruction_words(word)
        if word & LAST:
            break
    words[at - size : at] = moved


@inner
def begin(words, pc):
    """Where verification begins: behind an access path that its list implies; -1 if nothing is left to verify."""
    word = words[pc]
    op = word & 63
    if word & JUMPS or not word & ACCESS or not (op == EQ or op == IN or op == EXISTS):
        return pc
    return -1 if word & LAST else pc + instruction_words(word)


@inner
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


@inner
def targets(words, floats, ints, bytes_, pc, attributes, by_constant, lists, table, state, grids, bounds, out):
    """All lists that an entry belongs to, made where they do not exist, into ``out``.

    Returns how many, negative if one event can reach the entry through several of them.
    """
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
            count = _targets_of_test(
                words, floats, ints, bytes_, pc if single else -1, at, attributes, by_constant, lists, table, state,
                grids, bounds, out, count,
            )  # fmt: skip
        if word & LAST:
            break
        at += instruction_words(word)
    if paths == 0:
        out[0] = ALWAYS
        return 1
    return -count if paths > 1 else count


@inner
def _targets_of_test(
    words, floats, ints, bytes_, conjunction, at, attributes, by_constant, lists, table, state, grids, bounds, out,
    count,
):  # fmt: skip
    word = words[at]
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = at + 1 + ((word >> 8) & 1)
    if op == EQ or op == IN:
        for i in range(argument if op == IN else 1):
            constant = (ints[payload * 2 + i] if op == IN else argument) >> 2
            number = by_constant[constant]
            if number == 0:
                number = new_list(lists, state)
                by_constant[constant] = number
            count = _cells(words, floats, conjunction, at, number, lists, table, state, grids, bounds, out, count)
        return count
    if PREFIX <= op < STR_GE:
        part, start, length = fragment(op, bytes_, payload * 8, argument, attribute)
        if length > 0:
            attributes[attribute, LENGTHS + part] |= 1 << length
            key = fragment_key(attribute, part, bytes_, start, length)
            number = table_find(table, key)
            if number == 0:
                number = new_list(lists, state)
                table_put(table, state, key, number)
            out[count] = number
            return count + 1
    number = attributes[attribute, PRESENCE]
    if number == 0:
        number = new_list(lists, state)
        attributes[attribute, PRESENCE] = number
    return _cells(words, floats, conjunction, at, number, lists, table, state, grids, bounds, out, count)


@inner
def _cells(words, floats, conjunction, at, number, lists, table, state, grids, bounds, out, count):
    """The list itself, or the children that hold the cells which the entry's range touches."""
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
            start, size = grids[grid]
            # One float wider on both sides: a number between two floats is ranked by the lower of them.
            low = rank_of(bounds, start, size, np.nextafter(floats[where], -math.inf))
            high = rank_of(bounds, start, size, np.nextafter(floats[where + 1], math.inf))
            if high < low:
                return count
            level = 0
            while ((high - low) >> level) > 0:
                level += 1
            lists[number, LEVELS] |= 1 << level
            for cell in range(low >> level, (high >> level) + 1):
                key = cell_key(number, level, cell)
                child = table_find(table, key)
                if child == 0:
                    child = new_list(lists, state)
                    table_put(table, state, key, child)
                out[count] = child
                count += 1
            return count
    out[count] = number
    return count + 1


@inner
def fragment(op, bytes_, at, length, attribute):
    """Which piece of a text pattern to look for: (part, start, length); length 0 if there is none.

    Of the middle pieces it is the one with the smallest hash: any rule serves that finds the same piece again when the
    entry is removed, and this one spreads patterns that share common pieces.
    """
    folded = 3 if op >= PREFIX + FOLDED else 0
    if folded:
        op -= FOLDED
    if op == PREFIX:
        return folded + BEGINNING, at, min(length, LONGEST_END)
    if op == SUFFIX:
        size = min(length, LONGEST_END)
        return folded + ENDING, at + length - size, size
    if op == LIKE:
        front = 0
        while front < length and bytes_[at + front] < QUESTION:
            front += 1
        back = 0
        while back < length and bytes_[at + length - 1 - back] < QUESTION:
            back += 1
        if front >= 2 and front >= back:
            return folded + BEGINNING, at, min(front, LONGEST_END)
        if back >= 2:
            size = min(back, LONGEST_END)
            return folded + ENDING, at + length - size, size
    size = _longest_run(bytes_, at, length)
    best, best_key = at, np.int64(-1)
    for start in range(at, at + length - size + 1):
        if _is_literal(bytes_, start, size):
            key = fragment_key(attribute, folded + MIDDLE, bytes_, start, size)
            if best_key < 0 or key < best_key:
                best, best_key = start, key
    return folded + MIDDLE, best, size


@inner
def _is_literal(bytes_, start, size):
    for i in range(start, start + size):
        if bytes_[i] >= QUESTION:
            return False
    return True


@inner
def _longest_run(bytes_, at, length):
    """The length of the longest literal run, at most LONGEST_MIDDLE."""
    longest, run = 0, 0
    for i in range(at, at + length):
        run = 0 if bytes_[i] >= QUESTION else run + 1
        longest = max(longest, run)
    return min(longest, LONGEST_MIDDLE)


@inner
def push_all(lists, postings, heads, state, numbers, first, count, pc, entry):
    """Append a posting to each list from ``first`` on; returns where it stopped for want of room, or ``count``."""
    for i in range(first, count):
        if not push(lists, postings, heads, state, numbers[i], pc, entry):
            return i
    return count


@jit
def link(
    words, floats, ints, bytes_, starts, first, last, attributes, hits, events, by_constant, lists, postings, heads,
    table, state, grids, bounds, scratch, rechoose,
):  # fmt: skip
    """Link the entries from ``first`` up to ``last``; returns where it stopped for want of room.

    ``starts`` tells where each entry's program begins, -1 for a free entry.
    """
    for entry in range(first, last):
        pc = starts[entry]
        if pc < 0:
            continue
        needed = room(words, pc)
        if needed > scratch.shape[0] or state[LISTS_TOP] + needed > lists.shape[0]:
            return entry
        if (state[TABLE_USED] + needed) * 2 > table.shape[0]:
            return entry
        if rechoose and not words[pc] & JUMPS:
            choose(words, floats, ints, pc, attributes, hits, events, grids, bounds)
        count = targets(
            words, floats, ints, bytes_, pc, attributes, by_constant, lists, table, state, grids, bounds, scratch
        )
        posted = ~entry if count < 0 else entry
        count = abs(count)
        done = push_all(lists, postings, heads, state, scratch, 0, count, begin(words, pc), posted)
        if done < count:
            for i in range(done):
                take_out(lists, postings, scratch[i], posted)
            return entry
    return last


@jit
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


@jit
def unlink(
    words, floats, ints, bytes_, pc, entry, attributes, by_constant, lists, postings, table, state, grids, bounds,
    scratch,
):  # fmt: skip
    """Take an entry out of all its lists; False if there is no room to find them."""
    needed = room(words, pc)
    if needed > scratch.shape[0] or state[LISTS_TOP] + needed > lists.shape[0]:
        return False
    if (state[TABLE_USED] + needed) * 2 > table.shape[0]:
        return False
    count = targets(
        words, floats, ints, bytes_, pc, attributes, by_constant, lists, table, state, grids, bounds, scratch
    )
    posted = ~entry if count < 0 else entry
    for i in range(abs(count)):
        take_out(lists, postings, scratch[i], posted)
    return True
