"""From judged filters to figures of a type and of the whole set.

Within a type the judged filters are an even sample, so their share is the share of the type; its standard error is
``sqrt(p (1 - p) / n * (1 - n / N))`` for n judged of N. The whole set is the sum of its types, and the variances add.
With every filter judged the margins are 0 and the figures exact. A depth is exact only if all pairs were compared, and
no filter is covered by one of another type, such as one that takes any type: chains are followed within a type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

WHOLE_SET = "(whole set)"

EXACT, SAMPLE, AT_LEAST = "exact", "sample", "at least"

ROW_SCHEMA = (
    "type string, subscriptions long, filters long, redundancy double, equal long, largest long, never long, "
    "judged long, covered double, covered_share double, covered_margin double, covered_is string, "
    "mergeable double, mergeable_share double, mergeable_margin double, mergeable_is string, "
    "coverers double, depth long, depth_is string"
)


class TypeCounts(NamedTuple):
    """What is counted: ``equal`` subscriptions share their filter, ``largest`` is the most that share one."""

    type: str
    subscriptions: int
    filters: int
    equal: int
    largest: int
    never: int


class Judged(NamedTuple):
    """One filter of the sample. ``level``, and how many filters of its own type cover it, if those were compared."""

    type: str
    coverers: int
    joined: bool
    level: int | None = None
    own_coverers: int | None = None


class Estimate(NamedTuple):
    """How many of ``size`` filters have a property, and the variance of that number."""

    size: int
    number: float
    variance: float

    @property
    def share(self) -> float:
        return self.number / self.size if self.size else 0.0

    @property
    def margin(self) -> float:
        """Half the width of the 95% interval of the share."""
        return 1.96 * sqrt(self.variance) / self.size if self.size else 0.0


class TypeRow(NamedTuple):
    """A row of the table; ``_is`` says whether a figure is exact, from a sample, or a lower bound."""

    type: str
    subscriptions: int
    filters: int
    redundancy: float
    equal: int
    largest: int
    never: int
    judged: int
    covered: float
    covered_share: float
    covered_margin: float
    covered_is: str
    mergeable: float
    mergeable_share: float
    mergeable_margin: float
    mergeable_is: str
    coverers: float
    depth: int
    depth_is: str


def rows_of(counts: Sequence[TypeCounts], judged: Sequence[Judged], any_complex: bool, pairs: int) -> list[TypeRow]:
    """The rows of all types, and that of the whole set."""
    by_type: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_type[one.type].append(one)
    groups = [(count, by_type[count.type]) for count in counts]
    covered = [estimate(count.filters, [one.coverers > 0 for one in some]) for count, some in groups]
    merged = [estimate(count.filters, [one.joined for one in some]) for count, some in groups]
    rows = [
        _row(count, some, covered[i], merged[i], any_complex and count.filters > pairs)
        for i, (count, some) in enumerate(groups)
    ]
    bound = any(row.mergeable_is == AT_LEAST for row in rows)
    return [*rows, _row(_summed(counts), list(judged), _added(covered), _added(merged), bound)] if rows else []


def estimate(size: int, flags: Sequence[bool]) -> Estimate:
    """The number of filters with a property among ``size``, from those judged."""
    judged = len(flags)
    if not judged:
        return Estimate(size, 0.0, float(size) ** 2 / 4)
    share = sum(flags) / judged
    variance = share * (1 - share) / judged * (1 - judged / size) if size else 0.0
    return Estimate(size, share * size, variance * size**2)


def _added(estimates: Sequence[Estimate]) -> Estimate:
    return Estimate(*(sum(column) for column in zip(*estimates, strict=True)))


def _summed(counts: Sequence[TypeCounts]) -> TypeCounts:
    return TypeCounts(
        WHOLE_SET,
        sum(count.subscriptions for count in counts),
        sum(count.filters for count in counts),
        sum(count.equal for count in counts),
        max(count.largest for count in counts),
        sum(count.never for count in counts),
    )


def _row(count: TypeCounts, judged: list[Judged], covered: Estimate, merged: Estimate, bound: bool) -> TypeRow:
    exact = len(judged) == count.filters
    levels = [one.level for one in judged if one.level is not None]
    seen = [2 if one.coverers else 1 for one in judged]
    whole = exact and all(one.own_coverers == one.coverers for one in judged)
    return TypeRow(
        type=count.type,
        subscriptions=count.subscriptions,
        filters=count.filters,
        redundancy=1 - count.filters / count.subscriptions,
        equal=count.equal,
        largest=count.largest,
        never=count.never,
        judged=len(judged),
        covered=covered.number,
        covered_share=covered.share,
        covered_margin=covered.margin,
        covered_is=EXACT if exact else SAMPLE,
        mergeable=merged.number,
        mergeable_share=merged.share,
        mergeable_margin=merged.margin,
        mergeable_is=AT_LEAST if bound else EXACT if exact else SAMPLE,
        coverers=sum(one.coverers for one in judged) / len(judged) if judged else 0.0,
        depth=max(levels + seen, default=0),
        depth_is=EXACT if whole else AT_LEAST,
    )
