"""The shapes of events that are known, bounded by their number and by what they hold.

A shape that was not used for long is forgotten, and aligned anew if it comes again. Working out a shape may take
seconds: ``Shapes.drafting`` does it in another thread, in short steps, on a copy that is put in place when it is ready;
``Shapes.plan`` does it at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from recado.model.event import ENVELOPE, Event
from recado.model.values import Value
from recado.semantics.alignment import ALIKE
from recado.semantics.engine import Semantics
from recado.semantics.match import attribute_names
from recado.semantics.matcher_terms import Scope, Term, Vocabulary
from recado.semantics.measures.base import Floats
from recado.semantics.units import Reading

# --- One event shape: which names an event has, and which aliases its values therefore go by -------------------------
#
# A shape is aligned with each term once, when its first event comes; a term that is new is aligned with a known shape
# when its next event comes. The order of an event's attributes matters only where several are equally alike to a name
# and the first counts, and for ``one-to-one``: a shape is kept without the order, and such terms are settled for each
# order that comes.


ORDERS = 8
"""Of one shape, how many are remembered."""
MOST_TEXTS = 4_096

Order = tuple[str, ...]


class Texts:
    """Aliases of texts that an attribute's values may be similar to, for all terms that it stands for.

    ``known`` has, by value, what the reader made of them; the reader notes at which ``change`` it did so.
    """

    __slots__ = ("change", "known", "parts")

    def __init__(self, parts: Sequence[tuple[Scope, dict[str, str]]]) -> None:
        self.parts = parts
        self.change = -1
        self.known: dict[str, Any] = {}

    def knows(self, value: str) -> bool:
        """Can the question be answered without asking a measure?"""
        return all(scope.knows(value) for scope, _ in self.parts)

    def similar(self, value: str, semantics: Semantics) -> list[str]:
        """The aliases of the texts that a value is similar to."""
        return [
            aliases[text]
            for scope, aliases in self.parts
            for text in scope.similar_texts(value, semantics)
            if text in aliases
        ]


class Plan:
    """How events of a shape are shown: alias and attribute, and where values are compared with texts.

    ``readings`` make converted values of attributes, which then go by aliases like any other. ``layout`` is what the
    index makes of it.
    """

    __slots__ = ("attributes", "layout", "pairs", "readings", "texts")

    def __init__(
        self, pairs: list[tuple[str, str]], texts: list[tuple[str, Texts]], readings: Mapping[str, Reading]
    ) -> None:
        self.pairs, self.texts, self.readings = pairs, texts, list(readings.values())
        self.attributes = dict.fromkeys(attribute for _, attribute in pairs if attribute not in readings)
        self.attributes |= dict.fromkeys(reading.attribute for reading in self.readings)
        self.attributes |= dict.fromkeys(one.teller for one in self.readings if one.teller is not None)
        self.layout: tuple[int, Any] | None = None


class Pool:
    """Equal ``Texts``, once, since many shapes have them in common and they remember values."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, ...], Texts] = {}

    def texts(self, parts: list[tuple[Scope, dict[str, str]]]) -> Texts:
        key = tuple(id(aliases) for _, aliases in parts)  # which live as long as what is held here
        if key not in self._held:
            if len(self._held) >= MOST_TEXTS:
                self._held.clear()
            self._held[key] = Texts(parts)
        return self._held[key]


