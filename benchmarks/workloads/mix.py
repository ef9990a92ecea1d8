"""*mix*, *boolean* and *wide*: equalities, sets and ranges on strings and integers."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb
from random import Random
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Ints, Workload, pick_columns, pick_sets, strings
from recado.model.filter import And, Between, Compare, Filter, In, Not, Or

# --- mix --------------------------------------------------------------------------------------------------------------
# *mix*: dense events of 10 string (100 values) and 10 integer (0 to 9,999) attributes.
#
# A subscription has 2 to 5 predicates on different attributes, all drawn evenly. On a string attribute a predicate is
# an equality or a 5-value set, one as likely as the other; on an integer attribute it is a range of 1 to 20% of the
# domain seven times of ten, else an equality or a 5-value set. With these shares 0.07% of the subscriptions match an
# event: 7 of 10,000 and 69 of 100,000.


STRINGS = tuple(f"s{number}" for number in range(10))
INTEGERS = tuple(f"i{number}" for number in range(10))
NAMES = STRINGS + INTEGERS
WORDS = [f"word{number:02d}" for number in range(100)]
DOMAIN = 10_000
SET_SIZE = 5
PREDICATES = (2, 5)
RANGE_SHARE = 0.7
RANGE_WIDTH = (0.01, 0.20)


class Mix(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "mix"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        least, most = PREDICATES
        counts = rng.integers(least, most + 1, count).tolist()
        attributes = pick_columns(rng, count, len(NAMES), most)
        drawn = iter(predicates(rng, attributes.reshape(-1).tolist()))
        for wanted in counts:
            parts = tuple(next(drawn) for _ in range(most))
            yield And(parts[:wanted])

    def events(self, count: int) -> pa.RecordBatch:
        return dense_events(self.event_rng(), count)


def predicates(rng: np.random.Generator, attributes: list[int]) -> Iterator[Filter]:
    """One predicate on each of the attributes, given by number."""
    count = len(attributes)
    choices = rng.random(count).tolist()
    words = pick_sets(rng, (count,), len(WORDS), SET_SIZE).tolist()
    numbers = pick_sets(rng, (count,), DOMAIN, SET_SIZE).tolist()
    single_word, single_number = rng.integers(0, len(WORDS), count).tolist(), rng.integers(0, DOMAIN, count).tolist()
    widths = rng.integers(int(RANGE_WIDTH[0] * DOMAIN), int(RANGE_WIDTH[1] * DOMAIN) + 1, count)
    lows = rng.integers(0, DOMAIN - widths + 1)
    highs = (lows + widths - 1).tolist()
    for at, (attribute, choice, low) in enumerate(zip(attributes, choices, lows.tolist(), strict=True)):
        name = NAMES[attribute]
        if attribute < len(STRINGS):
            if choice < 0.5:
                yield Compare(name, "==", WORDS[single_word[at]])
            else:
                yield In(name, tuple([WORDS[word] for word in words[at]]))
        elif choice < RANGE_SHARE:
            yield Between(name, low, highs[at])
        elif choice < (1 + RANGE_SHARE) / 2:
            yield Compare(name, "==", single_number[at])
        else:
            yield In(name, tuple(numbers[at]))


def dense_events(rng: np.random.Generator, count: int) -> pa.RecordBatch:
    """Events that have all twenty attributes, values drawn evenly."""
    columns = {name: strings(WORDS, rng.integers(0, len(WORDS), count)) for name in STRINGS}
    columns |= {name: pa.array(rng.integers(0, DOMAIN, count)) for name in INTEGERS}
    return pa.RecordBatch.from_pydict(columns)


def mean_product(left: float, right: float, size: int, half: int = 10) -> float:
    """The mean of a product of ``size`` factors drawn without replacement from ``half`` lefts and ``half`` rights."""
    ways = comb(2 * half, size)
    return sum(
        comb(half, lefts) * comb(half, size - lefts) / ways * left**lefts * right ** (size - lefts)
        for lefts in range(size + 1)
    )


# --- boolean ----------------------------------------------------------------------------------------------------------
# *boolean*: nested and/or/not trees over the attributes, predicates and events of *mix*.
#
# A tree is a conjunction of three or four groups, or (one in four) a disjunction of two such conjunctions. A group is a
# predicate, a disjunction of two or three predicates, or the negation of either. The first two groups of a conjunction
# are never negated: a filter that matches nearly every event asks for nothing. Trees have 4 to 10 predicates and are
# two to four levels deep, a negation counted as a level; about 0.3% of them match an event.


LEAVES = (4, 10)
_OR_ROOT = 0.25
_NEGATED = 0.35
_POOL = 16  # predicates set aside for a tree; more than any tree takes


class Boolean(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "boolean"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        shapes = Random(int(rng.integers(0, 1 << 62)))
        for _ in range(count // 100):
            attributes = rng.integers(0, len(NAMES), 100 * _POOL).tolist()
            leaves = list(predicates(rng, attributes))
            for number in range(100):
                yield _tree(shapes, leaves[number * _POOL : (number + 1) * _POOL])

    def events(self, count: int) -> pa.RecordBatch:
        return dense_events(self.event_rng(), count)


def _tree(shapes: Random, leaves: list[Filter]) -> Filter:
    least, most = LEAVES
    while True:
        plan = _plan(shapes)
        if least <= sum(abs(size) for group in plan for size in group) <= most:
            break
    pool = iter(leaves)
    conjunctions = [And(tuple(_group(pool, size) for size in group)) for group in plan]
    return conjunctions[0] if len(conjunctions) == 1 else Or(tuple(conjunctions))


def _plan(shapes: Random) -> list[list[int]]:
    """The number of predicates in each group of each conjunction; a negative number for a negated group."""
    conjunctions = 2 if shapes.random() < _OR_ROOT else 1
    return [_group_sizes(shapes) for _ in range(conjunctions)]


def _group_sizes(shapes: Random) -> list[int]:
    sizes = [shapes.randint(1, 3) for _ in range(shapes.randint(3, 4))]
    return sizes[:2] + [-size if shapes.random() < _NEGATED else size for size in sizes[2:]]


def _group(pool: Iterator[Filter], size: int) -> Filter:
    parts = tuple(next(pool) for _ in range(abs(size)))
    group = parts[0] if len(parts) == 1 else Or(parts)
    return Not(group) if size < 0 else group


# --- wide -------------------------------------------------------------------------------------------------------------
# *wide*: many attributes, sparse events: 200 attributes in ten families of twenty.
#
# An event comes from one family and has its twenty attributes, ten strings and ten integers (0 to 9,999); a
# subscription has five predicates on different attributes of one family: an equality on a string, a range on an
# integer. Nine of ten subscriptions therefore cannot match an event, and no attribute tells which. ``share`` is the
# share of all subscriptions that match an event in the mean: with ``words`` values a string attribute, the width of the
# ranges is solved from it.


FAMILIES = 10
FAMILY_STRINGS = 10
FAMILY_SIZE = 20
ATTRIBUTES = FAMILIES * FAMILY_SIZE
WIDE_PREDICATES = 5


class Wide(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "wide"
    share: float = 1e-6
    words: int = 100

    @property
    def title(self) -> str:
        return f"wide {self.size:,}, 1 match in {round(1 / self.share):,}"

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        families = rng.integers(0, FAMILIES, count)
        members = pick_columns(rng, count, FAMILY_SIZE, WIDE_PREDICATES)
        attributes = (families[:, None] * FAMILY_SIZE + members).tolist()
        values = rng.integers(0, self.words, members.shape).tolist()
        lows, highs = self._ranges(rng, members.shape)
        names, words = attribute_names(), word_list(self.words)
        for number, row in enumerate(attributes):
            parts: list[Filter] = []
            for place, attribute in enumerate(row):
                if attribute % FAMILY_SIZE < FAMILY_STRINGS:
                    parts.append(Compare(names[attribute], "==", words[values[number][place]]))
                else:
                    parts.append(Between(names[attribute], lows[number][place], highs[number][place]))
            yield And(tuple(parts))

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        families = rng.integers(0, FAMILIES, count)
        columns: dict[str, pa.Array] = {}
        for attribute, name in enumerate(attribute_names()):
            codes = rng.integers(0, DOMAIN, count)
            absent = families != attribute // FAMILY_SIZE
            if attribute % FAMILY_SIZE < FAMILY_STRINGS:
                columns[name] = strings(word_list(self.words), np.ma.masked_array(codes % self.words, absent))
            else:
                columns[name] = pa.array(codes, mask=absent)
        return pa.RecordBatch.from_pydict(columns)

    def range_width(self) -> float:
        """The share of an integer's domain that a range covers in the mean; bisection, the product grows with it."""
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            if mean_product(1 / self.words, middle, WIDE_PREDICATES) / FAMILIES < self.share:
                low = middle
            else:
                high = middle
        return low

    def _ranges(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
        mean = self.range_width()
        spread = min(mean, 1 - mean) / 2
        widths: Ints = np.maximum(1, DOMAIN * rng.uniform(mean - spread, mean + spread, shape)).astype(np.int64)
        lows = rng.integers(0, DOMAIN - widths + 1)
        return lows.tolist(), (lows + widths - 1).tolist()


def attribute_names() -> list[str]:
    """``f3_s7`` is a string of family three, ``f3_i2`` one of its integers."""
    strings_of = [f"s{number}" for number in range(FAMILY_STRINGS)]
    integers_of = [f"i{number}" for number in range(FAMILY_SIZE - FAMILY_STRINGS)]
    return [f"f{family}_{member}" for family in range(FAMILIES) for member in strings_of + integers_of]


def word_list(count: int) -> list[str]:
    return [f"word{number}" for number in range(count)]
