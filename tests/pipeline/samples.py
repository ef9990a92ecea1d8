"""The sample that Recado ships, for tests on Spark, and what the oracle says about it."""

from importlib.resources import files
from pathlib import Path

from recado.filters.records import read_subscription
from recado.matching.naive import NaiveMatcher
from recado.model.codec import read_event

FOLDER = files("recado") / "data" / "sample"
SUBSCRIPTIONS = str(FOLDER / "subscriptions.ndjson")
EVENTS = str(FOLDER / "events.ndjson")


def lines(path):
    return [line for line in Path(path).read_text("utf-8").splitlines() if line]


def subscriptions():
    return [read_subscription(line) for line in lines(SUBSCRIPTIONS)]


def events():
    return [read_event(line) for line in lines(EVENTS)]


def expected(some_events=None, some_subscriptions=None):
    """All pairs (event id, subscription id), by the naive matcher."""
    naive = NaiveMatcher()
    for subscription in subscriptions() if some_subscriptions is None else some_subscriptions:
        naive.add(subscription)
    return sorted((e.id, s) for e in (events() if some_events is None else some_events) for s in naive.match(e))


def pairs(frame):
    return sorted((row.event_id, row.subscription_id) for row in frame.collect())
