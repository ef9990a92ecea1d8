"""Thousands of runs over bad links with moves, against the plain model in ``pair``."""

from random import Random

import pytest

from protocols.rudp.pair import Pair, check
from recado.protocols.rudp import RudpSettings, profile

SEEDS = 1_000
WRAPS = 2**32 - 7


def any_settings(rng):
    window = rng.choice((1, 1, 2, 4, 16, 64))
    return RudpSettings(
        rto_init_seconds=0.2,
        rto_min_seconds=rng.choice((0.02, 0.1)),
        rto_max_seconds=1.0,
        backoff=rng.choice((1.5, 2.0)),
        max_retries=rng.choice((0, 1, 2, 3, 6)),
        window=window,
        dedup=rng.choice((window, window * 2, 1024)),
        mtu_payload_bytes=rng.choice((9, 16, 50, 1200)),
        fast_resend=rng.choice((0, 1, 3)),
        max_message_bytes=1000,
        max_queue_messages=rng.choice((1, 10, 1000)),
        max_queue_bytes=rng.choice((300, 100_000)),
        keepalive_seconds=rng.choice((0.0, 0.3)),
    )


def any_pair(seed):
    rng = Random(seed)
    shortest = rng.choice((0.0, 0.01, 0.1))
    pair = Pair(
        rng,
        any_settings(rng),
        loss=rng.choice((0.0, 0.05, 0.2, 0.4)),
        twice=rng.choice((0.0, 0.3)),
        delay=(shortest, shortest + rng.choice((0.0, 0.05, 0.5))),
        move_every=rng.choice((None, 0.3, 2.0)),
    )
    if rng.random() < 0.5:
        pair.begin_at(WRAPS)
    return pair


def test_every_message_comes_once_and_in_order_or_is_reported():
    failures = resent = duplicates = skipped = 0
    for seed in range(SEEDS):
        pair = any_pair(seed)
        try:
            pair.run()
            check(pair)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        for side in pair.sides.values():
            counters = side.connection.counters
            failures, resent = failures + counters.failures, resent + counters.resent
            duplicates, skipped = duplicates + counters.duplicates, skipped + counters.skipped
            assert side.connection.inspect()["held"] == 0
            assert side.connection.inspect()["pending_bytes"] == 0
    assert min(failures, resent, duplicates, skipped) > 500, "the links were bad enough to show anything"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_more_of_the_same():
    for seed in range(SEEDS, 20_000):
        pair = any_pair(seed)
        pair.run()
        check(pair)


def test_a_good_link_needs_two_datagrams_a_message():
    pair = Pair(Random(1), profile("classic"), messages=(100, 100))
    pair.run()
    check(pair)
    assert pair.datagrams == 2 * 2 * 100


@pytest.mark.parametrize("loss", [0.05, 0.1, 0.2, 0.3])
def test_false_disconnections_are_as_rare_as_computed(loss):
    """E4: (1 - (1 - p)**2) ** (MAX_RETRIES + 1) for each message, and every message arrives in the end."""
    pair = Pair(Random(1), profile("lab"), messages=(4_000, 0), loss=loss)
    pair._calm = lambda: None
    pair.run(until=1e6)
    check(pair)
    counters = pair.sides["a"].connection.counters
    expected = (1 - (1 - loss) ** 2) ** 4 * counters.sent
    assert abs(counters.failures - expected) < 4 * (expected + 1) ** 0.5
    assert expected > 1 or loss < 0.1
