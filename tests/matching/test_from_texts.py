"""Texts in, pairs out: always what reading each text and asking the naive evaluator gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import EventError
from recado.matching.from_texts import match_texts
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.matching.scanner import Texts, joined
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.limits import LIMITS, Limits
from recado.model.subscription import Subscription
from recado.model.values import microseconds
from matching.text_cases import HOSTILE, filters, texts

Result = list[tuple[str, int | None, list[str]] | str]
"""Of each text: the id and time of its event and the subscriptions that it matches, or what is wrong with it."""


@pytest.fixture(scope="module", params=[False, True], ids=["", "with ids"])
def both(request: pytest.FixtureRequest) -> tuple[Index, NaiveMatcher]:
    index, naive = Index(), NaiveMatcher()
    subscriptions = [Subscription(f"s{number}", filter) for number, filter in enumerate(filters(request.param))]
    index.add_many(subscriptions)
    for subscription in subscriptions:
        naive.add(subscription)
    return index, naive


def expected(naive: NaiveMatcher, given: Sequence[bytes], limits: Limits, default_id: str | None) -> Result:
    out: Result = []
    for text in given:
        try:
            event = read_event(text, default_id=default_id, limits=limits)
        except EventError as error:
            out.append(str(error))
        else:
            time = None if event.time is None else microseconds(event.time)
            out.append((event.id, time, sorted(naive.match(event))))
    return out


def found(
    index: Index, given: Sequence[bytes], limits: Limits = LIMITS, default_id: str | None = "none", texts: Texts | None = None
) -> tuple[Result, int]:
    """The same through columns, and how many texts were left to the reader."""
    errors: dict[int, str] = {}

    def reader(number: int) -> Event | None:
        try:
            return read_event(given[number], default_id=default_id, limits=limits)
        except EventError as error:
            errors[number] = str(error)
            return None

    result = match_texts(index, texts or joined(given), reader, limits=limits, needs_id=default_id is None)
    names = result.pairs.ids(index).to_pylist()
    times, has_time = result.times()
    out: Result = []
    places = pairwise(result.pairs.offsets.tolist())
    for number, (id, (start, end)) in enumerate(zip(result.ids(lambda _: str(default_id)), places, strict=True)):
        if number in errors:
            assert id is None
            assert start == end
            out.append(errors[number])
        else:
            assert id is not None
            out.append((id, int(times[number]) if has_time[number] else None, sorted(names[start:end])))
    return out, len(result.read) + len(errors)


def check(both: tuple[Index, NaiveMatcher], given: Sequence[bytes], limits: Limits = LIMITS, default: str | None = "none") -> int:
    index, naive = both
    result, left = found(index, given, limits, default)
    for text, one, other in zip(given, result, expected(naive, given, limits, default), strict=True):
        assert one == other, text[:2_000]
    return left


def test_hostile_texts(both: tuple[Index, NaiveMatcher]) -> None:
    assert check(both, HOSTILE) < len(HOSTILE)
    check(both, HOSTILE, default=None)
    for text in HOSTILE[::3]:
        check(both, [text])


@pytest.mark.parametrize("seed", range(4))
def test_random_texts(both: tuple[Index, NaiveMatcher], seed: int) -> None:
    rng = random.Random(seed)
    given = texts(rng, 1_500)
    left = check(both, given, default=None if seed == 3 else "none")
    assert left < 0.8 * len(given)  # or nothing was tested
