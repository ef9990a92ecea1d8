"""Verification of one program against one event, in machine code.

The event lies in dense arrays by attribute: ``codes`` (see ``dictionary``), ``numbers`` (down and up of a number, down
and up of an instant; NaN where there is none) and ``texts`` (start and length in ``data`` of the string and of its
casefolded form; start -1 where there is none). ``recado.matching.program`` explains the words.

Text tests are bounded: where pattern and string are so long that a plain search could take long, the answer is
UNSURE, and the caller asks the evaluator, which takes linear time.
"""

from __future__ import annotations

import numpy as np

from recado.matching import instructions as _p
from recado.matching.jit import inlined, lean

FAILS, HOLDS, UNSURE = 0, 1, 2
SEARCH_BOUND = 1 << 18

EQ, NE, IN, EXISTS, NUM, TIME = _p.EQ, _p.NE, _p.IN, _p.EXISTS, _p.NUM, _p.TIME
PREFIX, SUFFIX, CONTAINS, LIKE, FOLDED = _p.PREFIX, _p.SUFFIX, _p.CONTAINS, _p.LIKE, _p.FOLDED
STR_GE, STR_GT, STR_LE, STR_LT, OPAQUE, NEVER = _p.STR_GE, _p.STR_GT, _p.STR_LE, _p.STR_LT, _p.OPAQUE, _p.NEVER
NEGATED, LAST, JUMPS, ACCESS = _p.NEGATED, _p.LAST, _p.JUMPS, _p.ACCESS
LOW_STRICT, HIGH_STRICT = _p.LOW_STRICT, _p.HIGH_STRICT
ATTRIBUTE_SHIFT, ATTRIBUTE_MASK = _p.ATTRIBUTE_SHIFT, _p.ATTRIBUTE_MASK
STAR, QUESTION = _p.STAR, _p.QUESTION


@inlined
def payload_words(op, argument):
    """How many words follow the head (and the jumps) of an instruction."""
    if op == NUM or op == TIME or op == OPAQUE:
        return 2
    if op == IN:
        return (argument + 1) >> 1
    if PREFIX <= op <= STR_LT:
        return (argument + 7) >> 3
    return 0


@inlined
def instruction_words(word):
    op = word & 63
    argument = (word >> 32) & 0xFFFFFFFF
    return 1 + payload_words(op, argument) + ((word >> 8) & 1)


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


@lean
def same_bytes(a, at, b, bt, length):
    for i in range(length):
        if a[at + i] != b[bt + i]:
            return False
    return True


@lean
def compare_bytes(a, at, a_length, b, bt, b_length):
    """Negative, zero or positive: the order of two strings, which for UTF-8 is the order of their code points."""
    for i in range(min(a_length, b_length)):
        if a[at + i] != b[bt + i]:
            return np.int64(a[at + i]) - np.int64(b[bt + i])
    return a_length - b_length


@lean
def find_bytes(a, at, a_length, b, bt, b_length):
    """Does the first string contain the second?"""
    if b_length == 0:
        return True
    first = b[bt]
    for i in range(at, at + a_length - b_length + 1):
        if a[i] == first and same_bytes(a, i + 1, b, bt + 1, b_length - 1):
            return True
    return False


@lean
def like(a, at, a_length, b, bt, b_length):
    """Does the string match the encoded wildcard pattern? Returns to the last star when a literal fails."""
    i, j = at, bt
    end, pattern_end = at + a_length, bt + b_length
    star, mark = -1, at
    while i < end:
        if j < pattern_end and b[j] == STAR:
            star = j
            mark = i
            j += 1
        elif j < pattern_end and b[j] == QUESTION:
            j += 1
            i += 1
            while i < end and (a[i] & 0xC0) == 0x80:  # the rest of one UTF-8 character
                i += 1
        elif j < pattern_end and a[i] == b[j]:
            i += 1
            j += 1
        elif star >= 0:
            j = star + 1
            mark += 1
            while mark < end and (a[mark] & 0xC0) == 0x80:
                mark += 1
            i = mark
        else:
            return False
    while j < pattern_end and b[j] == STAR:
        j += 1
    return j == pattern_end


@lean
def text_test(op, start, length, data, program_bytes, at, argument):
    """A text operation on one string: ``at`` is the byte position of the pattern in the program."""
    if start < 0:
        return FAILS
    if op >= STR_GE:
        order = compare_bytes(data, start, length, program_bytes, at, argument)
        if op == STR_GE:
            return HOLDS if order >= 0 else FAILS
        if op == STR_GT:
            return HOLDS if order > 0 else FAILS
        if op == STR_LE:
            return HOLDS if order <= 0 else FAILS
        return HOLDS if order < 0 else FAILS
    if op == LIKE:
        if argument * length > SEARCH_BOUND:
            return UNSURE
        return HOLDS if like(data, start, length, program_bytes, at, argument) else FAILS
    if argument > length:
        return FAILS
    if op == PREFIX:
        return HOLDS if same_bytes(data, start, program_bytes, at, argument) else FAILS
    if op == SUFFIX:
        return HOLDS if same_bytes(data, start + length - argument, program_bytes, at, argument) else FAILS
    if argument * length > SEARCH_BOUND:
        return UNSURE
    return HOLDS if find_bytes(data, start, length, program_bytes, at, argument) else FAILS


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
def test(words, floats, ints, bytes_, pc, word, codes, numbers, texts, data):
    """The truth of one instruction, before its negation: FAILS, HOLDS or UNSURE."""
    op = word & 63
    attribute = (word >> ATTRIBUTE_SHIFT) & ATTRIBUTE_MASK
    argument = (word >> 32) & 0xFFFFFFFF
    if op == EQ:
        return HOLDS if codes[attribute] == argument else FAILS
    payload = pc + 1 + ((word >> 8) & 1)
    if op == NUM:
        down, up = numbers[attribute, 0], numbers[attribute, 1]
        return HOLDS if range_test(word, floats[payload], floats[payload + 1], down, up) else FAILS
    if op == IN:
        return HOLDS if in_set(ints, payload * 2, argument, codes[attribute]) else FAILS
    if op == TIME:
        down, up = numbers[attribute, 2], numbers[attribute, 3]
        return HOLDS if range_test(word, floats[payload], floats[payload + 1], down, up) else FAILS
    if op >= PREFIX and op <= STR_LT:
        if op >= PREFIX + FOLDED and op < STR_GE:
            return text_test(op - FOLDED, texts[attribute, 2], texts[attribute, 3], data, bytes_, payload * 8, argument)
        return text_test(op, texts[attribute, 0], texts[attribute, 1], data, bytes_, payload * 8, argument)
    if op == OPAQUE:
        if argument and codes[attribute] == -1:
            return FAILS
        return UNSURE
    return HOLDS if code_test(op, codes[attribute], argument) else FAILS


@inlined
def verify(words, floats, ints, bytes_, pc, codes, numbers, texts, data):
    """Run a program from ``pc``: FAILS, HOLDS, or UNSURE where only the evaluator can tell."""
    if pc < 0:
        return HOLDS
    while True:
        word = words[pc]
        result = test(words, floats, ints, bytes_, pc, word, codes, numbers, texts, data)
        if result == UNSURE:
            return UNSURE
        holds = result ^ ((word >> 6) & 1)
        if word & JUMPS:
            jumps = words[pc + 1]
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
