"""Eight bytes at any position of a byte array, as one load or store.

Nothing checks the position: a caller must know that all eight bytes are inside the array, which is why arrays of text
go on for PADDING bytes behind what they hold. The first byte is the lowest of the word, on every machine that the
index runs on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from recado.matching.kernels.arrays import data_of
from recado.matching.kernels.jit import PLAIN

PADDING = 8


@intrinsic
def word_at(_context: Any, data: Any, position: Any) -> Any:
    """The word that begins at ``data[position]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature, arguments), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def put_word(_context: Any, data: Any, position: Any, word: Any) -> Any:
    """Write a word from ``data[position]`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _plain_word_at(data: Any, position: int) -> Any:
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


def _plain_put_word(data: Any, position: int, word: Any) -> None:
    data[position : position + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


if PLAIN:
    word_at, put_word = _plain_word_at, _plain_put_word


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = data_of(context, builder, signature.args[0], arguments[0])
    return builder.bitcast(builder.gep(data, [arguments[1]], inbounds=True), ir.IntType(64).as_pointer())
