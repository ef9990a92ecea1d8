"""Which events of a batch lead to which lists, in machine code.

Events are grouped by the constants that they equal and by the fragments of text that they contain; where a list is
split, its events are ordered by the value that the grid is about, so that each cell has a run of them.

A group of events may be reordered, and is a permutation of itself always: a list and its cells are visited with the
same group, one after the other.
"""

from __future__ import annotations

import numpy as np

from recado.matching.access import ENDING, LENGTHS, MIDDLE
from recado.matching.jit import lean
from recado.matching.postings import GRID, LEVELS, cell_key, fragment_key, rank_of, table_find
from recado.matching.verify import NUMBER, TEXT


@lean
def order_by_rank(events, first, size, ranks):
    """Sort ``events[first:first + size]`` by ``ranks``, which follow (a shell sort)."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, size):
            rank, event = ranks[i], events[first + i]
            j = i - gap
            while j >= 0 and ranks[j] > rank:
                ranks[j + gap] = ranks[j]
                events[first + j + gap] = events[first + j]
                j -= gap
            ranks[j + gap] = rank
            events[first + j + gap] = event
        gap //= 3


@lean
def rank_events(events, first, last, batch, row, store, grid, ranks):
    """Order a group by rank, with the events that have no value behind the others; returns where those begin."""
    start, size = store.grids[grid, 0], store.grids[grid, 1]
    kept = first
    for i in range(first, last):
        event = events[i]
        value = batch.downs[row, event]
        if not np.isnan(value):
            events[i], events[kept] = events[kept], event
            ranks[kept - first] = rank_of(store.bounds, start, size, value)
            kept += 1
    order_by_rank(events, first, kept - first, ranks)
    return kept


@lean
def collect_fragments(attribute, folded, store, batch, size, space):
    """The lists that the fragments of strings lead to, as ``space.pairs`` (list, event), each once.

    ``space.at`` holds the event, part, length and place to go on with, and a number from which on no mark was given
    yet: ``list_marks`` tells which string led to a list last. It stops when ``pairs`` is full. Returns the count.
    """
    at, marks, pairs = space.at, space.list_marks, space.pairs
    row = batch.rows[attribute, TEXT + folded]
    count = 0
    event, part, length, place = at[0], at[1], at[2], at[3]
    while event < size:
        start, end = batch.starts[row, event], batch.starts[row, event] + batch.lengths[row, event]
        while start >= 0 and part < 3:
            sizes = store.attributes[attribute, LENGTHS + folded * 3 + part]
            while sizes >> length and start + length <= end:
                if (sizes >> length) & 1:
                    first = start if part != ENDING else end - length
                    last = end - length if part == MIDDLE else first
                    while first + place <= last:
                        if count == pairs.shape[0]:
                            at[0], at[1], at[2], at[3] = event, part, length, place
                            return count
                        key = fragment_key(attribute, folded * 3 + part, batch.data, first + place, length)
                        number = table_find(store.table, key)
                        if number and marks[number] != at[4] + event:
                            marks[number] = at[4] + event
                            pairs[count, 0] = number
                            pairs[count, 1] = event
                            count += 1
                        place += 1
                place = 0
                length += 1
            length = 1
            part += 1
        part = 0
        event += 1
    at[0], at[1], at[2], at[3] = event, 0, 1, 0
    at[4] += size
    return count


@lean
def group_by_list(space, count):
    """Events of equal lists together, as ``group_by_constant`` does it for constants."""
    pairs, tally, touched, events = space.pairs, space.list_tally, space.list_touched, space.list_events
    groups = 0
    for i in range(count):
        number = pairs[i, 0]
        if tally[number] == 0:
            touched[groups, 0] = touched[groups, 1] = number
            groups += 1
        tally[number] += 1
    end = 0
    for group in range(groups):
        many = tally[touched[group, 0]]
        tally[touched[group, 0]] = end
        end += many
    for i in range(count):
        number = pairs[i, 0]
        events[tally[number]] = pairs[i, 1]
        tally[number] += 1
    return groups


@lean
def group_by_constant(row, batch, size, store, space):
    """Events of one column, those with equal constants together; returns how many groups there are.

    ``touched`` gets each group's constant and list, ``tally`` where the group ends; only constants with a list count.
    """
    codes, by_constant = batch.codes, store.by_constant
    tally, touched, events = space.tally, space.touched, space.events
    groups = 0
    for event in range(size):
        code = codes[row, event]
        if code > 3:
            constant = code >> 2
            store.hits[constant] += 1
            if by_constant[constant]:
                if tally[constant] == 0:
                    touched[groups, 0] = constant
                    touched[groups, 1] = by_constant[constant]
                    groups += 1
                tally[constant] += 1
    end = 0
    for group in range(groups):  # from here on tally holds where the group's next event goes
        many = tally[touched[group, 0]]
        tally[touched[group, 0]] = end
        end += many
    if groups:
        for event in range(size):
            code = codes[row, event]
            if code > 3 and by_constant[code >> 2]:
                events[tally[code >> 2]] = event
                tally[code >> 2] += 1
    return groups


@lean
def segments_of(number, first, last, store, batch, events, space):
    """A list with its events and, where it is split, the cells that their values lie in; returns how many segments."""
    ranks, segments = space.ranks, space.segments
    segments[0, 0], segments[0, 1], segments[0, 2] = number, first, last
    grid = store.lists[number, GRID]
    if grid < 0:
        return 1
    count = 1
    row = batch.rows[grid >> 1, NUMBER + (grid & 1)]
    kept = rank_events(events, first, last, batch, row, store, grid, ranks)
    levels = store.lists[number, LEVELS]
    level = 0
    while levels >> level:
        i = first if (levels >> level) & 1 else kept
        while i < kept:
            cell = ranks[i - first] >> level
            j = i + 1
            while j < kept and ranks[j - first] >> level == cell:
                j += 1
            child = table_find(store.table, cell_key(number, level, cell))
            if child:
                segments[count, 0], segments[count, 1], segments[count, 2] = child, i, j
                count += 1
            i = j
        level += 1
    return count
