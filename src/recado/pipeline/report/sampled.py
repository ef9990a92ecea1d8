"""Sampled filters, ready to be compared with every filter of a set that streams by.

For each sampled filter two questions are answered: how many other filters cover it, and is there one of the same event
type with which it can be joined into one (a perfect merger, where neither covers the other). The sample fits into
memory, the set need not, and each answer is exact, since every filter of the set passes.

*Covering*: a sampled filter is filed under each token of its first conjunction (``shape.signatures``); a filter that
passes looks only under its rarest token. Numeric ranges are then compared with NumPy, range around range, and what is
left goes to the exact test. *Joining*: two boxes are one box exactly if they agree in all attributes but one; so each
sampled box is filed under itself without one attribute, for each of its attributes. Complex filters are left to
``recado.pipeline.report.pairs``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from recado.filters.sets import ValueSet, within
from recado.filters.terms import Term
from recado.model.filter import Sql
from recado.pipeline.report.shape import Shape, Token, hides, only_value, signatures

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
        self._postings, self._anywhere = _filed([_first(shape) for shape in shapes])
        self._all = np.arange(len(shapes), dtype=np.int64)
        self._hulls = _hulls([_first(shape) for shape in shapes])
        self._alike = _alike(shapes, types)

    def meet(self, shape: Shape, type: str) -> None:
        """Let one filter of the set pass."""
        for number in self.candidates(shape):
            if hides(shape, self.shapes[number]):
                self.coverers[number] += 1
        if shape.box is not None:
            self._join(shape.key, shape.box, type)

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

    def _join(self, key: str, box: Term, type: str) -> None:
        for name, rest in _with_one_left_out(box):
            for number in self._alike.get((type, name, rest), ()):
                shape = self.shapes[number]
                if not self.joined[number] and shape.key != key and shape.box is not None:
                    self.joined[number] = not _comparable(shape.box[name], box[name])


def _first(shape: Shape) -> Term | None:
    """The conjunction by which a filter is filed: any will do, since all must be covered."""
    return shape.terms[0] if shape.terms else None


def _filed(terms: Iterable[Term | None]) -> tuple[dict[Token, Numbers], Numbers]:
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
