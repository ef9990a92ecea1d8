"""An index that works before its kernels do: filters are evaluated one by one until they are compiled.

Loading the kernels takes a second, and compiling them, once for a machine, much longer. A few subscriptions are
matched sooner by the plain evaluator, and a service can begin with it. ``compile`` puts everything into the compiled
index, in whichever thread, while others go on to add, remove and match here; the index is taken when it has all of
their changes. Results are the same before and after: the evaluator is what the index is tested against.

This module loads neither numba nor pyarrow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from recado.filters.cost import check_filter
from recado.filters.evaluate import matches
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription, check_id

if TYPE_CHECKING:
    from recado.matching.index import Index


class StagedIndex:
    """Subscriptions by content, plain at first or compiled from the beginning; a lock makes every call whole."""

    def __init__(self, *, plain: bool = False) -> None:
        self.lock = threading.RLock()
        self._compiling = threading.Lock()
        self._plain: dict[str, tuple[Subscription, Filter]] = {}
        self._changes: dict[str, Subscription | None] | None = None  # since somebody began to compile
        self._index: Index | None = None
        if not plain:
            self.compile()

    @property
    def is_compiled(self) -> bool:
        return self._index is not None

    @property
    def compiled(self) -> Index:
        """The compiled index, for whoever needs it: Arrow batches, snapshots, statistics. Compiles if need be."""
        self.compile()
        assert self._index is not None
        return self._index

    def compile(self) -> None:
        """Put all subscriptions into the compiled index, and use it from then on. Any thread will do."""
        from recado.matching.index import Index  # noqa: PLC0415  # it loads numba

        with self._compiling:
            if self._index is not None:
                return
            with self.lock:
                held = [subscription for subscription, _ in self._plain.values()]
                self._changes = {}
            index = Index()
            try:
                index.add_many(held, checked=True)
            except BaseException:
                with self.lock:
                    self._changes = None
                raise
            with self.lock:
                for id, subscription in self._changes.items():
                    if subscription is None:
                        index.remove(id)
                    else:
                        index.add(subscription, checked=True)
                self._index, self._plain, self._changes = index, {}, None

    def __len__(self) -> int:
        with self.lock:
            return len(self._plain if self._index is None else self._index)

    def __contains__(self, sub_id: str) -> bool:
        with self.lock:
            return sub_id in (self._plain if self._index is None else self._index)

    def filters(self) -> dict[str, Filter] | None:
        """Those that are evaluated one by one, by id; None if it is compiled."""
        with self.lock:
            return None if self._index is not None else {id: filter for id, (_, filter) in self._plain.items()}

    # -- changes

    def add(self, subscription: Subscription, checked: bool = False) -> None:
        """Add a subscription, or replace the one that has its id; ``checked`` as for the index."""
        with self.lock:
            if self._index is not None:
                self._index.add(subscription, checked)
                return
            filter = subscription.whole_filter()
            if not checked:
                check_id(subscription.id)
                filter = check_filter(filter)
            self._plain[subscription.id] = subscription, filter
            if self._changes is not None:
                self._changes[subscription.id] = subscription

    def add_many(self, subscriptions: Iterable[Subscription], checked: bool = False) -> int:
        """Add all of them; returns how many were given."""
        with self.lock:
            if self._index is not None:
                return self._index.add_many(subscriptions, checked)
            count = 0
            for subscription in subscriptions:
                self.add(subscription, checked)
                count += 1
            return count

    def remove(self, subscription_id: str) -> bool:
        """Remove a subscription; False if there is none with this id."""
        with self.lock:
            if self._index is not None:
                return self._index.remove(subscription_id)
            if self._plain.pop(subscription_id, None) is None:
                return False
            if self._changes is not None:
                self._changes[subscription_id] = None
            return True

    # -- matching

    def match(self, event: Event) -> list[str]:
        """The ids of the matching subscriptions, sorted."""
        with self.lock:
            if self._index is not None:
                return self._index.match(event)
            return sorted(id for id, (_, filter) in self._plain.items() if matches(filter, event))

    def match_many(self, events: Sequence[Event]) -> list[list[str]]:
        """The same for each of many events, in any order."""
        with self.lock:
            if self._index is None:
                return [self.match(event) for event in events]
            if not len(self._index):
                return [[] for _ in events]
            from recado.matching.batch import match_events  # noqa: PLC0415  # it loads pyarrow

            pairs = match_events(self._index, list(events))
            ids = pairs.ids(self._index).to_pylist() if len(pairs) else []
            return [ids[start:end] for start, end in pairwise(pairs.offsets.tolist())]

    def statistics(self) -> dict[str, float]:
        """Sizes, and what matching has cost so far."""
        return self.compiled.statistics()
