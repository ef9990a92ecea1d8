"""Where each subscription is placed: a plan, made from a sample, that executors apply to every subscription.

The aim is that partitions hold about equally many subscriptions and that an event visits few of them. Two things are
decided, both from the sample alone, so a set of any size costs the driver the same:

- **Which key finds a subscription.** Values of one dimension exclude each other, so a dimension, however many
  partitions it spans, costs an event one visit, and every further dimension one more; only a value that is too heavy
  for one partition costs several. Dimensions are therefore chosen as in set cover: first the one that finds the most
  subscriptions not yet found for the visits it is expected to cost. How often events have a value is taken from how
  many subscriptions ask for it: people ask for what there is.
- **Where a key lies.** All keys in use are laid in one line and the line is cut into equal pieces. Dimensions that
  the same subscriptions speak of (and so, presumably, the same events have) lie next to each other, so that the visits
  they cost fall on the same partition. A light key lies in one partition whole; a heavy one is spread over the pieces
  that it spans, by a hash of the subscription's id.

The plan decides cost, never results: events are routed by what partitions hold (``router``), not by what was planned.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain, combinations
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from recado.matching.batch import Pairs
from recado.matching.index import Index
from recado.model.filter import (
    FALSE,
    TRUE,
    And,
    Between,
    Compare,
    Constant,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Regex,
    Similar,
    Sql,
    Text,
)
from recado.model.subscription import Subscription
from recado.model.values import EPOCH, Kind, Value, canonical, kind_of, microseconds

# --- Routing keys: what an event must have for a filter to match at all, in a form that can be counted and sorted
#
# A *key* is one necessary condition on one attribute, joined with the event type where the filter names it exactly. An
# *access* is a set of keys of which at least one holds whenever the filter does; ``accesses`` gives every access that
# can be read off the filter's shape. So whoever sends an event to where its keys lead reaches every filter that may
# match.
#
# ================  =========================================  =========================================================
# form              key                                        comes from
# ================  =========================================  =========================================================
# ``=s =n =b =t``   the attribute equals a value of that kind  ``==``, a point, each value of a set
# ``n12``, ``t20``  it lies in a cell of 2 * 2^12 numbers      ranges with two ends; the level follows from their width
# ``^3``           it begins with three given characters     prefixes, patterns with a literal beginning, string ranges
# ``?``             it is there                                every other predicate
# ````              always true                                whatever is left: negations, CESQL, nothing at all
# ================  =========================================  =========================================================
#
# Cells and prefixes of one form either coincide or differ in their lower end, so within a *dimension* (type, attribute
# and form) keys are sorted by it. Arrays need no thought: some single-valued view of the event matches the filter, and
# the key holds in that view.


MOST_KEYS = 16
"""An access with more keys is not used: each of them may lead events to the filter's partition."""
PREFIX_CHARS = 8
"""Longer prefixes are cut: an index finds beginnings by as many characters."""

_POINT = {Kind.STRING: "=s", Kind.NUMBER: "=n", Kind.BOOL: "=b", Kind.TIME: "=t"}


class Dimension(NamedTuple):
    """Keys that exclude or at least order each other: of one event type (or any), attribute and form."""

    type: str
    name: str
    form: str


class Key(NamedTuple):
    """A condition: the attribute lies between two values of one kind; presence and truth have none."""

    dimension: Dimension
    low: Any = 0
    high: Any = 0


Access = tuple[Key, ...]

ALWAYS = Key(Dimension("", "", ""))


def accesses(subscription: Subscription) -> list[Access]:
    """Every access that the shape of a subscription's filter offers; an empty one if it cannot match at all."""
    return _accesses(subscription.whole_filter())


def _accesses(condition: Filter) -> list[Access]:
    found: list[Access] = []
    ranges: list[Compare | Between] = []
    event_type = ""
    for part in _conjuncts(condition):
        if isinstance(part, Between) or (isinstance(part, Compare) and part.op != "=="):
            ranges.append(part)
            continue
        if isinstance(part, Compare) and part.name == "type" and isinstance(part.value, str):
            event_type = part.value
        found += _of_part(part)
    found += _of_ranges(ranges)
    if () in found:
        return [()]
    if event_type:
        found = [tuple(_with_type(key, event_type) for key in access) for access in found]
    return found or [(ALWAYS,)]


