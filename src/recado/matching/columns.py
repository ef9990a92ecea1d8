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
from recado.matching.postings import LENGTH, START
from recado.matching.texts import FAILS, UNSURE
from recado.matching.verify import CODE, TEXT, narrow, verify_at

REPEATS, UNCERTAIN = 1 << 32, 1 << 33  # flags of a found entry


@lean
def scan_many(
    begin, end, words, floats, ints, postings, rows, codes, downs, ups, exact, starts, lengths, data, events,
    first, last, work, g_codes, g_downs, g_ups, stamps, stamp, mask, mask_words, masks, waiting, found_events, found,
    count,
):  # fmt: skip
    """Postings against a block of events, with the first tests side by side.

    Results that find no room are counted all the same, so that the caller knows how much room to give.
    """
    many = last - first
    room = found.shape[0]
    for at in range(begin, end):
        pc, entry = postings[at, 0], np.int64(postings[at, 1])
        word = words[pc] if pc >= 0 else np.int64(0)
        left = many
        if pc < 0:
            for i in range(many):
                work[i] = events[first + i]
        elif word & JUMPS and is_dense_tree(words, pc):
            dense_tree(
                words, floats, ints, pc, rows, codes, downs, ups, exact, events, first, many, g_codes, g_downs, g_ups,
                stamps, stamp, mask, masks, waiting,
            )  # fmt: skip
            for i in range(many):
                mask[i] = masks[0, i]
            for i in range(many, (many + 7) & ~7):
                mask[i] = 0
            left = passing(mask, mask_words, many, events, first, work)
        elif not word & JUMPS and is_dense_test(word):
            pc, left = dense_conjunction(
                words, floats, ints, pc, word, rows, codes, downs, ups, exact, events, first, many, g_codes, g_downs,
                g_ups, stamps, stamp, mask, mask_words, masks[0],
            )  # fmt: skip
            if left:
                left = passing(mask, mask_words, many, events, first, work)
                if pc >= 0:
                    left = narrow(words, floats, ints, pc, rows, codes, downs, ups, starts, lengths, data, work, left)
        elif word & JUMPS:
            left = 0
            unsure = False
            for i in range(first, last):
                result = verify_at(words, floats, ints, pc, rows, codes, downs, ups, starts, lengths, data, events[i])
                work[left] = events[i]
                left += result != FAILS
                unsure |= result == UNSURE
            left = -left if unsure else left
        else:
            for i in range(many):
                work[i] = events[first + i]
            left = narrow(words, floats, ints, pc, rows, codes, downs, ups, starts, lengths, data, work, many)
        if left == 0:
            continue
        if entry < 0:
            entry = ~entry | REPEATS
        if left < 0:
            left = -left
            entry |= UNCERTAIN
        for i in range(min(left, room - count)):
            found_events[count + i] = work[i]
            found[count + i] = entry
        count += left
    return count


@lean
def visit_lists(
    numbers, ends, groups, words, floats, ints, lists, postings, table, grids, bounds, rows, codes, downs,
    ups, exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups, stamps, mask,
    mask_words, masks, waiting, found_events, found, count, counts,
):  # fmt: skip
    """Each list with its group of events, verified.

    ``ends`` tells, by list or constant, where in ``events`` the group ends; it is cleared on the way. All groups are
    visited in one call and few events are verified here and not in a function, because a call costs as much as a
    short list does.
    """
    group_first = 0
    room = found.shape[0]
    for group in range(groups):
        key = numbers[group, 0]
        group_last = ends[key]
        ends[key] = 0
        parts = segments_of(
            numbers[group, 1], group_first, group_last, lists, table, grids, bounds, rows, downs, events, ranks,
            segments,
        )  # fmt: skip
        group_first = group_last
        for part in range(parts):
            number, first, last = segments[part, 0], segments[part, 1], segments[part, 2]
            begin, end = lists[number, START], lists[number, START] + lists[number, LENGTH]
            counts[0] += (end - begin) * (last - first)
            if last - first >= FEW:
                while first < last and begin < end:
                    counts[1] += 1
                    block = min(last, first + BLOCK)
                    count = scan_many(
                        begin, end, words, floats, ints, postings, rows, codes, downs, ups, exact, starts,
                        lengths, data, events, first, block, work, g_codes, g_downs, g_ups, stamps, counts[1], mask,
                        mask_words, masks, waiting, found_events, found, count,
                    )  # fmt: skip
                    first = block
                continue
            for at in range(begin, end):
                pc, entry = postings[at, 0], np.int64(postings[at, 1])
                if entry < 0:
                    entry = ~entry | REPEATS
                left = last - first
                if pc >= 0 and words[pc] & JUMPS:
                    left = 0
                    for i in range(first, last):
                        result = verify_at(
                            words, floats, ints, pc, rows, codes, downs, ups, starts, lengths, data, events[i]
                        )
                        work[left] = events[i]
                        left += result != FAILS
                        entry |= UNCERTAIN if result == UNSURE else 0
                else:
                    for i in range(left):
                        work[i] = events[first + i]
                    if pc >= 0:
                        left = narrow(
                            words, floats, ints, pc, rows, codes, downs, ups, starts, lengths, data, work, left
                        )
                        if left < 0:
                            left = -left
                            entry |= UNCERTAIN
                for i in range(min(left, room - count)):
                    found_events[count + i] = work[i]
                    found[count + i] = entry
                count += left
    return count


