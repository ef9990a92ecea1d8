"""Ahead of events: what a measure must be asked before an event is matched, asked elsewhere and in short steps.

Matching an event whose names and compared values are known asks no measure, and takes microseconds. A new name takes
milliseconds, and more with every name that subscriptions have. Whoever must not wait for that asks whether events are
``prepared``, and lets another thread go through the steps of ``preparing`` if they are not, while it matches others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.semantics.match import attribute_names, semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.matcher_shape import Texts
from recado.semantics.matcher_shapes import STEP_NAMES
from recado.semantics.rewriting import constraint_names
from recado.semantics.settings import SemanticSettings

WARM_NAMES = 1_024
"""So many attributes, of the shapes that came last, are compared with the names of a new subscription."""


class PreparedMatcher(SemanticMatcher):
    """``preparing`` and ``warming`` may run in any thread; all else belongs to one."""

    def prepared(self, events: Sequence[Event]) -> bool:
        """Can these be matched without asking a measure?"""
        if not self._held:
            return True
        if self._by_hand and any(held.compares for held in self._by_hand.values()):
            return False
        return all(self._shapes.known(event) is not None and not any(self._unknown(event)) for event in events)

    def preparing(self, events: Sequence[Event]) -> Iterator[None]:
        """Ask measures all that matching these events will need, step by step. Any thread will do."""
        for event in events:
            if self._shapes.known(event) is None:
                yield from self._shapes.drafting(event, self._lock)
            for texts, value in self._unknown(event):
                texts.similar(value, self.semantics)
                yield
            for held in list(self._by_hand.values()):
                names = constraint_names(held.subscription.filter)
                yield from self._comparing(names, attribute_names(event), held.settings)
                semantic_match(event, held.subscription, held.settings, self.semantics)
                yield

    def warming(self, subscription: Subscription) -> Iterator[None]:
        """Compare the names of a subscription that is about to be added with those of events that came before."""
        settings = self.settings(subscription)
        if settings is not None:
            with self._lock:
                known, names = self._shapes.names(WARM_NAMES), self._vocabulary.lacks(subscription.filter, settings)
            yield from self._comparing(names, known, settings)

    def _unknown(self, event: Event) -> Iterator[tuple[Texts, str]]:
        """Values that are to be compared with texts, and have not been."""
        plan = self._shapes.known(event)
        if plan is None or not plan.texts:
            return
        values = dict(event.items())
        for name, texts in plan.texts:
            value = values.get(name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, str) and not texts.knows(one):
                    yield texts, one

    def _comparing(self, names: Sequence[str], others: Sequence[str], settings: SemanticSettings) -> Iterator[None]:
        for start in range(0, len(names), STEP_NAMES):
            for at in range(0, len(others), STEP_NAMES):
                some = names[start : start + STEP_NAMES], others[at : at + STEP_NAMES]
                self.semantics.similarities(*some, settings)
                yield
