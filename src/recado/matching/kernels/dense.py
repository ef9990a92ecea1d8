"""Verification of one program against many events that lie close together, in machine code.

Where a list meets many events of a batch, their values are copied side by side first (once per list and column), and
every test runs over all of them as a loop without branches, which the compiler turns into vector instructions. A
conjunction does so until few events are left and goes on with those. A tree of and, or and not keeps a
mask of events for every instruction: all jumps go forward, so one pass over the program moves each event from
instruction to instruction until it is accepted or rejected.
"""

from __future__ import annotations

from recado.matching.kernels.jit import inlined, lean
from recado.matching.kernels.verify_columns import CODE, NUMBER
from recado.matching.kernels.verify_event import (
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    EXISTS,
    HIGH_STRICT,
    IN,
    LAST,
    LOW_STRICT,
    NE,
    NEGATED,
    NUM,
    TIME,
    instruction_words,
)

FEW = 12  # below so many events, side by side does not pay
BLOCK = 1024  # events that are verified together
MANY_LEFT = 24  # a test over the whole block costs as much as one over a 24th of it, one by one
TREE_WORDS = 128  # longer trees are verified event by event
SMALL_SET = 16


@inlined
def is_dense_test(word):
    """Can this test run over a block?"""
    op = word & 63
    return op <= TIME and (op != IN or ((word >> 32) & 0xFFFFFFFF) <= SMALL_SET)


@inlined
def is_dense_tree(store, pc):
    """Can every test of this tree run over a block, and is it short enough?"""
    at = pc
    while True:
        word = store.words[at]
        if not is_dense_test(word):
            return False
        at += instruction_words(word)
        if at - pc > TREE_WORDS:
            return False
        if word & LAST:
            return True


@inlined
def gather_codes(row, batch, events, first, size, space, stamp):
    """Copy a column of codes for these events, unless that was done for this list before."""
    if space.stamps[0, row] != stamp:
        space.stamps[0, row] = stamp
        for i in range(size):
            space.codes[row, i] = batch.codes[row, events[first + i]]


@inlined
def gather_numbers(row, batch, exact, events, first, size, space, stamp):
    if space.stamps[1, row] != stamp:
        space.stamps[1, row] = stamp
        for i in range(size):
            space.downs[row, i] = batch.downs[row, events[first + i]]
        if not exact:
            for i in range(size):
                space.ups[row, i] = batch.ups[row, events[first + i]]


@inlined
def dense_test(store, pc, word, batch, exact, events, first, size, space, stamp, mask):
    """Run one test over a block: ``mask`` becomes 1 where it holds (before negation)."""
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = pc + 1 + ((word >> 8) & 1)
    if op == NUM or op == TIME:
        row = batch.rows[attribute, NUMBER + op - NUM]
        gather_numbers(row, batch, exact, events, first, size, space, stamp)
        low, high = store.floats[payload], store.floats[payload + 1]
        if exact:
            for i in range(size):
                mask[i] = (low <= space.downs[row, i]) & (space.downs[row, i] <= high)
            return
        for i in range(size):
            left = space.ups[row, i] if word & LOW_STRICT else space.downs[row, i]
            right = space.downs[row, i] if word & HIGH_STRICT else space.ups[row, i]
            mask[i] = (low <= left) & (right <= high)
        return
    row = batch.rows[attribute, CODE]
    gather_codes(row, batch, events, first, size, space, stamp)
    if op == EQ:
        for i in range(size):
            mask[i] = space.codes[row, i] == argument
    elif op == IN:
        code = store.ints[payload * 2]
        for i in range(size):
            mask[i] = space.codes[row, i] == code
        for k in range(1, argument):
            code = store.ints[payload * 2 + k]
            for i in range(size):
                mask[i] |= space.codes[row, i] == code
    elif op == NE:
        kind = argument & 3
        for i in range(size):
            code = space.codes[row, i]
            mask[i] = (code >= 0) & ((code & 3) == kind) & (code != argument)
    elif op == EXISTS:
        for i in range(size):
            mask[i] = space.codes[row, i] != -1
    else:
        for i in range(size):
            mask[i] = 0


@inlined
def count_set(space, size):
    """How many of the mask's bytes are 1; eight are added in one multiplication. Clears what is behind the end."""
    for i in range(size, (size + 7) & ~7):
        space.mask[i] = 0
    total = 0
    for block in range((size + 7) >> 3):
        total += (space.mask_words[block] * 0x0101010101010101) >> 56
    return total


@lean
def dense_conjunction(store, pc, word, batch, exact, events, first, size, space, stamp):
    """Run the tests of a conjunction over a block for as long as many events are left.

    Returns where to go on with those that are (-1: all tests are done), and how many they are.
    """
    mask, other = space.mask, space.other
    for i in range(size):
        mask[i] = 1
    while True:
        dense_test(store, pc, word, batch, exact, events, first, size, space, stamp, other)
        if word & NEGATED:
            for i in range(size):
                other[i] ^= 1
        for i in range(size):
            mask[i] &= other[i]
        left = count_set(space, size)
        if word & LAST:
            return -1, left
        pc += instruction_words(word)
        word = store.words[pc]
        if left * MANY_LEFT < size or not is_dense_test(word):
            return pc, left


@inlined
def passing(space, size, events, first):
    """The events whose mask is set, into ``space.work``; returns how many. Behind the end the mask must be clear."""
    kept = 0
    for block in range((size + 7) >> 3):
        if space.mask_words[block]:
            for i in range(block * 8, block * 8 + 8):
                if space.mask[i]:
                    space.work[kept] = events[first + i]
                    kept += 1
    return kept


@lean
def dense_tree(store, pc, batch, exact, events, first, size, space, stamp):
    """Run a tree over a block; row 0 of ``space.masks`` tells which events are accepted."""
    mask, masks, waiting = space.mask, space.masks, space.waiting
    for i in range(size):
        masks[0, i] = 0
        masks[1, i] = 1
    for row in range(TREE_WORDS + 2):
        waiting[row] = 0
    waiting[1] = 1
    at = pc
    while True:
        word = store.words[at]
        row = at - pc + 1  # the events that wait at this instruction
        if waiting[row]:
            dense_test(store, at, word, batch, exact, events, first, size, space, stamp, mask)
            jumps = store.words[at + 1]
            on_true, on_false = jumps & 0xFFFFFFFF, (jumps >> 32) & 0xFFFFFFFF
            if word & NEGATED:
                on_true, on_false = on_false, on_true
            move(masks, waiting, row, on_true, mask, 0, size)
            move(masks, waiting, row, on_false, mask, 1, size)
        if word & LAST:
            return
        at += instruction_words(word)


@inlined
def move(masks, waiting, row, jump, mask, flip, size):
    """Send the events that wait at ``row``, and whose mask is 1 (0, with ``flip``), where the jump leads."""
    if jump == 0xFFFFFFFF:
        return
    target = 0 if jump == 0 else row + jump
    if target and not waiting[target]:
        waiting[target] = 1
        for i in range(size):
            masks[target, i] = masks[row, i] & (mask[i] ^ flip)
        return
    for i in range(size):
        masks[target, i] |= masks[row, i] & (mask[i] ^ flip)
