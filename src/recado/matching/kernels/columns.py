"""Many events at once, in machine code.

Events lie in columns. For each list the events that lead to it are gathered first; then every program that hangs there
is read once and verified against all of them, test by test, each test narrowing the events that are left. So a program
costs one look at memory per batch instead of one per event, and the inner loops run over columns without branches.

``recado.matching.kernels.verify_columns`` explains the columns, ``recado.matching.kernels.columns`` how events find
their lists. Results are pairs (event, entry with flags).
"""

from __future__ import annotations

import numpy as np

from recado.matching.kernels.access import ALWAYS, ENDING, LENGTHS, MIDDLE, PRESENCE, PRESENT
from recado.matching.kernels.dense import (
    BLOCK,
    FEW,
    dense_conjunction,
    dense_tree,
    is_dense_test,
    is_dense_tree,
    passing,
)
from recado.matching.kernels.instructions import JUMPS
from recado.matching.kernels.jit import jit, lean, lean_jit
from recado.matching.kernels.layout import open_batch, open_space, open_store
from recado.matching.kernels.matrix import (
    FAILED,
    FOR_BATCHES,
    PLACES,
    TOGETHER,
    join_rows,
    pass_ranges_at,
    pick_rows,
    places_known,
)
from recado.matching.kernels.postings import (
    GRID,
    LENGTH,
    LEVELS,
    MATRIX,
    START,
    cell_key,
    fragment_key,
    rank_of,
    table_find,
)
from recado.matching.kernels.texts import FAILS, UNSURE
from recado.matching.kernels.verify_columns import (
    CODE,
    NUMBER,
    TEXT,
    narrow,
    narrow_called,
    verify_at,
    verify_at_called,
)

# --- Which events of a batch lead to which lists, in machine code ----------------------------------------------------
#
# Events are grouped by the constants that they equal and by the fragments of text that they contain; where a list is
# split, its events are ordered by the value that the grid is about, so that each cell has a run of them.
#
# A group of events may be reordered, and is a permutation of itself always: a list and its cells are visited with the
# same group, one after the other.


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


# --- Many events at once, in machine code ----------------------------------------------------------------------------

REPEATS, UNCERTAIN = 1 << 32, 1 << 33  # flags of a found entry


@lean
def scan_many(begin, end, store, batch, exact, events, first, last, space, stamp, count):
    """Postings against a block of events, with the first tests side by side.

    Results that find no room are counted all the same, so that the caller knows how much room to give.
    """
    words, postings, work = store.words, store.postings, space.work
    many = last - first
    room = space.found.shape[0]
    for at in range(begin, end):
        pc, entry = np.int64(postings[at, 0]), np.int64(postings[at, 1])
        word = words[pc] if pc >= 0 else np.int64(0)
        left = many
        if pc < 0:
            for i in range(many):
                work[i] = events[first + i]
        elif word & JUMPS and is_dense_tree(store, pc):
            dense_tree(store, pc, batch, exact, events, first, many, space, stamp)
            mask, accepted = space.mask, space.other
            for i in range(many):
                mask[i] = accepted[i]
            for i in range(many, (many + 7) & ~7):
                mask[i] = 0
            left = passing(space, many, events, first)
        elif not word & JUMPS and is_dense_test(word):
            pc, left = dense_conjunction(store, pc, word, batch, exact, events, first, many, space, stamp)
            if left:
                left = passing(space, many, events, first)
                if pc >= 0:
                    left = narrow_called(store, pc, batch, work, left)
        elif word & JUMPS:
            left = 0
            unsure = False
            for i in range(first, last):
                result = verify_at_called(store, pc, batch, events[i])
                work[left] = events[i]
                left += result != FAILS
                unsure |= result == UNSURE
            left = -left if unsure else left
        else:
            for i in range(many):
                work[i] = events[first + i]
            left = narrow_called(store, pc, batch, work, many)
        if left == 0:
            continue
        if entry < 0:
            entry = ~entry | REPEATS
        if left < 0:
            left = -left
            entry |= UNCERTAIN
        for i in range(min(room - count, left)):
            space.found_events[count + i] = work[i]
            space.found[count + i] = entry
        count += left
    return count


