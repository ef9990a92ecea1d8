"""The sample that Recado ships, for tests on Spark, and what the oracle says about it."""

from importlib.resources import files
from pathlib import Path

from recado.filters.records import read_subscription
from recado.matching.naive import NaiveMatcher
from recado.model.codec import read_event
from recado.pipeline.match import notifications

FOLDER = files("recado") / "data" / "sample"
SUBSCRIPTIONS = str(FOLDER / "subscriptions.ndjson")
EVENTS = str(FOLDER / "events.ndjson")
SCHEMA = (
    "id string, type string, source string, time timestamp, fare double, tolls double, passengers int, big bigint, "
    "flag boolean, action string, tags array<string>, levels array<double>, when timestamp, "
    "pickup struct<zone int, borough string, at timestamp, geo struct<lat double, ok boolean>>, "
    "items array<struct<sku string, price double>>, Note string"
)
"""The events of ``foreign_filters`` as typed columns."""


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
    """Of rows, or of one row an event with its matches."""
    return sorted((row.event_id, row.subscription_id) for row in notifications(frame).collect())
