"""Tests on text, in machine code, eight bytes at a time.

A string lies anywhere in ``data``, which goes on for PADDING bytes behind the last string. A pattern lies in the words
of a program, filled up with zeros. So eight bytes of either are one word, and one comparison tests them all; what is
behind an end is masked away.

Tests are bounded: where pattern and string are so long that a plain search could take long, the answer is UNSURE, and
the caller asks the evaluator, which takes linear time.
"""

from __future__ import annotations

import numpy as np

from recado.matching.kernels import instructions as _p
from recado.matching.kernels.jit import inlined, lean
from recado.matching.kernels.unaligned import word_at

FAILS, HOLDS, UNSURE = 0, 1, 2
SEARCH_BOUND, EVENT_BOUND = 1 << 18, 1 << 13
"""Bytes of the pattern times bytes of the string: in batches, and for single events, which somebody waits for."""

PREFIX, SUFFIX, LIKE = _p.PREFIX, _p.SUFFIX, _p.LIKE
STR_GE, STR_GT, STR_LE = _p.STR_GE, _p.STR_GT, _p.STR_LE
STAR, QUESTION = np.uint64(_p.STAR), np.uint64(_p.QUESTION)

ZERO, ONE, SEVEN, EIGHT, BYTE = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(8), np.uint64(0xFF)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LOWEST_BITS, HIGHEST_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)  # of each byte
TWOS = np.uint64(0x0202020202020202)


@inlined
def first_bytes(count):
    """A mask of the first ``count`` bytes of a word, one to eight."""
    return ALL >> np.uint64(64 - 8 * count)


@inlined
def bytes_below(bit):
    """How many whole bytes lie below a single bit."""
    return np.int64(((((bit - ONE) & HIGHEST_BITS) >> SEVEN) * LOWEST_BITS) >> np.uint64(56))


@inlined
def same_text(data, at, words, pattern, size):
    """Are the bytes from ``at`` on those of the pattern?"""
    whole, rest = size >> 3, size & 7
    for k in range(whole):
        if word_at(data, at + 8 * k) != np.uint64(words[pattern + k]):
            return False
    if rest == 0:
        return True
    return (word_at(data, at + 8 * whole) ^ np.uint64(words[pattern + whole])) & first_bytes(rest) == ZERO


@lean
def compare_text(data, at, length, words, pattern, size):
    """Negative, zero or positive: the order of two strings, which for UTF-8 is the order of their code points."""
    common = min(size, length)
    for k in range((common + 7) >> 3):
        left, right = word_at(data, at + 8 * k), np.uint64(words[pattern + k])
        other = (left ^ right) & first_bytes(min(8, common - 8 * k))
        if other != ZERO:
            shift = np.uint64(8 * bytes_below(other & (~other + ONE)))
            return np.int64((left >> shift) & BYTE) - np.int64((right >> shift) & BYTE)
    return length - size


@lean
def contains(data, at, length, words, pattern, size):
    """Does the string contain the pattern? Looks for its first eight bytes, then at the rest."""
    if size == 0:
        return True
    mask = first_bytes(min(8, size))
    beginning = np.uint64(words[pattern])
    for i in range(at, at + length - size + 1):
        if (word_at(data, i) ^ beginning) & mask == ZERO and same_text(data, i, words, pattern, size):
            return True
    return False


@inlined
def literal_run(words, pattern, at, size):
    """The literal bytes of a wildcard pattern from ``at`` on, up to eight: the word that holds them, and their number.

    Of a wildcard byte (0xFE, 0xFF) the lower seven bits are at least 0x7E: two more carry into the highest bit.
    """
    shift = np.uint64(8 * (at & 7))
    first = pattern + (at >> 3)
    word = np.uint64(words[first]) >> shift
    if shift != ZERO and first + 1 < pattern + ((size + 7) >> 3):
        word |= np.uint64(words[first + 1]) << (np.uint64(64) - shift)
    wild = ((word & ~HIGHEST_BITS) + TWOS) & word & HIGHEST_BITS
    count = min(8, size - at)
    if wild != ZERO:
        literal = bytes_below(wild & (~wild + ONE))
        count = min(count, literal)
    return word, count


@lean
def like(data, at, length, words, pattern, size):
    """Does the string match the encoded wildcard pattern? Returns to the last star when what follows it fails."""
    i, j, end = at, 0, at + length
    star, mark = -1, at  # where the pattern goes on behind the last star, and where in the string that was tried
    run, run_size, mask = ZERO, 0, ZERO  # the literal bytes behind the last star
    while True:
        fails = False
        if j == size:
            if i == end:
                return True
            fails = True
        else:
            word, count = literal_run(words, pattern, j, size)
            if count:
                if i + count <= end and (word_at(data, i) ^ word) & first_bytes(count) == ZERO:
                    i += count
                    j += count
                else:
                    fails = True
            elif word & BYTE == QUESTION:
                if i < end:
                    i = next_character(data, i, end)
                    j += 1
                else:
                    fails = True
            else:
                j += 1
                if j == size:
                    return True
                star, mark = j, i
                run, run_size = literal_run(words, pattern, j, size)
                mask = first_bytes(run_size) if run_size else ZERO
                i = find_run(data, mark, end, run, run_size, mask)
                if i < 0:
                    return False
                mark = i
        if fails:
            if star < 0 or mark >= end:
                return False
            mark = find_run(data, next_character(data, mark, end), end, run, run_size, mask)
            if mark < 0:
                return False
            i, j = mark, star


@inlined
def next_character(data, at, end):
    """The position behind one UTF-8 character."""
    at += 1
    while at < end and (data[at] & 0xC0) == 0x80:
        at += 1
    return at


@inlined
def find_run(data, at, end, run, size, mask):
    """Where a run of literal bytes, up to eight, occurs first from ``at`` on; -1 if nowhere."""
    while at + size <= end:
        if (word_at(data, at) ^ run) & mask == ZERO:
            return at
        at += 1
    return -1


@inlined
def text_test(op, start, length, data, words, pattern, size, bound):
    """A text operation on one string: ``pattern`` is where in the program the pattern's words begin."""
    if start < 0:
        return FAILS
    if op == PREFIX or op == SUFFIX:
        if size > length:
            return FAILS
        at = start if op == PREFIX else start + length - size
        return HOLDS if same_text(data, at, words, pattern, size) else FAILS
    if op < STR_GE:
        if size * length > bound and (op == LIKE or size <= length):
            return UNSURE
        if op == LIKE:
            return HOLDS if like(data, start, length, words, pattern, size) else FAILS
        return HOLDS if contains(data, start, length, words, pattern, size) else FAILS
    order = compare_text(data, start, length, words, pattern, size)
    if op == STR_GE:
        return HOLDS if order >= 0 else FAILS
    if op == STR_GT:
        return HOLDS if order > 0 else FAILS
    if op == STR_LE:
        return HOLDS if order <= 0 else FAILS
    return HOLDS if order < 0 else FAILS
