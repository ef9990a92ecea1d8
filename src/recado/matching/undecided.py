"""Matching that can be cut: what the kernels decide at once, and what they leave to the plain evaluator as work to do.

``Index.match`` decides everything before it returns, however long that takes. A service has others to serve meanwhile:
it asks for what the kernels find (``sift_event``, ``sift_events``, ``sift_texts``), and gets the filters that they
could not decide as ``Undecided``, each with its evaluation in steps (``recado.filters.evaluate``). The found and those
of the undecided that turn out true are exactly what ``match`` gives.

An event is matched one view at a time, and subscriptions may come and go in between: results are ids, never numbers of
entries, which pass to others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recado.filters.evaluate import Steps, Work, decide, names_of
from recado.filters.nodes import View
from recado.model.event import Event, expansions
from recado.model.filter import Filter
from recado.model.limits import LIMITS

if TYPE_CHECKING:
    from recado.matching.encode import Columns
    from recado.matching.index import Index
    from recado.matching.scanner import Scanned

Array = NDArray[Any]
TAKEN_IN = 8_192
"""So many undecided entries are named at a time."""
NARROW, LONG = 8, 4_096
"""An event with at most so many choices of array elements, and no longer string, is an ordinary one."""


class Undecided(NamedTuple):
    """Filters that the kernels could not decide for an event, each with the ids of the subscriptions that have it.

    ``steps`` evaluates one of them. There may be a hundred thousand, so they are not objects of their own.
    """

    event: int
    ids: list[list[str]]
    filters: list[Any]
    steps: Callable[[Any, Work], Steps]


class Sifted(NamedTuple):
    """For each of some events the ids that are found; and what is undecided, by event.

    If subscriptions came and went meanwhile, an id may be both found and undecided, or undecided twice.
    """

    found: list[list[str]]
    undecided: list[Undecided]


Sifting = Generator[None, None, tuple[list[str], list[Undecided]]]
Evaluation = Callable[[Filter, Work], Steps]
"""The evaluation of a filter on an event that is known."""


def evaluation(event: Event) -> Evaluation:
    """The steps that evaluate a filter on an event."""
    if any(type(value) is tuple for value in event.attributes.values()):
        return partial(_evaluating, event)
    view = next(expansions(event))
    return lambda filter, work: decide(filter, (view,), work)


def _evaluation_of(events: Sequence[Event], at: int) -> Evaluation:
    return evaluation(events[at])


def _evaluating(event: Event, condition: Filter, work: Work) -> Steps:
    """Arrays that the filter does not name do not multiply the work."""
    return decide(condition, expansions(event, names_of(condition)), work)


def sift_event(index: Index, event: Event, number: int) -> Sifting:
    """Match one event, its ``number`` among others, one view at a time."""
    return sift_views(index, expansions(event, index.dictionary.names), number, evaluation(event))


def sift_views(index: Index, views: Iterable[View], number: int, steps: Evaluation) -> Sifting:
    """The same for the views of an event as the index takes them."""
    sieve = _Sieve(index)
    begun = False
    for view in views:
        if begun:
            yield
        begun = True
        while not sieve.run(view):
            yield
    ids, owners, filters = sieve.ids, sieve.owners, sieve.filters
    index.count(1, len(ids))
    if ids and owners:
        left = [at for at, some in enumerate(owners) if some[0] not in ids]
        owners, filters = [owners[at] for at in left], [filters[at] for at in left]
    return list(ids), [Undecided(number, owners, filters, steps)] if owners else []


class _Sieve:
    """What the views of an event have given so far. Entries are those of the index as it was at ``change``."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._change = -1
        self._restarted = False
        self._seen = self._doubted = np.zeros(0, np.bool_)
        self._waiting: Array | None = None  # uncertain entries of the view in hand
        self.ids: dict[str, None] = {}
        self.owners: list[list[str]] = []
        self.filters: list[Filter] = []

    def run(self, view: View) -> bool:
        """Take in a view; False if there is so much to take in that it should be called again with the same one.

        If subscriptions changed in between it begins anew, and takes all at once: else it might never end.
        """
        index = self._index
        with index.lock:
            if index.changes != self._change:
                self._change = index.changes
                self._seen, self._doubted = np.zeros((2, index.store.capacity), np.bool_)
                self._restarted, self._waiting = self._waiting is not None, None
            if self._waiting is None:
                found, uncertain = index.run_view(view)
                if len(new := _first(found, self._seen)):
                    self.ids.update(dict.fromkeys(index.registry.id_array(index.registry.slots(new)).to_pylist()))
                self._waiting = _first(uncertain, self._doubted)  # some of them may be found yet
            most = len(self._waiting) if self._restarted else TAKEN_IN
            now, self._waiting = self._waiting[:most], self._waiting[most:]
            if len(now):
                self.owners += _ids_of(index, now)
                self.filters += map(index.opaque_filter, now.tolist())
        if len(self._waiting):
            return False
        self._waiting, self._restarted = None, False
        return True


