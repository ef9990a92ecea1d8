"""What every workload is: a frozen description from which subscriptions and events are drawn.

A workload and its seed fix everything. Subscriptions come in chunks, each with a random stream of its own, so a
million of them never stand in memory at once, and the first ``n`` are the same whatever the size. Events are drawn as
one Arrow record batch; the single-event path gets the very same rows as ``Event`` values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription

CHUNK = 1_000
_SUBSCRIPTIONS, _EVENTS, _SHARED = range(3)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Subscriptions and events by name, size and seed."""

    name: ClassVar[str]
    size: int
    seed: int = 1

    @property
    def title(self) -> str:
        """The workload and its size, as reports call it."""
        return f"{self.name} {self.size:,}"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        """``count`` filters drawn from ``rng``."""
        raise NotImplementedError

    def events(self, count: int) -> pa.RecordBatch:
        """``count`` events, a column for each attribute; null stands for an absent one."""
        raise NotImplementedError

    def subscriptions(self, start: int = 0, count: int | None = None) -> Iterator[Subscription]:
        """Subscriptions number ``start`` and on; all that are left, or ``count`` of them (also past the size)."""
        stop = self.size if count is None else start + count
        number = start - start % CHUNK
        while number < stop:
            rng = np.random.default_rng([self.seed, _SUBSCRIPTIONS, number // CHUNK])
            for filter in islice(self.filters(rng, CHUNK), min(CHUNK, stop - number)):
                if number >= start:
                    yield Subscription(id=subscription_id(number), filter=filter)
                number += 1

    def event_rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, _EVENTS])

    def shared_rng(self) -> np.random.Generator:
        """The stream of what subscriptions and events have in common, such as a vocabulary."""
        return np.random.default_rng([self.seed, _SHARED])


def subscription_id(number: int) -> str:
    return f"s{number}"


def to_events(batch: pa.RecordBatch) -> list[Event]:
    """The rows of a batch as events; absent attributes are left out."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    return [
        Event(id=f"e{number}", attributes={name: value for name, value in row.items() if value is not None})
        for number, row in enumerate(rows)
    ]


def zipf_weights(count: int, exponent: float) -> Floats:
    """Probabilities of the ranks 1 to ``count``; exponent 0 is the uniform distribution."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def draw(rng: np.random.Generator, weights: Floats, count: int) -> Ints:
    """``count`` ranks (from 0) by weight; inversion, since ``Generator.choice`` rebuilds its table at every call."""
    ranks = np.searchsorted(np.cumsum(weights)[:-1], rng.random(count), side="right")
    return np.asarray(ranks, dtype=np.int64)


def pick_columns(rng: np.random.Generator, rows: int, columns: int, picks: int) -> Ints:
    """For each row, ``picks`` different column numbers in random order."""
    return np.asarray(rng.random((rows, columns)).argsort(axis=1)[:, :picks], dtype=np.int64)


def pick_sets(rng: np.random.Generator, shape: tuple[int, ...], values: int, size: int) -> Ints:
    """Sets of ``size`` different numbers below ``values``, ascending; ``shape`` of them."""
    drawn = np.sort(rng.integers(0, values - size + 1, (*shape, size)), axis=-1)
    return np.asarray(drawn + np.arange(size), dtype=np.int64)


def strings(values: Sequence[str], codes: Ints) -> pa.Array:
    """A string column from codes into a list of values."""
    return pa.array(values, pa.string()).take(pa.array(codes))
