"""The forward pass of a BERT encoder, and one vector for a text: the mean over its pieces, of length 1.

Texts with equally many pieces go through together, layer by layer. Nothing in it depends on how many they are: a text's
vector is bit for bit the same whoever else is in the call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from recado.errors import RecadoError
from recado.matching.kernels.jit import jit

# --- The product of a few rows with a matrix of weights, in compiled code of our own ---------------------------------
#
# Each sum is added up in the order of the weights' rows, without fused operations: a row's result is the same bit for
# bit whatever other rows are multiplied with it, on every processor. NumPy's product promises neither, and its threads
# wait for one another busily, which takes ten times as long on a machine that has other work. Four rows share one pass
# over the weights.


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


# --- The forward pass of a BERT encoder, and one vector for a text: the mean over its pieces, of length 1 ------------

HEADS = 12
_EPSILON = 1e-12


class Encoder:
    def __init__(self, tensors: dict[str, Floats], heads: int = HEADS) -> None:
        self._heads = heads
        try:
            self._words = tensors["embeddings.word_embeddings.weight"]
            self._places = tensors["embeddings.position_embeddings.weight"]
            self._sentence = tensors["embeddings.token_type_embeddings.weight"][0]
            self._first = _Norm(tensors, "embeddings.LayerNorm")
            count = sum(name.endswith("attention.self.query.weight") for name in tensors)
            self._layers = [_Layer(tensors, f"encoder.layer.{number}", heads) for number in range(count)]
        except KeyError as error:
            raise RecadoError(f"the model lacks the tensor {error}") from None

    def encode(self, texts: list[list[int]]) -> Floats:
        """One row of length 1 for each list of pieces."""
        by_length: dict[int, list[int]] = {}
        for number, pieces in enumerate(texts):
            by_length.setdefault(len(pieces), []).append(number)
        result = np.zeros((len(texts), self._words.shape[1]), np.float32)
        for numbers in by_length.values():
            result[numbers] = self._same_length(np.array([texts[number] for number in numbers]))
        return result

    def _same_length(self, pieces: npt.NDArray[np.int64]) -> Floats:
        hidden = self._first(self._words[pieces] + self._sentence + self._places[: pieces.shape[1]])
        for layer in self._layers:
            hidden = layer(hidden)
        vectors: Floats = hidden.mean(axis=1)
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        return np.asarray(vectors / np.maximum(lengths, np.float32(_EPSILON)))


class _Norm:
    """Layer normalisation."""

    def __init__(self, tensors: Mapping[str, Floats], name: str) -> None:
        self._scale, self._shift = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    def __call__(self, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
        return np.asarray(centred / spread * self._scale + self._shift)


class _Dense:
    """An affine map; the weights are kept as the product wants them."""

    def __init__(self, tensors: Mapping[str, Floats], name: str) -> None:
        self._weight = np.ascontiguousarray(tensors[f"{name}.weight"].T)
        self._bias = tensors[f"{name}.bias"]

    def __call__(self, x: Floats) -> Floats:
        return product(x, self._weight, self._bias)


class _Layer:
    def __init__(self, tensors: Mapping[str, Floats], name: str, heads: int) -> None:
        self._heads = heads
        self._query = _Dense(tensors, f"{name}.attention.self.query")
        self._key = _Dense(tensors, f"{name}.attention.self.key")
        self._value = _Dense(tensors, f"{name}.attention.self.value")
        self._attended = _Dense(tensors, f"{name}.attention.output.dense")
        self._middle = _Norm(tensors, f"{name}.attention.output.LayerNorm")
        self._wide = _Dense(tensors, f"{name}.intermediate.dense")
        self._narrow = _Dense(tensors, f"{name}.output.dense")
        self._last = _Norm(tensors, f"{name}.output.LayerNorm")

    def __call__(self, x: Floats) -> Floats:
        x = self._middle(x + self._attended(self._attention(x)))
        return self._last(x + self._narrow(_gelu(self._wide(x))))

    def _attention(self, x: Floats) -> Floats:
        queries, keys, values = (self._split(dense(x)) for dense in (self._query, self._key, self._value))
        scores = np.matmul(queries, keys.swapaxes(-1, -2)) / np.float32(math.sqrt(queries.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.matmul(scores / scores.sum(axis=-1, keepdims=True), values)
        return np.asarray(mixed.swapaxes(1, 2).reshape(x.shape))

    def _split(self, x: Floats) -> Floats:
        texts, pieces, width = x.shape
        return x.reshape(texts, pieces, self._heads, width // self._heads).swapaxes(1, 2)


def _gelu(x: Floats) -> Floats:
    try:
        from scipy.special import erf  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        raise RecadoError("the embedding needs the package scipy: pip install 'recado[semantics]'") from None
    return np.asarray(x * np.float32(0.5) * (1 + erf(x / np.float32(math.sqrt(2)))))