@lean_jit
def match_columns(
    words, floats, ints, lists, postings, table, grids, bounds, attributes, by_constant, hits, rows, codes, downs, ups,
    exact, starts, lengths, data, size, tally, events, work, ranks, segments, touched, g_codes, g_downs, g_ups, stamps,
    mask, mask_words, masks, waiting, pairs, at, list_marks, list_tally, list_touched, list_events, found_events, found,
    counts,
):  # fmt: skip
    """Match ``size`` events into pairs (event, entry with flags), in no order; returns how many there are.

    That may be more than there was room for. ``tally`` is zero for every constant and ``list_tally`` for every list,
    on entry and when done.
    """
    count = 0
    for event in range(size):
        events[event] = event
    touched[0, 0], touched[0, 1], tally[0] = 0, ALWAYS, size
    count = visit_lists(
        touched, tally, 1, words, floats, ints, lists, postings, table, grids, bounds, rows, codes, downs, ups,
        exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups, stamps, mask,
        mask_words, masks, waiting, found_events, found, count, counts,
    )  # fmt: skip
    for attribute in range(rows.shape[0]):
        row = rows[attribute, CODE]
        if row == 0:
            continue
        present = 0
        for event in range(size):
            if codes[row, event] != -1:
                events[present] = event
                present += 1
        attributes[attribute, PRESENT] += present
        if attributes[attribute, PRESENCE] and present:
            touched[0, 0], touched[0, 1], tally[0] = 0, attributes[attribute, PRESENCE], present
            count = visit_lists(
                touched, tally, 1, words, floats, ints, lists, postings, table, grids, bounds, rows, codes,
                downs, ups, exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups,
                stamps, mask, mask_words, masks, waiting, found_events, found, count, counts,
            )  # fmt: skip
        groups = group_by_constant(row, codes, size, by_constant, hits, tally, touched, events)
        count = visit_lists(
            touched, tally, groups, words, floats, ints, lists, postings, table, grids, bounds, rows, codes,
            downs, ups, exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups, stamps,
            mask, mask_words, masks, waiting, found_events, found, count, counts,
        )  # fmt: skip
        for folded in range(2):
            if rows[attribute, TEXT + folded] == 0:
                continue
            at[0], at[1], at[2], at[3] = 0, 0, 1, 0
            while at[0] < size:
                many = collect_fragments(
                    attribute, folded, rows, starts, lengths, data, table, attributes, size, at, list_marks, pairs
                )
                groups = group_by_list(pairs, many, list_tally, list_touched, list_events)
                count = visit_lists(
                    list_touched, list_tally, groups, words, floats, ints, lists, postings, table, grids,
                    bounds, rows, codes, downs, ups, exact, starts, lengths, data, list_events, work, ranks, segments,
                    g_codes, g_downs, g_ups, stamps, mask, mask_words, masks, waiting, found_events, found, count,
                    counts,
                )  # fmt: skip
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
