"""A routing table on an acyclic overlay, and what its changes make a node tell its neighbours.

The table holds (filter, destination) pairs; a destination is a neighbour or the node's own application. After any
change each neighbour with a strategy is told the difference, in one message. Neighbours without one are told nothing:
that is how hierarchies (only the parent is told) and advertisements (only where publishers are) come about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Protocol

from recado.model.event import Event
from recado.protocols.algebra import covers, join, likeness, merge, name_of, type_of
from recado.protocols.baselines.node import Interests, Named, Rows, SentRows
from recado.protocols.machine import Effect, NodeId, Send

# --- How little a node may tell a neighbour and still get every event that it has use for ----------------------------
#
# The tree document's sections 3.2 to 3.5 in the uniform way of its section 3.7: whatever changes, a neighbour is told a
# reduction of all filters that came from elsewhere. The strategies differ in the reduction alone.
#
# - ``Exact``: every name once. With names by subscription that is simple routing, with names by meaning identity-based.
# - ``Covering``: filters that no other one covers.
# - ``Merging``: those, with whatever has a perfect merger merged; with a limit, merged imperfectly down to that many.
#
# A strategy is told which names may have come or gone, and changes what was told to fit; ``Exact`` and ``Covering``
# look at little else. A name keeps its meaning, so a change of text under one name need not be told.


class Elsewhere(Protocol):
    """The filters of a table that did not come from the neighbour in question."""

    def has(self, name: str) -> bool: ...
    def text(self, name: str) -> str: ...
    def items(self, *types: str) -> Iterable[tuple[str, str]]:
        """Those of the types, with the empty one for filters of no single type; of all types if none is named."""
        ...


class Strategy(Protocol):
    def advance(self, told: SentRows, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        """Bring what was told in line with what is there; only the names in ``changed`` may have come or gone."""
        ...


class Exact:
    def advance(self, told: SentRows, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        for name in changed:
            if elsewhere.has(name):
                if name not in told.sent:
                    told.put(name, elsewhere.text(name))
            elif name in told.sent:
                told.take(name)


class Covering:
    """Once a cover goes, all other filters are offered anew, not only those that it covers: with patterns the algebra
    may know that A covers B and B covers C, but not that A covers C.
    """

    def advance(self, told: SentRows, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        gone = [name for name in changed if name in told.sent and not elsewhere.has(name)]
        types = [type_of(told.take(name)) for name in gone]
        if gone:
            for name, text in elsewhere.items(*([] if "" in types else types)):
                if name not in told.sent:
                    _offer(told, name, text)
        for name in changed:
            if elsewhere.has(name) and name not in told.sent:
                _offer(told, name, elsewhere.text(name))


def _offer(told: SentRows, name: str, text: str) -> None:
    """Tell the filter, unless one that covers it was told; take back those that it covers."""
    type = type_of(text)
    if any(covers(cover, text) for _, cover in told.sent.of(type, "")):
        return
    rivals = told.sent.of(type) if type else told.sent.texts.items()
    for covered in [other for other, rival in rivals if covers(text, rival)]:
        told.take(covered)
    told.put(name, text)


class Merging:
    """``limit`` is how many filters may be told to a neighbour; None merges perfectly only."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def advance(self, told: SentRows, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        want = merge_filters(tuple(sorted(text for _, text in elsewhere.items())), self.limit)
        for name in [name for name in told.sent.texts if name not in want]:
            told.take(name)
        for name, text in want.items():
            if name not in told.sent:
                told.put(name, text)


@lru_cache(1 << 12)
def merge_filters(texts: tuple[str, ...], limit: int | None = None) -> dict[str, str]:
    """The filters by name, merged as far as it goes; the texts are sorted, so that equal sets merge equally."""
    mergers: list[str] = []
    for text in texts:
        _absorb(mergers, text)
        while limit is not None and len(mergers) > limit:
            first, second = max(combinations(mergers, 2), key=lambda pair: likeness(*pair))
            mergers.remove(first)
            mergers.remove(second)
            _absorb(mergers, join(first, second))
    return {name_of(text): text for text in mergers}


