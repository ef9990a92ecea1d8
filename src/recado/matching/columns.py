"""Many events at once, in machine code.

Events lie in columns. For each list the events that lead to it are gathered first; then every program that hangs there
is read once and verified against all of them, test by test, each test narrowing the events that are left. So a program
costs one look at memory per batch instead of one per event, and the inner loops run over columns without branches.

``rows`` maps an attribute to its rows in the column matrices: code, number, instant, text, casefolded text; row 0 of
every matrix is blank. Results are pairs (event, entry with flags).
"""

from __future__ import annotations

import numpy as np

from recado.matching.access import ALWAYS, ENDING, LENGTHS, MIDDLE, PRESENCE, PRESENT
from recado.matching.dense import BLOCK, FEW, dense_conjunction, dense_tree, is_dense_test, is_dense_tree, passing
from recado.matching.jit import inlined, jit, lean
from recado.matching.kernel import (
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    EXISTS,
    FAILS,
    FOLDED,
    HOLDS,
    IN,
    JUMPS,
    LAST,
    NE,
    NUM,
    OPAQUE,
    PREFIX,
    STR_GE,
    STR_LT,
    TIME,
    UNSURE,
    code_test,
    in_set,
    instruction_words,
    range_test,
    text_test,
)
from recado.matching.postings import GRID, LENGTH, LEVELS, START, cell_key, fragment_key, rank_of, table_find

CODE, NUMBER, INSTANT, TEXT, FOLDED_TEXT = 0, 1, 2, 3, 4
ROW_COLUMNS = 5
REPEATS, UNCERTAIN = 1 << 32, 1 << 33  # flags of a found entry


@inlined
def test_at(words, floats, ints, bytes_, pc, word, rows, codes, downs, ups, starts, lengths, data, event):
    """The truth of one instruction on one event of the batch, before its negation."""
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = pc + 1 + ((word >> 8) & 1)
    if op == NUM or op == TIME:
        row = rows[attribute, NUMBER + op - NUM]
        down, up = downs[row, event], ups[row, event]
        return HOLDS if range_test(word, floats[payload], floats[payload + 1], down, up) else FAILS
    if op >= PREFIX and op <= STR_LT:
        folded = op >= PREFIX + FOLDED and op < STR_GE
        row = rows[attribute, FOLDED_TEXT if folded else TEXT]
        plain = op - FOLDED if folded else op
        return text_test(plain, starts[row, event], lengths[row, event], data, bytes_, payload * 8, argument)
    code = codes[rows[attribute, CODE], event]
    if op == IN:
        return HOLDS if in_set(ints, payload * 2, argument, code) else FAILS
    if op == OPAQUE:
        return FAILS if argument and code == -1 else UNSURE
    return HOLDS if code_test(op, code, argument) else FAILS


@inlined
def verify_at(words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, event):
    """Run a program with jumps on one event: FAILS, HOLDS or UNSURE."""
    while True:
        word = words[pc]
        result = test_at(words, floats, ints, bytes_, pc, word, rows, codes, downs, ups, starts, lengths, data, event)
        if result == UNSURE:
            return UNSURE
        jumps = words[pc + 1]
        jump = jumps & 0xFFFFFFFF if result ^ ((word >> 6) & 1) else (jumps >> 32) & 0xFFFFFFFF
        if jump == 0:
            return HOLDS
        if jump == 0xFFFFFFFF:
            return FAILS
        pc += jump


@inlined
def narrow(words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, work, size):
    """Keep of the first ``size`` events in ``work`` those that pass a conjunction.

    Returns how many are left; negative if the evaluator must look at them too.
    """
    unsure = False
    while size:
        word = words[pc]
        op = word & 63
        attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
        argument = (word >> 32) & 0xFFFFFFFF
        negated = (word >> 6) & 1
        kept = 0
        if op == NUM or op == TIME:
            row = rows[attribute, NUMBER + op - NUM]
            low, high = floats[pc + 1], floats[pc + 2]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += range_test(word, low, high, downs[row, event], ups[row, event]) ^ negated
        elif op == EQ:
            row = rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += (codes[row, event] == argument) ^ negated
        elif op == IN:
            row = rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += in_set(ints, (pc + 1) * 2, argument, codes[row, event]) ^ negated
        elif op == NE or op == EXISTS:
            row = rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += code_test(op, codes[row, event], argument) ^ negated
        else:
            for i in range(size):
                event = work[i]
                result = test_at(
                    words, floats, ints, bytes_, pc, word, rows, codes, downs, ups, starts, lengths, data, event
                )
                unsure |= result == UNSURE
                work[kept] = event
                kept += result == UNSURE or (result ^ negated) == HOLDS
        size = kept
        if word & LAST:
            break
        pc += instruction_words(word)
    return -size if unsure else size


