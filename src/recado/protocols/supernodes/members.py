"""Who is in the layer: members, views, and the tables that nodes with equal views share.

Every member of the layer knows every other (complete visibility). What it knows follows from the set of membership
events that it has seen, and from nothing else: a member is there if a join of it was seen and no departure. The set is
its ``View``, a vector of stamps. Events may come in any order.

In a simulation of 20,000 nodes most of them have seen the same, and a table of their own for each would not fit into
memory. So a ``Membership`` (a view and its table) is an immutable value that is shared: applying an event gives another
one, worked out when the first node does it and found again by all others (``apply`` is one look into a dict). Values
that were reached by different orders of the same events are one object, so that equal views are known at once. Nothing
is ever looked up for a node that it could not have worked out alone: with a ``Home`` of its own for every node, a run
takes the same steps.

Cost: a step of one node is O(1), or O(log members) where intervals are cut. Making a new value is O(members), once for
each event and each different view in the system, and so are the groups by filter and the sizes of downloads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias
from weakref import ReferenceType, WeakValueDictionary, ref

import msgspec

from recado.protocols.algebra import name_of
from recado.protocols.wire import WireError

SPACE = 1 << 63
"""Identifiers are numbers below this; the number itself, as the end of an interval, fits into a message too."""

MOST_MEMBERS = 1_000_000
MOST_ORIGINS = 100_000
MOST_CHANGES = 100_000
"""More than that is no list that a peer would send."""

MOST_LACKING = 10_000
"""So many events are named at once as missing; a view from outside may claim any number."""

COMPARED = 8

Endpoint: TypeAlias = int | str
Stamp: TypeAlias = tuple[int, int]
"""The identifier of the member that spread an event, and the number of the event among its own, from 1."""


class Member(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A member of the layer. An identifier is drawn anew whenever a node enters, so it never comes back."""

    key: int
    endpoint: Endpoint
    filter: str
    """The canonical expression, as ``recado.filters.normal`` writes it."""


# --- Views -----------------------------------------------------------------------------------------------------------


