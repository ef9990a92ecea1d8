import math
import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings

from recado.errors import EventError
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.flat import from_flat, to_flat
from recado.model.limits import LIMITS, Limits
from strategies import events

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def without_empty_arrays(event):
    held = {name: value for name, value in event.attributes.items() if value != ()}
    return msgspec.structs.replace(event, attributes=held)


@settings(max_examples=300)
@given(events(nan=False))
def test_what_is_written_is_read_back(event):
    assert read_event(write_flat(event)) == without_empty_arrays(event)


@given(events(nan=False))
def test_values_keep_their_types(event):
    again = read_event(write_flat(event))
    for name, value in without_empty_arrays(event).attributes.items():
        assert type(again.attributes[name]) is type(value)


def test_floats_that_json_cannot_spell():
    event = Event("e", attributes={"a": math.nan, "b": (math.inf, -math.inf), "c": -0.0})
    assert to_flat(event)["a"] == {"$number": "NaN"}
    again = read_event(write_flat(event))
    assert math.isnan(again.attributes["a"])
    assert again.attributes["b"] == (math.inf, -math.inf)
    assert math.copysign(1, again.attributes["c"]) == -1


def test_the_envelope_and_plain_attributes():
    event = read_event(
        '{"id": "e-1", "type": "StockExchange", "source": "/b3", "time": "2026-11-15T12:00:00Z",'
        ' "Stock": "PETR4", "Price": 24.9, "Volume": 7, "open": true, "temperatura média": 3}'
    )
    attributes = {"Stock": "PETR4", "Price": 24.9, "Volume": 7, "open": True, "temperatura média": 3}
    assert event == Event("e-1", "StockExchange", "/b3", NOON, attributes)


def test_nested_objects_become_dotted_names():
    assert from_flat({"id": "e", "a": {"b": {"c": 1}, "d": 2}}).attributes == {"a.b.c": 1, "a.d": 2}


@pytest.mark.parametrize(
    ("members", "attributes"),
    [
        ({"a": None}, {}),
        ({"a": {"b": None}}, {}),
        ({"a": {}}, {}),
        ({"a": []}, {}),
        ({"a": [None, []]}, {}),
        ({"a": [1, None, 2]}, {"a": (1, 2)}),
        ({"a": [1]}, {"a": (1,)}),
        ({"a": [[1, [2]], 3]}, {"a": (1, 2, 3)}),
        ({"items": [{"a": 1}, {"a": 2, "b": 3}]}, {"items.a": (1, 2), "items.b": (3,)}),
        ({"items": [{"a": [1, 2]}, {"a": 3}, 4]}, {"items.a": (1, 2, 3), "items": (4,)}),
        ({"a": {"b": [1, 2]}}, {"a.b": (1, 2)}),
        ({"a.b": 1, "a": {"c": 2}}, {"a.b": 1, "a.c": 2}),
        ({"at": {"$time": "2026-11-15T12:00:00Z"}}, {"at": NOON}),
        ({"at": [{"$time": "2026-11-15T12:00:00Z"}]}, {"at": (NOON,)}),
        ({"at": NOON}, {"at": NOON}),
        ({"at": {"$time": NOON}}, {"at": NOON}),
        ({"a": {"$time": "x", "b": 1}}, {"a.$time": "x", "a.b": 1}),
        ({"a.$time": "x"}, {"a.$time": "x"}),
        ({"a": (1, 2)}, {"a": (1, 2)}),
    ],
)
def test_what_nested_members_mean(members, attributes):
    assert from_flat({"id": "e", **members}).attributes == attributes


def test_ids():
    assert read_event('{"id": 17}').id == "17"
    assert read_event("{}", default_id="line-3").id == "line-3"
    assert read_event('{"id": null}', default_id="line-3").id == "line-3"
    assert read_event('{"id": "e"}', default_id="line-3").id == "e"


def test_time_as_a_marked_timestamp():
    assert from_flat({"id": "e", "time": {"$time": "2026-11-15T12:00:00Z"}}).time == NOON