def key_filter(key: Key) -> Filter:
    """The key as a filter."""
    event_type, name, form = key.dimension
    condition: Filter
    match form[:1]:
        case "":
            return TRUE
        case "?":
            condition = Exists(name)
        case "^":
            condition = Text(name, "prefix", key.low)
        case _:
            condition = Compare(name, "==", key.low) if key.low == key.high else Between(name, key.low, key.high)
    return And((Compare("type", "==", event_type), condition)) if event_type else condition


def looseness(access: Access) -> tuple[int, int]:
    """How little an access tells, before anything is counted: by its loosest form, then by its number of keys."""
    return max((_LOOSENESS.get(key.dimension.form[:1], 1) for key in access), default=0), len(access)


_LOOSENESS = {"=": 0, "^": 2, "?": 3, "": 4}


# -- what single conjuncts offer ---------------------------------------------------------------------------------------


def _conjuncts(condition: Filter) -> Iterator[Filter]:
    """The parts of a conjunction, nested ones opened; double negations fall away."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, And):
            stack.extend(reversed(node.parts))
        elif isinstance(node, Not) and isinstance(node.part, Not):
            stack.append(node.part.part)
        else:
            yield node


def _of_part(part: Filter) -> list[Access]:
    """What a conjunct offers that is no range."""
    offer = ACCESSES.get(type(part))
    if offer is None:
        raise TypeError(f"{type(part).__name__} is not known to recado.pipeline.partitioned.plan.ACCESSES")
    return offer(part)


def _of_disjunction(parts: Iterable[Filter]) -> list[Access]:
    """The best access of each alternative, together."""
    keys: dict[Key, None] = {}
    for part in parts:
        best: Access = min(_accesses(part), key=looseness)
        keys |= dict.fromkeys(best)
    return [] if ALWAYS in keys or len(keys) > MOST_KEYS else [tuple(keys)]


def _of_set(node: In) -> list[Access]:
    points = tuple(dict.fromkeys(_point(node.name, value) for value in node.values))
    return _of_presence(node) if len(points) > MOST_KEYS else [points]


def _of_text(node: Text) -> list[Access]:
    if node.fold or node.op not in ("prefix", "like"):
        return _of_presence(node)
    return [(_prefix(node.name, node.pattern if node.op == "prefix" else _literal_beginning(node.pattern)),)]


def _of_presence(node: Any) -> list[Access]:
    """All that is sure of a predicate that cannot be looked up: its attribute is there."""
    return [(_present(node.name),)]


def _of_nothing(node: Filter) -> list[Access]:
    """A node that may hold for any event."""
    return []


ACCESSES: dict[type[Any], Callable[[Any], list[Access]]] = {
    Constant: lambda node: [] if node.value else [()],
    Compare: lambda node: [(_point(node.name, node.value),)] if node.op == "==" else _of_ranges([node]),
    Between: lambda node: _of_ranges([node]),
    In: _of_set,
    Text: _of_text,
    Regex: _of_presence,
    Exists: _of_presence,
    Similar: _of_presence,
    Sql: _of_nothing,
    Not: _of_nothing,
    Or: lambda node: _of_disjunction(node.parts),
}
"""By what each kind of node can be looked up; conjunctions are taken apart before."""


def _of_ranges(parts: Iterable[Compare | Between]) -> list[Access]:
    """Cells for attributes with a lower and an upper bound, in one predicate or in two; presence for others."""
    lows: dict[tuple[str, Kind], Any] = {}
    highs: dict[tuple[str, Kind], Any] = {}
    for part in parts:
        if isinstance(part, Between):
            lows[part.name, kind_of(part.low)] = part.low
            highs[part.name, kind_of(part.high)] = part.high
        else:  # any lower and any upper bound will do: all are necessary
            side = highs if part.op[0] == "<" else lows
            side[part.name, kind_of(part.value)] = part.value
    held = {at[0]: _present(at[0]) for at in (*lows, *highs)}
    for at, low in lows.items():
        if at in highs:
            held[at[0]] = _cell(*at, low, highs[at]) or held[at[0]]
    return [(key,) for key in held.values()]


# -- keys --------------------------------------------------------------------------------------------------------------


def _point(name: str, value: Value) -> Key:
    value = canonical(value)
    return Key(Dimension("", name, _POINT[kind_of(value)]), value, value)


def _present(name: str) -> Key:
    return Key(Dimension("", name, "?"))


def _prefix(name: str, prefix: str) -> Key:
    cut = prefix[:PREFIX_CHARS]
    return Key(Dimension("", name, f"^{len(cut)}"), cut, cut) if cut else _present(name)


def _cell(name: str, kind: Kind, low: Any, high: Any) -> Key | None:
    """The two cells, as wide as the range or up to twice, that it lies in; None if there are none of use."""
    if kind is Kind.BOOL or low > high:
        return None
    if low == high:
        return _point(name, low)
    if kind is Kind.STRING:
        common = next((i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
        return _prefix(name, low[:common]) if common else None
    if kind is Kind.TIME:
        cell = _bounds(microseconds(low), microseconds(high))
        return None if cell is None else _time_cell(name, *cell)
    cell = _bounds(low, high)
    return None if cell is None else Key(Dimension("", name, f"n{cell[0]}"), cell[1], cell[2])


def _bounds(low: float, high: float) -> tuple[int, float, float] | None:
    """Level, lower and upper end of two cells of 2^level around a range; None where floats are too coarse for it."""
    width = float(high - low)
    if not math.isfinite(width) or width == 0:
        return None
    level = math.frexp(width)[1]
    size = math.ldexp(1.0, level)
    start = math.floor(low / size) * size
    end = start + 2 * size
    return (level, start, end) if start <= low and high <= end else None


def _time_cell(name: str, level: int, low: float, high: float) -> Key | None:
    try:
        ends = [EPOCH + timedelta(microseconds=end) for end in (low, high)]
    except OverflowError:
        return None
    return Key(Dimension("", name, f"t{level}"), *ends)


def _literal_beginning(pattern: str) -> str:
    """The characters of a ``like`` pattern before its first wildcard or escape."""
    return next((pattern[:i] for i, char in enumerate(pattern) if char in "*?\\"), pattern)


def _with_type(key: Key, event_type: str) -> Key:
    dimension = key.dimension
    if dimension.name in ("", "type") or dimension.type:
        return key
    return key._replace(dimension=dimension._replace(type=event_type))


# --- Where each subscription is placed: a plan, made from a sample, that executors apply to every subscription -------

HEAVY = 0.25
"""A key with more than this part of a partition's subscriptions may be split."""


