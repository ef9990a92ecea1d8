"""The service is exact at size: what its subscribers are sent is what the evaluator says, also after a restart."""

from __future__ import annotations

import random
from collections import defaultdict

import msgspec
import numpy as np

from matching.exact.check import expected
from matching.exact.generator import events, subscriptions
from matching.exact.ways import fill
from recado.filters.expression import format_expression
from recado.model.codec import read_event
from server.engine_kit import ANA, BEN, TestConsumer, opened, settled, story

SUBSCRIPTIONS, EVENTS = 1_500, 400


async def published(engine, consumer, some, sizes):
    """Publish in groups of several sizes; the ids of the subscriptions that each event came for."""
    found = defaultdict(list)
    at = 0
    for size in sizes:
        await engine.publish(BEN, some[at : at + size])
        at += size
    await settled(engine)
    for notification in consumer.got:
        found[read_event(notification.event).id].append(notification.sub_id)
    consumer.got.clear()
    return [(number, found[event.id]) for number, event in enumerate(some)]


@story
async def test_what_is_sent_is_what_the_evaluator_says(tmp_path):
    rng = random.Random(21)
    some_subscriptions, some_events = subscriptions(rng, SUBSCRIPTIONS), events(rng, EVENTS)
    right = expected(some_subscriptions, some_events)
    engine = await opened(tmp_path)
    for subscription in some_subscriptions:
        record = {
            "id": subscription.id,
            "filter": format_expression(subscription.filter),
            "type": subscription.type,
        }
        record = {name: value for name, value in record.items() if value}
        await engine.subscribe(ANA, msgspec.json.encode(record), "phone")
    sizes = [1, 1, 2, 7, 30, 31, 32, 33, 63]
    half = sum(sizes)
    consumer = TestConsumer(window=100_000, auto=engine)
    engine.attach(ANA, "phone", consumer)
    parts = await published(engine, consumer, some_events[:half], sizes)
    assert np.array_equal(fill(some_subscriptions, some_events[:half], parts), right[:, :half])
    await engine.close()
    engine = await opened(tmp_path)  # all of them are loaded together now
    consumer = TestConsumer(window=100_000, auto=engine)
    engine.attach(ANA, "phone", consumer)
    parts = await published(engine, consumer, some_events[half:], [EVENTS - half])
    assert np.array_equal(fill(some_subscriptions, some_events[half:], parts), right[:, half:])
    await engine.close()
