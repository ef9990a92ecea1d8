"""Plain twins that the tests of this folder compare the matching engine with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from matching.called import test_of, verify
from recado.matching.dictionary import NAN, Dictionary
from recado.matching.encode import encode_scalar
from recado.matching.index import Index
from recado.matching.kernels.instructions import ACCESS, LAST, instruction_words
from recado.matching.kernels.layout import Blank, StoreArrays
from recado.matching.kernels.unaligned import PADDING
from recado.matching.naive import NaiveMatcher
from recado.matching.program import Compiler, Program
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, Kind, Value, kind_of


def engines(filters: Iterable[Filter]) -> tuple[Index, NaiveMatcher]:
    """An index and the oracle with the same subscriptions ``s0``, ``s1``, ..."""
    index, naive = Index(), NaiveMatcher()
    for number, filter in enumerate(filters):
        subscription = Subscription(f"s{number}", filter)
        index.add(subscription)
        naive.add(subscription)
    return index, naive


def ids_by_event(index: Index, pairs: Any) -> list[list[str]]:
    """The sorted ids of each row."""
    ids = pairs.ids(index).to_pylist()
    return [sorted(ids[start:end]) for start, end in pairwise(pairs.offsets.tolist())]


# -- programs


class View:
    """A single-valued view of an event as the kernel reads it, written down without any haste."""

    def __init__(self, dictionary: Dictionary, view: Mapping[str, Value]) -> None:
        count = max(len(dictionary.codes), 1)
        self.blank = Blank()
        self.blank.fit(count, 0, 0, 0)
        codes, numbers, texts = self.blank.codes, self.blank.numbers, self.blank.texts
        data = b""
        for name, number in dictionary.names.items():
            value = view.get(name)
            if value is None:
                continue
            codes[number], down, up = encode_scalar(dictionary.codes[number], value)
            if isinstance(value, str):
                for column, text in ((0, value), (2, value.casefold())):
                    texts[number, column : column + 2] = len(data), len(text.encode())
                    data += text.encode()
            elif codes[number] != NAN and kind_of(value) is not Kind.BOOL:
                column = 0 if kind_of(value) is Kind.NUMBER else 2
                numbers[number, column : column + 2] = down, up
        self.data = np.frombuffer(data + bytes(PADDING), np.uint8)


class Compiled:
    """One filter, compiled alone."""

    def __init__(self, filter: Filter) -> None:
        self.dictionary = Dictionary()
        self.program: Program = Compiler(self.dictionary).compile(filter)
        self.words = np.array(self.program.words, np.int64)
        self._store = StoreArrays()
        self._store.words = self.words
        self._store.floats = self.words.view(np.float64)
        self._store.ints = self.words.view(np.int32)

    def run(self, view: Mapping[str, Value]) -> int:
        """FAILS, HOLDS or UNSURE."""
        event = View(self.dictionary, view)
        return int(verify(self._store.handle, 0, event.blank.handle, event.data))

    def instructions(self) -> list[int]:
        """Where each instruction begins; the last one ends where the words do."""
        starts = [0]
        while not self.words[starts[-1]] & LAST:
            starts.append(starts[-1] + instruction_words(int(self.words[starts[-1]])))
        assert starts[-1] + instruction_words(int(self.words[starts[-1]])) == len(self.words)
        return starts

    def heads(self) -> list[int]:
        return [int(self.words[at]) for at in self.instructions()]

    def access_tests(self, view: Mapping[str, Value]) -> list[int]:
        """What the tests that are marked as access paths say of a view."""
        event = View(self.dictionary, view)
        return [
            int(test_of(self._store.handle, at, self.words[at], event.blank.handle, event.data))
            for at in self.instructions()
            if self.words[at] & ACCESS
        ]


# -- Arrow


def events_of(batch: pa.RecordBatch) -> list[Event]:
    """The rows of a batch as events: what the documentation of ``recado.matching.batch`` says, cell by cell."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for row, cell in zip(rows, column, strict=True):
            row.update(_cells(name, cell))
    envelopes = [{name: row.pop(name) for name in ("id", "type", "source", "time") if name in row} for row in rows]
    return [Event(**{"id": "row", **envelope}, attributes=row) for envelope, row in zip(envelopes, rows, strict=True)]


def _cells(name: str, cell: pa.Scalar) -> Iterator[tuple[str, Any]]:
    if not cell.is_valid:
        return
    if pa.types.is_struct(cell.type):
        for field, child in cell.items():
            yield from _cells(f"{name}.{field}", child)
    elif hasattr(cell, "values"):
        gathered: dict[str, list[Value]] = {name: []}
        for element in cell.values:
            for inner, value in _cells(name, element):
                gathered.setdefault(inner, []).extend(value if isinstance(value, tuple) else [value])
        if len(gathered) > 1 and not gathered[name]:
            del gathered[name]
        yield from ((inner, tuple(values)) for inner, values in gathered.items())
    else:
        yield name, _value(name, cell)


def _value(name: str, cell: pa.Scalar) -> Value:
    if pa.types.is_dictionary(cell.type):
        cell = cell.value
    if pa.types.is_timestamp(cell.type):
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[cell.type.unit]
        whole = abs(cell.value) * 1_000_000 // per_second  # finer ones are cut off towards zero
        return EPOCH + timedelta(microseconds=whole if cell.value > 0 else -whole)
    value = cell.as_py()
    if name == "time" and isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    return float(value) if isinstance(value, np.floating) else value
