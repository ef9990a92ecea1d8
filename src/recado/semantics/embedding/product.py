"""The product of a few rows with a matrix of weights, in compiled code of our own.

Each sum is added up in the order of the weights' rows, without fused operations: a row's result is the same bit for bit
whatever other rows are multiplied with it, on every processor. NumPy's product promises neither, and its threads wait
for one another busily, which takes ten times as long on a machine that has other work. Four rows share one pass over
the weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from recado.matching.jit import jit

Floats = npt.NDArray[np.float32]
AT_A_TIME = 8
"""Rows, since other threads wait as long as compiled code runs."""


def product(x: Floats, weights: Floats, bias: Floats) -> Floats:
    """``x`` times the weights plus the bias; the last dimension of ``x`` is multiplied."""
    rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
    result = np.zeros((len(rows), weights.shape[1]), np.float32)
    for start in range(0, len(rows), AT_A_TIME):
        end = start + AT_A_TIME
        _add_products(rows[start:end], weights, result[start:end])
    return (result + bias).reshape(*x.shape[:-1], -1)


@jit
def _add_products(rows: Floats, weights: Floats, result: Floats) -> None:
    full = len(rows) - len(rows) % 4
    for row in range(0, full, 4):
        r0, r1, r2, r3 = result[row], result[row + 1], result[row + 2], result[row + 3]
        for k in range(weights.shape[0]):
            a, b, c, d = rows[row, k], rows[row + 1, k], rows[row + 2, k], rows[row + 3, k]
            line = weights[k]
            for n in range(weights.shape[1]):
                r0[n] += a * line[n]
                r1[n] += b * line[n]
                r2[n] += c * line[n]
                r3[n] += d * line[n]
    for row in range(full, len(rows)):
        r0 = result[row]
        for k in range(weights.shape[0]):
            a, line = rows[row, k], weights[k]
            for n in range(weights.shape[1]):
                r0[n] += a * line[n]
