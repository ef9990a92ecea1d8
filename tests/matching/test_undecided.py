"""What the kernels find and what they leave, decided in steps, against the oracle; also while subscriptions change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.oracle import engines
from recado.filters.evaluate import Work
from recado.filters.expression import parse
from recado.matching import undecided as undecided_module
from recado.matching.naive import NaiveMatcher
from recado.matching.undecided import is_narrow, sift_event, sift_events, sift_texts
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription
from strategies import events, filters

half = settings(max_examples=settings.default.max_examples // 2)
"""Six tests go nearly the same way."""


def result(steps):
    """What a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def matched(found, undecided):
    """Found, or undecided and true."""
    work = Work()
    true = [
        id
        for group in undecided
        for ids, filter in zip(group.ids, group.filters, strict=True)
        if result(group.steps(filter, work))
        for id in ids
    ]
    assert not set(true) & set(found)
    return sorted(found + true)


@half
@given(st.lists(filters(sql=True), max_size=12), events())
def test_one_event_by_its_views(several: list[Filter], event: Event):
    index, naive = engines(several)
    assert matched(*result(sift_event(index, event, 0))) == naive.match(event)


@half
@given(st.lists(filters(sql=True), max_size=12), st.lists(events(), min_size=1, max_size=6))
def test_many_events_at_once(several: list[Filter], some: list[Event]):
    index, naive = engines(several)
    numbers = [10 * number for number in range(len(some))]
    sifted = sift_events(index, some, numbers)
    assert [group.event for group in sifted.undecided] == sorted(group.event for group in sifted.undecided)
    for number, event in enumerate(some):
        undecided = [group for group in sifted.undecided if group.event == 10 * number]
        assert matched(sifted.found[number], undecided) == naive.match(event)


@half
@given(st.lists(filters(sql=True), max_size=12), st.lists(events(), min_size=1, max_size=6))
def test_many_events_by_their_texts(several: list[Filter], some: list[Event]):
    """Those that the kernel does not read, arrays for instance, come as events."""
    index, naive = engines(several)
    sifted = sift_texts(index, [write_flat(event) for event in some], some, range(len(some)))
    for number, event in enumerate(some):
        undecided = [group for group in sifted.undecided if group.event == number]
        assert matched(sifted.found[number], undecided) == naive.match(event)


@half
@given(st.lists(filters(sql=True), max_size=12), events())
def test_what_is_undecided_is_named_in_parts(several: list[Filter], event: Event):
    index, naive = engines(several)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undecided_module, "TAKEN_IN", 1)
        assert matched(*result(sift_event(index, event, 0))) == naive.match(event)


@pytest.mark.parametrize("taken_in", [1, 8_192])
@half
@given(
    several=st.lists(filters(sql=True), min_size=4, max_size=12), event=events(), rng=st.randoms(use_true_random=False)
)
def test_subscriptions_may_come_and_go_between_steps(taken_in: int, several: list[Filter], event: Event, rng):
    """Whoever stays gets what it would have got; numbers of entries that pass to others confuse nobody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undecided_module, "TAKEN_IN", taken_in)
        _come_and_go(several, event, rng)


def _come_and_go(several: list[Filter], event: Event, rng):
    index, naive = engines(several)
    staying = {f"s{number}" for number in range(0, len(several), 2)}
    leaving = [f"s{number}" for number in range(1, len(several), 2)]
    wanted = set(naive.match(event)) & staying
    sifting = sift_event(index, event, 0)
    added = 0
    while True:
        try:
            next(sifting)
        except StopIteration as end:
            found, undecided = end.value
            break
        if leaving:
            index.remove(leaving.pop())
            index.add(Subscription(f"new{added}", rng.choice(several)))
            added += 1
    work = Work()
    true = {
        id
        for group in undecided
        for ids, filter in zip(group.ids, group.filters, strict=True)
        if result(group.steps(filter, work))
        for id in ids
    }
    assert (set(found) | true) & staying == wanted


def test_long_searches_are_left_to_be_cut():
    texts = ['not (text contains "needle")', 'text like "*a*b*c"', 'text contains "needle" and n == 1']
    index, naive = engines(map(parse, texts))
    event = Event("e", attributes={"text": ("ab" * 10_000 + "c", "needle" + "x" * 10_000), "n": 1})
    found, undecided = result(sift_event(index, event, 0))
    assert found == []
    assert sorted(id for group in undecided for ids in group.ids for id in ids) == ["s0", "s1", "s2"]
    assert matched(found, undecided) == naive.match(event) == ["s0", "s1", "s2"]


def test_equal_filters_are_one_question():
    index = engines([])[0]
    for number in range(5):
        index.add(Subscription(f"s{number}", parse('x matches "a.*"')))
    (group,) = result(sift_event(index, Event("e", attributes={"x": "abc"}), 7))[1]
    assert (group.event, len(group.filters), sorted(group.ids[0])) == (7, 1, [f"s{number}" for number in range(5)])


def test_what_is_found_for_one_element_is_not_asked_for_another():
    index, naive = engines([parse('x == 1 or y matches "a.*"')])
    event = Event("e", attributes={"x": (2, 1), "y": "b"})
    assert result(sift_event(index, event, 0)) == (["s0"], [])
    assert isinstance(naive, NaiveMatcher)
    assert naive.match(event) == ["s0"]


def test_ordinary_events_are_narrow():
    assert is_narrow(Event("e", attributes={"x": "a" * 4_000, "y": (1, 2), "z": (1, 2, 3), "none": ()}))
    assert not is_narrow(Event("e", attributes={"x": tuple(range(9))}))
    assert not is_narrow(Event("e", attributes={"x": (1, 2, 3), "y": (1, 2, 3)}))
    assert not is_narrow(Event("e", attributes={"x": "a" * 5_000}))
    assert not is_narrow(Event("e", attributes={"x": ("a", "a" * 5_000)}))
