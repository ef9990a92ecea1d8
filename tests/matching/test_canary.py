"""The canary: what it compares, what it finds, and that it keeps to its share of the time."""

from __future__ import annotations

from random import Random

import pytest

from recado.filters.expression import parse
from recado.matching.canary import FOUND, LONGEST_SECONDS, OTHERS, SAVED_SECONDS, Canary, Disagreement, corrected
from recado.model.event import Event
from recado.model.filter import Compare

EVENT = Event("e-1", attributes={"x": 3})


class Held:
    """Filters by id; every look takes a while on the clock."""

    def __init__(self, filters, seconds=0.0001):
        self.filters, self.ids = filters, sorted(filters)
        self.now, self.seconds, self.asked = 0.0, seconds, []

    def filter_of(self, id):
        self.now += self.seconds
        self.asked.append(id)
        return self.filters[id]

    def draw(self, rng):
        return rng.choice(self.ids) if self.ids else None

    def clock(self):
        return self.now


def canary(held, share=1.0, seed=1):
    return Canary(share, Random(seed), held.clock)


def numbered(count, text="x == 3"):
    return {f"s-{n}": parse(text) for n in range(count)}


def test_agreement_is_counted():
    held = Held({"yes": parse("x > 1"), "no": parse("x > 5"), "absent": parse("not exists x")})
    watch = canary(held)
    assert watch.compare(EVENT, ["yes"], held) == []
    assert (watch.agreements, watch.disagreements) == (3, 0)
    assert sorted(held.asked) == ["absent", "no", "yes"]


def test_a_lost_and_an_added_match_are_found_and_corrected():
    held = Held({"right": parse("x == 3"), "lost": parse("x in {3}"), "added": parse("x > 5"), "left out": None})
    watch = canary(held)
    wrong = watch.compare(EVENT, ["right", "added", "left out"], held)
    assert sorted((one.subscription, one.found) for one in wrong) == [("added", True), ("lost", False)]
    assert (watch.agreements, watch.disagreements) == (1, 2)
    assert corrected(["right", "added", "left out"], wrong) == ["right", "left out", "lost"]


def test_what_is_told_of_it_is_bounded():
    long = Event("e", attributes={"text": "a" * 9_000})
    told = str(Disagreement(long, "s", Compare("text", "==", "b" * 9_000), True))
    assert "event 'e' and subscription 's': the index matches it, the plain evaluator does not" in told
    assert 'filter: text == "bbb' in told
    assert 'event: {"id":"e","text":"aaa' in told
    assert len(told) < 5_000


def test_so_many_at_a_time_and_no_more():
    held = Held(numbered(1_000), seconds=0.0)
    watch = canary(held)
    watch.compare(EVENT, held.ids[:500], held)
    said = set(held.ids[:500])
    assert sum(id in said for id in held.asked) == FOUND
    assert 0 < sum(id not in said for id in held.asked) <= OTHERS


def test_others_have_their_part_of_the_time_of_an_event_that_matches_much():
    held = Held(numbered(1_000), seconds=LONGEST_SECONDS / 10)
    canary(held).compare(EVENT, held.ids[:500], held)
    said = set(held.ids[:500])
    assert len(held.asked) <= 12
    assert any(id not in said for id in held.asked)


def test_the_same_seed_compares_the_same():
    first, second = Held(numbered(300)), Held(numbered(300))
    for held in (first, second):
        watch = canary(held)
        for _ in range(5):
            watch.compare(EVENT, held.ids[:100], held)
    assert first.asked == second.asked


@pytest.mark.parametrize("share", [0.001, 0.05])
def test_the_share_of_the_time_is_kept(share):
    held = Held(numbered(300), seconds=0.0007)
    watch = canary(held, share)
    for _ in range(200_000):
        watch.earn(0.001)
        if watch.due:
            watch.compare(EVENT, held.ids, held)
    matched = 200_000 * 0.001
    assert held.now == pytest.approx(matched * share, rel=0.1)


def test_little_is_saved_up_over_a_quiet_time():
    held = Held(numbered(300), seconds=0.001)
    watch = canary(held, 0.5)
    watch.earn(1e6)
    while watch.due:
        watch.compare(EVENT, held.ids, held)
    assert held.now <= SAVED_SECONDS + 2 * LONGEST_SECONDS


def test_none_is_due_without_a_share():
    watch = canary(Held({}), 0.0)
    watch.earn(5.0)
    assert not watch.due


@pytest.mark.parametrize(
    "event",
    [
        Event("e", attributes={"x": "a" * 60_000}),
        Event("e", attributes={"x": tuple(range(200))}),
        Event("e", attributes={"x": ("a" * 600,) * 100}),
    ],
)
def test_what_may_take_long_is_left_out(event):
    held = Held({"slow": parse(f'x similar to "{"a" * 1_000}" at 0.9')})
    watch = canary(held)
    assert watch.compare(event, [], held) == []
    assert (watch.agreements, watch.disagreements) == (0, 0)


def test_an_engine_without_subscriptions():
    watch = canary(Held({}))
    assert watch.compare(EVENT, [], Held({})) == []
