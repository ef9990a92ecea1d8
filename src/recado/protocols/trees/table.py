"""Routing rows and the tables that hold them (section 1.6 of the tree document).

A row says of one subscription where it comes from (``next``, toward the subscriber) and where its publishers are
(``origin``); the node's own id stands for itself in both. There is one table for each event type. A subscription
may name a pattern of types, such as ``sensor.*``, or none for any type; its rows are in the table of that pattern.

Matching asks the same question of the same event at every node of a tree. In simulation all nodes share one process
and the very same event object, so the answers are remembered by object, for the latest events.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from recado.filters.evaluate import evaluate, matches
from recado.filters.nodes import View
from recado.filters.patterns import like_regex
from recado.model.event import Event
from recado.protocols.machine import NodeId
from recado.protocols.trees.messages import Interest
from recado.protocols.wire import read_filter

Nodes = dict[NodeId, None]
"""A set of nodes that keeps its order."""

_REMEMBERED_EVENTS = 512
_recent: dict[int, tuple[Event, Verdicts]] = {}


class Row:
    """What a node knows of one subscription.

    ``firm`` rows were made on behalf of the subscription's root, others by grafting. A row that has ``joined`` another
    tree ``rides`` on the row of that subscription, which knows its ``riders``.
    """

    __slots__ = (
        "born",
        "disturbed",
        "epoch",
        "filter",
        "firm",
        "interest",
        "joined",
        "next",
        "origin",
        "riders",
        "rides",
    )

    def __init__(self, interest: Interest, toward: NodeId, born: int, firm: bool) -> None:
        self.interest = interest
        self.epoch = interest.epoch
        self.filter = interest.filter
        self.next: Nodes = {toward: None}
        self.origin: Nodes = {}
        self.born, self.firm = born, firm
        self.disturbed = self.joined = False
        self.rides: str | None = None
        self.riders: dict[str, None] = {}

    @property
    def has_source(self) -> bool:
        return bool(self.origin) or self.rides is not None


class Tables:
    """All rows of a node: by subscription, and by event type."""

    __slots__ = ("_patterns", "by_type", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.by_type: dict[str, dict[str, Row]] = {}
        self._patterns: dict[str, None] = {}

    def put(self, row: Row) -> None:
        """Store the row; there is none of the same subscription."""
        interest = row.interest
        self.rows[interest.id] = row
        table = self.by_type.get(interest.type)
        if table is None:
            table = self.by_type[interest.type] = {}
            if is_pattern(interest.type):
                self._patterns[interest.type] = None
        table[interest.id] = row

    def drop(self, subscription_id: str) -> Row | None:
        row = self.rows.pop(subscription_id, None)
        if row is not None:
            type = row.interest.type
            table = self.by_type[type]
            del table[subscription_id]
            if not table:
                del self.by_type[type]
                self._patterns.pop(type, None)
        return row

    def of(self, event_type: str) -> Collection[Row]:
        """The rows of all subscriptions that events of this type may concern."""
        table = self.by_type.get(event_type)
        if not self._patterns:
            return table.values() if table is not None else ()
        found = list(table.values()) if table is not None else []
        for pattern in self._patterns:
            if speaks_of(pattern, event_type):
                found += self.by_type[pattern].values()
        return found


def is_pattern(event_type: str) -> bool:
    return not event_type or "*" in event_type or "?" in event_type


@lru_cache(maxsize=65_536)
def speaks_of(pattern: str, event_type: str) -> bool:
    """Does a subscription to ``pattern`` concern events of this type?"""
    if pattern == event_type:
        return True
    if not is_pattern(pattern):
        return False
    return not pattern or like_regex(pattern, False).fullmatch(event_type) is not None


class Verdicts:
    """An event, and which filters are known to match it."""

    __slots__ = ("_event", "_view", "verdicts")

    def __init__(self, event: Event) -> None:
        self._event = event
        self.verdicts: dict[str, bool] = {}
        plain = not any(type(value) is tuple for value in event.attributes.values())
        self._view: View | None = dict(event.items()) if plain else None  # type: ignore[arg-type]  # no arrays in it

    def judge(self, filter_text: str) -> bool:
        """Does the event match? The caller has looked into ``verdicts`` already."""
        tree = read_filter(filter_text)
        verdict = matches(tree, self._event) if self._view is None else evaluate(tree, self._view)
        self.verdicts[filter_text] = verdict
        return verdict


def verdicts_of(event: Event) -> Verdicts:
    """What is known of this very object."""
    known = _recent.get(id(event))
    if known is not None and known[0] is event:
        return known[1]
    if len(_recent) >= _REMEMBERED_EVENTS:
        del _recent[next(iter(_recent))]
    fresh = Verdicts(event)
    _recent[id(event)] = event, fresh
    return fresh
