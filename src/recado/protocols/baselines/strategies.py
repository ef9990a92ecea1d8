"""How little a node may tell a neighbour and still get every event that it has use for.

The tree document's sections 3.2 to 3.5 in the uniform way of its section 3.7: whatever changes, a neighbour is told a
reduction of all filters that came from elsewhere. The strategies differ in the reduction alone.

- ``Exact``: every name once. With names by subscription that is simple routing, with names by meaning identity-based.
- ``Covering``: filters that no other one covers.
- ``Merging``: those, with whatever has a perfect merger merged; with a limit, merged imperfectly down to that many.

A strategy is told which names may have come or gone, and changes what was told to fit; ``Exact`` and ``Covering`` look
at little else. A name keeps its meaning, so a change of text under one name need not be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations
from typing import Protocol

from recado.protocols.baselines.algebra import covers, join, likeness, merge, name_of, type_of
from recado.protocols.baselines.rows import Told


class Elsewhere(Protocol):
    """The filters of a table that did not come from the neighbour in question."""

    def has(self, name: str) -> bool: ...
    def text(self, name: str) -> str: ...
    def items(self, *types: str) -> Iterable[tuple[str, str]]:
        """Those of the types, with the empty one for filters of no single type; of all types if none is named."""
        ...


class Strategy(Protocol):
    def advance(self, told: Told, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        """Bring what was told in line with what is there; only the names in ``changed`` may have come or gone."""
        ...


class Exact:
    def advance(self, told: Told, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
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

    def advance(self, told: Told, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        gone = [name for name in changed if name in told.sent and not elsewhere.has(name)]
        types = [type_of(told.take(name)) for name in gone]
        if gone:
            for name, text in elsewhere.items(*([] if "" in types else types)):
                if name not in told.sent:
                    _offer(told, name, text)
        for name in changed:
            if elsewhere.has(name) and name not in told.sent:
                _offer(told, name, elsewhere.text(name))


def _offer(told: Told, name: str, text: str) -> None:
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

    def advance(self, told: Told, elsewhere: Elsewhere, changed: Iterable[str]) -> None:
        want = merged(tuple(sorted(text for _, text in elsewhere.items())), self.limit)
        for name in [name for name in told.sent.texts if name not in want]:
            told.take(name)
        for name, text in want.items():
            if name not in told.sent:
                told.put(name, text)


@lru_cache(1 << 12)
def merged(texts: tuple[str, ...], limit: int | None = None) -> dict[str, str]:
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