class Span(msgspec.Struct, frozen=True):
    """The part of the line that a key takes up, in subscriptions of the sample."""

    start: float
    length: float


class Plan(msgspec.Struct, frozen=True):
    """How to find and place a subscription. ``lows`` and ``starts`` are the line, by dimension, for keys in between."""

    partitions: int
    piece: float
    ranks: dict[Dimension, int]
    spans: dict[Key, Span]
    lows: dict[Dimension, list[Any]]
    starts: dict[Dimension, list[float]]

    def choose(self, offered: Sequence[Access]) -> Access:
        """The access that a subscription is found by."""
        return min(offered, key=self._rank) if len(offered) > 1 else offered[0]

    def _rank(self, access: Access) -> int:
        unknown = len(self.ranks)
        return max((self.ranks.get(key.dimension, unknown) for key in access), default=-1)

    def partition(self, subscription_id: str, access: Access, offered: Sequence[Access]) -> int:
        """Where a subscription lives that has this id, is found by this access and could be by others."""
        chance = crc32(subscription_id.encode()) / 2**32
        return min(int(self._place(access, offered, chance) / self.piece), self.partitions - 1)

    def _place(self, access: Access, offered: Sequence[Access], chance: float) -> float:
        known = [span for key in access if (span := self.spans.get(key))]
        if known:  # of several keys, the one with the most subscriptions: presumably it has the most events too
            span = max(known, key=lambda span: span.length)
            return span.start + span.length * (chance if span.length > HEAVY * self.piece else 0.5)
        for key in chain(access, chain.from_iterable(offered)):
            if key.dimension in self.starts:
                return self._between(key)
        return chance * self.piece * self.partitions

    def _between(self, key: Key) -> float:
        """The place of a key that the sample did not have: that of its lower neighbour."""
        return self.starts[key.dimension][bisect_right(self.lows[key.dimension], key.low)]


