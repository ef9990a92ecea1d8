"""The three engines of ``recado match`` behind one face: load subscriptions, then match a chunk of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.subscription import Subscription

EngineName = Literal["index", "naive", "batch"]
Matched = Iterator[tuple[str, list[str]]]
"""For each event of a chunk, in order: its id and the sorted ids of its subscriptions."""


class Engine(Protocol):
    def load(self, subscriptions: Iterable[Subscription]) -> None:
        """Take subscriptions that were read from records, and so are checked."""

    def match(self, events: Sequence[Event]) -> Matched: ...
    def __len__(self) -> int: ...


def make_engine(name: EngineName) -> Engine:
    """The engine of that name, empty."""
    if name == "naive":
        return _Naive()
    return _Index() if name == "index" else _Batch()


class _Naive:
    def __init__(self) -> None:
        self._matcher = NaiveMatcher()

    def __len__(self) -> int:
        return len(self._matcher)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        for subscription in subscriptions:
            self._matcher.add(subscription)

    def match(self, events: Sequence[Event]) -> Matched:
        return ((event.id, self._matcher.match(event)) for event in events)


class _Index:
    def __init__(self) -> None:
        from recado.matching.index import Index

        self._index = Index()

    def __len__(self) -> int:
        return len(self._index)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        self._index.add_many(subscriptions, checked=True)
        for _ in self.match([Event("warm-up")]):  # so that compiling the kernels is not taken for matching
            pass

    def match(self, events: Sequence[Event]) -> Matched:
        return ((event.id, self._index.match(event)) for event in events)


class _Batch(_Index):
    def match(self, events: Sequence[Event]) -> Matched:
        """The whole chunk in one call of the batch matcher."""
        from recado.matching.batch import match_events

        pairs = match_events(self._index, list(events))
        ids, offsets = pairs.ids(self._index).to_pylist(), pairs.offsets.tolist()
        for position, event in enumerate(events):
            yield event.id, sorted(ids[offsets[position] : offsets[position + 1]])