@lean
def scan_matrix(number, store, batch, exact, events, first, last, space, count):
    """The postings that a list's matrix leaves of those that it knows, for each event its own."""
    postings, places, work = store.postings, space.places, space.work
    head, begin, length = store.lists[number, MATRIX], store.lists[number, START], store.lists[number, LENGTH]
    room = space.found.shape[0]
    for i in range(first, last):
        if (i - first) % TOGETHER == 0:
            pick_rows(store, head, batch, events, i, min(i + TOGETHER, last), places)
        left = join_rows(store, head, length, (i - first) % TOGETHER, places)
        space.counts[0] += left
        event = events[i]
        for k in range(left):
            at = begin + places[PLACES + k]
            pc, entry = np.int64(postings[at, 0]), np.int64(postings[at, 1])
            if exact and pc >= 0 and not store.words[pc] & JUMPS:
                pc = pass_ranges_at(store, pc, batch, event)
                if pc == FAILED:
                    continue
            if entry < 0:
                entry = ~entry | REPEATS
            if pc >= 0 and store.words[pc] & JUMPS:
                result = verify_at_called(store, pc, batch, event)
                if result == FAILS:
                    continue
                entry |= UNCERTAIN if result == UNSURE else 0
            elif pc >= 0:
                work[0] = event
                passed = narrow_called(store, pc, batch, work, 1)
                if passed == 0:
                    continue
                entry |= UNCERTAIN if passed < 0 else 0
            if count < room:
                space.found_events[count] = event
                space.found[count] = entry
            count += 1
    return count


@lean
def visit_lists(numbers, ends, events, groups, store, batch, exact, space, count):
    """Each list with its group of events, verified.

    ``ends`` tells, by list or constant, where in ``events`` the group ends; it is cleared on the way. All groups are
    visited in one call and few events are verified here and not in a function, because a call costs as much as a
    short list does.
    """
    words, lists, postings = store.words, store.lists, store.postings
    work, segments, counts = space.work, space.segments, space.counts
    group_first = np.int64(0)
    room = space.found.shape[0]
    for group in range(groups):
        key = numbers[group, 0]
        group_last = np.int64(ends[key])
        ends[key] = 0
        parts = segments_of(numbers[group, 1], group_first, group_last, store, batch, events, space)
        group_first = group_last
        for part in range(parts):
            number = segments[part, 0]
            first, last = np.int64(segments[part, 1]), np.int64(segments[part, 2])
            begin, end = lists[number, START], lists[number, START] + lists[number, LENGTH]
            head = lists[number, MATRIX]
            if head and (last - first < FEW or store.matrices[head + FOR_BATCHES]):
                count = scan_matrix(number, store, batch, exact, events, first, last, space, count)
                begin += places_known(store, head, end - begin)
            counts[0] += (end - begin) * (last - first)
            if last - first >= FEW:
                while first < last and begin < end:
                    counts[1] += 1
                    block = min(last, first + BLOCK)
                    count = scan_many(begin, end, store, batch, exact, events, first, block, space, counts[1], count)
                    first = block
                continue
            for at in range(begin, end):
                pc, entry = np.int64(postings[at, 0]), np.int64(postings[at, 1])
                if entry < 0:
                    entry = ~entry | REPEATS
                left = last - first
                if pc >= 0 and words[pc] & JUMPS:
                    left = 0
                    for i in range(first, last):
                        result = verify_at(store, pc, batch, events[i])
                        work[left] = events[i]
                        left += result != FAILS
                        entry |= UNCERTAIN if result == UNSURE else 0
                else:
                    for i in range(left):
                        work[i] = events[first + i]
                    if pc >= 0:
                        left = narrow(store, pc, batch, work, left)
                        if left < 0:
                            left = -left
                            entry |= UNCERTAIN
                for i in range(min(room - count, left)):
                    space.found_events[count + i] = work[i]
                    space.found[count + i] = entry
                count += left
    return count


