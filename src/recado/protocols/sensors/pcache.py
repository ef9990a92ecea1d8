"""PCACHE: a store of which every node keeps a part, so that all of it is near everybody (section 5).

**Dissemination.** A ``Store`` is broadcast with PAMPA and tells how far its transmitter is from the nearest copy. A
node that knows of no copy within ``dbc`` hops when its hold is over keeps one, and says so by relaying with distance 0.

**Collection.** A ``Query`` goes a few hops. Whoever holds matching items answers to the node from which it first heard
the query; relays wait for those below them, remove duplicates and answer once. Nobody can know that all answers are in:
the origin waits ``wait_seconds``, and what comes later is late.

The store does not interpret what it keeps. Whether an item matches a query is asked of the layer above (``matches``);
it is also told what a query found (``collected``), and what came late (``late``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import TypeAlias

import msgspec

from recado.model.event import Event
from recado.protocols.algebra import covers
from recado.protocols.machine import Report
from recado.protocols.sensors.context import Context, trim
from recado.protocols.sensors.messages import (
    Found,
    Id,
    Item,
    Lookup,
    Name,
    Query,
    Reply,
    Store,
    item_bytes,
    parts_of,
)
from recado.protocols.sensors.pampa import Hold, Pampa

EXPIRY = 4
"""A query is forgotten after so many times ``wait_seconds``."""
MOST_GONE = 1_024
"""Cancelled subscriptions that are remembered."""

Criterion: TypeAlias = Event | Id
"""What a query asks for: what matches a publication, or the item of a key."""


class Stored:
    """An item of the data zone. ``dist`` is how far the nearest other copy was when it was stored."""

    __slots__ = ("dist", "expires", "item", "own", "stored_at")

    def __init__(self, item: Item, own: bool, stored_at: float, dist: int, expires: float) -> None:
        self.item, self.own, self.stored_at, self.dist, self.expires = item, own, stored_at, dist, expires


class Gather:
    """A query at one node: at its origin (``parent`` is None), at a relay, or at a node that only answers."""

    __slots__ = ("criterion", "expires", "fired", "hops", "items", "moved", "parent", "pid", "ring", "sent", "served")

    def __init__(self, criterion: Criterion, parent: Name | None, hops: int, expires: float) -> None:
        self.criterion, self.parent, self.hops, self.expires = criterion, parent, hops, expires
        self.items: dict[Id, Item] = {}
        self.sent: dict[Id, None] = {}
        self.moved: list[Item] = []
        self.fired = False
        """Has it answered, or at the origin: is the time over?"""
        self.pid: Id | None = None
        self.served: dict[Name, None] = {}
        """At the origin, for the layer above: who gets the publication."""
        self.ring = 0


class Cache:
    """The store of one node. ``zone`` is its data zone, ``gathers`` the queries that it takes part in."""

    __slots__ = ("_bytes", "_context", "_pampa", "collected", "gathers", "gone", "late", "matches", "zone")

    def __init__(self, context: Context, pampa: Pampa, matches: Callable[[Event, Item], bool]) -> None:
        self._context, self._pampa, self.matches = context, pampa, matches
        self.zone: dict[Id, Stored] = {}
        self.gathers: dict[Id, Gather] = {}
        self.gone: dict[Id, int] = {}
        self.collected: Callable[[Gather], None]
        self.late: Callable[[Gather, list[Item]], None]
        self._bytes = 0

    # -- dissemination

    def store(self, items: Iterable[Item], why: str) -> None:
        """STORE at the origin: own items, which are never evicted."""
        items = tuple(items)
        for item in items:
            if item.filter:
                self.keep_own(item)
        self._pampa.broadcast(Store(self._pampa.new_id(), items, 0), why)

    def keep_own(self, item: Item) -> None:
        self._remove(item.key)
        self._make_room(item, own=True)
        self._put(item, own=True, dist=0)

    def forget_own(self, item: Item, why: str, *, announce: bool = True) -> None:
        """``item`` cancels an own one."""
        self._remove(item.key)
        self._bury(item)
        if announce:
            self._pampa.broadcast(Store(self._pampa.new_id(), (item,), 0), why)

    def on_store(self, sender: Name, message: Store, signal_dbm: float | None) -> None:
        """The first copy."""
        for item in message.items:
            if not item.filter:
                self._cancel(item)
        if self._context.settings.system == "subscription-flooding":
            self.try_store(message.items, message.dfs)
        self._pampa.hold(message, sender, signal_dbm)

    def decide_store(self, hold: Hold) -> None:
        """The hold is over."""
        message: Store = hold.message
        items = tuple(item for item in message.items if item.filter and not self._is_gone(item))
        spreads = bool(items) and self._context.settings.system == "proposed"
        if spreads and hold.least_dfs >= self._context.settings.dbc and self.try_store(items, hold.least_dfs):
            self._context.broadcast(Store(message.id, message.items, 0), "stored: no copy was near enough")
            return
        kept = spreads and self._refresh(items)
        if self._pampa.is_relay(hold):
            dfs = 0 if kept else min(hold.least_dfs + 1, 255)
            self._context.broadcast(Store(message.id, message.items, dfs), "few copies of it were heard")

    def try_store(self, items: Iterable[Item], dist: int) -> bool:
        """Keep a copy of all that there is room for; False if anything was not stored."""
        refused = [item for item in items if item.filter and not self._try_one(item, dist)]
        return not refused

    def _try_one(self, item: Item, dist: int) -> bool:
        known = self.zone.get(item.key)
        if known is not None:
            return known.own or item.version <= known.item.version or self._replace(item, dist)
        if self._is_gone(item):
            return False
        if self._context.settings.covering:
            if self._is_covered(item):
                self._context.count("store.covered")
                return True
            self._drop_covered(item)
        if not self._make_room(item):
            self._context.count("store.full")
            return False
        self._put(item, own=False, dist=dist)
        return True

    def _refresh(self, items: Iterable[Item]) -> bool:
        """Is there a copy of everything here, though the spread does not need it? It stays, unless a lease ends it."""
        kept = False
        for item in items:
            known = self.zone.get(item.key)
            if known is None or known.own or item.lease:
                return False
            if item.version > known.item.version:
                if item_bytes(item) == item_bytes(known.item):
                    known.item = item
                elif not self._replace(item, known.dist):
                    return False
            kept = True
        return kept

    def _replace(self, item: Item, dist: int) -> bool:
        """A newer version of what is here, if there is room: it may be larger, and then the old one is of no use."""
        self._remove(item.key)
        if not self._make_room(item):
            self._context.count("store.full")
            return False
        self._put(item, own=False, dist=dist)
        return True

    def _put(self, item: Item, *, own: bool, dist: int) -> None:
        now = self._context.now
        self.zone[item.key] = Stored(item, own, now, dist, now + item.lease if item.lease and not own else math.inf)
        self._bytes += item_bytes(item)

    def _remove(self, key: Id) -> None:
        known = self.zone.pop(key, None)
        if known is not None:
            self._bytes -= item_bytes(known.item)

    def _make_room(self, item: Item, *, own: bool = False) -> bool:
        """Evict items of others until this one fits; False if it does not.

        For an ``own`` item, which is kept in any case, a copy goes even where ``evict`` says that none does for others.
        """
        settings, size = self._context.settings, item_bytes(item)
        if self._is_beyond_limits(size):
            self._context.count("refused.stored")
            return False
        if not settings.capacity and not settings.capacity_bytes:
            return True
        self._purge()
        while (settings.capacity and len(self.zone) >= settings.capacity) or (
            settings.capacity_bytes and self._bytes + size > settings.capacity_bytes
        ):
            victim = self._choose_victim(own)
            if victim is None:
                return False
            self._remove(victim)
            self._context.count("store.evicted")
        return True

    def _is_beyond_limits(self, size: int) -> bool:
        """Nobody's announcements take more memory than this, even where ``capacity`` says nothing."""
        settings = self._context.settings
        return len(self.zone) >= settings.max_stored or self._bytes + size > settings.max_stored_bytes

    def _choose_victim(self, for_own: bool) -> Id | None:
        others = [key for key, stored in self.zone.items() if not stored.own]
        evict = self._context.settings.evict
        if not others or (evict == "none" and not for_own):
            return None
        return self._context.rng.choice(others) if evict == "random" else others[0]

    def _is_covered(self, item: Item) -> bool:
        """Is there one of the same subscriber that covers it, and for as long? Addresses are what a query is for."""
        until = self._context.now + item.lease if item.lease else math.inf
        return any(
            one.item.key[0] == item.key[0] and one.expires >= until and covers(one.item.filter, item.filter)
            for one in self.zone.values()
        )

    def _drop_covered(self, item: Item) -> None:
        until = self._context.now + item.lease if item.lease else math.inf
        covered = [
            key
            for key, one in self.zone.items()
            if key[0] == item.key[0] and not one.own and one.expires <= until and covers(item.filter, one.item.filter)
        ]
        for key in covered:
            self._remove(key)
            self._context.count("store.covered")

    # -- what is cancelled or too old

    def _cancel(self, item: Item) -> None:
        known = self.zone.get(item.key)
        if known is not None and known.own:
            return  # nobody but this node cancels its own
        if known is not None and known.item.version < item.version:
            self._remove(item.key)
        self._bury(item)

    def _bury(self, item: Item) -> None:
        self.gone[item.key] = max(item.version, self.gone.pop(item.key, 0))
        trim(self.gone, MOST_GONE)

    def _is_gone(self, item: Item) -> bool:
        return bool(self.gone) and self.gone.get(item.key, -1) >= item.version

    def _purge(self) -> None:
        now = self._context.now
        for key in [key for key, one in self.zone.items() if one.expires <= now]:
            self._remove(key)
            self._context.count("store.expired")

    def local_match(self, criterion: Criterion) -> dict[Id, Item]:
        """What the data zone has for a query; leases that are over are found here (7.6)."""
        found: dict[Id, Item] = {}
        if self._context.settings.lease_seconds:
            self._purge()
        if type(criterion) is tuple:
            stored = self.zone.get(criterion)
            return {criterion: self._copy(stored)} if stored is not None else found
        matches = self.matches
        for key, one in self.zone.items():
            if matches(criterion, one.item):  # type: ignore[arg-type]  # not a key
                found[key] = self._copy(one)
        return found

    def _copy(self, stored: Stored) -> Item:
        """The item as it is told to others: with what is left of its lease."""
        if stored.expires == math.inf:
            return stored.item
        left = max(stored.expires - self._context.now, 1e-3)
        return msgspec.structs.replace(stored.item, lease=left)

    # -- collection

    def query(self, event: Event, pid: Id) -> None:
        """QUERY: ``collected`` is called when its time is over."""
        context, settings = self._context, self._context.settings
        id = self._pampa.new_id()
        gather = self._begin(id, event, None, 0)
        gather.pid = pid
        gather.items = self.local_match(event)
        self._pampa.broadcast(Query(id, event, settings.query_hops, 1), "who wants this publication?")
        context.set_timer(("collect", id), settings.wait_seconds)

    def _begin(self, message_id: Id, criterion: Criterion, parent: Name | None, hops: int) -> Gather:
        context, settings = self._context, self._context.settings
        gathers, now = self.gathers, context.now
        while gathers and next(iter(gathers.values())).expires <= now:
            del gathers[next(iter(gathers))]
        gather = gathers[message_id] = Gather(criterion, parent, hops, now + EXPIRY * settings.wait_seconds)
        if len(gathers) > settings.max_gathers:
            context.count("refused.gathers", trim(gathers, settings.max_gathers))
        return gather

    def on_query(self, sender: Name, message: Query, signal_dbm: float | None) -> None:
        """The first copy. A node never notifies from a query."""
        items = self.local_match(message.event)
        relays = message.ttl > 1
        if items or relays:
            gather = self._begin(message.id, message.event, sender, message.hops)
            gather.items = items
        if relays:
            self._pampa.hold(message, sender, signal_dbm)
            return
        self._pampa.finish(message.id)
        if items:
            jitter = self._context.rng.uniform(0.0, self._context.settings.reply_jitter_seconds)
            self._context.set_timer(("fire", message.id), jitter)

    def decide_query(self, hold: Hold) -> None:
        message: Query = hold.message
        if not self._pampa.is_relay(hold):
            self.fire(message.id)
            return
        query = Query(message.id, message.event, message.ttl - 1, min(message.hops + 1, 255))
        self._context.broadcast(query, "few copies of the query were heard")
        self._context.set_timer(("fire", message.id), self._context.settings.hop_seconds * (message.ttl - 1))

    def fire(self, message_id: Id) -> None:
        """Answer with what was not sent yet."""
        gather = self.gathers.get(message_id)
        if gather is None or gather.parent is None:
            return
        gather.fired = True
        fresh = tuple(item for key, item in gather.items.items() if key not in gather.sent)
        if fresh or gather.moved:
            gather.sent.update(dict.fromkeys(item.key for item in fresh))
            moved, gather.moved = gather.moved, []
            for items, others in zip_longest(parts_of(fresh), parts_of(moved), fillvalue=()):
                self._context.send(gather.parent, Reply(message_id, items, others), "the way back of the query")

    def on_reply(self, sender: Name, message: Reply) -> None:
        context = self._context
        gather = self.gathers.get(message.id)
        if gather is None or gather.expires <= context.now:
            context.count("refused.reply")
            return
        fresh = self._admit(gather, message.items)
        if message.moved or context.settings.shuffle:
            self._shuffle(gather, fresh, message.moved)
        if type(gather.criterion) is tuple:
            self._on_answer(message.id, gather, fresh)
        elif gather.parent is not None:
            if gather.fired and (fresh or gather.moved):
                self.fire(message.id)  # a straggler
        elif gather.fired and fresh:
            self.late(gather, fresh)

    def _admit(self, gather: Gather, items: tuple[Item, ...]) -> list[Item]:
        """What a reply adds: no duplicates, nothing that the query did not ask for, and not without limit."""
        fresh = []
        for item in items:
            if item.key in gather.items:
                continue
            wanted = item.key == gather.criterion or (
                type(gather.criterion) is Event and bool(item.filter) and self.matches(gather.criterion, item)
            )
            if not wanted or self._is_gone(item):
                self._context.count("refused.item")
            elif len(gather.items) >= self._context.settings.max_items:
                self._context.count("refused.items")
            else:
                gather.items[item.key] = item
                fresh.append(item)
        return fresh

    def is_collected(self, message_id: Id) -> None:
        """The time of the origin's query is over."""
        gather = self.gathers.get(message_id)
        if gather is not None and not gather.fired:
            gather.fired = True
            self.collected(gather)

    # -- lookup by key (5.6)

    def find(self, key: Id) -> None:
        """LOOKUP; ``Found`` is reported."""
        item = self.local_match(key).get(key)
        if item is not None:
            self._context.out.append(Report(Found(key, item)))
        else:
            self._ask_ring(key, 1)

    def _ask_ring(self, key: Id, ring: int) -> None:
        id = self._pampa.new_id()
        gather = self._begin(id, key, None, 0)
        gather.ring = ring
        wait = self._context.settings.hop_seconds * (ring + 1)
        gather.expires = max(gather.expires, self._context.now + 2 * wait)
        self._pampa.broadcast(Lookup(id, key, ring, 1), "who has this item?")
        self._context.set_timer(("ring", id), wait)

    def ring_is_over(self, message_id: Id) -> None:
        gather = self.gathers.get(message_id)
        if gather is None or gather.fired or type(gather.criterion) is not tuple:
            return
        gather.fired = True
        if gather.ring < self._context.settings.lookup_hops:
            self._ask_ring(gather.criterion, gather.ring + 1)
        else:
            self._context.out.append(Report(Found(gather.criterion, None)))

    def on_lookup(self, sender: Name, message: Lookup, signal_dbm: float | None) -> None:
        gather = self._begin(message.id, message.key, sender, message.hops)
        gather.items = self.local_match(message.key)
        if gather.items:
            self._pampa.finish(message.id)
            jitter = self._context.rng.uniform(0.0, self._context.settings.reply_jitter_seconds)
            self._context.set_timer(("fire", message.id), jitter)
        elif message.ttl > 1:
            self._pampa.hold(message, sender, signal_dbm)
        else:
            self._pampa.finish(message.id)

    def decide_lookup(self, hold: Hold) -> None:
        message: Lookup = hold.message
        if self._pampa.is_relay(hold):
            lookup = Lookup(message.id, message.key, message.ttl - 1, min(message.hops + 1, 255))
            self._context.broadcast(lookup, "few copies of the lookup were heard")

    def _on_answer(self, message_id: Id, gather: Gather, fresh: list[Item]) -> None:
        if not fresh:
            return
        if gather.parent is not None:
            self.fire(message_id)
        elif not gather.fired:
            gather.fired = True
            self._context.cancel_timer(("ring", message_id))
            self._context.out.append(Report(Found(fresh[0].key, fresh[0])))

    # -- shuffling (5.7)

    def _shuffle(self, gather: Gather, fresh: list[Item], moved: tuple[Item, ...]) -> None:
        """Exchange a copy with an answer that passes, so that copies move and their number stays."""
        context = self._context
        for item in moved:
            if item.key in self.zone or not item.filter or self._is_gone(item):
                continue
            if self._has_room(item):
                self._put(item, own=False, dist=0)
            elif gather.parent is not None and len(gather.moved) < context.settings.max_items:
                gather.moved.append(item)
        if gather.parent is None or not context.settings.shuffle:
            return
        for item in fresh:
            if item.key in self.zone or context.rng.random() >= context.settings.p_shuffle:
                continue
            others = [key for key, stored in self.zone.items() if not stored.own]
            if others:
                victim = context.rng.choice(others)
                gather.moved.append(self._copy(self.zone[victim]))
                self._remove(victim)
                self._put(item, own=False, dist=gather.hops)
                context.count("store.shuffled")

    def _has_room(self, item: Item) -> bool:
        settings = self._context.settings
        if self._is_beyond_limits(item_bytes(item)):
            return False
        return (not settings.capacity or len(self.zone) < settings.capacity) and (
            not settings.capacity_bytes or self._bytes + item_bytes(item) <= settings.capacity_bytes
        )
