"""One event at a time, in machine code: gather the lists that its values lead to and verify what hangs there."""

from __future__ import annotations

import numpy as np

from recado.matching.dictionary import ABSENT
from recado.matching.kernels.access import ALWAYS, ENDING, LENGTHS, MIDDLE, PRESENCE, PRESENT
from recado.matching.kernels.ids import write_ids
from recado.matching.kernels.instructions import JUMPS
from recado.matching.kernels.jit import lean, lean_jit
from recado.matching.kernels.layout import open_blank, open_event, open_registry, open_store
from recado.matching.kernels.matrix import FAILED, PLACES, pass_ranges, places_known, prune_event
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
from recado.matching.kernels.texts import FAILS, HOLDS
from recado.matching.kernels.verify_event import fails_at_once, verify, verify_called

FOUND, UNCERTAIN, CANDIDATES, STAMP = 0, 1, 2, 3
NO_IDS = 0


@lean
def scan(number, store, blank, data, stamp):
    """Verify the postings of one list: all, or those that its matrix leaves and those that it does not know."""
    lists, postings, counts = store.lists, store.postings, blank.counts
    start = lists[number, START]
    end = start + lists[number, LENGTH]
    if lists[number, MATRIX]:
        start += scan_matrix(number, store, blank, data, stamp)
    counts[CANDIDATES] += end - start
    for at in range(start, end):
        if fails_at_once(store.words, postings[at, 0], blank.codes):
            continue
        entry = postings[at, 1]
        if entry < 0:
            entry = ~entry
            if blank.stamps[entry] == stamp:
                continue
            blank.stamps[entry] = stamp
        result = verify(store, postings[at, 0], blank, data)
        if result == FAILS:
            continue
        if result == HOLDS:
            blank.found[counts[FOUND]] = entry
            counts[FOUND] += 1
        else:
            blank.uncertain[counts[UNCERTAIN]] = entry
            counts[UNCERTAIN] += 1


@lean
def scan_matrix(number, store, blank, data, stamp):
    """Verify the postings that a list's matrix leaves; returns how many it knows."""
    postings, counts = store.postings, blank.counts
    start, length, head = store.lists[number, START], store.lists[number, LENGTH], store.lists[number, MATRIX]
    left = prune_event(store, head, length, blank.numbers, blank.places)
    counts[CANDIDATES] += left
    for i in range(left):
        at = start + blank.places[PLACES + i]
        pc, entry = np.int64(postings[at, 0]), postings[at, 1]
        if pc >= 0 and not store.words[pc] & JUMPS:
            pc = pass_ranges(store, pc, blank.numbers)
            if pc == FAILED:
                continue
        if entry < 0:
            entry = ~entry
            if blank.stamps[entry] == stamp:
                continue
            blank.stamps[entry] = stamp
        result = verify_called(store, pc, blank, data) if pc >= 0 else HOLDS
        if result == HOLDS:
            blank.found[counts[FOUND]] = entry
            counts[FOUND] += 1
        elif result != FAILS:
            blank.uncertain[counts[UNCERTAIN]] = entry
            counts[UNCERTAIN] += 1
    return places_known(store, head, length)


@lean
def visit(number, store, blank, data, stamp):
    """Verify a list and, where it is split, the cells that the event's value lies in."""
    if number == 0:
        return
    scan(number, store, blank, data, stamp)
    grid = store.lists[number, GRID]
    if grid < 0:
        return
    value = blank.numbers[grid >> 1, (grid & 1) * 2]
    if np.isnan(value):
        return
    rank = rank_of(store.bounds, store.grids[grid, 0], store.grids[grid, 1], value)
    levels = store.lists[number, LEVELS]
    level = 0
    while levels >> level:
        if (levels >> level) & 1:
            child = table_find(store.table, cell_key(number, level, rank >> level))
            if child:
                scan(child, store, blank, data, stamp)
        level += 1


@lean
def visit_texts(attribute, folded, start, length, store, blank, data, stamp):
    """The lists that the fragments of a string lead to, each once."""
    for part in range(3):
        lengths = store.attributes[attribute, LENGTHS + folded + part]
        size = 1
        while lengths >> size and size <= length:
            if (lengths >> size) & 1:
                at = start if part != ENDING else start + length - size
                last = start + length - size if part == MIDDLE else at
                while at <= last:
                    number = table_find(store.table, fragment_key(attribute, folded + part, data, at, size))
                    if number and blank.marks[number] != stamp:
                        blank.marks[number] = stamp
                        scan(number, store, blank, data, stamp)
                    at += 1
            size += 1


@lean_jit
def match_event(store_handle, blank_handle, event_handle, size, room, text_count, registry_handle):
    """Match one event of ``size`` attributes, which lies in its arrays as ``recado.matching.rows`` says.

    ``codes``, ``numbers`` and ``texts`` are blank on entry and left blank; ``stamps`` of entries and ``marks`` of lists
    tell what this event, whose number is ``stamp``, has seen. Results are in ``found`` and ``uncertain``. Returns how
    many were found, how many are uncertain, and of the ids of those found what ``write_ids`` does; they are not written
    where some are uncertain, or the registry is NO_IDS. The candidates of all events add up.
    """
    store, blank, row = open_store(store_handle), open_blank(blank_handle), open_event(event_handle)
    event, event_texts, data = row.words, row.texts, row.data
    codes, numbers, texts, counts = blank.codes, blank.numbers, blank.texts, blank.counts
    counts[FOUND] = counts[UNCERTAIN] = 0
    counts[STAMP] += 1
    stamp = counts[STAMP]
    bounds = 2 * room
    for i in range(size):
        attribute, code = event[i], event[room + i]
        codes[attribute] = code
        if code >= 0 and ((code & 3) == 1 or (code & 3) == 3):
            column = (code & 3) - 1
            numbers[attribute, column] = row.floats[bounds]
            numbers[attribute, column + 1] = row.floats[bounds + 1]
            bounds += 2
    for i in range(text_count):
        for column in range(4):
            texts[event_texts[i, 0], column] = event_texts[i, column + 1]
    scan(ALWAYS, store, blank, data, stamp)
    for i in range(size):
        attribute, code = event[i], event[room + i]
        if code == ABSENT:
            continue
        store.attributes[attribute, PRESENT] += 1
        visit(store.attributes[attribute, PRESENCE], store, blank, data, stamp)
        if code > 3:
            store.hits[code >> 2] += 1
            visit(store.by_constant[code >> 2], store, blank, data, stamp)
    for i in range(text_count):
        for folded in range(2):
            start, length = event_texts[i, 1 + folded * 2], event_texts[i, 2 + folded * 2]
            if start >= 0:
                visit_texts(event_texts[i, 0], folded * 3, start, length, store, blank, data, stamp)
    for i in range(size):
        attribute = event[i]
        codes[attribute] = -1
        for column in range(4):
            numbers[attribute, column] = np.nan
            texts[attribute, column] = -1
    found, uncertain = counts[FOUND], counts[UNCERTAIN]
    if uncertain or registry_handle == NO_IDS:
        return found, uncertain, 0, -1
    count, written = write_ids(open_registry(registry_handle), blank.found, found)
    return found, uncertain, count, written