@lean_jit
def match_columns(store_handle, batch_handle, space_handle, size, exact):
    """Match ``size`` events into pairs (event, entry with flags), in no order; returns how many there are.

    That may be more than there was room for. ``tally`` is zero for every constant and ``list_tally`` for every list,
    on entry and when done.
    """
    store, batch, space = open_store(store_handle), open_batch(batch_handle), open_space(space_handle)
    touched, tally, events, at = space.touched, space.tally, space.events, space.at
    for event in range(size):
        events[event] = event
    touched[0, 0], touched[0, 1], tally[0] = 0, ALWAYS, size
    count = visit_lists(touched, tally, events, 1, store, batch, exact, space, 0)
    for attribute in range(batch.rows.shape[0]):
        row = batch.rows[attribute, CODE]
        if row == 0:
            continue
        present = 0
        for event in range(size):
            if batch.codes[row, event] != -1:
                events[present] = event
                present += 1
        store.attributes[attribute, PRESENT] += present
        if store.attributes[attribute, PRESENCE] and present:
            touched[0, 0], touched[0, 1], tally[0] = 0, store.attributes[attribute, PRESENCE], present
            count = visit_lists(touched, tally, events, 1, store, batch, exact, space, count)
        groups = group_by_constant(row, batch, size, store, space)
        count = visit_lists(touched, tally, events, groups, store, batch, exact, space, count)
        for folded in range(2):
            if batch.rows[attribute, TEXT + folded] == 0:
                continue
            at[0], at[1], at[2], at[3] = 0, 0, 1, 0
            while at[0] < size:
                many = collect_fragments(attribute, folded, store, batch, size, space)
                groups = group_by_list(space, many)
                count = visit_lists(
                    space.list_touched, space.list_tally, space.list_events, groups, store, batch, exact, space, count
                )
    return count


@jit
def distinct(events, entries, size, stamps, stamp):
    """Pairs (event, entry) without repetitions, by event.

    ``stamps`` tells for each entry the event that had it last, counted from ``stamp`` on; all are below that on entry.
    """
    ends = np.zeros(size + 1, np.int64)
    for i in range(events.shape[0]):
        ends[events[i]] += 1
    first = 0
    for event in range(size + 1):
        first, ends[event] = first + ends[event], first
    ordered = np.empty(events.shape[0], np.int32)
    for i in range(events.shape[0]):
        ordered[ends[events[i]]] = entries[i]
        ends[events[i]] += 1
    owners, kept = np.empty(events.shape[0], np.int32), 0
    first = 0
    for event in range(size):
        for i in range(first, ends[event]):
            entry = ordered[i]
            if stamps[entry] != stamp + event:
                stamps[entry] = stamp + event
                ordered[kept], owners[kept] = entry, event
                kept += 1
        first = ends[event]
    return owners[:kept], ordered[:kept]


@jit
def sort_by_event(events, entries, members, blocks, size):
    """Pairs (event, entry) to (offsets, slots): the slots of event i are ``slots[offsets[i]:offsets[i + 1]]``."""
    offsets = np.zeros(size + 1, np.int64)
    for i in range(events.shape[0]):
        offsets[events[i] + 1] += members[entries[i], 0]
    for i in range(size):
        offsets[i + 1] += offsets[i]
    slots = np.empty(offsets[size], np.int32)
    top = offsets[:size].copy()
    for i in range(events.shape[0]):
        event, entry = events[i], entries[i]
        many, at = members[entry, 0], members[entry, 1]
        if many == 1 and members[entry, 2] == 0:
            slots[top[event]] = at
        else:
            for k in range(many):
                slots[top[event] + k] = blocks[at + k]
        top[event] += many
    return offsets, slots