class View:
    """Which membership events were seen: of each origin all up to a number, and some beyond it. Immutable."""

    __slots__ = ("__weakref__", "_compared", "beyond", "digest", "sequencers", "size", "upto")

    def __init__(
        self, upto: dict[int, int], beyond: frozenset[Stamp], digest: int | None, sequencers: frozenset[int]
    ) -> None:
        """``digest`` is the same for equal views, and None for one that came from outside.

        ``sequencers`` are the origins that spread joins; it follows from the events.
        """
        self.upto, self.beyond, self.digest, self.sequencers = upto, beyond, digest, sequencers
        self.size = len(sequencers) + len(beyond)
        """How many stamps are accounted for it: one for each sequencer (1.7), and those that came out of order.

        Others spread departures alone, often only once; the document does not say how a view would tell that.
        """
        self._compared: dict[int, tuple[ReferenceType[View], list[Stamp]]] = {}

    def __contains__(self, stamp: Stamp) -> bool:
        return stamp[1] <= self.upto.get(stamp[0], 0) or stamp in self.beyond

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, View):
            return NotImplemented
        if self.digest != other.digest and self.digest is not None and other.digest is not None:
            return False
        return self.upto == other.upto and self.beyond == other.beyond

    __hash__ = None  # type: ignore[assignment]  # equal views may have no common number to be found by

    def __repr__(self) -> str:
        return f"View({self.upto}, {sorted(self.beyond)})"

    def add(self, stamp: Stamp, *, joins: bool = False) -> View:
        """The view with one event more, of joins or of departures alone; the stamp must be new to it."""
        origin, number = stamp
        upto, beyond = self.upto, self.beyond
        if number == upto.get(origin, 0) + 1:
            while (origin, number + 1) in beyond:
                number += 1
                beyond = beyond - {(origin, number)}
            upto = upto | {origin: number}
        else:
            beyond = beyond | {stamp}
        sequencers = self.sequencers if not joins or origin in self.sequencers else self.sequencers | {origin}
        return View(upto, beyond, None if self.digest is None else self.digest ^ hash(stamp), sequencers)

    def covers(self, other: View) -> bool:
        """Has it seen all that ``other`` has?"""
        if self is other:
            return True
        if other.digest is None:  # from outside: it may claim any number of events, so none of them are listed
            return other._is_within(self)
        return not other.beyond_of(self)

    def _is_within(self, other: View) -> bool:
        """Has ``other`` seen all of it? The first event that it has not decides."""
        theirs, beyond = other.upto, other.beyond
        for origin, number in self.upto.items():
            if any((origin, one) not in beyond for one in range(theirs.get(origin, 0) + 1, number + 1)):
                return False
        return all(stamp in other for stamp in self.beyond)

    def beyond_of(self, other: View) -> list[Stamp]:
        """What it has seen and ``other`` has not, in order. Few views meet, and often: the answer is remembered."""
        known = self._compared.get(id(other))
        if known is not None and known[0]() is other:
            return known[1]
        found = self._compare(other)
        if len(self._compared) >= COMPARED:
            self._compared.clear()
        self._compared[id(other)] = (ref(other), found)
        return found

    def _compare(self, other: View) -> list[Stamp]:
        theirs, beyond = other.upto, other.beyond
        found: list[Stamp] = []
        for origin, number in self.upto.items() - theirs.items():
            for one in range(theirs.get(origin, 0) + 1, number + 1):
                if (origin, one) not in beyond:
                    found.append((origin, one))
                    if len(found) >= MOST_LACKING:
                        return sorted(found)
        found += [stamp for stamp in self.beyond if stamp not in other]
        return sorted(found)

    def to_wire(self) -> Any:
        return [sorted(self.upto.items()), sorted(self.beyond), sorted(self.sequencers)]

    @staticmethod
    def from_wire(plain: Any) -> View:
        """What ``to_wire`` gave; a WireError for anything else."""
        first, second, third = plain
        upto, beyond = _pairs(first, MOST_ORIGINS), _pairs(second, MOST_ORIGINS)
        sequencers = frozenset(msgspec.convert(third, list[int]))
        # a digest would cost as much as all events there ever were
        return View(dict(upto), frozenset(beyond), None, sequencers)


NOTHING_SEEN = View({}, frozenset(), 0, frozenset())


def _pairs(plain: Any, most: int) -> list[Stamp]:
    if not isinstance(plain, list) or len(plain) > most:
        raise WireError(f"a list of at most {most:,} stamps was expected")
    pairs = [(key, number) for key, number in plain]
    for key, number in pairs:
        if type(key) is not int or type(number) is not int or not 0 <= key < SPACE or number < 1:
            raise WireError(f"{key!r}, {number!r} is no stamp of a membership event")
    return pairs


# --- Events ----------------------------------------------------------------------------------------------------------


class Change:
    """A membership event: joins and departures that were spread together. Immutable, and equal only to itself.

    ``full`` are the identifiers whose record names its filter in full; the others are told by the filter's hash.
    """

    __slots__ = ("full", "join_keys", "joins", "leave_keys", "leaves", "stamp")

    def __init__(self, stamp: Stamp, joins: tuple[Member, ...], leaves: tuple[int, ...], full: frozenset[int]) -> None:
        self.stamp, self.joins, self.leaves, self.full = stamp, joins, leaves, full
        self.join_keys = frozenset(member.key for member in joins)
        self.leave_keys = frozenset(leaves)

    def __repr__(self) -> str:
        return f"Change({self.stamp}, +{[member.endpoint for member in self.joins]}, -{list(self.leaves)})"

    def to_wire(self) -> Any:
        return [list(self.stamp), list(self.joins), list(self.leaves), sorted(self.full)]

    @staticmethod
    def from_wire(plain: Any) -> Change:
        stamp, joins, leaves, full = plain
        if max(len(joins), len(leaves), len(full)) > MOST_CHANGES:
            raise WireError(f"a membership event has at most {MOST_CHANGES:,} changes")
        members = tuple(msgspec.convert(joins, tuple[Member, ...]))
        keys = tuple(msgspec.convert(leaves, tuple[int, ...]))
        for key in (*(member.key for member in members), *keys):
            check_key(key)
        return Change(_pairs([stamp], 1)[0], members, keys, frozenset(msgspec.convert(full, tuple[int, ...])))


