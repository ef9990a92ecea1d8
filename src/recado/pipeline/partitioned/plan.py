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
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from typing import Any
from zlib import crc32

import msgspec

from recado.pipeline.partitioned.access import Access, Dimension, Key, looseness

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

    def partition(self, id: str, access: Access, offered: Sequence[Access]) -> int:
        """Where a subscription lives that has this id, is found by this access and could be by others."""
        chance = crc32(id.encode()) / 2**32
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
    return _laid_out(draft, loads, _side_by_side(sample))


def _laid_out(draft: Plan, loads: Counter[Key], order: Sequence[Dimension]) -> Plan:
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
    visits = _expected_visits(sample, counts, piece)
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


def _expected_visits(sample: Sequence[Sequence[Access]], counts: Counter[Key], piece: float) -> dict[Dimension, float]:
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
