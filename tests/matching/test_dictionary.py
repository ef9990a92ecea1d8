"""Names and constants as numbers: equal values share a code, kinds never do, and what nobody uses comes back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import LimitError
from recado.matching import dictionary as module
from recado.matching.dictionary import Dictionary, key_of
from recado.model.values import Kind, canonical, kind_of
from strategies import values

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
LISBON = ZoneInfo("Europe/Lisbon")
TWICE = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
"""In Lisbon a clock that shows this hour is set back, and shows it once more."""


def test_names_are_numbered_as_they_come():
    dictionary = Dictionary()
    assert [dictionary.attribute(name) for name in ("a", "é", "a", "")] == [0, 1, 0, 2]
    assert dictionary.names == {"a": 0, "é": 1, "": 2}


@pytest.mark.parametrize(("value", "kind"), [("1", 0), (1, 1), (1.5, 1), (True, 2), (T, 3)])
def test_a_code_is_a_constant_and_its_kind(value, kind):
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    code = dictionary.hold(attribute, value)
    assert code >> 2 == 1
    assert code & 3 == kind == kind_of(value)


@pytest.mark.parametrize(
    "group",
    [
        (1, 1.0),
        (0, 0.0, -0.0),
        (2**53, float(2**53)),
        (2**63, float(2**63)),
        (T, T.astimezone(timezone(timedelta(hours=-3)))),
        (T, T.astimezone(LISBON)),
        (TWICE, TWICE.astimezone(timezone(timedelta(hours=-3))), TWICE.astimezone(LISBON)),
        (TWICE.astimezone(LISBON), TWICE),
        (math.inf, float("inf")),
    ],
)
def test_equal_values_have_one_code(group):
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    assert len({dictionary.hold(attribute, value) for value in group}) == 1
    assert dictionary.constants == 2


def test_booleans_are_not_numbers_and_strings_are_neither():
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    codes = [dictionary.hold(attribute, value) for value in (1, True, "1", "true", 0, False, "", T, str(T))]
    assert len(set(codes)) == len(codes)


def test_attributes_do_not_share_constants():
    dictionary = Dictionary()
    a, b = dictionary.attribute("a"), dictionary.attribute("b")
    assert dictionary.hold(a, 1) != dictionary.hold(b, 1)
    assert dictionary.attribute_of == [0, a, b]


def test_integers_beyond_floats_stay_apart():
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    numbers = [2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
    assert len({dictionary.hold(attribute, number) for number in numbers}) == len(numbers)


def test_references_are_counted_and_numbers_reused():
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    one, two = dictionary.hold(attribute, 1), dictionary.hold(attribute, "x")
    assert dictionary.hold(attribute, 1) == one
    assert dictionary.release([one]) == []
    assert dictionary.release([one, two]) == [one >> 2, two >> 2]
    assert dictionary.codes[attribute] == {}
    again = dictionary.hold(attribute, True)
    assert again >> 2 in (one >> 2, two >> 2)
    assert again & 3 == Kind.BOOL
    assert dictionary.constants == 3


def test_a_code_is_held_from_the_moment_it_is_given():
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    code = dictionary.hold(attribute, 1)
    assert dictionary.references == [0, 1]
    assert dictionary.hold(attribute, 1) == code
    assert dictionary.release([code]) == []
    assert dictionary.codes[attribute] == {1: code}
    assert dictionary.release([code]) == [code >> 2]
    assert dictionary.constant_values() == [None, None]
    assert dictionary.hold(attribute, "x") >> 2 == code >> 2


def test_nothing_is_given_back_more_often_than_it_was_held():
    dictionary = Dictionary()
    code = dictionary.hold(dictionary.attribute("a"), 1)
    dictionary.release([code])
    with pytest.raises(AssertionError, match="more often than it was held"):
        dictionary.release([code])


def test_a_version_changes_with_every_code_given_or_taken_back():
    dictionary = Dictionary()
    a, b = dictionary.attribute("a"), dictionary.attribute("b")
    seen = [dictionary.versions[a]]
    code = dictionary.hold(a, 1)
    seen.append(dictionary.versions[a])
    dictionary.hold(a, 1)
    dictionary.release([code])
    assert dictionary.versions[a] == seen[-1]
    dictionary.release([code])
    seen.append(dictionary.versions[a])
    assert len(set(seen)) == 3
    assert dictionary.versions[b] == 0


def test_who_looks_into_text_is_remembered():
    dictionary = Dictionary()
    a, b = dictionary.attribute("a"), dictionary.attribute("b")
    dictionary.needs_text(a, fold=False)
    dictionary.needs_text(b, fold=True)
    assert (dictionary.wants_text, dictionary.wants_folded) == ([True, False], [False, True])


def test_there_is_an_end_to_names_and_constants(monkeypatch):
    monkeypatch.setattr(module, "MAX_ATTRIBUTES", 2)
    monkeypatch.setattr(module, "MAX_CONSTANTS", 3)
    dictionary = Dictionary()
    a = dictionary.attribute("a")
    dictionary.attribute("b")
    with pytest.raises(LimitError, match="2 attribute names"):
        dictionary.attribute("c")
    dictionary.hold(a, 1)
    dictionary.hold(a, 2)
    with pytest.raises(LimitError, match="3 constants"):
        dictionary.hold(a, 3)


def restored(dictionary: Dictionary) -> Dictionary:
    copy = Dictionary()
    copy.restore(
        list(dictionary.names),
        list(dictionary.wants_text),
        list(dictionary.wants_folded),
        dictionary.constant_values(),
        list(dictionary.free()),
        dictionary.attribute_of.copy(),
        dictionary.references.copy(),
    )
    return copy


@given(st.lists(st.tuples(st.sampled_from("abc"), values(), st.booleans()), max_size=60))
@settings(max_examples=150)
def test_the_dictionary_is_a_counted_set(steps):
    """Against a plain dict of counters; a copy made of its parts goes on like the original."""
    dictionary = Dictionary()
    counts: dict[tuple, int] = {}
    for step, (name, value, adds) in enumerate(steps):
        attribute = dictionary.attribute(name)
        key = (name, kind_of(value), canonical(value))
        if adds:
            dictionary.hold(attribute, value)
            counts[key] = counts.get(key, 0) + 1
        elif key in counts:
            gone = dictionary.release([dictionary.codes[attribute][key_of(value)]])
            counts[key] -= 1
            assert bool(gone) == (counts[key] == 0)
            if not counts[key]:
                del counts[key]
        if step % 16 == 15:
            dictionary = restored(dictionary)
        held = [code for codes in dictionary.codes for code in codes.values()]
        assert len(held) == len(set(held)) == len(counts)
    for (name, kind, value), count in counts.items():
        code = dictionary.codes[dictionary.names[name]][key_of(value)]
        assert code & 3 == kind
        assert dictionary.references[code >> 2] == count


def test_many_constants():
    dictionary = Dictionary()
    attribute = dictionary.attribute("a")
    codes = [dictionary.hold(attribute, number) for number in range(1000)]
    assert len(set(codes)) == 1000
    assert dictionary.references == [0] + [1] * 1000
    assert sorted(dictionary.release(codes)) == list(range(1, 1001))