class Shape:
    """A set of names. ``covered`` terms are settled; ``ties`` and ``joint`` depend on the order of an event.

    ``used`` since somebody last looked for a shape to forget; ``size`` is what it may come to hold.
    """

    def __init__(self, names: Order) -> None:
        self.names = names
        self.used = True
        self.size = 0
        self.covered = 0
        self.settled: list[tuple[Term, str]] = []
        self.ties: list[tuple[Term, tuple[str, ...]]] = []
        self.tied: dict[str, None] = {}
        self.joint: list[Term] = []
        self.plans: dict[Order, Plan] = {}

    def copy(self) -> Shape:
        """One that can be worked on while this one is in use."""
        other = Shape(self.names)
        other.size, other.covered = self.size, self.covered
        other.settled, other.ties, other.joint = list(self.settled), list(self.ties), list(self.joint)
        other.tied, other.plans = dict(self.tied), dict(self.plans)
        return other

    def cover(self, terms: Sequence[Term], semantics: Semantics) -> None:
        """Settle the terms that have come since."""
        for _ in self.covering(terms, semantics, len(self.names)):
            pass

    def covering(self, terms: Sequence[Term], semantics: Semantics, at_once: int) -> Iterator[None]:
        """The same in steps, each with ``at_once`` attributes at most."""
        scopes: dict[int, list[Term]] = {}
        for term in terms[self.covered :]:
            if term.count and term.scope.settings.assignment != "best":
                self.joint.append(term)
            elif term.count:
                scopes.setdefault(id(term.scope), []).append(term)
        for some in scopes.values():
            yield from self._align(some, semantics, at_once)
        self._settle(len(terms))

    def _settle(self, covered: int) -> None:
        self.covered = covered
        self.plans.clear()
        orders = ORDERS if self.ties or self.joint else 1
        held = len(self.settled) + len(self.ties) + sum(len(term.names) for term in self.joint)
        self.size = len(self.names) + held * (1 + orders)

    def _align(self, terms: list[Term], semantics: Semantics, at_once: int) -> Iterator[None]:
        """The rules of ``Semantics.align`` for names that do not depend on each other, all at once."""
        settings = terms[0].scope.settings
        there = dict.fromkeys(self.names)
        reserved = () if settings.envelope else ENVELOPE
        self.settled += [(term, term.names[0]) for term in terms if term.names[0] in there]
        free = [term for term in terms if term.names[0] not in there and term.names[0] not in reserved]
        candidates = [name for name in self.names if name not in reserved]
        if not free or not candidates:
            return
        values = np.zeros((len(free), len(candidates)))
        asked = [term.names[0] for term in free]
        for start in range(0, len(candidates), at_once):
            some = candidates[start : start + at_once]
            values[:, start : start + at_once] = semantics.similarities(asked, some, settings)
            yield
        for row, columns in _best(values, settings.limit):
            if len(columns) == 1:
                self.settled.append((free[row], candidates[columns[0]]))
            else:
                self.ties.append((free[row], tuple(candidates[column] for column in columns)))
                self.tied |= dict.fromkeys(self.ties[-1][1])

    def plan(self, order: Order, semantics: Semantics, pool: Pool) -> Plan:
        key = order if self.joint else tuple(name for name in order if name in self.tied) if self.tied else ()
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= ORDERS:
                self.plans.clear()
            found = self.plans[key] = self._plan(order, semantics, pool)
        return found

    def _plan(self, order: Order, semantics: Semantics, pool: Pool) -> Plan:
        places = {name: place for place, name in enumerate(order)}
        chosen = [(term, term.names[0], term.aliases[0], attribute) for term, attribute in self.settled]
        for term, tied in self.ties:
            chosen.append((term, term.names[0], term.aliases[0], min(tied, key=places.__getitem__)))
        for term in self.joint:
            mapping = semantics.align(term.names, order, term.scope.settings).mapping()
            aliases = zip(term.names, term.aliases, strict=True)
            chosen += [(term, name, alias, mapping[name]) for name, alias in aliases if name in mapping]
        parts: dict[str, list[tuple[Scope, dict[str, str]]]] = {}
        for term, name, _, attribute in chosen:
            if name in term.texts:
                parts.setdefault(attribute, []).append((term.scope, term.texts[name]))
        pairs: list[tuple[str, str]] = []
        readings: dict[str, Reading] = {}
        for term, name, alias, attribute in chosen:
            reading = None if name == attribute else semantics.reading(name, attribute, order, term.scope.settings)
            if reading is not None:
                readings.setdefault(reading.name, reading)
            pairs.append((alias, attribute if reading is None else reading.name))
        if "type" in places:  # which subscriptions ask for by its own name
            pairs.append(("type", "type"))
        return Plan(pairs, [(attribute, pool.texts(some)) for attribute, some in parts.items()], readings)


def _best(values: Floats, limit: float) -> list[tuple[int, list[int]]]:
    """Rows that have a counterpart, and the columns that are equally good."""
    top = values.max(axis=1)
    least = np.where(top >= ALIKE, ALIKE, top)
    rows = np.flatnonzero((top > limit) | (top >= ALIKE))
    return [(row, np.flatnonzero(values[row] >= least[row]).tolist()) for row in rows.tolist()]


# --- The shapes of events that are known, bounded by their number and by what they hold ------------------------------

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
        seen = _see(event)
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
        found = self._orders.get(_see(event))
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
                self._take(_see(event), shape, plan)

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


def _see(event: Event) -> Seen:
    attributes = event.attributes
    if () in attributes.values():
        return attribute_names(event)
    return (*attributes, bool(event.type), bool(event.source), event.time is None)


# --- What an event shows to the index over aliases: its values, and the aliases by which they go ---------------------


class Similar(NamedTuple):
    """Aliases of texts that a value is similar to, and their numbers in the index."""

    aliases: list[str]
    numbers: list[int]


class Shown(Mapping[str, Value]):
    """One single-valued view of an event: its values, and by which aliases they go; those in ``texts`` go for true."""

    __slots__ = ("_view", "plan", "texts", "values_of")

    def __init__(self, values: Mapping[str, Value], plan: Plan, texts: Sequence[Similar] = ()) -> None:
        self.values_of, self.plan, self.texts = values, plan, texts
        self._view: dict[str, Value] | None = None

    @property
    def view(self) -> dict[str, Value]:
        """As the evaluator of filters reads it, which is rarely asked."""
        if self._view is None:
            self._view = {alias: self.values_of[name] for alias, name in self.plan.pairs}
            for similar in self.texts:
                self._view |= dict.fromkeys(similar.aliases, True)
        return self._view

    def __getitem__(self, alias: str) -> Value:
        return self.view[alias]

    def __iter__(self) -> Iterator[str]:
        return iter(self.view)

    def __len__(self) -> int:
        return len(self.view)
