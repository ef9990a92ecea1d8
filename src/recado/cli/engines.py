"""The three engines of ``recado match`` behind one face: load subscriptions, then match a chunk of events.

All of them understand semantic subscriptions by the same knowledge: the index and its batches through the semantic
matcher, the naive one through the plain oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

from recado.cli.inputs import Block
from recado.matching.canary import Disagreement
from recado.model.event import Event
from recado.model.filter import FALSE, Filter
from recado.model.subscription import Subscription
from recado.semantics.knowledge import Knowledge
from recado.semantics.match import semantic_match
from recado.semantics.settings import read_settings

EngineName = Literal["index", "naive", "batch"]
Read = Callable[[int], Event | None]
Matched = Iterator[tuple[str, list[str]]]
"""For each event of a chunk, in order: its id and the sorted ids of its subscriptions."""


class Engine(Protocol):
    def check(self, subscription: Subscription) -> None:
        """Load what a semantic subscription needs; a RecadoError says what is missing."""

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        """Take subscriptions that were read from records, and so are checked."""

    def match(self, events: Sequence[Event]) -> Matched: ...

    def match_block(self, block: Block, read: Read) -> Matched:
        """Match the events of a block; ``read`` gives that of the record with a number, or None if it is none."""

    def __len__(self) -> int: ...


class Verified:
    """An engine whose every answer is compared with the plain evaluator's, which is the one that counts."""

    def __init__(self, engine: Engine, knowledge: Knowledge, told: Callable[[Disagreement], None]) -> None:
        self._engine, self._told = engine, told
        self._plain = _Naive(knowledge)
        self.pairs = self.disagreements = 0

    def __len__(self) -> int:
        return len(self._engine)

    def check(self, subscription: Subscription) -> None:
        self._engine.check(subscription)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        held = list(subscriptions)
        self._plain.load(held)
        self._engine.load(held)

    def match(self, events: Sequence[Event]) -> Matched:
        return self._compared(events, self._engine.match(events))

    def match_block(self, block: Block, read: Read) -> Matched:
        events = [read(number) for number in range(len(block))]  # once: what is bad is reported then
        found = self._engine.match_block(block, events.__getitem__)
        return self._compared([event for event in events if event is not None], found)

    def _compared(self, events: Sequence[Event], found: Matched) -> Matched:
        expected = self._plain.match(events)
        for event, (id, ids), (_, right) in zip(events, found, expected, strict=True):
            self.pairs += len(self._plain)
            if ids != right:
                self._tell(event, set(ids), set(right))
            yield id, right

    def _tell(self, event: Event, ids: set[str], right: set[str]) -> None:
        for id in sorted(ids ^ right):
            self.disagreements += 1
            self._told(Disagreement(event, id, self._plain.filter(id), id in ids))


def make_engine(name: EngineName, knowledge: Knowledge | None = None) -> Engine:
    """The engine of that name, empty."""
    known = knowledge or Knowledge()
    if name == "naive":
        return _Naive(known)
    return _Index(known) if name == "index" else _Batch(known)


class _Naive:
    def __init__(self, knowledge: Knowledge) -> None:
        self._default = knowledge.default
        self._semantics = knowledge.semantics()
        self._subscriptions: dict[str, Subscription] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def filter(self, id: str) -> Filter:
        """Of a subscription, with its type; none matches if the engine found what is not there."""
        return self._subscriptions[id].whole_filter() if id in self._subscriptions else FALSE

    def check(self, subscription: Subscription) -> None:
        settings = read_settings(subscription.semantic, self._default)
        if settings is not None:
            self._semantics.prepare(settings)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        self._subscriptions |= {subscription.id: subscription for subscription in subscriptions}

    def match(self, events: Sequence[Event]) -> Matched:
        held = sorted(self._subscriptions.items())
        for event in events:
            yield event.id, [id for id, one in held if self._matches(event, one)]

    def match_block(self, block: Block, read: Read) -> Matched:
        return self.match(_all_of(block, read))

    def _matches(self, event: Event, subscription: Subscription) -> bool:
        return semantic_match(event, subscription, None, self._semantics, self._default) is not None


class _Index:
    def __init__(self, knowledge: Knowledge) -> None:
        from recado.semantics.matcher import SemanticMatcher

        self._matcher = SemanticMatcher(knowledge.semantics(), knowledge.default)

    def __len__(self) -> int:
        return len(self._matcher)

    def check(self, subscription: Subscription) -> None:
        self._matcher.check(subscription)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        self._matcher.add_many(subscriptions, checked=True)
        for _ in self.match([Event("warm-up")]):  # so that compiling the kernels is not taken for matching
            pass

    def match(self, events: Sequence[Event]) -> Matched:
        return ((event.id, self._matcher.match(event)) for event in events)

    def match_block(self, block: Block, read: Read) -> Matched:
        """Through columns in one go, if all subscriptions are exact; semantic ones need events."""
        if self._matcher.semantic:
            yield from self.match(_all_of(block, read))
            return
        from recado.matching.from_texts import match_texts

        index = self._matcher.exact
        found = match_texts(index, block.texts(), read)
        subscriptions, offsets = found.pairs.ids(index).to_pylist(), found.pairs.offsets.tolist()
        for number, event in enumerate(found.ids(block.default_id)):
            if event is not None:
                yield event, sorted(subscriptions[offsets[number] : offsets[number + 1]])


class _Batch(_Index):
    def match(self, events: Sequence[Event]) -> Matched:
        """The whole chunk in one call of the batch matcher."""
        found = self._matcher.match_many(events)
        return ((event.id, sorted(ids)) for event, ids in zip(events, found, strict=True))


def _all_of(block: Block, read: Read) -> list[Event]:
    return [event for number in range(len(block)) if (event := read(number)) is not None]