def _first(entries: Array, seen: Array) -> Array:
    """Those of the entries that have not been seen, which they are from now on."""
    new = entries[~seen[entries]]
    seen[new] = True
    return new


def is_narrow(event: Event) -> bool:
    """Has the event few views, and no long string? Others are matched alone, one view at a time."""
    combinations = 1
    for value in event.attributes.values():
        if type(value) is str:
            if len(value) > LONG:
                return False
        elif type(value) is tuple:
            combinations *= len(value) or 1
            if combinations > NARROW or any(type(one) is str and len(one) > LONG for one in value):
                return False
    return True


def sift_events(index: Index, events: Sequence[Event], numbers: Sequence[int]) -> Sifted:
    """Match many events at once; ``numbers`` are those by which what is undecided names them."""
    from recado.matching.encode import flat_list  # noqa: PLC0415  # as below: a service begins without it

    with index.lock:
        views, owners = flat_list(list(expansions(event, index.dictionary.names)) for event in events)
        columns = index.encoder.from_views(views)
        return sift_columns(index, columns, owners, numbers, partial(_evaluation_of, events))


def sift_texts(index: Index, texts: Sequence[bytes], events: Sequence[Event], numbers: Sequence[int]) -> Sifted:
    """The same from the texts of the events, most of which become columns in machine code; the rest as events."""
    from recado.matching.json_texts import joined  # noqa: PLC0415

    every = joined(texts)
    found: list[list[str]] = [[] for _ in texts]
    undecided: list[Undecided] = []
    first = 0
    with index.lock:
        while first < every.size:
            scanned = index.scan(every.part(first, every.size), LIMITS, needs_id=True)
            part = slice(first, first + scanned.seen)
            sifted = sift_columns(index, scanned, scanned.owners, numbers[part], partial(_evaluation_of, events[part]))
            found[part] = sifted.found
            undecided += sifted.undecided
            left = [first + at for at in scanned.left.tolist()]
            if left:
                also = sift_events(index, [events[at] for at in left], [numbers[at] for at in left])
                undecided += also.undecided
                for at, ids in zip(left, also.found, strict=True):
                    found[at] = ids
            first += scanned.seen
    return Sifted(found, undecided)


def sift_columns(
    index: Index,
    columns: Columns | Scanned,
    owners: Array,
    numbers: Sequence[int],
    steps: Callable[[int], Evaluation],
) -> Sifted:
    """The same for columns of views; ``owners`` says which of the events each view belongs to."""
    from recado.matching.kernels.columns import UNCERTAIN  # noqa: PLC0415

    size = len(numbers)
    with index.lock:
        rows, found = index.run_columns(columns)
        entries = (found & 0xFFFFFFFF).astype(np.int32)
        sure = found < UNCERTAIN
        of_events = owners[rows]
        events, entries_found = index.distinct(of_events[sure], entries[sure], size)
        index.count(size, len(events))
        ids = _group(index, events, entries_found, size)
        if sure.all():
            return Sifted(ids, [])
        doubted, entries_doubted = index.distinct(of_events[~sure], entries[~sure], size)
        left = ~np.isin(_pairs(doubted, entries_doubted), _pairs(events, entries_found))
        doubted, entries_doubted = doubted[left], entries_doubted[left]
        several = np.unique(entries_doubted)
        numbered = several.tolist()
        pairs = zip(_ids_of(index, several), map(index.opaque_filter, numbered), strict=True)
        known = dict(zip(numbered, pairs, strict=True))
    undecided = []
    ends = np.searchsorted(doubted, np.arange(size + 1))  # they stand by event
    for event, (start, end) in enumerate(pairwise(ends.tolist())):
        if end > start:
            some = [known[entry] for entry in entries_doubted[start:end].tolist()]
            undecided.append(
                Undecided(numbers[event], [one[0] for one in some], [one[1] for one in some], steps(event))
            )
    return Sifted(ids, undecided)


def _pairs(events: Array, entries: Array) -> Array:
    return events.astype(np.int64) << 32 | entries


def _ids_of(index: Index, entries: Array) -> list[list[str]]:
    """For each entry the ids of its subscriptions."""
    ids: list[str] = index.registry.id_array(index.registry.slots(entries)).to_pylist()
    if len(ids) == len(entries):  # each has one at least
        return [[id] for id in ids]
    return _group(index, np.arange(len(entries), dtype=np.int32), entries, len(entries))


def _group(index: Index, events: Array, entries: Array, size: int) -> list[list[str]]:
    """The ids of pairs of an event and an entry, by event."""
    from recado.matching.kernels.columns import sort_by_event  # noqa: PLC0415

    registry = index.registry
    offsets, slots = sort_by_event(events, entries, registry.members, registry.blocks, size)
    ids: list[str] = registry.id_array(slots).to_pylist() if len(slots) else []
    return [ids[start:end] for start, end in pairwise(offsets.tolist())]