def check_key(key: int) -> int:
    if not 0 <= key < SPACE:
        raise WireError(f"{key} is no identifier of a member")
    return key


class Cell:
    """A list of events, the latest first, that shares its tail with others."""

    __slots__ = ("before", "change", "length")

    def __init__(self, change: Change, before: Cell | None, length: int) -> None:
        self.change, self.before, self.length = change, before, length


# --- Memberships -----------------------------------------------------------------------------------------------------

BUCKETS = 64
NOBODY_LEFT: tuple[frozenset[int], ...] = (frozenset(),) * BUCKETS


class Home:
    """Where equal memberships are found again: one for all nodes that may share them."""

    __slots__ = ("_known", "_roots", "max_log")

    def __init__(self, max_log: int = 4_096) -> None:
        self.max_log = max_log
        self._roots = 0
        self._known: WeakValueDictionary[tuple[int, int | None], Membership] = WeakValueDictionary()

    def found(self, members: Sequence[Member]) -> Membership:
        """A membership of which nothing is known but who is there."""
        return Membership(self, NOTHING_SEEN, members, NOBODY_LEFT)

    def adopt(self, other: Membership) -> Membership:
        """The same membership, of this home."""
        if other.home is self:
            return other
        return Membership(self, other.view, other.members, other.gone)

    def new_root(self) -> int:
        self._roots += 1
        return self._roots

    def extend(self, old: Membership, change: Change) -> Membership:
        """The membership with an event that is new to it."""
        view = old.view.add(change.stamp, joins=bool(change.joins))
        name = (old.root, view.digest)
        known = self._known.get(name)
        if known is not None and known.view == view:
            return known
        new = old.changed(view, change)
        self._known[name] = new
        return new


