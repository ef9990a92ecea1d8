"""The three engines of ``recado match`` behind one face: load subscriptions, then match a chunk of events.

All of them understand semantic subscriptions by the same knowledge: the index and its batches through the semantic
matcher, the naive one through the plain oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal, Protocol

from recado.cli.inputs import Block
from recado.kernels import Build, prepare
from recado.matching.canary import Disagreement
from recado.matching.kernels.cache import can_write, is_prepared
from recado.model.event import Event
from recado.model.filter import FALSE, Filter
from recado.model.subscription import Subscription
from recado.semantics.engine import Knowledge
from recado.semantics.match import callbacks, semantic_match, tell_callbacks
from recado.semantics.settings import read_settings

BATCH_FROM = 32
"""So many events go through the batch kernel."""
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

    def close(self) -> None:
        """Leave nothing running."""

    def __len__(self) -> int: ...


class Verified:
    """An engine whose every answer is compared with the plain evaluator's, which is the one that counts."""

    def __init__(self, engine: Engine, knowledge: Knowledge, report: Callable[[Disagreement], None]) -> None:
        self._engine, self._report = engine, report
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

    def close(self) -> None:
        self._engine.close()

    def match(self, events: Sequence[Event]) -> Matched:
        return self._compare(events, self._engine.match(events))

    def match_block(self, block: Block, read: Read) -> Matched:
        events = [read(number) for number in range(len(block))]  # once: what is bad is reported then
        found = self._engine.match_block(block, events.__getitem__)
        return self._compare([event for event in events if event is not None], found)

    def _compare(self, events: Sequence[Event], found: Matched) -> Matched:
        expected = self._plain.match(events)
        for event, (id, ids), (_, right) in zip(events, found, expected, strict=True):
            self.pairs += len(self._plain)
            if ids != right:
                self._tell(event, set(ids), set(right))
            yield id, right

    def _tell(self, event: Event, ids: set[str], right: set[str]) -> None:
        for id in sorted(ids ^ right):
            self.disagreements += 1
            self._report(Disagreement(event, id, self._plain.filter(id), id in ids))


Tell = Callable[[str, bool], None]
"""Takes a sentence for people; True says that it is the last one again, with another time."""


def make_engine(
    name: EngineName,
    knowledge: Knowledge | None = None,
    *,
    tell: Tell = lambda _text, _again: None,
    plain: bool = True,
) -> Engine:
    """The engine of that name, empty; unless it may be ``plain``, it uses the kernels from the beginning."""
    known = knowledge or Knowledge()
    if name == "naive":
        return _Naive(known, tells=True)
    return _Index(known, tell, plain) if name == "index" else _Batch(known, tell, plain)


class _Naive:
    """One by one, by the oracle; call-backs are told of matches if it ``tells``."""

    def __init__(self, knowledge: Knowledge, tells: bool = False) -> None:
        self._tells = tells
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

    def close(self) -> None:
        pass

    def _matches(self, event: Event, subscription: Subscription) -> bool:
        found = semantic_match(event, subscription, None, self._semantics, self._default)
        if found is not None and found.alignment is not None and self._tells and callbacks:
            tell_callbacks(event, subscription.id)
        return found is not None


PLAIN_PAIRS = 100_000
"""So many pairs of a subscription and an event are evaluated before the kernels are loaded, which takes as long."""
PLAIN_SUBSCRIPTIONS = 2_000
"""More of them are not evaluated one by one while the kernels are compiled; the command waits for these."""


class _Index:
    """Subscriptions are evaluated one by one until it pays to load the kernels; then they are compiled.

    If these are not on disk, another process compiles them, and a large set waits for it. ``tell`` hears how that
    goes: a sentence, and whether it only replaces the one before it.
    """

    def __init__(self, knowledge: Knowledge, tell: Tell, plain: bool) -> None:
        from recado.semantics.matcher import SemanticMatcher

        self._matcher = SemanticMatcher(knowledge.semantics(), knowledge.default, plain=True)
        self._tell, self._plain = tell, plain
        self._pairs = 0
        self._build: Build | None = None

    def __len__(self) -> int:
        return len(self._matcher)

    def check(self, subscription: Subscription) -> None:
        self._matcher.check(subscription)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        waiting = iter(subscriptions)
        self._matcher.add_many(islice(waiting, PLAIN_SUBSCRIPTIONS), checked=True)
        more = list(islice(waiting, 1))
        if more or not self._plain:
            self._wait()
            self._matcher.add_many(chain(more, waiting), checked=True)
            self._matcher.match_many([Event("warm-up")] * BATCH_FROM)  # so that loading kernels is not matching

    def match(self, events: Sequence[Event]) -> Matched:
        for event in events:
            self._count(1)
            yield event.id, self._matcher.match(event)

    def close(self) -> None:
        if self._build is not None:
            self._build.stop()
            self._build = None

    def _count(self, events: int) -> None:
        """So many events are about to be matched: are kernels worth it, and ready?"""
        if self._matcher.exact.is_compiled:
            return
        self._pairs += events * len(self._matcher)
        if self._pairs <= PLAIN_PAIRS:
            return
        if self._build is None and not is_prepared() and can_write():
            self._build = Build(background=True)
        if self._build is None:
            self._matcher.compile()
        elif not self._build.is_running:
            seconds, fault = self._build.seconds, self._build.fault
            self.close()
            if not fault:
                self._tell(f"the kernels of the index are compiled ({seconds:.0f} s) and used from here on", False)
            self._matcher.compile()

    def _wait(self) -> None:
        """A large set: the kernels are needed now."""
        begun = "compiling the kernels of the index, once for this machine"
        if not is_prepared():
            self._tell(f"{begun} ...", False)
            prepare(lambda seconds: self._tell(f"{begun}: {seconds:.0f} s", True))
        self._matcher.compile()

    def match_block(self, block: Block, read: Read) -> Matched:
        """Through columns in one go, if all subscriptions are exact; semantic ones need events."""
        if self._matcher.semantic or not self._matcher.exact.is_compiled:
            yield from self.match(_all_of(block, read))
            return
        from recado.matching.batch import match_texts

        index = self._matcher.exact.compiled
        found = match_texts(index, block.texts(), read)
        subscriptions, offsets = found.pairs.ids(index).to_pylist(), found.pairs.offsets.tolist()
        for number, event in enumerate(found.ids(block.default_id)):
            if event is not None:
                yield event, sorted(subscriptions[offsets[number] : offsets[number + 1]])


class _Batch(_Index):
    def match(self, events: Sequence[Event]) -> Matched:
        """The whole chunk in one call of the batch matcher."""
        self._count(len(events))
        if not self._matcher.exact.is_compiled:
            yield from super().match(events)
            return
        found = self._matcher.match_many(events)
        yield from ((event.id, sorted(ids)) for event, ids in zip(events, found, strict=True))


def _all_of(block: Block, read: Read) -> list[Event]:
    return [event for number in range(len(block)) if (event := read(number)) is not None]
