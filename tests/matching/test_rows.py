"""Single events whose names were seen before: the remembered form of an event must never change an answer."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from recado.filters.expression import parse
from recado.matching.index import Index
from recado.matching.naive import NaiveMatcher
from recado.matching.rows import FORM_NAMES, FORMS, Form
from recado.model.event import Event
from recado.model.subscription import Subscription

STRINGS = {"a": "x", "b": "y", "c": "nobody asks"}


class Both:
    """An index and the oracle, with the same subscriptions."""

    def __init__(self, *filters: str) -> None:
        self.index, self.naive = Index(), NaiveMatcher()
        self._count = 0
        for text in filters:
            self.add(text)

    def add(self, text: str) -> None:
        subscription = Subscription(f"s{self._count}", parse(text))
        self._count += 1
        self.index.add(subscription)
        self.naive.add(subscription)

    def check(self, event: Event, times: int = 3) -> list[str]:
        """Names are remembered when they come the second time, so three times see all ways."""
        expected = sorted(self.naive.match(event))
        for _ in range(times):
            assert self.index.match(event) == expected
        return expected

    def has_form(self, event: Event) -> bool:
        return type(self.index._rows._forms.get(tuple(event.attributes))) is Form


def test_strings_have_a_form_once_their_names_were_seen_twice():
    both = Both('a == "x"', 'a == "x" and b == "z"', "exists b", 'not b == "y"', 'a in {"x", "w"}', 'a != "x"')
    event = Event("e", attributes=STRINGS)
    both.check(event, 1)
    assert not both.has_form(event)
    assert both.check(event) == ["s0", "s2", "s4"]
    assert both.has_form(event)
    for value in ("z", "", "w", "unknown", "é\0"):
        both.check(Event("e", attributes={**STRINGS, "a": value, "b": value}))
    assert both.has_form(event)


@pytest.mark.parametrize(
    "value",
    [
        1,
        True,
        False,
        1.0,
        0,
        -0.0,
        math.nan,
        math.inf,
        2**53 + 1,
        datetime(2026, 1, 1, tzinfo=UTC),
        (),
        ("x", "q"),
        (1,),
    ],
)
@pytest.mark.parametrize("more", [(), ("a == 1", "a == true", "a == 0")], ids=["strings", "mixed"])
def test_a_value_that_is_no_string_ends_the_form(value, more):
    both = Both('a == "x"', "exists a", "a > 0", "a <= 0", 'not a == "x"', 'b == "y"', *more)
    both.check(Event("e", attributes=STRINGS))
    both.check(Event("f", attributes={**STRINGS, "a": value}))
    both.check(Event("e", attributes=STRINGS))


@pytest.mark.parametrize("text", ['c == "nobody asks"', 'a contains "x"', 'a startswith i"X"', "a == 1", "exists c"])
def test_a_filter_that_comes_later_is_seen(text):
    both = Both('a == "x"', "exists b")
    event = Event("e", attributes=STRINGS)
    both.check(event)
    both.add(text)
    both.check(event)
    both.check(Event("f", attributes={**STRINGS, "a": 1}))


@pytest.mark.parametrize("name", ["type", "source", "id", "time"])
def test_fields_of_the_envelope(name):
    both = Both('a == "x"', f"exists {name}", f'{name} == "x"', f'{name} == ""', f'not {name} == "x"')
    for value in ("x", "", "other"):
        both.check(Event("x", type=value, source=value, attributes=STRINGS))
        both.check(Event("e", time=datetime(2026, 1, 1, tzinfo=UTC), attributes=STRINGS))


def test_what_the_kernel_cannot_decide_is_evaluated():
    both = Both('a == "x"', 'a matches "x+"')
    event = Event("e", attributes=STRINGS)
    assert both.check(event) == ["s0", "s1"]
    assert both.has_form(event)
    both.check(Event("e", attributes={**STRINGS, "a": "q"}))


def test_a_loaded_index_makes_its_own_forms(tmp_path):
    both = Both('a == "x"', "b == 1", 'c == "nobody asks"')
    both.check(Event("e", attributes=STRINGS))
    both.index.save(tmp_path / "index")
    both.index = Index.load(tmp_path / "index")
    for b in ("y", 1, True):
        both.check(Event("e", attributes={**STRINGS, "b": b}))
    both.check(Event("e", attributes={"a": "x"}))


def test_forms_are_bounded():
    both = Both('a == "x"')
    for number in range(FORMS + 10):
        both.index.match(Event("e", attributes={"a": "x", f"n{number}": "y"}))
    assert len(both.index._rows._forms) <= FORMS
    many = {f"n{number}": "y" for number in range(FORM_NAMES)}
    both.check(Event("e", attributes={**many, "a": "x"}))
    assert not both.has_form(Event("e", attributes={**many, "a": "x"}))


def test_the_array_of_one_event_is_not_that_of_the_next():
    both = Both('a == "x"', 'a == "w"')
    first, second = (Event("e", attributes={**STRINGS, "a": value}) for value in ("x", "w"))
    for event in (first, second, first):
        both.check(event)
    found = both.index.match_entries(first)
    before = found.tolist()
    both.index.match_entries(second)
    assert found.tolist() == before