def make_plan(sample: Sequence[Sequence[Access]], partitions: int) -> Plan:
    """A plan for as many partitions, from what the filters of the sample offer."""
    piece = max(len(sample), 1) / partitions
    counts = Counter(key for offered in sample for key in {key for access in offered for key in access})
    draft = Plan(partitions, piece, _ranks(sample, counts, piece), {}, {}, {})
    loads = Counter(max(access, key=counts.__getitem__) for access in map(draft.choose, sample) if access)
    return _lay_out(draft, loads, _side_by_side(sample))


def _lay_out(draft: Plan, loads: Counter[Key], order: Sequence[Dimension]) -> Plan:
    """The line: every dimension has a place, also one that finds nobody in the sample."""
    keys: dict[Dimension, list[Key]] = defaultdict(list)
    for key in loads:
        keys[key.dimension].append(key)
    at = 0.0
    for dimension in order:
        held = sorted(keys[dimension], key=lambda key: key.low)
        draft.lows[dimension] = [key.low for key in held]
        draft.starts[dimension] = [at]
        for key in held:
            draft.spans[key] = Span(at, loads[key])
            draft.starts[dimension].append(at)
            at += loads[key]
    return draft


# -- which dimensions --------------------------------------------------------------------------------------------------


def _ranks(sample: Sequence[Sequence[Access]], counts: Counter[Key], piece: float) -> dict[Dimension, int]:
    """Dimensions in the order of a greedy cover, by gain for the visits expected; of equal ones, the tighter first."""
    found_by: dict[Dimension, set[int]] = defaultdict(set)
    for number, offered in enumerate(sample):
        for access in offered:
            dimensions = {key.dimension for key in access}
            if len(dimensions) == 1:
                found_by[dimensions.pop()].add(number)
    visits = _expect_visits(sample, counts, piece)
    covered: set[int] = set()
    ranks: dict[Dimension, int] = {}
    waiting = [(_worth(len(found), visits[d], d), d) for d, found in found_by.items()]
    heapq.heapify(waiting)
    while waiting:
        worth, dimension = heapq.heappop(waiting)
        now = _worth(len(found_by[dimension] - covered), visits[dimension], dimension)
        if now > worth:  # gains only shrink, so a stale one is put back and met again
            heapq.heappush(waiting, (now, dimension))
            continue
        covered |= found_by[dimension]
        ranks[dimension] = len(ranks)
    for dimension in sorted(visits.keys() - ranks.keys(), key=lambda d: (looseness((Key(d),)), d)):
        ranks[dimension] = len(ranks)
    return ranks


def _worth(gain: int, visits: float, dimension: Dimension) -> tuple[float, int, int]:
    return -gain / visits, looseness((Key(dimension),))[0], -gain


def _expect_visits(sample: Sequence[Sequence[Access]], counts: Counter[Key], piece: float) -> dict[Dimension, float]:
    """How often events have a dimension's attribute, times the partitions that a value of it spans."""
    mentions: Counter[tuple[str, str]] = Counter()
    for offered in sample:
        mentions.update({key.dimension[:2] for access in offered for key in access})
    totals: Counter[Dimension] = Counter()
    spanned: dict[Dimension, float] = defaultdict(float)
    for key, count in counts.items():
        totals[key.dimension] += count
        spanned[key.dimension] += count * max(1.0, count / piece)
    return {
        dimension: (mentions[dimension[:2]] if dimension.name else len(sample)) * spanned[dimension] / totals[dimension]
        for dimension in totals
    }


# -- in which order they lie -------------------------------------------------------------------------------------------


