import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import EventError
from recado.model.codec import from_cloudevent, read_event, to_cloudevent, write_cloudevent
from recado.model.event import Event
from strategies import COMMON_NAMES, RARE_NAMES, events, values

HEAD = {"specversion": "1.0", "id": "e", "source": "/s", "type": "t"}
CONTEXT_NAMES = ["subject", "dataschema", "datacontenttype", "partitionkey", *COMMON_NAMES, *RARE_NAMES]
ODD_NAMES = ["data", "data.id", "data.type", "data.a", "data.subject", "data_base64", "data.data.id", "$time", "id.x"]


@st.composite
def cloud_events(draw):
    """Events as CloudEvents can carry them: with type and source, any names, some attributes beside the envelope."""
    event = draw(events(nan=False).filter(lambda event: event.type and event.source))
    odd = draw(st.dictionaries(st.sampled_from(CONTEXT_NAMES + ODD_NAMES), values(), max_size=5))
    held = {name: value for name, value in {**event.attributes, **odd}.items() if value != ()}
    in_context = [name for name, value in held.items() if name in CONTEXT_NAMES and can_stand_in_context(value)]
    extensions = tuple(name for name in in_context if draw(st.booleans()))
    return msgspec.structs.replace(event, attributes=held, extensions=extensions)


def can_stand_in_context(value):
    return not isinstance(value, datetime | tuple) and value not in (float("inf"), -float("inf"))


@settings(max_examples=300)
@given(cloud_events())
def test_what_is_written_is_read_back(event):
    assert read_event(write_cloudevent(event)) == event


@given(cloud_events())
def test_what_is_written_has_the_required_members(event):
    members = to_cloudevent(event)
    assert members["specversion"] == "1.0"
    assert all(members[name] for name in ("id", "source", "type"))
    assert not {"data", "data_base64"} <= members.keys()


def test_context_attributes_and_data():
    members = {
        **HEAD,
        "time": "2026-11-15T12:00:00+01:00",
        "subject": "room-4",
        "datacontenttype": "application/json",
        "partitionkey": 7,
        "absent": None,
        "data": {"level": 3, "where": {"floor": 2}, "tags": ["a", "b"]},
    }
    assert from_cloudevent(members) == Event(
        "e",
        "t",
        "/s",
        datetime(2026, 11, 15, 11, tzinfo=UTC),
        {
            "subject": "room-4",
            "datacontenttype": "application/json",
            "partitionkey": 7,
            "level": 3,
            "where.floor": 2,
            "tags": ("a", "b"),
        },
        ("subject", "datacontenttype", "partitionkey"),
    )


@pytest.mark.parametrize(
    ("members", "attributes"),
    [
        (
            {"data": {"id": 1, "type": 2, "source": 3, "time": 4}},
            {f"data.{n}": i for i, n in enumerate(("id", "type", "source", "time"), 1)},
        ),
        ({"data": {"id": {"x": 1}}}, {"data.id.x": 1}),
        ({"data": {"specversion": 1}}, {"data.specversion": 1}),
        ({"subject": "a", "data": {"subject": "b"}}, {"subject": "a", "data.subject": "b"}),
        ({"data": {"subject": "b"}}, {"subject": "b"}),
        ({"data": "text"}, {"data": "text"}),
        ({"data": 5}, {"data": 5}),
        ({"data": [1, 2]}, {"data": (1, 2)}),
        ({"data": [{"a": 1}, {"a": 2}]}, {"data.a": (1, 2)}),
        ({"data": None}, {}),
        ({"data": {}}, {}),
        ({"data": {"data": 5}}, {"data": 5}),
        ({"data": {"$time": "x"}}, {"$time": "x"}),
        ({"data": {"at": {"$time": "2026-11-15T12:00:00Z"}}}, {"at": datetime(2026, 11, 15, 12, tzinfo=UTC)}),
        ({"data_base64": "AAEC"}, {"data_base64": "AAEC"}),
    ],
)
def test_what_data_means(members, attributes):
    assert from_cloudevent({**HEAD, **members}).attributes == attributes


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"specversion": "0.3"}, "$.specversion: must be \"1.0\", not '0.3'"),
        ({"specversion": 1.0}, '$.specversion: must be "1.0", not 1.0'),
        ({"id": None}, "$.id: a CloudEvent needs a non-empty id"),
        ({"id": ""}, "$.id: a CloudEvent needs a non-empty id"),
        ({"id": 5}, "$.id: must be a string, not a number"),
        ({"source": None}, "$.source: a CloudEvent needs a non-empty source"),
        ({"type": ""}, "$.type: a CloudEvent needs a non-empty type"),
        ({"time": "yesterday"}, "$.time: 'yesterday' is not an RFC 3339 timestamp"),
        ({"ext": {"a": 1}}, "$.ext: a context attribute must be a string, a number or a boolean"),
        ({"ext": [1]}, "$.ext: a context attribute must be a string, a number or a boolean"),
        ({"data": {"a": [{"b": b""}]}}, "$.data.a[0].b: bytes is not a value"),
        ({"data": {"a.b": 1, "a": {"b": 2}}}, "$.data.a.b: attribute 'a.b' is given twice"),
        ({"data": {5: 1}}, "$.data: a member name must be a string, not int"),
        ({"data": 1, "data_base64": "AAEC"}, "$.data_base64: an event has either data or data_base64, not both"),
        ({"data_base64": "?"}, "$.data_base64: must be a string of base64"),
        ({"data_base64": 5}, "$.data_base64: must be a string of base64"),
    ],
)
def test_errors_name_the_place_and_the_reason(members, message):
    with pytest.raises(EventError, match=re.escape(message)):
        read_event({**HEAD, **members})


@pytest.mark.parametrize("name", ["type", "source"])
def test_a_cloudevent_needs_type_and_source(name):
    event = Event(**{"id": "e", "type": "t", "source": "/s", name: ""})
    with pytest.raises(EventError, match=f"event 'e' has no {name}, and a CloudEvent needs one"):
        write_cloudevent(event)


def test_specversion_is_not_written_as_an_attribute():
    with pytest.raises(EventError, match="CloudEvents keeps for itself"):
        write_cloudevent(Event("e", "t", "/s", None, {"specversion": 1}))


def test_an_extension_that_cannot_stand_in_the_context_goes_into_data():
    event = Event("e", "t", "/s", None, {"a": (1, 2), "id2": 1}, ("a", "id2", "missing"))
    members = to_cloudevent(event)
    assert members["data"] == {"a": [1, 2]}
    assert members["id2"] == 1
    assert read_event(members).attributes == event.attributes


def test_payloads_go_back_where_they_came_from():
    for members in ({"data": "text"}, {"data": [1, 2]}, {"data_base64": "AAEC"}, {"data": {"id": 1}}, {}):
        assert to_cloudevent(from_cloudevent({**HEAD, **members})) == {**HEAD, **members}
