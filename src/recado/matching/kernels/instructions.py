"""Filters compiled into flat programs that the kernel verifies.

A program is a run of 64-bit words. Each instruction tests one attribute and opens with a word of this layout:

    bits  0-5   operation            bits 10-11  bounds that are strict (NUM, TIME)
    bit   6     negated              bits 12-31  attribute
    bit   7     last                 bits 32-63  argument: a code, a count, a length
    bit   8     has jumps
    bit   9     is an access path

A conjunction has no jumps: an instruction that fails rejects, the last one accepts. In any other tree each
instruction is followed by a word with two forward jumps (taken when true, when false; in words from the
instruction), where 0 accepts and -1 rejects. Then comes the payload: two float64 bounds, packed int32 codes, or bytes.

Equality is tested on *codes*: the dictionary in ``recado.matching.dictionary`` gives every constant a number, so the
kernel never compares values. Order is tested on float64. An integer that float64 cannot hold is between two floats
that can (``down`` and ``up``); testing the right one of the two keeps every comparison exact (see ``bracket``).
A range whose bound float64 cannot hold, and all that the kernel does not know (regular expressions, similarity,
CESQL), compiles to OPAQUE: the kernel leaves it to the plain evaluator, after everything else has passed.
"""

from __future__ import annotations

import math
import struct

from recado.filters.patterns import like_tokens

EQ, NE, IN, EXISTS, NUM, TIME = 0, 1, 2, 3, 4, 5
PREFIX, SUFFIX, CONTAINS, LIKE = 6, 7, 8, 9
FOLDED = 4  # added to a text operation that ignores case
STR_GE, STR_GT, STR_LE, STR_LT = 14, 15, 16, 17
OPAQUE, NEVER = 18, 19

NEGATED, LAST, JUMPS, ACCESS, LOW_STRICT, HIGH_STRICT = (1 << bit for bit in (6, 7, 8, 9, 10, 11))
ATTRIBUTE_SHIFT, ATTRIBUTE_MASK = 12, (1 << 20) - 1
STAR, QUESTION = 0xFF, 0xFE  # wildcards inside an encoded LIKE pattern; neither byte occurs in UTF-8

FLOATS = struct.Struct("<dd")
INTS = struct.Struct("<qq")
EXACT = 1 << 53


def instruction_words(word: int) -> int:
    """How many words an instruction has: its head, its jumps, its payload."""
    op = word & 63
    argument = (word >> 32) & 0xFFFFFFFF
    words = 1 + ((word >> 8) & 1)
    if op == NUM or op == TIME or op == OPAQUE:
        return words + 2
    if op == IN:
        return words + ((argument + 1) >> 1)
    if PREFIX <= op <= STR_LT:
        return words + ((argument + 7) >> 3)
    return words


class Instruction:
    """One test before it is laid out; ``cost`` orders the tests and the access paths of a tree."""

    __slots__ = ("access", "argument", "attribute", "cost", "flags", "op", "payload")

    def __init__(
        self,
        op: int,
        attribute: int = 0,
        argument: int = 0,
        payload: tuple[int, ...] = (),
        flags: int = 0,
        cost: float = 1.0,
    ) -> None:
        self.op, self.attribute, self.argument, self.payload, self.flags = op, attribute, argument, payload, flags
        self.cost = cost
        self.access = False

    def codes(self) -> tuple[int, ...]:
        """The constants that the test refers to."""
        if self.op in (EQ, NE):
            return (self.argument,)
        if self.op != IN:
            return ()
        packed = struct.pack(f"<{len(self.payload)}q", *self.payload)
        return struct.unpack(f"<{2 * len(self.payload)}i", packed)[: self.argument]

    def head(self, extra: int) -> int:
        word = self.op | self.flags | extra | self.attribute << ATTRIBUTE_SHIFT | self.argument << 32
        if self.access:
            word |= ACCESS
        return word - (1 << 64) if word >> 63 else word


def bracket(number: int | float) -> tuple[float, float]:
    """The nearest floats at or below and at or above a number of 64 bits; equal if a float holds it exactly."""
    nearest = float(number)
    if -EXACT < nearest < EXACT or nearest == number:
        return nearest, nearest
    if nearest > number:
        return math.nextafter(nearest, -math.inf), nearest
    return nearest, math.nextafter(nearest, math.inf)


def byte_words(data: bytes) -> tuple[int, ...]:
    padded = data + bytes(-len(data) % 8)
    return struct.unpack(f"<{len(padded) // 8}q", padded)


def like_bytes(pattern: str, fold: bool) -> bytes:
    """A wildcard pattern as bytes, with STAR and QUESTION for its wildcards."""
    out = bytearray()
    for token in like_tokens(pattern):
        if token is None:
            out.append(STAR)
        elif token == "":
            out.append(QUESTION)
        else:
            out += (token.casefold() if fold else token).encode()
    return bytes(out)


Order = tuple[float, int, int, int, tuple[int, ...]]


def order(leaf: Instruction) -> Order:
    return leaf.cost, leaf.attribute, leaf.op | leaf.flags, leaf.argument, leaf.payload