class Membership:
    """A view, and the members that follow from it, in the order of their identifiers."""

    __slots__ = (
        "__weakref__", "_by_filter", "_next", "_sizes", "gone", "home", "keys", "log", "members", "root", "view",
    )  # fmt: skip

    def __init__(
        self,
        home: Home,
        view: View,
        members: Iterable[Member],
        gone: tuple[frozenset[int], ...],
        *,
        keys: Iterable[int] | None = None,
        root: int | None = None,
    ) -> None:
        """A membership to begin with, ``members`` in the order of their keys; others come from it by ``apply``."""
        self.home, self.view, self.gone = home, view, gone
        self.log: Cell | None = None
        self.members = list(members)
        self.keys = [member.key for member in self.members] if keys is None else list(keys)
        self.root = home.new_root() if root is None else root
        """Memberships that began differently are not taken for each other, even if their views are equal."""
        self._next: dict[Change, Membership] = {}
        self._by_filter: Mapping[str, tuple[Member, ...]] | None = None
        self._sizes: dict[int, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def apply(self, change: Change) -> Membership:
        """The membership with this event; itself if it was seen."""
        found = self._next.get(change)
        if found is None:
            if change.stamp in self.view:
                return self
            found = self._next[change] = self.home.extend(self, change)
        return found

    def changed(self, view: View, change: Change) -> Membership:
        """What ``apply`` gives, made anew."""
        gone = self.gone
        if change.leaves:
            buckets = list(gone)
            for key in change.leaves:
                buckets[key % BUCKETS] = buckets[key % BUCKETS] | {key}
            gone = tuple(buckets)
        new = Membership(self.home, view, self.members, gone, keys=self.keys, root=self.root)
        new.log = _shorten(Cell(change, self.log, self.log.length + 1 if self.log else 1), self.home.max_log)
        for key in change.leaves:
            at = bisect_left(new.keys, key)
            if at < len(new.keys) and new.keys[at] == key:
                del new.keys[at], new.members[at]
        for member in change.joins:
            key = member.key
            if key not in gone[key % BUCKETS]:
                at = bisect_left(new.keys, key)
                if at == len(new.keys) or new.keys[at] != key:
                    new.keys.insert(at, key)
                    new.members.insert(at, member)
                elif str(member.endpoint) < str(new.members[at].endpoint):  # of two that claim it, always the same one
                    new.members[at] = member
        return new

    def changes(self, stamps: Sequence[Stamp]) -> list[Change]:
        """The events of these stamps, as far as they are kept, in the order of the stamps."""
        wanted = dict.fromkeys(stamps)
        found: dict[Stamp, Change] = {}
        cell = self.log
        while cell is not None and len(found) < len(wanted):
            if cell.change.stamp in wanted:
                found[cell.change.stamp] = cell.change
            cell = cell.before
        return [found[stamp] for stamp in stamps if stamp in found]

    # -- who is where

    def find(self, key: int) -> Member | None:
        at = bisect_left(self.keys, key)
        return self.members[at] if at < len(self.keys) and self.keys[at] == key else None

    def span(self, low: int, high: int) -> tuple[int, int]:
        """The places of the members with low <= key < high: the first, and the one after the last."""
        return bisect_left(self.keys, low), bisect_left(self.keys, high)

    def ring(self, low: int, high: int) -> tuple[int, int]:
        """Of an interval that may go over the end of the space: the first place, and how many follow it around."""
        first, last = bisect_left(self.keys, low), bisect_left(self.keys, high)
        return first, last - first if low <= high else last - first + len(self.keys)

    def leader(self, key: int, slices: int) -> Member | None:
        """The member with the lowest identifier of the slice that ``key`` is in, or of the next one with members.

        None if there is no member at all: after a partition all may have been taken for gone.
        """
        if not self.members:
            return None
        at = bisect_left(self.keys, -(-(key * slices // SPACE) * SPACE // slices) if slices > 1 else 0)
        return self.members[at % len(self.members)]

    def by_filter(self, text: str) -> tuple[Member, ...]:
        """The members with an equal filter."""
        if self._by_filter is None:
            groups: dict[str, list[Member]] = {}
            for member in self.members:
                groups.setdefault(name_of(member.filter), []).append(member)
            self._by_filter = {name: tuple(group) for name, group in groups.items()}
        return self._by_filter.get(name_of(text), ())

    def piece(self, number: int, pieces: int) -> tuple[int, int]:
        """Of one of ``pieces`` parts of the members: the filters that are met first in it, and the other members."""
        sizes = self._sizes.get(pieces)
        if sizes is None:
            sizes = self._sizes[pieces] = list(_count_filters(self.members, pieces))
        return sizes[number]

    def to_wire(self) -> Any:
        return [self.view.to_wire(), self.members]

    @staticmethod
    def from_wire(plain: Any) -> Membership:
        view, members = plain
        if len(members) > MOST_MEMBERS:
            raise WireError(f"{len(members):,} members; the limit is {MOST_MEMBERS:,}")
        known = msgspec.convert(members, tuple[Member, ...])
        if any(one.key >= two.key for one, two in pairwise(known)):
            raise WireError("members are not in the order of their identifiers")
        for member in known:
            check_key(member.key)
        return Membership(Home(), View.from_wire(view), known, NOBODY_LEFT)


def _count_filters(members: Sequence[Member], pieces: int) -> Iterator[tuple[int, int]]:
    met: set[str] = set()
    for number in range(pieces):
        part = members[len(members) * number // pieces : len(members) * (number + 1) // pieces]
        before = len(met)
        met.update(name_of(member.filter) for member in part)
        yield len(met) - before, len(part) - (len(met) - before)


def _shorten(cell: Cell, most: int) -> Cell:
    """The list, cut to the latest ``most`` when it has twice as many."""
    if cell.length < 2 * most:
        return cell
    kept: list[Change] = []
    at: Cell | None = cell
    while at is not None and len(kept) < most:
        kept.append(at.change)
        at = at.before
    short: Cell | None = None
    for number, change in enumerate(reversed(kept), 1):
        short = Cell(change, short, number)
    return short or cell
