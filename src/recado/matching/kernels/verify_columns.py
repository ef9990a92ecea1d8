"""Verification of programs on events that lie in columns, one event or a few at a time, in machine code.

``rows`` of a batch maps an attribute to its rows in the column matrices: code, number, instant, text, casefolded text;
row 0 of every matrix is blank.
"""

from __future__ import annotations

from recado.matching.kernels.instructions import (
    ATTRIBUTE_MASK,
    ATTRIBUTE_SHIFT,
    EQ,
    EXISTS,
    FOLDED,
    IN,
    LAST,
    NE,
    NUM,
    OPAQUE,
    PREFIX,
    STR_GE,
    STR_LT,
    TIME,
)
from recado.matching.kernels.jit import inlined, lean, source_of
from recado.matching.kernels.texts import FAILS, HOLDS, SEARCH_BOUND, UNSURE, text_test
from recado.matching.kernels.verify_event import code_test, in_set, instruction_words, range_test

CODE, NUMBER, INSTANT, TEXT, FOLDED_TEXT = 0, 1, 2, 3, 4
ROW_COLUMNS = 5


@inlined
def test_at(store, pc, word, batch, event):
    """The truth of one instruction on one event of the batch, before its negation."""
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    payload = pc + 1 + ((word >> 8) & 1)
    if op == NUM or op == TIME:
        row = batch.rows[attribute, NUMBER + op - NUM]
        down, up = batch.downs[row, event], batch.ups[row, event]
        return HOLDS if range_test(word, store.floats[payload], store.floats[payload + 1], down, up) else FAILS
    if op >= PREFIX and op <= STR_LT:
        folded = op >= PREFIX + FOLDED and op < STR_GE
        row = batch.rows[attribute, FOLDED_TEXT if folded else TEXT]
        plain = op - FOLDED if folded else op
        start, length = batch.starts[row, event], batch.lengths[row, event]
        return text_test(plain, start, length, batch.data, store.words, payload, argument, SEARCH_BOUND)
    code = batch.codes[batch.rows[attribute, CODE], event]
    if op == IN:
        return HOLDS if in_set(store.ints, payload * 2, argument, code) else FAILS
    if op == OPAQUE:
        return FAILS if argument and code == -1 else UNSURE
    return HOLDS if code_test(op, code, argument) else FAILS


@inlined
def verify_at(store, pc, batch, event):
    """Run a program with jumps on one event: FAILS, HOLDS or UNSURE."""
    while True:
        word = store.words[pc]
        result = test_at(store, pc, word, batch, event)
        if result == UNSURE:
            return UNSURE
        jumps = store.words[pc + 1]
        jump = jumps & 0xFFFFFFFF if result ^ ((word >> 6) & 1) else (jumps >> 32) & 0xFFFFFFFF
        if jump == 0:
            return HOLDS
        if jump == 0xFFFFFFFF:
            return FAILS
        pc += jump


@inlined
def narrow(store, pc, batch, work, size):
    """Keep of the first ``size`` events in ``work`` those that pass a conjunction.

    Returns how many are left; negative if the evaluator must look at them too.
    """
    unsure = False
    while size:
        word = store.words[pc]
        op = word & 63
        attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
        argument = (word >> 32) & 0xFFFFFFFF
        negated = (word >> 6) & 1
        kept = 0
        if op == NUM or op == TIME:
            row = batch.rows[attribute, NUMBER + op - NUM]
            low, high = store.floats[pc + 1], store.floats[pc + 2]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += range_test(word, low, high, batch.downs[row, event], batch.ups[row, event]) ^ negated
        elif op == EQ:
            row = batch.rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += (batch.codes[row, event] == argument) ^ negated
        elif op == IN:
            row = batch.rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += in_set(store.ints, (pc + 1) * 2, argument, batch.codes[row, event]) ^ negated
        elif op == NE or op == EXISTS:
            row = batch.rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                work[kept] = event
                kept += code_test(op, batch.codes[row, event], argument) ^ negated
        elif op >= PREFIX and op <= STR_LT:
            folded = op >= PREFIX + FOLDED and op < STR_GE
            row = batch.rows[attribute, FOLDED_TEXT if folded else TEXT]
            plain = op - FOLDED if folded else op
            for i in range(size):
                event = work[i]
                start, length = batch.starts[row, event], batch.lengths[row, event]
                result = text_test(plain, start, length, batch.data, store.words, pc + 1, argument, SEARCH_BOUND)
                unsure |= result == UNSURE
                work[kept] = event
                kept += result == UNSURE or (result ^ negated) == HOLDS
        else:  # OPAQUE, or NEVER
            row = batch.rows[attribute, CODE]
            for i in range(size):
                event = work[i]
                doubtful = op == OPAQUE and (argument == 0 or batch.codes[row, event] != -1)
                unsure |= doubtful
                work[kept] = event
                kept += doubtful or negated
        size = kept
        if word & LAST:
            break
        pc += instruction_words(word)
    return -size if unsure else size


# As calls: ``inlined`` pays where lists are short and few events are left, and takes longer to compile.
narrow_called, verify_at_called = lean(source_of(narrow)), lean(source_of(verify_at))
