"""The canary: some answers of an engine are compared with those of the plain evaluator, while it works.

Of a matched event the subscriptions that the engine found are evaluated, and a few that it did not find, drawn at
random. That costs time, of which it gets a ``share`` of the time that matching takes: ``earn`` says how long something
was matched, ``due`` whether enough was saved up, and what a comparison took is owed. So on average the share holds,
whatever filters and events cost, and a single comparison ends after ``LONGEST_SECONDS``, about: a pair that might take
long by itself is left out.

The class knows no clock and draws no number of its own; both are given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

import msgspec

from recado.filters import expression
from recado.filters.cost import cost_of
from recado.filters.evaluate import matches
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.filter import Filter

SHARE = 0.001
"""Of the time of matching, unless something else is asked for."""
FOUND, OTHERS = 64, 16
"""So many of the found and of the others are compared at a time, at most."""
LONGEST_SECONDS = 0.005
SAVED_SECONDS = 0.1
"""More is not saved up: after a quiet time there is no burst of comparisons."""
STEPS = 50_000
"""A pair that may take more steps of evaluation is left out."""
_CHARS_A_STEP = 64
_SHOWN_CHARS = 2_000


class Rng(Protocol):
    """What ``random.Random`` can do, as far as it is needed here."""

    def randrange(self, stop: int, /) -> int: ...

    def sample(self, population: list[str], k: int) -> list[str]: ...

    def shuffle(self, x: list[Any]) -> None: ...


class Filters(Protocol):
    """The subscriptions that an engine has."""

    def filter_of(self, subscription: str) -> Filter | None:
        """The filter that an event is to be compared with; None if this one is left out."""
        ...

    def draw(self, rng: Rng) -> str | None:
        """The id of one, at random; None if that gave none."""
        ...


class Disagreement(msgspec.Struct, frozen=True):
    """A pair on which the engine and the plain evaluator differ."""

    event: Event
    subscription: str
    filter: Filter
    found: bool
    """What the engine said."""

    def __str__(self) -> str:
        said = "the index matches it, the plain evaluator does not" if self.found else "the index misses it"
        return (
            f"event {self.event.id!r} and subscription {self.subscription!r}: {said}; "
            f"filter: {_cut(expression.format_expression(self.filter))}; event: {_cut(_text_of(self.event))}"
        )


class Canary:
    """Counts of pairs in ``agreements`` and ``disagreements``."""

    def __init__(self, share: float, rng: Rng, clock: Callable[[], float]) -> None:
        self.agreements = self.disagreements = 0
        self._share, self._rng, self._clock = share, rng, clock
        self._saved = 0.0

    def earn(self, seconds: float) -> None:
        """So long something was matched."""
        self._saved = min(self._saved + seconds * self._share, SAVED_SECONDS)

    @property
    def due(self) -> bool:
        """Is it time to compare?"""
        return self._share > 0 and self._saved >= 0

    def choose(self, count: int) -> int:
        """Which of so many events is to be compared."""
        return self._rng.randrange(count)

    def compare(self, event: Event, found: Collection[str], filters: Filters) -> list[Disagreement]:
        """The pairs of an event on which the engine, which found these subscriptions, was wrong."""
        begun = self._clock()
        wrong: list[Disagreement] = []
        size = _size(event)
        for id, said in self._pairs(found, filters):
            filter = filters.filter_of(id)
            if filter is not None and cost_of(filter) * size <= STEPS:
                if matches(filter, event) is said:
                    self.agreements += 1
                else:
                    self.disagreements += 1
                    wrong.append(Disagreement(event, id, filter, said))
            if self._clock() - begun > LONGEST_SECONDS:
                break
        self._saved -= self._clock() - begun
        return wrong

    def _pairs(self, found: Collection[str], filters: Filters) -> Iterator[tuple[str, bool]]:
        """Found and others by turns, so that both have their part of the time."""
        known = set(found)
        chosen = list(found) if len(found) <= FOUND else self._rng.sample(list(found), FOUND)
        drawn = {id for _ in range(OTHERS) if (id := filters.draw(self._rng)) is not None and id not in known}
        others = sorted(drawn)  # a set has no order that a seed would repeat
        self._rng.shuffle(chosen)
        while chosen or others:
            if chosen:
                yield chosen.pop(), True
            if others:
                yield others.pop(), False


def corrected(found: list[str], wrong: list[Disagreement]) -> list[str]:
    """What the engine found, with the plain evaluator's answers where they are known to differ."""
    out = {one.subscription for one in wrong if one.found}
    return [id for id in found if id not in out] + [one.subscription for one in wrong if not one.found]


def _size(event: Event) -> int:
    """By how much evaluating a filter on the event may cost more than on a small one."""
    chars = views = 1
    for value in event.attributes.values():
        elements = value if isinstance(value, tuple) else (value,)
        views *= max(len(elements), 1)
        chars += sum(len(element) for element in elements if isinstance(element, str))
    return views * (1 + chars // _CHARS_A_STEP)


def _text_of(event: Event) -> str:
    return write_flat(event).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}... ({len(text):,} characters)"
