"""What covering and merging need to know of a filter, computed once and not once a pair.

Nearly every subscription is a *box*: one conjunction of value sets (``recado.filters.terms``). Between boxes all
answers are exact and quick. A filter with alternatives or opaque predicates is *complex*; its terms are kept where the
budget of the algebra allows, and every question about it goes to ``recado.filters`` itself.

``signatures`` says where filters can be that a filter covers. A conjunction inside a union of value sets lies inside
one of its prime conjunctions, so every attribute of that prime occurs in the covered conjunction too, and where the
prime admits one value only, the covered one admits the same value. Each signature is a set of such demands, of which
a covered conjunction fulfils all. With opaque alternatives nothing is demanded.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recado.filters.covering import covers
from recado.filters.expression import read_back
from recado.filters.sets import ORDERED, ValueSet, next_cut, within
from recado.filters.terms import Term, TooManyTermsError, is_covered, primes, terms_of
from recado.model.filter import Filter, Sql

ANY_TYPE = "(any type)"

Token = str | tuple[str, object]
"""An attribute's name; a name with its only value; or the text of a CESQL expression, as a pair too."""


class Shape(NamedTuple):
    """A filter with its terms; None if there are too many of them. ``box`` is set if it is one plain conjunction."""

    key: str
    filter: Filter
    terms: list[Term] | None
    box: Term | None


def shape_of(key: str, text: str) -> Shape:
    """The shape of a filter that was written by ``expression.format_expression``."""
    filter = read_back(text)
    terms = _terms(filter)
    box = terms[0] if terms is not None and len(terms) == 1 and is_plain(terms[0]) else None
    return Shape(key, filter, terms, box)


def is_plain(term: Term) -> bool:
    """Does the term consist of value sets only?"""
    return all(isinstance(dimension, str) for dimension in term)


def covers_shape(shape: Shape, other: Shape) -> bool:
    """``recado.filters.covering.covers``, without computing the terms again."""
    if shape.box is not None and other.box is not None:
        held = other.box
        return all(name in held and within(held[name], values) for name, values in shape.box.items())
    if shape.terms is None or other.terms is None:
        return covers(shape.filter, other.filter)
    return all(is_covered(case, shape.terms) for case in other.terms)


def hides(shape: Shape, other: Shape) -> bool:
    """Does ``shape`` make ``other`` superfluous? Of filters that cover each other, the one with the least key stays."""
    if shape.key == other.key or not covers_shape(shape, other):
        return False
    if shape.box is not None and other.box is not None:
        return True  # boxes that mean the same have the same key
    return shape.key < other.key or not covers_shape(other, shape)


def event_type(node: Filter, declared: str) -> str:
    """The one event type that a filter asks for, or else the pattern that was declared, or ``(any type)``."""
    if declared and "*" not in declared and "?" not in declared:
        return declared
    terms = _terms(node) or []
    found = {only_value(term["type"]) if "type" in term else None for term in terms}
    pinned = found.pop() if len(found) == 1 else None
    return pinned if isinstance(pinned, str) else declared or ANY_TYPE


def only_value(values: ValueSet) -> object | None:
    """The value, if the set has just one and that is neither absence nor a boolean."""
    flags, *ordered = values
    if flags or sum(map(len, ordered)) != 2:
        return None
    for kind, cuts in zip(ORDERED, ordered, strict=True):
        if len(cuts) == 2:
            low: object = cuts[0]
            return low if next_cut(kind, low) == cuts[1] else None
    return None


def signatures(shape: Shape) -> list[frozenset[Token]]:
    """Sets of tokens; what the filter covers has all tokens of one of them."""
    if shape.terms is None:
        return [frozenset()]
    if len(shape.terms) < 2:
        return [demands(term) for term in shape.terms]
    if not all(map(is_plain, shape.terms)):
        return [frozenset()]
    try:
        return [demands(term) for term in primes(shape.terms)]
    except TooManyTermsError:
        return [frozenset()]


def demands(term: Term) -> frozenset[Token]:
    """The tokens of a conjunction: for each attribute its only value, or else its name."""
    out: set[Token] = set()
    for dimension, values in term.items():
        if isinstance(dimension, Sql):
            out.add(("", dimension.text))
        elif not isinstance(dimension, str):
            out.add(dimension.name)
        else:
            value = only_value(values)
            out.add(dimension if value is None else (dimension, value))
    return frozenset(out)


def _terms(condition: Filter) -> list[Term] | None:
    try:
        return terms_of(condition)
    except TooManyTermsError:
        return None


# --- Sampled filters, ready to be compared with every filter of a set that streams by --------------------------------
#
# For each sampled filter two questions are answered: how many other filters cover it, and is there one of the same
# event type with which it can be joined into one (a perfect merger, where neither covers the other). The sample fits
# into memory, the set need not, and each answer is exact, since every filter of the set passes.
#
# *Covering*: a sampled filter is filed under each token of its first conjunction (``shape.signatures``); a filter that
# passes looks only under its rarest token. Numeric ranges are then compared with NumPy, range around range, and what is
# left goes to the exact test. *Joining*: two boxes are one box exactly if they agree in all attributes but one; so each
# sampled box is filed under itself without one attribute, for each of its attributes. Complex filters are left to
# ``recado.pipeline.report.redundancy``.


HULLS = 32
"""The ranges of this many attributes, the most frequent ones, are compared with NumPy."""

