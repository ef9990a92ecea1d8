"""A routing table on an acyclic overlay, and what its changes make a node tell its neighbours.

The table holds (filter, destination) pairs; a destination is a neighbour or the node's own application. After any
change each neighbour with a strategy is told the difference, in one message. Neighbours without one are told nothing:
that is how hierarchies (only the parent is told) and advertisements (only where publishers are) come about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from recado.model.event import Event
from recado.protocols.baselines.messages import Interests, Named
from recado.protocols.baselines.rows import Rows, Told
from recado.protocols.baselines.strategies import Strategy
from recado.protocols.machine import Effect, NodeId, Send

_NOTHING = Rows()


class Router:
    """``strategies`` says which neighbours are told, and how; ``tree`` is written on every message."""

    def __init__(self, strategies: Mapping[NodeId, Strategy], tree: str = "") -> None:
        self.tree = tree
        self.rows: dict[NodeId, Rows] = {}
        self.all = Rows()
        self.count: dict[str, int] = {}
        self._links: dict[NodeId, tuple[Strategy, Told]] = {
            neighbour: (strategy, Told()) for neighbour, strategy in strategies.items()
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
        self._links[neighbour] = (strategy, Told())
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

    def _send(self, neighbour: NodeId, told: Told) -> list[Effect]:
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
