"""The work's data set and its published rates: section 8.8 of the semantics document, events a second."""

from __future__ import annotations

from experiments.semantics.dataset import FULL, QUICK, Dataset, Item, generate
from experiments.semantics.speed import spread
from recado.model.event import Event
from recado.model.filter import And, Similar
from recado.model.subscription import Subscription

PUBLISHED = {
    0: (303.303, 301.714),
    1: (314.416, 311.744),
    2: (316.427, 286.316),
    3: (312.133, 293.796),
    6: (312.431, 250.440),
    10: (301.160, 177.271),
    20: (293.212, 97.250),
    50: (286.100, 44.068),
}
"""Subscribers: with the cache, without it."""
SEMANTIC = {
    "measure": "mean",
    "options": {"word": "jcn", "mode": "all"},
    "threshold": 0.15,
    "unmatched": "ignore",
}
"""The setting of the highest published F: mean over all pairs of words, Jiang & Conrath."""


def dataset(quick: bool) -> Dataset:
    return generate(QUICK if quick else FULL)


def subscribers(data: Dataset, count: int) -> list[Subscription]:
    """So many subscribers: 2 to 4 constraints each, names and values in their own words."""
    items = spread(data.subscriptions, count)
    return [Subscription(f"{number}", _filter(item), semantic=SEMANTIC) for number, item in enumerate(items)]


def _filter(item: Item) -> And:
    return And(tuple(Similar(name, value) for name, value in item.pairs))


def published_events(data: Dataset, count: int) -> list[Event]:
    return [Event(item.id, attributes=dict(item.pairs)) for item in spread(data.events, count)]
