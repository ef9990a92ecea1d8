"""Which partitions an event has to visit: an index over what each partition holds.

Every partition tells the keys that its subscriptions are found by; the router is an ordinary index in which each of
them is a subscription, named after its partition. So routing is exact for the keys, and since every key is a necessary
condition of the filters found by it, no partition that could match is left out.

A partition that has too many keys tells fewer, wider ones: neighbouring numbers and instants become ranges, strings
their common beginnings. Some events then make a visit for nothing, and the router stays small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recado.matching.batch import Pairs
from recado.matching.index import Index
from recado.model.filter import FALSE, And, Exists, Filter
from recado.model.subscription import Subscription
from recado.pipeline.partitioned.access import PREFIX_CHARS, Dimension, Key, key_filter

Array = NDArray[Any]
_NAMES_AT_ONCE = 128


class Router:
    """The index, and the partition of each of its slots."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._partition_of: Array = np.full(index.registry.slots_top, -1, np.int32)
        for slot in range(index.registry.slots_top):
            partition = index.id_of(slot).partition("/")[0]
            self._partition_of[slot] = int(partition) if partition else -1

    def visits(self, pairs: Pairs) -> tuple[Array, Array]:
        """Rows of a batch and the partitions they have to visit, by row, each pair once."""
        found = self._partition_of[pairs.slots].astype(np.int64)
        distinct = np.unique(pairs.events.astype(np.int64) << 32 | found)
        return distinct >> 32, distinct & 0xFFFFFFFF


def make_router(told: Mapping[int, Iterable[Filter]], names: Iterable[str]) -> Index:
    """The index that routes by what the partitions tell.

    ``names`` are all attributes that any filter of the set names. The router knows them, so that it refuses the same
    rows as one index over the whole set would.
    """
    index = Index()
    index.add_many(_entries(told, sorted(names)), checked=True)
    return index


def _entries(told: Mapping[int, Iterable[Filter]], names: list[str]) -> Iterator[Subscription]:
    for partition, filters in told.items():
        for number, filter in enumerate(filters):
            yield Subscription(f"{partition}/{number}", filter)
    for start in range(0, len(names), _NAMES_AT_ONCE):
        never = And((FALSE, *map(Exists, names[start : start + _NAMES_AT_ONCE])))
        yield Subscription(f"/{start}", never)


def tell(keys: Iterable[Key], most: int) -> list[Filter]:
    """At most about ``most`` filters (one a dimension at least) that together cover the keys."""
    by_dimension: dict[Dimension, set[Key]] = defaultdict(set)
    for key in keys:
        by_dimension[key.dimension].add(key)
    total = sum(map(len, by_dimension.values()))
    wider: list[Key] = []
    for dimension, held in by_dimension.items():
        room = len(held) if total <= most else max(1, most * len(held) // total)
        wider += _widened(dimension, held, room)
    return [key_filter(key) for key in wider]


def _widened(dimension: Dimension, keys: set[Key], room: int) -> list[Key]:
    if len(keys) <= room:
        return list(keys)
    if dimension.form == "=s" or dimension.form[0] == "^":
        return _beginnings(dimension, [key.low for key in keys], room)
    ordered = sorted(keys, key=lambda key: key.low)
    size = -(-len(ordered) // room)
    groups = (ordered[start : start + size] for start in range(0, len(ordered), size))
    return [Key(dimension, group[0].low, max(key.high for key in group)) for group in groups]


def _beginnings(dimension: Dimension, texts: list[str], room: int) -> list[Key]:
    """The longest beginnings of equal length of which there are few enough; at worst, the attribute's presence."""
    for length in range(PREFIX_CHARS, 0, -1):
        found = {text[:length] for text in texts}
        if len(found) <= room and all(found):
            return [Key(dimension._replace(form=f"^{length}"), text, text) for text in found]
    return [Key(dimension._replace(form="?"))]
