"""Many events at once, in machine code.

Events lie in columns. For each list the events that lead to it are gathered first; then every program that hangs there
is read once and verified against all of them, test by test, each test narrowing the events that are left. So a program
costs one look at memory per batch instead of one per event, and the inner loops run over columns without branches.

``recado.matching.verify`` explains the columns, ``recado.matching.groups`` how events find their lists. Results are
pairs (event, entry with flags).
"""

from __future__ import annotations

import numpy as np

from recado.matching.access import ALWAYS, PRESENCE, PRESENT
from recado.matching.dense import BLOCK, FEW, dense_conjunction, dense_tree, is_dense_test, is_dense_tree, passing
from recado.matching.groups import collect_fragments, group_by_constant, group_by_list, segments_of
from recado.matching.instructions import JUMPS
from recado.matching.jit import jit, lean, lean_jit
from recado.matching.layout import open_batch, open_space, open_store
from recado.matching.matrix import (
    FAILED,
    FOR_BATCHES,
    PLACES,
    TOGETHER,
    join_rows,
    pass_ranges_at,
    pick_rows,
    places_known,
)
from recado.matching.postings import LENGTH, MATRIX, START
from recado.matching.texts import FAILS, UNSURE
from recado.matching.verify import CODE, TEXT, narrow, narrow_called, verify_at, verify_at_called

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
