"""Does an event match a subscription whose names may be other words? The plain answer that every engine must give.

The names of the filter are aligned with those of the event, the filter is rewritten, and the rewritten filter is
evaluated as any other. The subscription's event ``type`` is no name and stays exact. With ``values`` semantic a
``similar`` predicate (SM) holds for the values that the measure finds more alike than the threshold: since only the
values of this event matter, it is replaced by "is one of those" (4.7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from recado.filters.evaluate import evaluate, matches, names_of
from recado.model.event import Event
from recado.model.filter import And, Filter, In, Not, Or, Similar
from recado.model.subscription import Subscription, type_filter
from recado.model.values import Value
from recado.semantics.alignment import ALIKE, Alignment, constraint_names, rewrite, tell_units, views
from recado.semantics.engine import Semantics, shared
from recado.semantics.plugins import Plugins
from recado.semantics.settings import DEFAULT, SemanticSettings, read_settings
from recado.semantics.units import Reading

_log = logging.getLogger("recado.semantics")


class Match(msgspec.Struct, frozen=True):
    """An event that matched: the filter as it was asked of this event, and the alignment; None for exact names."""

    event: str
    subscription: str
    filter: Filter
    alignment: Alignment | None = None

    def explain(self) -> list[str]:
        """A sentence for each name of the filter."""
        return [pair.explain() for pair in self.alignment.pairs] if self.alignment else []


callbacks: Plugins[Callable[[Event, str], None]] = Plugins("recado.callbacks", "call-back")
"""Functions that are told each match of a semantic subscription: the event, and the id of the subscription."""


def tell_callbacks(event: Event, subscription_id: str) -> None:
    """Tell all call-backs of a match, by name; what one raises is logged, and changes nothing."""
    for name in callbacks.names():
        try:
            callbacks.find(name)(event, subscription_id)
        except Exception:  # noqa: BLE001  # of somebody else's code; matching goes on
            _log.exception("the call-back %s failed for event %s", name, event.id)


def semantic_match(
    event: Event,
    subscription: Subscription,
    settings: SemanticSettings | None = None,
    semantics: Semantics | None = None,
    default: SemanticSettings = DEFAULT,
) -> Match | None:
    """The match and its reasons, or None.

    Without ``settings`` the subscription's own count, over ``default``; if it has none its names mean themselves, and
    no lexicon is asked for.
    """
    chosen = settings or read_settings(subscription.semantic, default)
    if chosen is None:
        exact = subscription.whole_filter()
        return Match(event.id, subscription.id, exact) if matches(exact, event) else None
    asked, alignment = asked_of(event, subscription, chosen, semantics or shared())
    if not any(evaluate(asked, view) for view in views(event, names_of(asked), alignment.readings())):
        return None
    return Match(event.id, subscription.id, asked, tell_units(event, alignment))


def asked_of(
    event: Event, subscription: Subscription, settings: SemanticSettings, semantics: Semantics
) -> tuple[Filter, Alignment]:
    """The subscription's filter as it is asked of this event, and the alignment of their names."""
    alignment = semantics.align(constraint_names(subscription.filter), attribute_names(event), settings)
    asked = resolve(rewrite(subscription.filter, alignment), event, settings, semantics, alignment.readings())
    return And((type_filter(subscription.type), asked)) if subscription.type else asked, alignment


def attribute_names(event: Event) -> tuple[str, ...]:
    """What a name can be aligned with, in the event's order; an empty array is absent."""
    return tuple(name for name, value in event.items() if value != ())


def resolve(
    node: Filter,
    event: Event,
    settings: SemanticSettings,
    semantics: Semantics,
    readings: Mapping[str, Reading] = MappingProxyType({}),
) -> Filter:
    """The filter with every ``similar`` decided by meaning, for the values of this event, which are not converted."""
    if settings.values == "string":
        return node
    match node:
        case And(parts) | Or(parts):
            return type(node)(tuple(resolve(part, event, settings, semantics, readings) for part in parts))
        case Not(part):
            return Not(resolve(part, event, settings, semantics, readings))
        case Similar(name, text):
            attribute = readings[name].attribute if name in readings else name
            values = _values(event, attribute)
            return In(attribute, tuple(value for value in values if is_similar(value, text, settings, semantics)))
    return node


def is_similar(value: Value, text: str, settings: SemanticSettings, semantics: Semantics) -> bool:
    """Is a value that is a string more alike to the text than the threshold, or equal to it?"""
    if not isinstance(value, str):
        return False
    similarity = semantics.similarity(value, text, settings, as_values=True)
    return similarity > settings.value_limit or similarity >= ALIKE


def _values(event: Event, name: str) -> tuple[Value, ...]:
    value = next((value for other, value in event.items() if other == name), ())
    return value if isinstance(value, tuple) else (value,)