def _absorb(mergers: list[str], text: str) -> None:
    """Add the filter, merged with all that it can be merged with."""
    place = 0
    while place < len(mergers):
        merger = merge(mergers[place], text)
        if merger is None:
            place += 1
        else:
            del mergers[place]
            text, place = merger, 0
    mergers.append(text)


# --- A routing table on an acyclic overlay, and what its changes make a node tell its neighbours ---------------------

_NOTHING = Rows()


class Router:
    """``strategies`` says which neighbours are told, and how; ``tree`` is written on every message."""

    def __init__(self, strategies: Mapping[NodeId, Strategy], tree: str = "") -> None:
        self.tree = tree
        self.rows: dict[NodeId, Rows] = {}
        self.all = Rows()
        self.count: dict[str, int] = {}
        self._links: dict[NodeId, tuple[Strategy, SentRows]] = {
            neighbour: (strategy, SentRows()) for neighbour, strategy in strategies.items()
        }

    def subscribe(self, row: Named) -> list[Effect]:
        """The node's own application wants this too."""
        self._more(*row)
        return self._tell([row[0]])

    def unsubscribe(self, name: str) -> list[Effect]:
        self._less(name)
        return self._tell([name])

    def change(self, neighbour: NodeId, interests: Interests) -> list[Effect]:
        """A neighbour told what it wants. Said twice is said once."""
        rows = self.rows.setdefault(neighbour, Rows())
        changed: dict[str, None] = {}
        for name in interests.unsubscribe:
            if name in rows:
                rows.take(name)
                self._less(name)
                changed[name] = None
        for name, text in interests.subscribe:
            if name not in rows:
                rows.put(name, text)
                self._more(name, text)
                changed[name] = None
        if not rows:
            del self.rows[neighbour]
        return self._tell(changed, neighbour)

    def open(self, neighbour: NodeId, strategy: Strategy) -> list[Effect]:
        """From now on the neighbour is told what is wanted."""
        self._links[neighbour] = (strategy, SentRows())
        return self._tell_one(neighbour, list(self.count))

    def close(self, neighbour: NodeId) -> list[Effect]:
        """The neighbour is told that nothing is wanted, and then no more."""
        _, told = self._links.pop(neighbour)
        for name in list(told.sent.texts):
            told.take(name)
        return self._send(neighbour, told)

    def wants(self, neighbour: NodeId, event: Event) -> bool:
        rows = self.rows.get(neighbour)
        return rows is not None and rows.wants(event)

    def _more(self, name: str, text: str) -> None:
        count = self.count.get(name, 0)
        if not count:
            self.all.put(name, text)
        self.count[name] = count + 1

    def _less(self, name: str) -> None:
        self.count[name] -= 1
        if not self.count[name]:
            del self.count[name]
            self.all.take(name)

    def _tell(self, changed: Iterable[str], source: NodeId | None = None) -> list[Effect]:
        return [
            effect for neighbour in self._links if neighbour != source for effect in self._tell_one(neighbour, changed)
        ]

    def _tell_one(self, neighbour: NodeId, changed: Iterable[str]) -> list[Effect]:
        strategy, told = self._links[neighbour]
        strategy.advance(told, _Elsewhere(self, self.rows.get(neighbour, _NOTHING)), changed)
        return self._send(neighbour, told)

    def _send(self, neighbour: NodeId, told: SentRows) -> list[Effect]:
        message = told.message(self.tree)
        return [] if message is None else [Send(neighbour, message, "what is wanted on this side has changed")]


class _Elsewhere:
    """The table without the rows of one neighbour."""

    __slots__ = ("_router", "_without")

    def __init__(self, router: Router, without: Rows) -> None:
        self._router, self._without = router, without

    def has(self, name: str) -> bool:
        return self._router.count.get(name, 0) > (name in self._without)

    def text(self, name: str) -> str:
        return self._router.all.texts[name]

    def items(self, *types: str) -> Iterator[Named]:
        table = self._router.all
        return (row for row in (table.of(*types, "") if types else table.texts.items()) if self.has(row[0]))