def _side_by_side(sample: Iterable[Sequence[Access]]) -> list[Dimension]:
    """All dimensions, those that are mentioned together next to each other.

    Groups are joined in the order of how strongly their members belong together, as in single-link clustering.
    """
    alone: Counter[Dimension] = Counter()
    together: Counter[tuple[Dimension, Dimension]] = Counter()
    for offered in sample:
        mentioned = sorted({key.dimension for access in offered for key in access})
        alone.update(mentioned)
        together.update(combinations(mentioned, 2))
    groups = {dimension: [dimension] for dimension in sorted(alone)}
    strength = {pair: count / min(alone[pair[0]], alone[pair[1]]) for pair, count in together.items()}
    for one, other in sorted(strength, key=lambda pair: (-strength[pair], pair)):
        if groups[one] is not groups[other]:
            groups[one].extend(groups[other])
            for dimension in groups[other]:
                groups[dimension] = groups[one]
    seen = {id(group): group for group in groups.values()}
    return [dimension for group in seen.values() for dimension in group]


# --- Which partitions an event has to visit: an index over what each partition holds ---------------------------------
#
# Every partition tells the keys that its subscriptions are found by; the router is an ordinary index in which each of
# them is a subscription, named after its partition. So routing is exact for the keys, and since every key is a
# necessary condition of the filters found by it, no partition that could match is left out.
#
# A partition that has too many keys tells fewer, wider ones: neighbouring numbers and instants become ranges, strings
# their common beginnings. Some events then make a visit for nothing, and the router stays small.


Array = NDArray[Any]
_NAMES_AT_ONCE = 128


class Router:
    """The index, and the partition of each of its slots."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._partition_of: Array = np.full(index.registry.slots_top, -1, np.int32)
        for slot in range(index.registry.slots_top):
            partition = index.id_of(slot).partition("/")[0]
            self._partition_of[slot] = int(partition) if partition else -1

    def visits(self, pairs: Pairs) -> tuple[Array, Array]:
        """Rows of a batch and the partitions they have to visit, by row, each pair once."""
        found = self._partition_of[pairs.slots].astype(np.int64)
        distinct = np.unique(pairs.events.astype(np.int64) << 32 | found)
        return distinct >> 32, distinct & 0xFFFFFFFF


def make_router(told: Mapping[int, Iterable[Filter]], names: Iterable[str]) -> Index:
    """The index that routes by what the partitions tell.

    ``names`` are all attributes that any filter of the set names. The router knows them, so that it refuses the same
    rows as one index over the whole set would.
    """
    index = Index()
    index.add_many(_entries(told, sorted(names)), checked=True)
    return index


def _entries(told: Mapping[int, Iterable[Filter]], names: list[str]) -> Iterator[Subscription]:
    for partition, filters in told.items():
        for number, filter in enumerate(filters):
            yield Subscription(f"{partition}/{number}", filter)
    for start in range(0, len(names), _NAMES_AT_ONCE):
        never = And((FALSE, *map(Exists, names[start : start + _NAMES_AT_ONCE])))
        yield Subscription(f"/{start}", never)


def tell(keys: Iterable[Key], most: int) -> list[Filter]:
    """At most about ``most`` filters (one a dimension at least) that together cover the keys."""
    by_dimension: dict[Dimension, set[Key]] = defaultdict(set)
    for key in keys:
        by_dimension[key.dimension].add(key)
    total = sum(map(len, by_dimension.values()))
    wider: list[Key] = []
    for dimension, held in by_dimension.items():
        room = len(held) if total <= most else max(1, most * len(held) // total)
        wider += _widen(dimension, held, room)
    return [key_filter(key) for key in wider]


def _widen(dimension: Dimension, keys: set[Key], room: int) -> list[Key]:
    if len(keys) <= room:
        return list(keys)
    if dimension.form == "=s" or dimension.form[0] == "^":
        return _beginnings(dimension, [key.low for key in keys], room)
    ordered = sorted(keys, key=lambda key: key.low)
    size = -(-len(ordered) // room)
    groups = (ordered[start : start + size] for start in range(0, len(ordered), size))
    return [Key(dimension, group[0].low, max(key.high for key in group)) for group in groups]


def _beginnings(dimension: Dimension, texts: list[str], room: int) -> list[Key]:
    """The longest beginnings of equal length of which there are few enough; at worst, the attribute's presence."""
    for length in range(PREFIX_CHARS, 0, -1):
        found = {text[:length] for text in texts}
        if len(found) <= room and all(found):
            return [Key(dimension._replace(form=f"^{length}"), text, text) for text in found]
    return [Key(dimension._replace(form="?"))]
