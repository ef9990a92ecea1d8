from datetime import UTC, datetime

import pytest

from recado.errors import EventError
from recado.model.event import Event, check_event, expansions
from recado.model.limits import LIMITS, Limits


def test_absent_envelope_fields_are_not_items():
    assert dict(Event("e", attributes={"a": 1}).items()) == {"id": "e", "a": 1}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert dict(Event("e", "t", "/s", at).items()) == {"id": "e", "type": "t", "source": "/s", "time": at}


def test_an_array_stands_for_one_of_its_elements():
    event = Event("e", attributes={"a": (1, 2), "b": ("x", "y"), "c": 3, "d": ()})
    views = [(view["a"], view["b"]) for view in expansions(event)]
    assert views == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    assert all(view["c"] == 3 and "d" not in view for view in expansions(event))


def test_names_that_no_filter_sees_do_not_multiply_the_views():
    event = Event("e", attributes={"a": (1, 2), "b": ("x", "y")})
    assert list(expansions(event, {"a"})) == [{"a": 1}, {"a": 2}]
    assert list(expansions(event, set())) == [{}]


def test_a_good_event_is_itself():
    event = Event("e", "t", "/s", datetime(2026, 1, 1, tzinfo=UTC), {"ação": "☃", "n": (1, 2.5)})
    assert check_event(event) is event


@pytest.mark.parametrize(
    ("event", "limits", "message"),
    [
        (Event(""), LIMITS, "the event has no id"),
        (Event("e", attributes={"a": 1, "b": 2}), Limits(attributes=1), "2 attributes; the limit is 1"),
        (Event("e", attributes={"a": (1,) * 20, "b": (1,) * 20}), LIMITS, "400 combinations of elements"),
        (Event("e", attributes={"": 1}), LIMITS, "an attribute has an empty name"),
        (Event("e", attributes={"n" * 257: 1}), LIMITS, "an attribute name has 257 characters"),
        (Event("e", attributes={"a": (1,) * 3}), Limits(array_elements=2), "attribute 'a' has 3 elements"),
        (Event("e", attributes={"a": (1, None)}), LIMITS, "attribute 'a': NoneType is not a value"),
        (Event("e", attributes={"a": "\udfff"}), LIMITS, "attribute 'a': the string has a lone surrogate"),
        (Event("e", attributes={"a": -(2**63) - 1}), LIMITS, "attribute 'a': the integer does not fit 64 bits"),
        (Event("e", attributes={"type": 1}), LIMITS, "has the name of an envelope field; call it data.type"),
        (Event("e", attributes={"a": datetime(2026, 1, 1)}), LIMITS, "attribute 'a': the timestamp has no time zone"),
        (Event("e" * 70_000), LIMITS, "attribute 'id': the string has 70,000 characters"),
    ],
)
def test_what_is_wrong_is_named(event, limits, message):
    with pytest.raises(EventError, match=message):
        check_event(event, limits)
