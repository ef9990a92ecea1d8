"""Notifications to be constrained, and the plain way to do it: sort, and ask the policy one by one."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from recado.broker.constraints import decode_constraints, frequency_of, satisfied

T0 = datetime(2026, 11, 15, 15, 59, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("subscription_id", pa.string()),
        ("owner", pa.string()),
        ("event_time", INSTANT),
        ("matched_at", INSTANT),
        ("constraints", pa.string()),
        ("connected", pa.bool_()),
        ("event", pa.struct([("price", pa.float64()), ("tags", pa.list_(pa.string()))])),
    ]
)
OFTEN = '{"kind": "frequency", "amount": 7, "unit": "seconds"}'
AWAY = '{"kind": "frequency", "amount": 1, "unit": "minutes", "when": "disconnected"}'
CLOSING = '{"kind": "daily", "from": "16:00", "to": "16:01"}'
ONCE = '{"kind": "absolute", "from": "2026-11-15T15:59:30Z", "to": "2026-11-15T15:59:50Z", "when": "disconnected"}'
LISTS = ([], [OFTEN], [AWAY], [CLOSING], [ONCE, OFTEN, CLOSING], [AWAY, ONCE])
TEXTS = [None, *(f"[{', '.join(parts)}]" for parts in LISTS)]


def random_batches(seed, batches, rows, subscriptions=25):
    """Batches of rows; events come out of order, within a batch and between batches, and some have no time."""
    rng = random.Random(seed)
    texts = {f"s-{n}": rng.choice(TEXTS) for n in range(subscriptions)}
    return [
        [_row(rng, f"e-{batch}-{n}", T0 + timedelta(seconds=30 * batch), texts) for n in range(rows)]
        for batch in range(batches)
    ]


def _row(rng, id, start, texts):
    time = start + timedelta(seconds=rng.randint(-20, 60), microseconds=rng.choice([0, 0, 500_000, 999_999]))
    subscription = rng.choice(list(texts))
    return {
        "event_id": id,
        "subscription_id": subscription,
        "owner": "user:ana@example.org",
        "event_time": None if rng.random() < 0.05 else time,
        "matched_at": time + timedelta(seconds=1),
        "constraints": texts[subscription],
        "connected": rng.choice([True, False, None]),
        "event": {"price": rng.random(), "tags": [None, "a"][: rng.randint(0, 2)]},
    }


def judged_at(row):
    return row["event_time"] or row["matched_at"]


def plain(batches, watermarks=None, connected=True):
    """The ids of the rows that become notifications, for each batch."""
    last, given = {}, []
    for batch, watermark in zip(batches, watermarks or [None] * len(batches), strict=True):
        wanted = []
        for row in sorted(batch, key=lambda row: (judged_at(row), row["event_id"])):
            constraints = decode_constraints(row["constraints"] or "[]")
            now, frequent = judged_at(row), frequency_of(constraints) is not None
            there = connected if row["connected"] is None else row["connected"]
            if watermark is not None and frequent and now < watermark:
                continue
            if satisfied(constraints, now, now, last.get(row["subscription_id"]), there):
                wanted.append(row["event_id"])
                if frequent:
                    last[row["subscription_id"]] = max(now, last.get(row["subscription_id"], now))
        given.append(sorted(wanted))
    return given