Numbers = NDArray[np.int64]
Hull = tuple[float, float]
_NONE: Numbers = np.empty(0, np.int64)
_ALWAYS: Hull = (math.inf, -math.inf)
_NEVER: Hull = (-math.inf, math.inf)


class Sampled:
    """The sample, and what was found about each of its filters so far."""

    def __init__(self, shapes: Sequence[Shape], types: Sequence[str]) -> None:
        self.shapes = shapes
        self.coverers = np.zeros(len(shapes), np.int64)
        self.joined = np.zeros(len(shapes), bool)
        self._postings, self._anywhere = _file([_first(shape) for shape in shapes])
        self._all = np.arange(len(shapes), dtype=np.int64)
        self._hulls = _hulls([_first(shape) for shape in shapes])
        self._alike = _alike(shapes, types)

    def meet(self, shape: Shape, type_name: str) -> None:
        """Let one filter of the set pass."""
        for number in self.candidates(shape):
            if hides(shape, self.shapes[number]):
                self.coverers[number] += 1
        if shape.box is not None:
            self._join(shape.key, shape.box, type_name)

    def candidates(self, shape: Shape) -> list[int]:
        """The numbers of all sampled filters that this one may cover."""
        found = [self._rarest(signature) for signature in signatures(shape)]
        numbers = reduce(np.union1d, found) if found else _NONE
        if shape.terms is not None and len(shape.terms) == 1:
            numbers = self._inside(numbers, shape.terms[0])
        out: list[int] = np.union1d(numbers, self._anywhere).tolist()
        return out

    def _rarest(self, signature: frozenset[Token]) -> Numbers:
        lists = (self._posting(token) for token in signature)
        return min(lists, key=len, default=self._all)

    def _posting(self, token: Token) -> Numbers:
        """What is filed under the token; an opaque predicate on an attribute may come to any of its values."""
        found = self._postings.get(token, _NONE)
        if isinstance(token, str) or not token[0]:
            return found
        loose = self._postings.get((token[0], None), _NONE)
        return np.union1d(found, loose) if len(loose) else found

    def _inside(self, numbers: Numbers, term: Term) -> Numbers:
        """Those whose ranges lie within the term's ranges."""
        for name, (lows, highs) in self._hulls.items():
            around = _hull(term[name]) if name in term else None
            if around is not None:
                numbers = numbers[(lows[numbers] >= around[0]) & (highs[numbers] <= around[1])]
        return numbers

    def _join(self, key: str, box: Term, event_type: str) -> None:
        for name, rest in _with_one_left_out(box):
            for number in self._alike.get((event_type, name, rest), ()):
                shape = self.shapes[number]
                if not self.joined[number] and shape.key != key and shape.box is not None:
                    self.joined[number] = not _comparable(shape.box[name], box[name])


def _first(shape: Shape) -> Term | None:
    """The conjunction by which a filter is filed: any will do, since all must be covered."""
    return shape.terms[0] if shape.terms else None


def _file(terms: Iterable[Term | None]) -> tuple[dict[Token, Numbers], Numbers]:
    """Numbers by token, and the numbers of those that can only be compared with everything."""
    lists: dict[Token, list[int]] = defaultdict(list)
    anywhere: list[int] = []
    for number, term in enumerate(terms):
        if term is None:
            anywhere.append(number)
        else:
            for token in dict.fromkeys(_tokens(term)):
                lists[token].append(number)
    return {token: np.array(some, np.int64) for token, some in lists.items()}, np.array(anywhere, np.int64)


def _tokens(term: Term) -> Iterator[Token]:
    for dimension, values in term.items():
        if isinstance(dimension, Sql):
            yield "", dimension.text
        elif isinstance(dimension, str):
            yield dimension
            value = only_value(values)
            if value is not None:
                yield dimension, value
        else:
            yield dimension.name
            yield dimension.name, None


def _hulls(terms: Sequence[Term | None]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The lower and upper ends of each sampled filter's range, by attribute."""
    names = Counter(d for term in terms if term for d, v in term.items() if isinstance(d, str) and _hull(v))
    out = {}
    for name, _ in names.most_common(HULLS):
        ends = np.array([_end(term, name) for term in terms], np.float64).reshape(-1, 2)
        out[name] = ends[:, 0], ends[:, 1]
    return out


def _end(term: Term | None, name: str) -> Hull:
    if term is None or any(not isinstance(d, (str, Sql)) and d.name == name for d in term):
        return _ALWAYS  # what an opaque predicate comes to is for the exact test to say
    return (_hull(term[name]) if name in term else None) or _NEVER


def _hull(values: ValueSet) -> Hull | None:
    """The range around a set of numbers; None if it holds anything else."""
    cuts = values.numbers
    if values.flags or values.strings or values.times or not cuts:
        return None
    return float(cuts[0]), math.inf if len(cuts) % 2 else float(cuts[-1])


def _alike(shapes: Sequence[Shape], types: Sequence[str]) -> dict[Hashable, list[int]]:
    out: dict[Hashable, list[int]] = defaultdict(list)
    for number, (shape, type) in enumerate(zip(shapes, types, strict=True)):
        for name, rest in _with_one_left_out(shape.box or {}):
            out[type, name, rest].append(number)
    return dict(out)


def _with_one_left_out(box: Term) -> Iterator[tuple[str, Hashable]]:
    items = frozenset(box.items())
    for item in box.items():
        yield str(item[0]), items - {item}


def _comparable(values: ValueSet, other: ValueSet) -> bool:
    return within(values, other) or within(other, values)