def test_extensions_survive_the_flat_form():
    event = Event("e", "t", "/s", None, {"subject": "x", "a": 1}, ("subject",))
    assert to_flat(event)["$extensions"] == ["subject"]
    assert read_event(write_flat(event)) == event


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "$.id: the event has no id"),
        ({"id": ""}, "$.id: the event has no id"),
        ({"id": True}, "$.id: must be a string or an integer, not a boolean"),
        ({"id": 1.5}, "$.id: must be a string or an integer, not a number"),
        ({"id": ["e"]}, "$.id: must be a string or an integer, not an array"),
        ({"id": "e", "type": 1}, "$.type: must be a string, not a number"),
        ({"id": "e", "source": {}}, "$.source: must be a string, not an object"),
        ({"id": "e", "time": "noon"}, "$.time: 'noon' is not an RFC 3339 timestamp such as 2026-11-15T10:00:00Z"),
        ({"id": "e", "time": 5}, "$.time: a timestamp must be a string such as"),
        ({"id": "e", "time": datetime(2026, 1, 1)}, "$.time: the timestamp has no time zone"),
        ({"id": "e", "a": {"$time": "noon"}}, "$.a.$time: 'noon' is not an RFC 3339 timestamp"),
        ({"id": "e", "a": {"$time": 5}}, "$.a.$time: a timestamp must be a string"),
        ({"id": "e", "a": {"$number": "one"}}, '$.a: $number must be one of "NaN", "Infinity", "-Infinity"'),
        ({"id": "e", "a": {"$number": 1}}, "$.a: $number must be one of"),
        ({"id": "e", "a.b": 1, "a": {"b": 2}}, "$.a.b: attribute 'a.b' is given twice"),
        ({"id": "e", "a.b": [1], "a": {"b": [2]}}, "$.a.b[0]: attribute 'a.b' is given twice"),
        ({"id": "e", "a": [{"b": 1}], "a.b": 2}, "$.a.b: attribute 'a.b' is given twice"),
        ({"id": "e", "a.b": 2, "a": [{"b": 1}]}, "$.a[0].b: attribute 'a.b' is given twice"),
        ({"id": "e", "a": b"x"}, "$.a: bytes is not a value"),
        ({"id": "e", "a": {"b": [1, {"c": {1, 2}}]}}, "$.a.b[1].c: set is not a value"),
        ({"id": "e", "a": {1: 2}}, "$.a: a member name must be a string, not int"),
        ({"id": "e", 5: 2}, "$: a member name must be a string, not int"),
        ({"id": "e", "": 1}, "an attribute has an empty name"),
        ({"id": "e", "a": 2**64}, "attribute 'a': the integer does not fit 64 bits"),
        ({"id": "e", "a": "\ud800"}, "attribute 'a': the string has a lone surrogate"),
        ({"id": "e", "\ud800": [1]}, "attribute name: the string has a lone surrogate"),
        ({"id": "e", "$extensions": "subject"}, "$.$extensions: must be a list of attribute names"),
        ({"id": "e", "$extensions": ["subject"]}, "$.$extensions: the event has no attribute 'subject'"),
    ],
)
def test_errors_name_the_place_and_the_reason(members, message):
    with pytest.raises(EventError, match=re.escape(message)):
        read_event(members)


def test_specversion_is_not_a_flat_attribute():
    with pytest.raises(EventError, match="it marks a CloudEvent"):
        from_flat({"id": "e", "specversion": "1.0"})


@pytest.mark.parametrize("name", ["specversion", "$extensions"])
def test_reserved_names_are_not_written(name):
    with pytest.raises(EventError, match="keeps for itself"):
        write_flat(Event("e", attributes={name: 1}))


def nested(levels, make):
    value = 1
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda inner: {"a": inner}, lambda inner: [inner]])
def test_nesting_is_allowed_up_to_the_limit(make):
    from_flat({"id": "e", "x": nested(LIMITS.nesting - 1, make)})
    with pytest.raises(EventError, match="nested more than 16 levels deep"):
        from_flat({"id": "e", "x": nested(LIMITS.nesting + 1, make)})


@pytest.mark.parametrize(
    ("members", "limits", "message"),
    [
        ({"a": 1, "b": 2}, Limits(attributes=1), "the event has 2 attributes; the limit is 1"),
        ({"abc": 1}, Limits(name_chars=2), "an attribute name has 3 characters; the limit is 2"),
        ({"a": "abc"}, Limits(string_chars=2), "the string has 3 characters; the limit is 2"),
        ({"a": [1, 2, 3]}, Limits(array_elements=2), "$.a[2]: attribute 'a' has more than 2 elements"),
        ({"a": [1, 2], "b": [1, 2]}, Limits(array_combinations=3), "arrays have 4 combinations of elements"),
        ({"type": "abc"}, Limits(string_chars=2), "attribute 'type': the string has 3 characters"),
        ({"source": "abc"}, Limits(string_chars=2), "attribute 'source': the string has 3 characters"),
    ],
)
def test_limits(members, limits, message):
    with pytest.raises(EventError, match=re.escape(message)):
        from_flat({"id": "e", **members}, limits=limits)


def test_a_deep_place_is_shown_shortened():
    with pytest.raises(EventError) as caught:
        from_flat({"id": "e", "long" * 100: {"inner": b""}})
    message = str(caught.value)
    assert message.startswith("$.long")
    assert "long.inner: bytes is not a value" in message
    assert len(message) < 400
