"""Everything that kernels are for, done once with little data: afterwards all of them are compiled, and on disk.

A kernel is compiled for the types of arguments that it is called with, so this calls them as the rest of the program
does: subscriptions one by one and many, taken out again, events alone, in batches, as Arrow columns and as JSON.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from recado.filters.expression import parse
from recado.matching.batch import match_batch, match_events
from recado.matching.index import Index, from_bytes, to_bytes
from recado.matching.kernels.jit import KERNELS
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.filter import And, Between
from recado.model.subscription import Subscription

FILTERS = (
    "a == 1", 'b == "x" and a > 3', 's startswith "ab"', 's contains "abc"', 's endswith "zz"', 's like "a*b?c"',
    'not (a == 1 or b == "x")', "a in {1, 2, 3}", "exists q", 's > "abc"', "a != 4", '(a > 2 and c < 5) or b == "y"',
    's matches "a+b"', 'b == "x"', "f == true",
)  # fmt: skip
RANGES = 1500
"""Enough subscriptions on one constant for their list to be split, and for all tables to grow."""
WIDE = (("x", 67), ("y", 71), ("z", 73))
"""Attributes and how far their ranges lie apart; lists of these have a matrix."""
ROWS = 64


def exercise() -> None:
    """Call every kernel."""
    index = Index()
    for number, text in enumerate(FILTERS):
        index.add(Subscription(f"s{number}", parse(text)))
    event = Event("e", attributes={"a": 1, "b": "x", "c": 2.5, "s": "abc", "f": True})
    arrays = Event("f", attributes={"a": (1, 2), "b": "x", "s": "zz"})
    index.match(event)
    index.match_slots(arrays)
    match_events(index, [event, arrays] * ROWS).ids(index)
    ranges = (parse(f'b == "x" and a > {number} and a < {number + 100}') for number in range(RANGES))
    index.add_many(Subscription(f"r{number:0100}", filter) for number, filter in enumerate(ranges))
    wide = (And(tuple(Between(n, at % p, at % p + 30) for n, p in WIDE)) for at in range(RANGES))
    index.add_many(Subscription(f"w{number}", filter) for number, filter in enumerate(wide))
    index.match(event)
    columns: dict[str, list[Any]] = {
        "a": [1, None],
        "b": ["x", None],
        "c": [1.5, None],
        "s": ["abc", None],
        "f": [True, None],
    }
    batch = pa.RecordBatch.from_pydict({name: values * ROWS for name, values in columns.items()})
    match_batch(index, batch).ids(index)
    texts = [write_flat(event).decode(), write_flat(arrays).decode(), None]
    match_batch(index, pa.RecordBatch.from_pydict({"json": texts * ROWS}), "json").ids(index)
    for number in range(RANGES):
        index.remove(f"r{number:0100}")
    loaded = from_bytes(to_bytes(index))
    loaded.match(event)
    match_batch(loaded, batch)
    for number in range(len(FILTERS)):
        index.remove(f"s{number}")


def not_compiled() -> list[str]:
    """The kernels that nothing has called in this process."""
    return [f"{kernel.py_func.__module__}.{kernel.py_func.__name__}" for kernel in KERNELS if not kernel.overloads]
