"""Verification of one program against one event, in machine code.

The event lies in dense arrays by attribute, the fields of ``blank``: ``codes`` (see ``dictionary``), ``numbers``
(down and up of a number, down and up of an instant; NaN where there is none) and ``texts`` (start and length in
``data`` of the string and of its casefolded form; start -1 where there is none).
``recado.matching.kernels.instructions`` explains the words.
"""

from __future__ import annotations

from recado.matching.kernels import instructions as _p
from recado.matching.kernels.jit import inlined, lean, source_of
from recado.matching.kernels.texts import EVENT_BOUND, FAILS, HOLDS, UNSURE, text_test

EQ, NE, IN, EXISTS, NUM, TIME = _p.EQ, _p.NE, _p.IN, _p.EXISTS, _p.NUM, _p.TIME
PREFIX, SUFFIX, LIKE, FOLDED, STR_GE, STR_LT = _p.PREFIX, _p.SUFFIX, _p.LIKE, _p.FOLDED, _p.STR_GE, _p.STR_LT
OPAQUE, NEVER = _p.OPAQUE, _p.NEVER
NEGATED, LAST, JUMPS, ACCESS = _p.NEGATED, _p.LAST, _p.JUMPS, _p.ACCESS
LOW_STRICT, HIGH_STRICT = _p.LOW_STRICT, _p.HIGH_STRICT
ATTRIBUTE_SHIFT, ATTRIBUTE_MASK = _p.ATTRIBUTE_SHIFT, _p.ATTRIBUTE_MASK
QUESTION = _p.QUESTION


instruction_words = inlined(_p.instruction_words)


@inlined
def in_set(codes, at, count, code):
    """Is ``code`` among the sorted int32 codes that begin at int32 position ``at``?"""
    if count <= 8:
        for i in range(at, at + count):
            if codes[i] == code:
                return True
        return False
    low, high = at, at + count
    while low < high:
        middle = (low + high) >> 1
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low < at + count and codes[low] == code


@inlined
def code_test(op, code, argument):
    """An operation that needs nothing but the code of the value."""
    if op == EQ:
        return code == argument
    if op == NE:
        return code >= 0 and (code & 3) == (argument & 3) and code != argument
    if op == EXISTS:
        return code != -1
    return False


@inlined
def range_test(word, low, high, down, up):
    """``low <= value <= high``, exact also for integers between two floats (``down`` < value < ``up``)."""
    left = up if word & LOW_STRICT else down
    right = down if word & HIGH_STRICT else up
    return low <= left and right <= high


@inlined
def test(store, pc, word, blank, data):
    """The truth of one instruction, before its negation: FAILS, HOLDS or UNSURE."""
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    if op == EQ:
        return HOLDS if blank.codes[attribute] == argument else FAILS
    payload = pc + 1 + ((word >> 8) & 1)
    if op == NUM:
        down, up = blank.numbers[attribute, 0], blank.numbers[attribute, 1]
        return HOLDS if range_test(word, store.floats[payload], store.floats[payload + 1], down, up) else FAILS
    if op == IN:
        return HOLDS if in_set(store.ints, payload * 2, argument, blank.codes[attribute]) else FAILS
    if op == TIME:
        down, up = blank.numbers[attribute, 2], blank.numbers[attribute, 3]
        return HOLDS if range_test(word, store.floats[payload], store.floats[payload + 1], down, up) else FAILS
    if op >= PREFIX and op <= STR_LT:
        folded = op >= PREFIX + FOLDED and op < STR_GE
        column = 2 if folded else 0
        start, length = blank.texts[attribute, column], blank.texts[attribute, column + 1]
        return text_test(
            op - FOLDED if folded else op, start, length, data, store.words, payload, argument, EVENT_BOUND
        )
    if op == OPAQUE:
        if argument and blank.codes[attribute] == -1:
            return FAILS
        return UNSURE
    return HOLDS if code_test(op, blank.codes[attribute], argument) else FAILS


@inlined
def fails_at_once(words, pc, codes):
    """Does a program begin with an equality that does not hold, as most do that are verified in vain?"""
    if pc < 0:
        return False
    word = words[pc]
    if word & (63 | NEGATED | JUMPS) != EQ:
        return False
    return codes[(word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK] != (word >> 32) & 0xFFFFFFFF


@inlined
def verify(store, pc, blank, data):
    """Run a program from ``pc``: FAILS, HOLDS, or UNSURE where only the evaluator can tell."""
    if pc < 0:
        return HOLDS
    while True:
        word = store.words[pc]
        result = test(store, pc, word, blank, data)
        if result == UNSURE:
            return UNSURE
        holds = result ^ ((word >> 6) & 1)
        if word & JUMPS:
            jumps = store.words[pc + 1]
            jump = jumps & 0xFFFFFFFF if holds else (jumps >> 32) & 0xFFFFFFFF
            if jump == 0:
                return HOLDS
            if jump == 0xFFFFFFFF:
                return FAILS
            pc += jump
        else:
            if not holds:
                return FAILS
            if word & LAST:
                return HOLDS
            pc += instruction_words(word)


verify_called = lean(source_of(verify))  # as a call, for callers that need it rarely