@lean
def scan_many(
    begin, end, words, floats, ints, bytes_, postings, rows, codes, downs, ups, exact, starts, lengths, data, events,
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
                    left = narrow(
                        words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, work, left
                    )
        elif word & JUMPS:
            left = 0
            unsure = False
            for i in range(first, last):
                result = verify_at(
                    words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, events[i]
                )
                work[left] = events[i]
                left += result != FAILS
                unsure |= result == UNSURE
            left = -left if unsure else left
        else:
            for i in range(many):
                work[i] = events[first + i]
            left = narrow(words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, work, many)
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
def segments_of(number, first, last, lists, table, grids, bounds, rows, downs, events, ranks, segments):
    """A list with its events and, where it is split, the cells that their values lie in; returns how many segments."""
    segments[0, 0], segments[0, 1], segments[0, 2] = number, first, last
    grid = lists[number, GRID]
    if grid < 0:
        return 1
    count = 1
    row = rows[grid >> 1, NUMBER + (grid & 1)]
    kept = rank_events(events, first, last, downs, row, bounds, grids[grid, 0], grids[grid, 1], ranks)
    levels = lists[number, LEVELS]
    level = 0
    while levels >> level:
        i = first if (levels >> level) & 1 else kept
        while i < kept:
            cell = ranks[i - first] >> level
            j = i + 1
            while j < kept and ranks[j - first] >> level == cell:
                j += 1
            child = table_find(table, cell_key(number, level, cell))
            if child:
                segments[count, 0], segments[count, 1], segments[count, 2] = child, i, j
                count += 1
            i = j
        level += 1
    return count


@lean
def visit_lists(
    numbers, ends, groups, words, floats, ints, bytes_, lists, postings, table, grids, bounds, rows, codes, downs,
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
                        begin, end, words, floats, ints, bytes_, postings, rows, codes, downs, ups, exact, starts,
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
                            words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, events[i]
                        )
                        work[left] = events[i]
                        left += result != FAILS
                        entry |= UNCERTAIN if result == UNSURE else 0
                else:
                    for i in range(left):
                        work[i] = events[first + i]
                    if pc >= 0:
                        left = narrow(
                            words, floats, ints, bytes_, pc, rows, codes, downs, ups, starts, lengths, data, work, left
                        )
                        if left < 0:
                            left = -left
                            entry |= UNCERTAIN
                for i in range(min(left, room - count)):
                    found_events[count + i] = work[i]
                    found[count + i] = entry
                count += left
    return count


@lean
def rank_events(events, first, last, downs, row, bounds, start, size, ranks):
    """Order a group by rank; events without a value drop out. Returns where the group ends now."""
    kept = first
    for i in range(first, last):
        event = events[i]
        value = downs[row, event]
        if not np.isnan(value):
            events[kept] = event
            ranks[kept - first] = rank_of(bounds, start, size, value)
            kept += 1
    order_by_rank(events, first, kept - first, ranks)
    return kept


@lean
def collect_fragments(attribute, folded, rows, starts, lengths, data, table, attributes, size, at, pairs):
    """The lists that the fragments of strings lead to, as pairs (list, event), from position ``at`` on.

    ``at`` holds the event, part, length and place to go on with; it stops when ``pairs`` is full. Returns the count.
    """
    row = rows[attribute, TEXT + folded]
    count = 0
    event, part, length, place = at[0], at[1], at[2], at[3]
    while event < size:
        start, end = starts[row, event], starts[row, event] + lengths[row, event]
        while start >= 0 and part < 3:
            sizes = attributes[attribute, LENGTHS + folded * 3 + part]
            while sizes >> length and start + length <= end:
                if (sizes >> length) & 1:
                    first = start if part != ENDING else end - length
                    last = end - length if part == MIDDLE else first
                    while first + place <= last:
                        if count == pairs.shape[0]:
                            at[0], at[1], at[2], at[3] = event, part, length, place
                            return count
                        key = fragment_key(attribute, folded * 3 + part, data, first + place, length)
                        number = table_find(table, key)
                        if number:
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
    return count


@lean
def group_by_list(pairs, count, tally, touched, events):
    """Events of equal lists together, as ``group_by_constant`` does it for constants."""
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
def group_by_constant(row, codes, size, by_constant, hits, tally, touched, events):
    """Events of one column, those with equal constants together; returns how many groups there are.

    ``touched`` gets each group's constant and list, ``tally`` where the group ends; only constants with a list count.
    """
    groups = 0
    for event in range(size):
        code = codes[row, event]
        if code > 3:
            constant = code >> 2
            hits[constant] += 1
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
def match_columns(
    words, floats, ints, bytes_, lists, postings, table, grids, bounds, attributes, by_constant, hits, rows, codes,
    downs, ups, exact, starts, lengths, data, size, tally, events, work, ranks, segments, touched, g_codes, g_downs,
    g_ups, stamps, mask, mask_words, masks, waiting, pairs, at, list_tally, list_touched, list_events, found_events,
    found, counts,
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
        touched, tally, 1, words, floats, ints, bytes_, lists, postings, table, grids, bounds, rows, codes, downs, ups,
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
                touched, tally, 1, words, floats, ints, bytes_, lists, postings, table, grids, bounds, rows, codes,
                downs, ups, exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups,
                stamps, mask, mask_words, masks, waiting, found_events, found, count, counts,
            )  # fmt: skip
        groups = group_by_constant(row, codes, size, by_constant, hits, tally, touched, events)
        count = visit_lists(
            touched, tally, groups, words, floats, ints, bytes_, lists, postings, table, grids, bounds, rows, codes,
            downs, ups, exact, starts, lengths, data, events, work, ranks, segments, g_codes, g_downs, g_ups, stamps,
            mask, mask_words, masks, waiting, found_events, found, count, counts,
        )  # fmt: skip
        for folded in range(2):
            if rows[attribute, TEXT + folded] == 0:
                continue
            at[0], at[1], at[2], at[3] = 0, 0, 1, 0
            while at[0] < size:
                many = collect_fragments(
                    attribute, folded, rows, starts, lengths, data, table, attributes, size, at, pairs
                )
                groups = group_by_list(pairs, many, list_tally, list_touched, list_events)
                count = visit_lists(
                    list_touched, list_tally, groups, words, floats, ints, bytes_, lists, postings, table, grids,
                    bounds, rows, codes, downs, ups, exact, starts, lengths, data, list_events, work, ranks, segments,
                    g_codes, g_downs, g_ups, stamps, mask, mask_words, masks, waiting, found_events, found, count,
                    counts,
                )  # fmt: skip
    return count


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
            slots[top[event] : top[event] + many] = blocks[at : at + many]
        top[event] += many
    return offsets, slots
