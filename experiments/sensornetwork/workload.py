"""Who wants what, and what is published when: outline 9.1 and 9.2.

Subscriptions and publications are drawn from streams of their own, so that all systems meet the same ones. What is due
to whom is told by comparing numbers, without the filters and the matching that are measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from random import Random

import msgspec
import numpy as np

from recado.model.event import Event
from recado.model.filter import And, Between
from recado.model.subscription import Subscription
from recado.sim.kernel import stream

ATTRIBUTES = ("a1", "a2", "a3", "a4")
VALUES = 9
STARTS = 6
WIDTH = 3
"""A range is ``[y, y + 3]``, with ``y`` from 1 to 6 and both ends in it (13-A9)."""
QUIET_SECONDS = 60.0

Values = tuple[int, ...]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it; the defaults are the paper's."""

    subscriptions: int = 50
    """How many nodes subscribe."""
    each: int = 1
    """How many subscriptions such a node has. Of those after the first, half lie within the one before."""
    publications: int = 1440
    announce_seconds: float = 660.0
    """The first phase; its last minute is kept free."""
    publish_seconds: float = 86_400.0

    @property
    def seconds(self) -> float:
        return self.announce_seconds + self.publish_seconds + QUIET_SECONDS


class Interest(msgspec.Struct, frozen=True):
    node: int
    starts: Values
    time: float
    number: int = 0
    inset: int = 0
    """1 for a narrower one: a range then is ``[y + 1, y + 2]``."""

    def wants(self, values: Values) -> bool:
        return all(low <= value <= high for (low, high), value in zip(self.ranges(), values, strict=True))

    def ranges(self) -> list[tuple[int, int]]:
        return [(start + self.inset, start + WIDTH - self.inset) for start in self.starts]

    def subscription(self) -> Subscription:
        ranges = (Between(name, low, high) for name, (low, high) in zip(ATTRIBUTES, self.ranges(), strict=True))
        return Subscription(f"s{self.node}-{self.number}" if self.number else f"s{self.node}", And(tuple(ranges)))


class Publication(msgspec.Struct, frozen=True):
    number: int
    node: int
    values: Values
    time: float

    def event(self) -> Event:
        return Event(f"p{self.number}", "sample", attributes=dict(zip(ATTRIBUTES, self.values, strict=True)))


def draw_start(rng: Random) -> int:
    """Zipf with exponent 1 over 1 to 6 (13-A7)."""
    at = rng.random() * ZIPF[-1]
    return next(start for start, upto in enumerate(ZIPF, 1) if at < upto)


ZIPF = tuple(math.fsum(1 / rank for rank in range(1, last + 1)) for last in range(1, STARTS + 1))


def draw_interests(workload: Workload, nodes: int, seed: int) -> list[Interest]:
    """Those of different nodes, in the order of their times."""
    rng = stream(seed, "interests")
    owners = rng.sample(range(nodes), k=workload.subscriptions)
    end = workload.announce_seconds - QUIET_SECONDS
    found = [Interest(node, tuple(draw_start(rng) for _ in ATTRIBUTES), rng.uniform(0.0, end)) for node in owners]
    rng = stream(seed, "further interests")
    for first in found[: len(owners)]:
        last = first
        for number in range(1, workload.each):
            time = rng.uniform(0.0, end)
            if rng.random() < 0.5:
                last = Interest(first.node, last.starts, time, number, 1)
            else:
                last = Interest(first.node, tuple(draw_start(rng) for _ in ATTRIBUTES), time, number)
            found.append(last)
    return sorted(found, key=lambda one: one.time)


def draw_publications(workload: Workload, nodes: int, seed: int) -> list[Publication]:
    """At independent times of the second phase, each of any node (13-A5, A10)."""
    rng = stream(seed, "publications")
    begin = workload.announce_seconds
    times = sorted(rng.uniform(begin, begin + workload.publish_seconds) for _ in range(workload.publications))
    return [
        Publication(number, rng.randrange(nodes), tuple(rng.randrange(VALUES) + 1 for _ in ATTRIBUTES), time)
        for number, time in enumerate(times)
    ]


def interest_in_publications(subscriptions: int = 10_000, seed: int = 1) -> Mapping[Values, float]:
    """Figure 3: of so many subscriptions, the share that each of the 6,561 possible publications satisfies."""
    rng = stream(seed, "interest")
    starts = np.array([[draw_start(rng) for _ in ATTRIBUTES] for _ in range(subscriptions)])
    inside = np.array([(starts <= value) & (value <= starts + WIDTH) for value in range(1, VALUES + 1)])
    return {
        values: float(np.logical_and.reduce([inside[value - 1, :, at] for at, value in enumerate(values)]).mean())
        for values in product(range(1, VALUES + 1), repeat=len(ATTRIBUTES))
    }
