"""The shapes of events that are known, bounded by their number and by what they hold.

A shape that was not used for long is forgotten, and aligned anew if it comes again. Working out a shape may take
seconds: ``Shapes.drafting`` does it in another thread, in short steps, on a copy that is put in place when it is ready;
``Shapes.plan`` does it at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from recado.model.event import Event
from recado.semantics.engine import Semantics
from recado.semantics.match import attribute_names
from recado.semantics.matcher_shape import Order, Plan, Pool, Shape
from recado.semantics.matcher_terms import Vocabulary

SHAPES = 4_096
PAIRS = 2_000_000
"""Of aliases and attributes, in all shapes."""
STEP_NAMES = 8
STEP_PAIRS = 65_536
"""In one step of a draft so many attributes are compared with names, and about so many pairs."""

Seen = tuple[str | bool, ...]
"""What tells an event's order without looking at each of its values."""


class _Known:
    """What an order of names leads to, as long as there are no new terms."""

    __slots__ = ("covered", "plan", "shape")

    def __init__(self, shape: Shape, plan: Plan) -> None:
        self.shape, self.plan, self.covered = shape, plan, shape.covered


class Shapes:
    """All shapes that are known."""

    def __init__(self, vocabulary: Vocabulary, semantics: Semantics, most: int = SHAPES, pairs: int = PAIRS) -> None:
        self._vocabulary, self._semantics = vocabulary, semantics
        self._most, self._pairs = most, pairs
        self._shapes: OrderedDict[Order, Shape] = OrderedDict()
        self._orders: dict[Seen, _Known] = {}
        self._pool = Pool()
        self._generation = 0
        self._held = 0

    def __len__(self) -> int:
        return len(self._shapes)

    def clear(self) -> None:
        self._shapes.clear()
        self._orders.clear()
        self._pool = Pool()
        self._held = 0

    def plan(self, event: Event) -> Plan:
        """How an event is shown."""
        if self._generation != self._vocabulary.generation:
            self._generation = self._vocabulary.generation
            self.clear()
        seen = _seen(event)
        known = self._orders.get(seen)
        if known is None or known.covered != len(self._vocabulary.terms):
            known = self._find(seen, attribute_names(event))
        known.shape.used = True
        return known.plan

    def _find(self, seen: Seen, order: Order) -> _Known:
        names = tuple(sorted(order))
        shape = self._shapes.get(names)
        if shape is None:
            shape = self._shapes[names] = Shape(names)
        if shape.covered != len(self._vocabulary.terms):
            self._cover(shape)
        return self._remember(seen, _Known(shape, shape.plan(order, self._semantics, self._pool)))

    def _remember(self, seen: Seen, known: _Known) -> _Known:
        if len(self._orders) >= self._most:
            self._orders.clear()
        self._orders[seen] = known
        return known

    def _cover(self, shape: Shape) -> None:
        self._held -= shape.size
        shape.cover(self._vocabulary.terms, self._semantics)
        self._held += shape.size
        self._keep_bounds(shape)

    def _keep_bounds(self, shape: Shape) -> None:
        while len(self._shapes) > 1 and (len(self._shapes) > self._most or self._held > self._pairs):
            self._forget(shape)

    def _forget(self, newest: Shape) -> None:
        """Forget the oldest that was not used of late; those that were get a second chance."""
        names, oldest = self._shapes.popitem(last=False)
        if oldest.used or oldest is newest:
            oldest.used = oldest is newest
            self._shapes[names] = oldest
        else:
            self._held -= oldest.size
            self._orders.clear()

    # -- ahead of events -----------------------------------------------------------------------------------------------

    def known(self, event: Event) -> Plan | None:
        """How an event is shown, if that is known."""
        found = self._orders.get(_seen(event))
        is_current = self._generation == self._vocabulary.generation
        return found.plan if is_current and found and found.covered == len(self._vocabulary.terms) else None

    def names(self, most: int) -> list[str]:
        """Attributes of the shapes that came last."""
        found: dict[str, None] = {}
        for names in reversed(list(self._shapes)):
            found |= dict.fromkeys(names)
            if len(found) >= most:
                break
        return list(found)[:most]

    def drafting(self, event: Event, lock: AbstractContextManager[Any]) -> Iterator[None]:
        """Find out how an event is shown, in steps. Under the lock nothing is done that takes long."""
        order = attribute_names(event)
        names = tuple(sorted(order))
        with lock:
            if self._generation != self._vocabulary.generation:
                self._generation = self._vocabulary.generation
                self.clear()
            generation, terms, pool = self._generation, list(self._vocabulary.terms), self._pool
            shape = self._shapes[names].copy() if names in self._shapes else Shape(names)
        at_once = max(1, min(STEP_NAMES, STEP_PAIRS // max(1, len(terms))))
        yield from shape.covering(terms, self._semantics, at_once)
        for term in shape.joint:  # so that their plan finds similarities that are known
            for start in range(0, len(order), STEP_NAMES):
                self._semantics.similarities(term.names, order[start : start + STEP_NAMES], term.scope.settings)
                yield
        plan = shape.plan(order, self._semantics, pool)
        with lock:
            if generation == self._vocabulary.generation == self._generation:
                self._take(_seen(event), shape, plan)

    def _take(self, seen: Seen, shape: Shape, plan: Plan) -> None:
        before = self._shapes.get(shape.names)
        if before is not None and before.covered > shape.covered:  # somebody was quicker
            return
        if before is not None and before.covered == shape.covered:
            before.plans |= shape.plans
            shape = before
        self._held += shape.size - (before.size if before is not None else 0)
        self._shapes[shape.names] = shape
        self._keep_bounds(shape)
        self._remember(seen, _Known(shape, plan))


def _seen(event: Event) -> Seen:
    attributes = event.attributes
    if () in attributes.values():
        return attribute_names(event)
    return (*attributes, bool(event.type), bool(event.source), event.time is None)
